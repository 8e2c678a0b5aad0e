"""The words of a text, as a search knows them: the same for what is searched and for what somebody looks for.

Case, accents and forms of a character do not count (Unicode's NFKC, case folding, and no marks on Latin, Greek and
Cyrillic letters). A word is a run of letters and digits of any script; everything else stands between words, also what
means something to a database. Scripts without spaces (Chinese, Japanese, Thai, Lao, Burmese, Khmer) have no such runs:
of them each two characters that stand together are a word. A symbol, as an emoji, is a word by itself.

Databases cut texts in ways of their own; here it is done once, so that all of them give the same answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise

LONGEST = 64
"""Words are known by that many characters."""
MARKS = re.compile("[\u0300-\u036f]+")
"""What stands on letters, taken apart from them."""
LOOKS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Characters that choose how the one before looks."""
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
"""The characters of scripts without spaces."""
RUNS = re.compile(f"([{UNSPACED}]+)|[^{UNSPACED} ]+")


class _Kept(dict[int, str]):
    """What becomes of each character, found out when it is met for the first time."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)
        # A letter, a mark or a number; a symbol; all else parts words, also the modifiers (Sk) that tell of skin. What
        # is not seen (Cf: soft hyphens, signs that join or order), or chooses how a character looks, is not there.
        kept = character if kind[0] in "LMN" else " "
        gone = kind == "Cf" or any(first <= code <= last for first, last in LOOKS)
        found = self[code] = "" if gone else f" {character} " if kind == "So" else kept
        return found


_kept = _Kept()


def plain(text: str) -> str:
    """The text without what does not count, all that parts words as spaces."""
    if text.isascii():
        return text.lower().translate(_kept)
    folded = unicodedata.normalize("NFKC", text).casefold()
    bare = MARKS.sub("", unicodedata.normalize("NFD", folded))
    return unicodedata.normalize("NFC", bare).translate(_kept)


def of(text: str) -> Iterator[str]:
    """The words that the text is found by, in order."""
    return _cut(text, lambda run: [*_pairs(run), run[-1]])


def asked(text: str) -> list[str]:
    """The words that somebody looks for, each once: a text is found where each of them begins a word of it.

    One that is the beginning of another is left out, as it is there with that one.
    """
    found = sorted(set(_cut(text, lambda run: _pairs(run) or [run])))
    return [one for one, after in pairwise([*found, ""]) if not after.startswith(one)]


def _cut(text: str, unspaced: Callable[[str], list[str]]) -> Iterator[str]:
    for match in RUNS.finditer(plain(text)):
        if match[1]:
            yield from unspaced(match[1])
        else:
            yield match[0][:LONGEST]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]
