"""What a user says about a type of data: how it is found, and what takes its place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scallion.errors import ConfigurationError
from scallion.pii.builtin import BUILTIN

STRATEGIES = ("block", "redact", "hash", "tokenise", "mask")
"""From the strictest: of what overlaps, the first of them is done."""
ALIASES = {"mac": "mac_address"}
_type = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Rule:
    """One type, and what is done with it.

    `type`: one of the built-in types, or a name of your own with a `detector`: a regular expression as text (run by
    google-re2, `scallion[pii]`), or a function that takes a text and gives places in it, as `(start, end)` or mappings
    with `start`, `end` and `text` or `value`, in characters. `strategy`: "redact", "mask", "hash", "tokenise" or
    "block". `replacement`: a text in place of `[REDACTED_TYPE]`.

    Raises ConfigurationError that says what is wrong.
    """

    type: str
    strategy: str = "redact"
    detector: str | Callable[[str], Any] | None = None
    replacement: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or not _type.fullmatch(self.type):
            raise ConfigurationError(f"pii: a type is a name of letters, digits and _, not {self.type!r}")
        object.__setattr__(self, "type", ALIASES.get(self.type, self.type))
        if self.strategy not in STRATEGIES:
            raise self.wrong(f"strategy is one of {', '.join(sorted(STRATEGIES))}, not {self.strategy!r}")
        if self.detector is None and self.type not in BUILTIN:
            raise self.wrong(f"there is no such type: give it a detector, or take one of {', '.join(sorted(BUILTIN))}")
        if self.detector is not None and not isinstance(self.detector, str) and not callable(self.detector):
            raise self.wrong("detector is a regular expression as text, or a function of a text")
        if any(inspect.iscoroutinefunction(one) for one in (self.detector, getattr(self.detector, "__call__", None))):  # noqa: B004
            raise self.wrong("detector is an async def, and nothing waits where a text is read: make it a def")
        self._check_replacement()

    def _check_replacement(self) -> None:
        if self.replacement is None:
            return
        if not isinstance(self.replacement, str):
            raise self.wrong(f"replacement is a text, not {type(self.replacement).__name__}")
        if self.strategy not in ("redact", "block"):
            raise self.wrong(f"replacement goes with the strategy redact, not with {self.strategy}")

    def wrong(self, what: str) -> ConfigurationError:
        """The error for this rule."""
        return ConfigurationError(f"pii: rule {self.type!r}: {what}")


@dataclass(frozen=True)
class Finding:
    """That a type was found, where (in characters of the text), and what is done. What was found, it does not hold."""

    type: str
    start: int
    end: int
    strategy: str
