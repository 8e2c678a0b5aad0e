"""The words of a text, as its detectors read it: up to where it is decided, whatever comes behind."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scallion.pii.cards import APART
from scallion.pii.detector import Detector

MOST = 2_048
"""Characters of a word, and as many again behind its first slash. A longer one is read in parts."""
HARD = r"\x00-\x20\x7f\s<>\"`\\^|\u2018-\u201f\u2026\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
"""What ends even the path of a URL: spaces, quotation marks, and the punctuation of wide scripts."""

WIDEST = 512
"""Characters in which an address, a number or a key has room."""
_break = re.compile(r"[^\d)*rRcCnNyY:]\s")
"""A space that is no gap of any detector: in those there is one of these characters before it."""
_border = re.compile(r"[^\w.+%~@:=\-]")
MASK_LETTERS = rf"*.:@\-\w{APART[2:]}"
MASK_GAPS = [r"(?<=\*{4}) (?=[*\d])", r"(?<=\d\d\d\d)\s(?=\d)"]
"""A masked card is one word, and so is a mask that ends in a number with the number behind it."""


class Words:
    """A word is a run of characters that any of the detectors reads: no match crosses its end.

    `[` and `<` begin one too, so that a replacement such as `[REDACTED_EMAIL]` is seen whole.
    """

    def __init__(self, detectors: Sequence[Detector], has_masks: bool = False) -> None:
        letters = "".join(detector.letters for detector in detectors) + (MASK_LETTERS if has_masks else "")
        letters = letters or r"\w"
        gaps = [detector.gaps for detector in detectors if detector.gaps] + (MASK_GAPS if has_masks else [])
        self._reads_all = not all(detector.hint for detector in detectors)
        has_tail = any(detector.has_tail for detector in detectors)
        self._decided = re.compile(_decided(letters, gaps, has_tail))
        self._letters = re.compile(rf"[{letters}]+")
        self._letter = re.compile(rf"[{letters}{'/?#' if has_tail else ''}]")
        self._tail = re.compile(rf"[\[<]?+(?:[{letters}]{_either(gaps)})++[/?#]") if has_tail else None
        self._end = re.compile(rf"[{HARD}]" if has_tail else rf"[^{letters}]")

    def decided(self, text: str, since: int, end: int | None = None) -> int:
        """The place up to which all words have come to their end; `since` is where a word may begin."""
        found = self._decided.match(text, since, len(text) if end is None else end)
        return found.end() if found else since

    def go_on(self, piece: str, is_in_tail: bool) -> bool:
        """Whether a word that is not decided is not decided behind this piece, either."""
        return not self._end.search(piece) if is_in_tail else self._letters.fullmatch(piece) is not None

    def is_in_tail(self, text: str, since: int) -> bool:
        """Whether the word that begins here has come to its slash."""
        return self._tail is not None and self._tail.match(text, since) is not None

    def reads(self, character: str) -> bool:
        """Whether a word may hold this character; a detector of one's own may look at any."""
        return self._reads_all or self._letter.match(character) is not None

    def end(self, text: str, since: int) -> int:
        """Where a long word ends that goes on from here."""
        found = self._end.search(text, since)
        return found.start() if found else len(text)

    def part(self, text: str, since: int) -> int:
        """Where the first part of a long word ends: behind something that no address, number or key goes across."""
        end = since + MOST
        borders = [border.end() for border in _border.finditer(text, end - WIDEST, end)]
        return borders[-1] if borders else end


def has_breaks(text: str) -> bool:
    """Whether no word of the text can be longer than two parts: a quick look, that may say no where it is not so."""
    return all(_break.search(text, start, start + MOST) for start in range(0, len(text) - MOST, MOST))


def _either(gaps: Sequence[str]) -> str:
    return "".join(f"|{one}" for one in gaps)


def _decided(letters: str, gaps: Sequence[str], has_tail: bool) -> str:
    """One pattern that takes as many words as have an end. Its loops give nothing back, so that it is linear."""
    simple = _simple(letters, gaps, has_tail)
    plain = _word(letters, gaps, has_tail)
    bracketed = _word(rf"{letters}\w:", gaps, has_tail)
    return rf"(?:[^{letters}\[<]++|{simple}|{plain}|[\[<](?:(?=[^{letters}\w:])|{bracketed}))*+"


def _simple(letters: str, gaps: Sequence[str], has_tail: bool) -> str:
    """A word that has neither gaps nor a tail, which most are: in the shortest way."""
    no_gap = "".join(f"(?!{one})(?!{_cut(one)})" for one in gaps)
    return rf"[{letters}]{{1,{MOST}}}+(?=[^{letters}{'/?#' if has_tail else ''}]){no_gap}"


def _word(letters: str, gaps: Sequence[str], has_tail: bool) -> str:
    undecided = "".join(f"(?!{_cut(one)})" for one in gaps)
    end = rf"(?=[^{letters}{'/?#' if has_tail else ''}]){undecided}"
    if has_tail:
        end = rf"(?:[/?#](?:[^{HARD}]{_either(gaps)}){{0,{MOST}}}+(?=[{HARD}]){undecided}|{end})"
    return rf"(?:[{letters}]{_either(gaps)}){{1,{MOST}}}+{end}"


def _cut(gap: str) -> str:
    """The gap at the end of the text: the character behind it decides what it is."""
    before = re.sub(r"\(\?=.*\)$", "", gap)
    return rf"(?:{before})\Z"
