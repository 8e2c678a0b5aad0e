"""How much is shown, and the note of what is left out: no picture is larger for what it shows being large."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from scallion.inspect.figures import count

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that is shown: characters of a text, messages, items of a list, spans of a trace, layers of a chain."""

    text: int = 4000
    messages: int = 60
    items: int = 50
    spans: int = 300
    layers: int = 12


BOUNDS = Bounds()
SMALLER = (BOUNDS, Bounds(800, 30, 20, 150, 12), Bounds(200, 10, 10, 50, 6), Bounds(60, 4, 4, 12, 3))
"""What is tried, one after the other, until the whole is small enough."""


def cut(text: str, most: int) -> tuple[str, str]:
    """The beginning of a text, and the note of what is left out of it, empty where nothing is."""
    if len(text) <= most:
        return text, ""
    return text[:most], f"… {count(len(text) - most, 'more character')}"


def short(text: str, most: int) -> str:
    """The text, with an ellipsis at its end where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def ends(items: Sequence[T], most: int) -> tuple[Sequence[T], int, Sequence[T]]:
    """The first third and the last two of what may be shown, and how many are left out between them."""
    if len(items) <= most:
        return items, 0, ()
    first = most // 3
    last = most - first
    return items[:first], len(items) - most, items[len(items) - last :]


def as_json(value: Any, indent: int | None = 2) -> str:
    """A value as JSON; what is none is shown as text, what cannot be shown by its type."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"


def _plain(value: Any) -> Any:
    try:
        return dict(value) if isinstance(value, Mapping) else str(value)
    except Exception:  # of a class of somebody else
        return f"({type(value).__name__})"
