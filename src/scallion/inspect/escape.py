"""Text of models, tools and people, made harmless for a terminal: nothing in it can move the cursor or hide a word."""

from __future__ import annotations

import re

_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff9-\ufffb"  # controls, lines, halves of characters
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters but tab and newline, halves of characters, marks that change the direction of text, and all that
Unicode calls default ignorable: what nobody sees, and a model reads."""
_JOINED = re.compile("[\u0600-\u109f\u1780-\u18af\u2190-\u2bff\ufb50-\ufdff\ufe0f\ufe70-\ufefc\U0001f000-\U0001faff]")
"""What a joiner stands between: letters of scripts that are written with joiners, and the parts of an emoji."""
_VARIED = re.compile(
    "[#*0-9\u00a9\u00ae\u1000-\u109f\u1820-\u18af\u203c\u2049\u20e3\u2100-\u9fff\uf900-\ufaff\U0001f000-\U0003ffff]"
)
"""What has variants, of which the character behind it chooses one."""


def printable(text: str) -> str:
    r"""The text with every active or invisible character written out, as in `\x1b`; it may be cut anywhere before.

    Those that an emoji or a script needs stay: a joiner between two of its characters, one selector behind one.
    """
    return _ACTIVE.sub(_written, text)


def one_line(text: str) -> str:
    """The text as one printable line."""
    return printable(" ".join(text.split()))


def _written(match: re.Match[str]) -> str:
    if _is_needed(match):
        return match[0]
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_needed(match: re.Match[str]) -> bool:
    one, begin, end = match[0], match.start(), match.end()
    before, behind = match.string[max(0, begin - 1) : begin], match.string[end : end + 1]
    if one in "\u200c\u200d":
        return bool(_JOINED.match(before) and _JOINED.match(behind))
    is_selector = "\ufe00" <= one <= "\ufe0f" or "\u180b" <= one <= "\u180d" or "\U000e0100" <= one <= "\U000e01ef"
    return is_selector and bool(_VARIED.match(before))
