"""Blocks of private keys: over many lines, also with `\\n` written out, also where the end is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scallion.pii.detector import Place

BEGIN = "-----BEGIN"
MOST = 12_288
"""Characters of a block: one without an end is replaced up to here, and a stream holds back no more."""
LABEL = r"(?: [A-Z0-9]{1,20}){0,4}"
HEAD = rf"-----BEGIN{LABEL} PRIVATE KEY(?: BLOCK)?-----"
APART = r"(?:\s|\\[nrt])"
LINE = r"(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n\\]{0,200}|[A-Za-z0-9+/=]{16,})"
LAST = r"[A-Za-z0-9+/=]{1,15}"
TAIL = rf"-----END{LABEL} PRIVATE KEY(?: BLOCK)?-----"
BODY = rf"(?:{APART}*+{LINE})*+"
_block = re.compile(
    rf"{HEAD}(?:{APART}*+{LINE}{BODY}(?:{APART}*+(?:{LAST})?+{APART}*+(?:{TAIL}|\Z))?|{APART}*+{LAST}{APART}*+{TAIL})"
)
PART_OF_HEAD = r"-----BEGIN(?: [A-Z0-9]{0,20}){0,6}-{0,5}"
_open = re.compile(
    rf"(?:{PART_OF_HEAD}|{HEAD}{BODY}{APART}*+(?:[A-Z][A-Za-z-]{{1,9}}(?::[^\n\\]*+)?|(?:{LAST})?+{APART}*+\\?"
    rf"(?:-{{1,5}}|-----E[A-Z0-9 ]{{0,60}}-{{0,5}})?))\Z"
)


def private_keys(text: str, since: int) -> Iterator[Place]:
    """Where blocks are."""
    at = text.find(BEGIN, since)
    while at >= 0:
        block = _block.match(text, at, at + MOST)
        if block:
            yield block.span()
        at = text.find(BEGIN, block.end() if block else at + 1)


class PrivateKeyOpenings:
    """The block of a growing text that has begun and not ended."""

    def first(self, text: str, done: int, limit: int) -> int | None:
        """Where it begins."""
        at = text.find(BEGIN, done)
        while at >= 0:
            if len(text) - at < MOST and _open.match(text, at):
                return at
            at = text.find(BEGIN, at + 1)
        return None

    def move(self, by: int) -> None:
        """It remembers no places."""
