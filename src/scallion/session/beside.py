"""Texts in columns, beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from textwrap import wrap

from scallion.inspect.escape import printable

WIDTH = 100
"""How many characters wide a page is."""
NARROWEST = 16
"""How few of them a column has."""


def cells(texts: Sequence[str], widths: Sequence[int], gap: str = " | ") -> Iterable[str]:
    """Lines in which each text is wrapped to the width of its column; a line of it stays one."""
    columns = [list(_wrapped(text, width)) for text, width in zip(texts, widths, strict=True)]
    for parts in zip_longest(*columns, fillvalue=""):
        yield gap.join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()


def _wrapped(text: str, width: int) -> Iterable[str]:
    for line in printable(text).expandtabs().splitlines():
        yield from wrap(line, width) or [""]


def table(heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], width: int = WIDTH) -> str:
    """A table with a label in front of each row; it is as wide as its texts are, at most `width` where they wrap."""
    rows = list(rows)
    first = max((len(label) for label, _ in rows), default=0)
    share = max(NARROWEST, (width - first) // max(1, len(heads)) - 3)
    longest = [_longest(head, *(texts[place] for _, texts in rows)) for place, head in enumerate(heads)]
    widths = [first, *(min(share, one) for one in longest)]
    lines = [*cells(["", *heads], widths), "-|-".join("-" * one for one in widths)]
    return "\n".join([*lines, *(line for label, texts in rows for line in cells([label, *texts], widths))])


def _longest(*texts: str) -> int:
    return max(len(line) for text in texts for line in [*printable(text).expandtabs().splitlines(), ""])
