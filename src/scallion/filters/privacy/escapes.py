"""Texts with JSON, or a program's values, somewhere in them: as what their escapes stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

DEEPEST = 3
"""How often a text may be written as JSON within JSON."""
ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4}|[abfnrtv\"'/\\])"
)
LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
Meant = tuple[str, Sequence[int]]
"""A text, and where in the one that it was read from each of its characters, and its end, stands."""


def readings(text: str) -> Iterator[int]:
    """How often its escapes can be read, the most first; nothing where it has none."""
    depth = 0
    while depth < DEEPEST and ESCAPE.search(text):
        text, depth = ESCAPE.sub(_character, text), depth + 1
    yield from range(depth, 0, -1)


def meant(text: str, depth: int) -> Meant:
    """The text with its escapes read so many times."""
    places: Sequence[int] = range(len(text) + 1)
    for _ in range(depth):
        text, places = _read(text, places)
    return text, places


def _read(text: str, places: Sequence[int]) -> Meant:
    made: list[str] = []
    stand: list[int] = []
    since = 0
    for escape in ESCAPE.finditer(text):
        made += [text[since : escape.start()], _character(escape)]
        stand += places[since : escape.start() + 1]
        since = escape.end()
    return "".join([*made, text[since:]]), [*stand, *places[since:]]


def _character(escape: re.Match[str]) -> str:
    """The one character that it stands for."""
    kind, rest = escape[0][1], escape[0][2:]
    if kind not in "uUx":
        return LETTERS.get(kind, kind)
    if len(rest) == 10:
        return (escape[0].encode().decode("unicode_escape")).encode("utf-16", "surrogatepass").decode("utf-16")
    return chr(int(rest, 16))
