"""Words in a text, however they are written: Unicode forms, invisible characters and look-alike letters are folded.

A word is found where it stands alone. In scripts that put no spaces between words every place is a border.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

LOOK_ALIKES = (
    ("асеорхуѕіјһԁԛԝӏкмнтвг", "aceopxysijhdqwlkmhtbr"),  # Cyrillic, small letters and those whose capitals look alike
    ("αεηικμνορτυχβζ", "aehikmnoptyxbz"),  # Greek
    ("հոօս", "hnou"),  # Armenian
    ("ıɑɡɩ", "iagi"),  # Latin letters of other alphabets
    ("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz"),  # small capitals
)
"""Letters that are taken for Latin ones, in small letters: a choice from Unicode's confusables.txt (UTS #39)."""
INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""Characters that show nothing, beside those of the categories Cf and Me and the variation selectors."""
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u3100-\u31ff"
    "\u3400-\u9fff\ua000-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese, Yi, and Korean, which has spaces and puts particles behind words."""


class _Visible(dict[int, int | None]):
    """A table for `str.translate` that drops what is not seen, made as it is used."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if _is_unseen(chr(code)) else code
        return self[code]


def _is_unseen(char: str) -> bool:
    if char in INVISIBLE or "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        return True
    category = unicodedata.category(char)
    if category == "Cc":
        return not char.isspace()
    return category in ("Cf", "Me") or unicodedata.combining(char) == 1  # 1: a stroke through the letter


_VISIBLE = _Visible()
_SMALL = {odd: plain for odds, plains in LOOK_ALIKES for odd, plain in zip(odds, plains, strict=True)}
_CAPITALS = {odd.upper(): plain.upper() for odd, plain in _SMALL.items() if len(odd.upper()) == 1}
_LATIN = str.maketrans({**_CAPITALS, **_SMALL, "\u0307": None})  # the dot that is left of a Turkish capital I


def folded(text: str, *, case_sensitive: bool = False) -> str:
    """The text as a reader takes it: one form for what looks the same, single spaces, small letters."""
    text = unicodedata.normalize("NFKC", text.translate(_VISIBLE))
    if not case_sensitive:
        text = unicodedata.normalize("NFKC", text.casefold())
    return " ".join(text.translate(_LATIN).split())


def finder(words: Iterable[str], *, case_sensitive: bool = False) -> Callable[[str], bool]:
    """A function that says whether one of the words stands in a text. What folds to nothing is never found."""
    wanted = sorted({folded(word, case_sensitive=case_sensitive) for word in words} - {""})

    def found(text: str) -> bool:
        seen = folded(text, case_sensitive=case_sensitive)
        return any(stands_alone(word, seen) for word in wanted)

    return found


def stands_alone(word: str, text: str) -> bool:
    """Whether the word is in the text without being a part of a longer one."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (_is_joined(text[at - 1 : at], word[0]) or _is_joined(word[-1], text[end : end + 1])):
            return True
        at = text.find(word, at + 1)
    return False


def _is_joined(left: str, right: str) -> bool:
    """Whether no word can end between these two characters, of which one may be missing."""
    return _is_letter(left) and _is_letter(right) and not (UNSPACED.match(left) or UNSPACED.match(right))


def _is_letter(char: str) -> bool:
    return bool(char) and (char.isalnum() or unicodedata.category(char)[0] == "M")
