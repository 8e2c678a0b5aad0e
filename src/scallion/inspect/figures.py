"""Numbers, times and amounts as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from numbers import Real
from typing import Any

MINUTE, HOUR, DAY = 60, 3600, 86400


def duration(seconds: float) -> str:
    """How long: "420 ms", "1.24 s", "2 min 5 s", "3 h 4 min", "2 d 3 h"; "nan" and "inf" as they are."""
    if not isfinite(seconds):
        return str(seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.{1 if 0 < seconds < 0.00995 else 0}f} ms"
    if seconds < MINUTE:
        return f"{seconds:.{2 if seconds < 9.995 else 1}f} s"
    whole = int(seconds)
    for size, name, smaller, less in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {less}" if rest else "")
    raise ValueError(f"{seconds} is no length of time")


def count(number: int, thing: str) -> str:
    """How many of a thing: "1 message", "1,204 messages"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def amount(cost: float) -> str:
    """What something cost, in the unit of whoever gave the prices: four figures of it, none of them lost."""
    return f"{cost:.2f}" if cost >= 100 else f"{cost:.4g}"


def moment(at: datetime) -> str:
    """A time to the second: "2026-11-30 20:04:09 UTC"."""
    return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname() or ''}".strip()


def size(number: int) -> str:
    """How many bytes: "812 B", "1.2 kB", "3.4 MB"."""
    if number < 1000:
        return f"{number} B"
    return f"{number / 1000:.1f} kB" if number < 1_000_000 else f"{number / 1_000_000:.1f} MB"


def tokens(used: Mapping[str, Any]) -> str:
    """Tokens as "812 in, 96 out"; empty where there are none. `used` has "input" and "output"."""
    told = (("input", "in"), ("output", "out"))
    return ", ".join(f"{used[name]:,} {word}" for name, word in told if is_number(used.get(name)) and used[name])


def is_number(value: Any) -> bool:
    """Whether it can be told as a number: what providers count is not always one."""
    return isinstance(value, Real)
