"""What a detector is: where its type may stand in a text, and which characters it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

Place = tuple[int, int]
"""Where something stands: its first character, and the one behind its last."""


class Openings(Protocol):
    """What of one growing text a detector cannot decide yet, beyond the word that the text ends in."""

    def first(self, text: str, done: int, limit: int) -> int | None:
        """Where the first undecided match may start; None where all is decided.

        `done`: what was let go. `limit`: up to where all words have come to their end.
        """

    def move(self, by: int) -> None:
        """The text was cut in front: places are smaller now."""


@dataclass(frozen=True)
class Detector:
    """Finds one type.

    `places(text, since)` gives all places from a character on, in any order; what is before it may be looked at. A
    match reads the characters of `letters` (the inside of a character class of `re`) and one more on each side, the
    spaces that `gaps` matches, and, where `has_tail`, all up to the next space or quotation mark once there was a
    `/`, `?` or `#`, which are no letters. So a match lies in a *word* of those (see words.py), and a word is decided by
    the first character behind it. What goes beyond a word has `openings`. A text in which `hint`, a regular expression,
    is not found has no match.
    """

    places: Callable[[str, int], Iterable[Place]]
    letters: str
    gaps: str = ""
    has_tail: bool = False
    hint: str = ""
    openings: Callable[[], Openings] | None = None
