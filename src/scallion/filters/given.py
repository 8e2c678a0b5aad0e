"""What filters are given: numbers, and names and keys, which have to be texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

from scallion.errors import ConfigurationError


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether it is a number: True and False are none, though Python counts with them."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any, least: int = 1) -> TypeGuard[int]:
    """Whether it is a whole number from `least` on."""
    return is_number(value) and isinstance(value, int) and value >= least


def names(given: Any, where: str) -> list[str]:
    """The names in a list; raises ConfigurationError for what is none, `where` it was given."""
    listed: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [None]
    if not all(isinstance(one, str) for one in listed):
        raise ConfigurationError(f"{where} is a list of names, not {given!r}: put them into brackets")
    return listed


def as_key(given: Any, name: str) -> str:
    """What the key function of the filter of this name gave; what is no text is refused: None is not "None"."""
    if not isinstance(given, str):
        raise ConfigurationError(
            f"filter {name!r}: key gave {type(given).__name__}: have it give a text for each request"
        )
    return given
