"""How a value shows itself in a notebook: as HTML, and as text wherever there is none."""

from __future__ import annotations

from typing import Any, ClassVar

from scallion.errors import ScallionError

FIELD = 200
"""Characters of one field in a `repr`."""


def brief(value: Any, **fields: Any) -> str:
    """A `repr` on one line, with these fields, each cut where it is long."""
    told = (f"{name}={_cut(_repr(field))}" for name, field in fields.items())
    return f"{type(value).__name__}({', '.join(told)})"


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # of a value of somebody else, or an integer of more digits than Python writes
        return f"({type(value).__name__})"


def _cut(text: str) -> str:
    return text if len(text) <= FIELD else text[: FIELD - 1] + "…"


class Shown:
    """A value with a picture of itself, drawn by `scallion.inspect`, which is imported when somebody looks.

    A class says what it is drawn as: `class Turn(Shown, drawn_as="turn")`.
    """

    __slots__ = ()
    _drawn_as: ClassVar[str]

    def __init_subclass__(cls, drawn_as: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if drawn_as is not None:
            cls._drawn_as = drawn_as

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook asks for: "text/plain" and "text/html"; if that fails, text that says why."""
        from scallion.inspect import mimebundle

        try:
            return mimebundle(self)
        except Exception as error:  # a cell that looks at a value does not fail for it
            return {"text/plain": f"{_cut(_repr(self))}\ncould not be shown: {_told(error)}"}


def _told(error: Exception) -> str:
    """What is wrong; of an error of somebody else its class alone."""
    return f"{type(error).__name__}: {error}" if isinstance(error, ScallionError) else type(error).__name__
