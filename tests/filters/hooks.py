"""What the tests of hooks and of input and output filters share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from scallion import Filter, filters

BEFORE_AND_AFTER: dict[str, Callable[..., Any]] = {
    "before_turn": filters.before_turn,
    "after_turn": filters.after_turn,
    "before_chat": filters.before_chat,
    "after_chat": filters.after_chat,
    "before_tool": filters.before_tool,
    "after_tool": filters.after_tool,
}


def of_colour(function: Callable[..., Any], colour: str) -> Callable[..., Any]:
    """The function as it is, or as an `async def` with the same parameters."""
    if colour == "def":
        return function

    async def asynchronous(*args: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args)

    asynchronous.__name__ = function.__name__
    asynchronous.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return asynchronous


def noting(place: str, layer: str, notes: list[str]) -> Filter:
    """A hook that notes that it was asked, and says nothing."""

    def hook(value: Any) -> None:
        notes.append(f"{place} {layer}")

    made: Filter = BEFORE_AND_AFTER[place](hook, name=f"{place}_{layer}")
    return made


class Sheriff:
    """A message filter that drops messages with the word."""

    def __init__(self, word: str = "bad") -> None:
        self.word = word

    def filter(self, message: Any) -> Any:
        """None where the word is."""
        return None if self.word in message.text else message


class SlowSheriff(Sheriff):
    """The same as `async def`."""

    async def filter(self, message: Any) -> Any:  # type: ignore[override]
        """None where the word is."""
        return super().filter(message)
