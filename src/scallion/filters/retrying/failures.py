"""Which failures a filter acts on: by kind, by class of the exception, or as a function says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from scallion.bridge import awaited
from scallion.errors import ConfigurationError
from scallion.filters.journal import current_frame
from scallion.values import FailureKind

KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
On = FailureKind | type[BaseException] | Iterable[FailureKind | type[BaseException]] | Callable[[Any], Any]


class ActsOn:
    """Judges failures. `where` names the parameter in the ConfigurationError for what is no such rule."""

    def __init__(self, on: On, where: str) -> None:
        parts = (on,) if isinstance(on, str | type) else on
        self._says = parts if callable(parts) else None
        named = tuple(parts) if isinstance(parts, Iterable) and not isinstance(parts, Mapping) else ()
        self._kinds = tuple(one for one in named if one in KINDS)
        self._classes = tuple(one for one in named if isinstance(one, type) and issubclass(one, BaseException))
        if self._says is None and not 0 < len(named) == len(self._kinds) + len(self._classes):
            told = f"{', '.join(KINDS)}, classes of exceptions, or a function of the failure"
            raise ConfigurationError(f"{where} is one or more of {told}, not {on!r}")

    def __call__(self, failure: Any, kind: str, exception: BaseException | None) -> bool:
        """Whether the hook that runs acts on `failure`, which is of this kind and came of this exception.

        A failure of before a pause has lost its exception: what was decided on it then stands.
        """
        if current_frame.get().went_on:
            return True
        if self._says is None:
            return kind in self._kinds or isinstance(exception, self._classes)
        return bool(awaited(self._says(failure)))
