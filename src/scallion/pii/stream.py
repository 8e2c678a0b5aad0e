"""Redacting a text that comes in pieces: what no further piece can change any more is let go at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scallion.pii.words import MOST

if TYPE_CHECKING:
    from scallion.pii.redaction import Redaction
    from scallion.pii.replacing import Tokens
    from scallion.pii.rules import Finding

CONTEXT = 8
"""How many characters that were let go are kept: a match may look at what is before it."""
SLACK = 1024
"""How many more are kept before the text is cut: cutting each time would cost more."""
MOST_HELD = 2 * MOST + 2
"""Characters. A word that is longer is read in parts; what is found at the end of a part goes on to its end."""

MOST_CHAINED = 16
"""Findings over many words, each of which begins in the word that another ends in. Behind more, the text is cut."""


class RedactionStream:
    """One text that comes in pieces. `findings`: what was found so far, by places in the whole text."""

    def __init__(self, redaction: Redaction, tokens: Tokens | None) -> None:
        self._redaction = redaction
        self._tokens = tokens
        self._openings = [detector.openings() for detector, _ in redaction.detectors if detector.openings]
        self._literals = tuple(redaction.literals)
        self._waits = bool(redaction.functions)
        self._text = ""
        self._done = 0
        """The place up to which the text was let go."""
        self._is_behind = False
        """Whether a replacement, or a part of a long word, ends right before that place."""
        self._is_in_tail = False
        """Whether the word that is held back has come to its slash."""
        self._is_swallowing = False
        """Whether what was found in a part of a long word goes on."""
        self._behind = 0
        """How many characters were cut in front."""
        self.findings: list[Finding] = []

    @property
    def held(self) -> int:
        """How many characters are held back."""
        return len(self._text) - self._done

    def push(self, piece: str) -> str:
        """Take one more piece, and give what is decided."""
        held = self.held
        self._text += piece
        if self._waits:
            return ""
        words = self._redaction.words
        if held < MOST_HELD - len(piece) and not self._is_swallowing and words.go_on(piece, self._is_in_tail):
            return ""
        out = [self._step()]
        while self._is_long:
            out += [self._part(), self._step()]
        self._is_in_tail = self.held > 0 and words.is_in_tail(self._text, self._done)
        return "".join(out)

    def finish(self) -> str:
        """The text is whole: give the rest."""
        end = len(self._text)
        if self._is_swallowing:
            self._swallow()
        return self._let_go(end, self._redaction.between(self._text, self._done, end, self._is_behind))

    def _step(self) -> str:
        """Let go of all that is decided."""
        if self._is_swallowing and not self._swallow():
            return ""
        limit = self._decided()
        if limit <= self._done:
            return ""
        found = self._redaction.between(self._text, self._done, limit, self._is_behind)
        if found:
            limit = self._before_open(limit, found)
        return self._let_go(limit, found) if limit > self._done else ""

    def _before_open(self, limit: int, found: list[Finding]) -> int:
        """The limit before what goes on over words that are not decided, which `found` loses."""
        for _ in range(MOST_CHAINED):
            if not found or found[-1].end <= limit:
                return limit
            last = found.pop()
            if found and found[-1].end == last.start:
                return last.start
            limit = self._redaction.words.decided(self._text, self._done, last.start)
            while found and found[-1].start >= limit:
                found.pop()
        return max(limit, found[-1].end) if found else limit

    @property
    def _is_long(self) -> bool:
        """Whether the word that is held back is too long to wait for its end."""
        return (
            self.held > MOST_HELD
            and not self._is_swallowing
            and self._redaction.words.decided(self._text, self._done) == self._done
        )

    def _part(self) -> str:
        """The first part of a long word."""
        limit = self._redaction.words.part(self._text, self._done)
        found = self._redaction.between(self._text, self._done, limit, self._is_behind, is_before=True)
        self._is_swallowing = bool(found) and found[-1].end > limit - CONTEXT
        if self._is_swallowing:
            found[-1] = replace(found[-1], end=limit)
        out = self._let_go(limit, found)
        self._is_behind = True
        return out

    def _swallow(self) -> bool:
        """Drop what belongs to the last finding; whether its word has come to an end."""
        end = self._redaction.words.end(self._text, self._done)
        self.findings[-1] = replace(self.findings[-1], end=self._behind + end)
        self._is_swallowing = end == len(self._text)
        self._let_go(end, [])
        self._is_behind = True
        return not self._is_swallowing

    def _decided(self) -> int:
        """Up to where nothing can change: the end of a word behind which nothing is open."""
        words, text, done = self._redaction.words, self._text, self._done
        limit = words.decided(text, done)
        firsts = [opening.first(text, done, limit) for opening in self._openings]
        firsts += [self._begun(literal) for literal in self._literals]
        first = min((one for one in firsts if one is not None), default=limit)
        return limit if first >= limit else words.decided(text, done, first)

    def _begun(self, literal: str) -> int | None:
        """Where a user's own replacement may have begun at the end of the text."""
        text = self._text
        starts = range(max(self._done, len(text) - len(literal) + 1), len(text))
        return next((start for start in starts if literal.startswith(text[start:])), None)

    def _let_go(self, limit: int, found: list[Finding]) -> str:
        """Give the text up to the limit, which drops what was found in it."""
        out = self._redaction.replace(self._text, self._done, limit, found, self._tokens)
        by = self._behind
        self.findings += [replace(one, start=one.start + by, end=one.end + by) for one in found]
        is_found = bool(found) and found[-1].end == limit
        self._is_behind = is_found or self._text.endswith(self._literals, self._done, limit)
        self._done = limit
        if limit - CONTEXT > SLACK:
            self._cut(limit - CONTEXT)
        return out

    def _cut(self, by: int) -> None:
        self._text, self._done, self._behind = self._text[by:], self._done - by, self._behind + by
        for opening in self._openings:
            opening.move(by)
