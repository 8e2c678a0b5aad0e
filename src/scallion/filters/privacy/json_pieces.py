"""JSON text that comes in pieces, with what its strings and numbers hold taken out; structure leaves at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Protocol

PLAIN = re.compile(r'[^"\\]*')
"""What in a string stands for itself."""
WORD = re.compile(r'[^",:\[\]{}\s]*')
"""A number, true, false or null."""


NO_FRACTION = re.compile(r"(-?\d+)\.0+")


def without_fraction(number: str) -> str:
    """The number as the integer that it is, if it is one: a card of a table of floats is a card."""
    found = NO_FRACTION.fullmatch(number)
    return found[1] if found else number


class Pieces(Protocol):
    """A text that is redacted piece by piece."""

    def push(self, piece: str) -> str:
        """What may leave."""

    def finish(self) -> str:
        """The rest."""


class JsonPieces:
    """One JSON text. Each of its strings is a text of its own, read as what it stands for, whatever its escapes."""

    def __init__(self, begin: Callable[[], Pieces], whole: Callable[[str], str]) -> None:
        self._begin = begin
        self._whole = whole
        self._string: Pieces | None = None
        self._escape = ""
        self._word = ""

    def push(self, piece: str) -> str:
        """What may leave with one more piece."""
        out: list[str] = []
        at = 0
        while at < len(piece):
            at = self._outside(piece, at, out) if self._string is None else self._inside(self._string, piece, at, out)
        return "".join(out)

    def finish(self) -> str:
        """The text is over, perhaps in the middle."""
        out = [self._said()]
        if self._string is not None:
            if self._escape:
                out.append(_escaped(self._string.push(_meant(self._escape))))
            out.append(_escaped(self._string.finish()))
            self._string, self._escape = None, ""
        return "".join(out)

    def _outside(self, piece: str, at: int, out: list[str]) -> int:
        found = WORD.match(piece, at)
        assert found is not None
        self._word += found[0]
        if found.end() == len(piece):
            return found.end()
        out += [self._said(), piece[found.end()]]
        if piece[found.end()] == '"':
            self._string = self._begin()
        return found.end() + 1

    def _said(self) -> str:
        """A number or name that is whole."""
        word, self._word = self._word, ""
        number = without_fraction(word)
        cleaned = self._whole(number) if word else word
        return word if cleaned == number else json.dumps(cleaned)

    def _inside(self, string: Pieces, piece: str, at: int, out: list[str]) -> int:
        if self._escape:
            return self._escaping(string, piece, at, out)
        found = PLAIN.match(piece, at)
        assert found is not None
        out.append(_escaped(string.push(found[0])))
        if found.end() == len(piece):
            return found.end()
        if piece[found.end()] == "\\":
            self._escape = "\\"
        else:
            out += [_escaped(string.finish()), '"']
            self._string = None
        return found.end() + 1

    def _escaping(self, string: Pieces, piece: str, at: int, out: list[str]) -> int:
        """One more character of an escape; the two halves of one character belong together."""
        if _is_half(self._escape) and piece[at] != "\\" and len(self._escape) == 6:
            return self._meaning(string, at, out)
        self._escape += piece[at]
        if len(self._escape) == 8 and self._escape[7] != "u":  # behind half a character comes another escape
            out.append(_escaped(string.push(_meant(self._escape[:6]))))
            self._escape = self._escape[6:]
        if _is_whole(self._escape):
            return self._meaning(string, at + 1, out)
        return at + 1

    def _meaning(self, string: Pieces, at: int, out: list[str]) -> int:
        out.append(_escaped(string.push(_meant(self._escape))))
        self._escape = ""
        return at


def _is_half(escape: str) -> bool:
    return len(escape) >= 6 and escape[2:4].lower() in ("d8", "d9", "da", "db")


def _is_whole(escape: str) -> bool:
    if escape[1:2] != "u":
        return len(escape) == 2
    return len(escape) == (12 if _is_half(escape) else 6)


def _meant(escape: str) -> str:
    """The characters that an escape stands for; one that is none stands for itself."""
    try:
        return str(json.loads(f'"{escape}"', strict=False))
    except ValueError:
        return escape


def _escaped(text: str) -> str:
    if not text:
        return ""
    has_halves = any("\ud800" <= one <= "\udfff" for one in text)
    return json.dumps(text, ensure_ascii=has_halves)[1:-1]
