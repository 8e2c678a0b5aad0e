"""Words of a text as an index compares them: identifiers are split, endings cut, and there are no stop words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"  # Japanese, Chinese, Korean
)
"""Scripts without spaces between words, or with endings that only a dictionary can cut."""
_RUN = re.compile(rf"([{_UNSPACED}]+)|[^\W_{_UNSPACED}]+")
_PART = re.compile("U+(?!l)|U?l+|d+")
"""Parts of an identifier by the shape of its letters: upper case, lower case (or none), digits."""
_VOWEL = re.compile("[aeiouy]")

STOP_WORDS = frozenset(
    """
    a about also am an and any are as at be been being by can could did do does for from had has have help how i if in
    into is it its just let like me more most my need no not of on or our please shall she he should so some such than
    that the their them then there these they this those to too us use using very via want was we were what when where
    which who will with would you your
    """.split()
)


def words(text: str) -> list[str]:
    """The words of a text that is searched."""
    return [word for run, unspaced in _runs(text) for word in (_grams(run, 1) + _grams(run, 2) if unspaced else [run])]


def query_words(text: str) -> list[str]:
    """The words to look for, each once; of an unspaced script pairs of characters, or the one there is."""
    found = [word for run, unspaced in _runs(text) for word in (_grams(run, min(len(run), 2)) if unspaced else [run])]
    return list(dict.fromkeys(found))


def spaced(identifier: str) -> str:
    """`create_edge` and `createEdge` as `create edge`."""
    return " ".join(part for run in _RUN.finditer(identifier) for part in _parts(run[0]))


def _parts(run: str) -> list[str]:
    """`HTTPServer2` as HTTP, Server and 2, in any alphabet."""
    shape = "".join("U" if one.isupper() else "d" if one.isdigit() else "l" for one in run)
    return [run[part.start() : part.end()] for part in _PART.finditer(shape)]


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Runs of an unspaced script as they are, words of all others stemmed."""
    for run in _RUN.finditer(unicodedata.normalize("NFKC", text)):
        if run[1]:
            yield run[1], True
        else:
            yield from ((word, False) for word in _stems(run[0]))


@lru_cache(10_000)
def _stems(run: str) -> tuple[str, ...]:
    """What is compared of a word or an identifier; a catalogue has the same ones again and again."""
    parts = (part.casefold() for part in _parts(run))
    return tuple(stem(part) for part in parts if part not in STOP_WORDS)


def _grams(run: str, size: int) -> list[str]:
    return [run[at : at + size] for at in range(len(run) - size + 1)]


def stem(word: str) -> str:
    """An English word without its endings, lightly: plural, -ing, -ed, -ion, -or, -ment, -al, a last e.

    What comes out need be no word, only the same for `email` and `emails`, for `calculate`, `calculator` and
    `calculation`. Words below four letters, and those of other alphabets, stay.
    """
    if len(word) < 4 or not word.isascii():
        return word
    word = _singular(word)
    for cut in (_without_verb_ending, _without_noun_ending):
        word = cut(word)
    if word.endswith("e") and len(word) > 4:
        return word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_verb_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        left = word.removesuffix(ending)
        if left != word and len(left) > 2 and _VOWEL.search(left):
            is_doubled = len(left) > 3 and left[-1] == left[-2] and left[-1] not in "lsz"
            return left[:-1] if is_doubled else left
    return word


def _without_noun_ending(word: str) -> str:
    for ending in ("ion", "or", "ment", "al"):
        left = word.removesuffix(ending)
        if left != word and len(left) > 3 and (left[-1] in "ts" or ending in ("ment", "al")):
            return left
    return word
