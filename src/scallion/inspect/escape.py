"""Text of models, tools and people, made harmless for a terminal: nothing in it can move the cursor or hide a word."""

from __future__ import annotations

import re

_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and newline, marks that change the direction of text, and halves of characters."""


def printable(text: str) -> str:
    r"""The text with every active character written out, as in `\x1b`; it may be cut anywhere before."""
    return _ACTIVE.sub(_written, text)


def one_line(text: str) -> str:
    """The text as one printable line."""
    return printable(" ".join(text.split()))


def _written(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
