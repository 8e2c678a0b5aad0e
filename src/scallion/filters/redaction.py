"""Replacing what a pattern matches in a text that comes in pieces: the same as in the whole text, however it is cut."""

from __future__ import annotations

import re
from collections.abc import Callable

from scallion.filters.growing import Automaton, OpenStarts

SLACK = 1024
"""How many characters that are done with are kept before the text is cut: cutting each time would cost more."""


class Redactor:
    """Replaces what `pattern` matches by what `replace(match)` gives: `"".join` of a stream is `whole(text)`.

    Raises growing.Undecidable for a pattern that cannot be held back exactly. It may be shared by threads.
    """

    def __init__(self, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]) -> None:
        self.pattern = pattern
        self.replace = replace
        self.automaton = Automaton(pattern)

    def whole(self, text: str) -> str:
        """The whole text with its matches replaced."""
        return self.pattern.sub(self.replace, text)

    def stream(self) -> RedactedStream:
        """A new text, to be given in pieces."""
        return RedactedStream(self)


class RedactedStream:
    """One text that comes in pieces: what no further piece can change any more is let go at once."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._starts = OpenStarts(redactor.automaton)
        self._text = ""
        self._done = 0
        """The place up to which the text was let go."""

    @property
    def held(self) -> int:
        """How many characters are held back."""
        return len(self._text) - self._done

    def push(self, piece: str) -> str:
        """Take one more piece, and give what is decided."""
        self._starts.read(piece, len(self._text))
        self._text += piece
        out = self._let_go()
        self._cut()
        return out

    def finish(self) -> str:
        """The text is whole: give the rest."""
        self._starts.clear()
        return self._let_go(is_whole=True)

    def _let_go(self, is_whole: bool = False) -> str:
        out = []
        while self._done < (limit := self._limit):
            found = self._redactor.pattern.search(self._text, self._done)
            if found is None or found.start() >= limit:
                out.append(self._text[self._done : limit])
                self._done = limit
                break
            out += [self._text[self._done : found.start()], self._redactor.replace(found)]
            self._done = found.end()
            self._starts.clear()
            if not is_whole:
                self._starts.read(self._text[self._done :], self._done)
        return "".join(out)

    @property
    def _limit(self) -> int:
        first = self._starts.first
        return len(self._text) if first is None else first

    def _cut(self) -> None:
        """Drop what neither a match nor a look-behind can need."""
        by = self._done - self._redactor.automaton.context
        if by > SLACK:
            self._text, self._done = self._text[by:], self._done - by
            self._starts.move(by)
