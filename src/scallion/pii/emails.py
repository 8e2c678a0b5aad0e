"""E-mail addresses: around each `@`, so that a text without one costs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scallion.pii.detector import Detector, Place

UNSEEN = "\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe0f\ufeff"
"""Characters that nobody sees and a model reads across: inside of an address they hide nothing."""
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0e31-\u0e3a\u0e47-\u0e4e\u3099\u309a"
"""Accents and vowels that are characters of their own."""
LOCAL = rf"\w.+%~'{UNSEEN}{MARKS}\-"
LONGEST_LOCAL = 256
_local = re.compile(rf"[{LOCAL}]{{1,{LONGEST_LOCAL}}}")
_edge = re.compile(rf"[.+%'{UNSEEN}\-]*")
_domain = re.compile(
    rf"(?:[\w{UNSEEN}{MARKS}\-]{{1,80}}\.){{1,20}}(?:xn--[a-z0-9-]{{2,59}}|[{UNSEEN}]*[^\W\d_](?:[{UNSEEN}]*[^\W\d_]){{1,62}})",
    re.IGNORECASE,
)


def _places(text: str, since: int) -> Iterator[Place]:
    at = text.find("@", since)
    while at >= 0:
        local = _local.match(text[max(since, at - LONGEST_LOCAL) : at][::-1])
        domain = _domain.match(text, at + 1)
        if local and domain:
            start = at - local.end()
            edge = _edge.match(text, start, at)
            start = edge.end() if edge else start
            if start < at:
                yield start, domain.end()
        at = text.find("@", at + 1)


EMAIL = Detector(_places, letters=rf"{LOCAL}@", hint="@")
