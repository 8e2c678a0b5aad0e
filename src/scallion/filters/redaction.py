"""Replacing what a pattern matches in a text that comes in pieces: the same as in the whole text, however it is cut."""

from __future__ import annotations

import re
from collections.abc import Callable

from scallion.growing import Automaton, OpenStarts

BLOCK = 8
"""How many characters are read before a look at what is decided: those behind a match are read again."""
SLACK = 1024
"""How many characters that are done with are kept before the text is cut: cutting each time would cost more."""


class Redactor:
    """Replaces what `pattern` matches by what `replace(match)` gives: `"".join` of a stream is `whole(text)`.

    None from `replace` deletes the match. Raises growing.Undecidable for a pattern that cannot be held back exactly. It
    may be shared by threads.
    """

    def __init__(self, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str | None]) -> None:
        self.pattern = pattern
        self.replace = replace
        self.automaton = Automaton(pattern)

    def whole(self, text: str) -> str:
        """The whole text with its matches replaced."""
        return self.pattern.sub(self.replace, text)  # type: ignore[arg-type]

    def stream(self) -> RedactedStream:
        """A new text, to be given in pieces."""
        return RedactedStream(self)


class RedactedStream:
    """One text that comes in pieces: what no further piece can change any more is let go at once."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._starts = OpenStarts(redactor.automaton)
        self._text = ""
        self._read = 0
        """The place up to which the automaton has read since the last match."""
        self._done = 0
        """The place up to which the text was let go."""

    @property
    def held(self) -> int:
        """How many characters are held back."""
        return len(self._text) - self._done

    def push(self, piece: str) -> str:
        """Take one more piece, and give what is decided."""
        self._text += piece
        out: list[str] = []
        while self._read < len(self._text):
            block = self._text[self._read : self._read + BLOCK]
            self._starts.read(block, self._read)
            self._read += len(block)
            self._let_go(out)
        self._cut()
        return "".join(out)

    def finish(self) -> str:
        """The text is whole: give the rest."""
        out: list[str] = []
        for found in self._redactor.pattern.finditer(self._text, self._done):
            self._replace(found, out)
        out.append(self._text[self._done :])
        self._starts.clear()
        self._read = self._done = len(self._text)
        return "".join(out)

    def _let_go(self, out: list[str]) -> None:
        first = self._starts.first
        limit = self._read if first is None else first
        if self._done < limit and (found := self._found(limit)):
            self._replace(found, out)
            self._starts.clear()
            self._read = self._done
        elif self._done < limit:
            out.append(self._text[self._done : limit])
            self._done = limit

    def _found(self, limit: int) -> re.Match[str] | None:
        """The first match before the limit. Each start is tried once: a search would go on with those behind it."""
        if limit == len(self._text):
            return self._redactor.pattern.search(self._text, self._done)
        match = self._redactor.pattern.match
        return next((found for place in range(self._done, limit) if (found := match(self._text, place))), None)

    def _replace(self, found: re.Match[str], out: list[str]) -> None:
        out += [self._text[self._done : found.start()], self._redactor.replace(found) or ""]
        self._done = found.end()

    def _cut(self) -> None:
        """Drop what neither a match nor a look-behind can need."""
        by = self._done - self._redactor.automaton.context
        if by > SLACK:
            self._text, self._done, self._read = self._text[by:], self._done - by, self._read - by
            self._starts.move(by)
