"""Errors without what may not be seen: of the same class, with the same attributes as far as they are plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

PLAIN = (str, int, float, bool, bytes, list, tuple, dict, set, frozenset, type(None))
"""What an error may keep: other objects, as a response, may hold what nobody looks into."""
Clean = Callable[[Any], Any]


MOST = 100
"""How many errors that hang together are looked at: those beyond are left out."""


def cleaned_error(error: BaseException, clean: Clean) -> BaseException:
    """The error, or where it or one of its causes holds something that `clean` takes out, or an object, a copy.

    None has a traceback, as that leads to the values of the program.
    """
    return _Errors(clean).cleaned(error)


class _Errors:
    """Errors that hang together. Each is cleaned once: what is both the cause and the context is the same still."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._made: dict[int, BaseException] = {}

    def cleaned(self, error: BaseException) -> BaseException:
        if id(error) in self._made:
            return self._made[id(error)]
        if len(self._made) == MOST:
            return Exception("too many causes")
        self._made[id(error)] = Exception("its own cause")  # what it is where it is met again before it is made
        made = self._made[id(error)] = self._one(error)
        return made

    def _one(self, error: BaseException) -> BaseException:
        cause, context = self._next(error.__cause__), self._next(error.__context__)
        inner = self._inner(error)
        is_same = cause is error.__cause__ and inner is None and context is error.__context__
        if is_same and _is_clean(error, self._clean):
            return error.with_traceback(None)
        made = _copied(error, self._clean, inner)
        made.__cause__, made.__context__ = cause, context
        made.__suppress_context__ = error.__suppress_context__
        return made

    def _next(self, other: BaseException | None) -> BaseException | None:
        return None if other is None else self.cleaned(other)

    def _inner(self, error: BaseException) -> list[BaseException] | None:
        """Those of a group, if one of them is another one now."""
        if not isinstance(error, BaseExceptionGroup):
            return None
        made = [self.cleaned(one) for one in error.exceptions]
        return made if any(one is not other for one, other in zip(made, error.exceptions, strict=True)) else None


def _is_clean(error: BaseException, clean: Clean) -> bool:
    said = [_said(error, str), _said(error, repr), *getattr(error, "__notes__", ())]
    args = () if isinstance(error, BaseExceptionGroup) else error.args
    held = [*args, *(value for name, value in _attributes(error) if name != "__notes__")]
    if isinstance(error, ValidationError):
        held += error.errors(include_url=False, include_context=False)
    return all(isinstance(one, PLAIN) for one in held) and all(clean(one) == one for one in (*said, *held))


def _attributes(error: BaseException) -> Iterator[tuple[str, Any]]:
    """What it holds beside its arguments, by name; in slots too."""
    yield from list(vars(error).items())
    for kind in type(error).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(error, name):
                yield name, getattr(error, name)


def _said(error: BaseException, how: Callable[[Any], str]) -> str:
    try:
        return how(error)
    except Exception:
        return ""


def _copied(error: BaseException, clean: Clean, inner: list[BaseException] | None) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        return _group(error, clean, inner)
    said = clean(_said(error, str))
    try:
        made = type(error).__new__(type(error))
        made.args = tuple(clean(one) for one in error.args if isinstance(one, PLAIN))
        for name, value in _attributes(error):
            if isinstance(value, PLAIN):
                setattr(made, name, clean(value))
        if _said(made, str) == said and _is_clean(made, clean):
            return made
    except Exception:
        pass
    return _plain(error, said)


def _group(error: BaseExceptionGroup[Any], clean: Clean, inner: list[BaseException] | None) -> BaseException:
    """A group of its class where that can be made of a text and errors alone."""
    given: tuple[str, Any] = clean(error.message), inner or list(error.exceptions)
    try:
        made: BaseException = type(error)(*given)
        if _is_clean(made, clean):
            return made
    except Exception:
        pass
    return (ExceptionGroup if isinstance(error, Exception) else BaseExceptionGroup)(*given)


def _plain(error: BaseException, said: str) -> BaseException:
    """An error of a class of that name: where its own makes its text of other things."""
    names = {"__str__": lambda self: said, "__repr__": lambda self: said, "__module__": type(error).__module__}
    kind: Any = type(type(error).__name__, (type(error),), names)
    try:
        made: BaseException = kind.__new__(kind)
        made.args = (said,)
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {said}")
    return made
