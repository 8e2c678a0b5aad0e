"""An answer in pieces without the personal data in it: text, reasoning, and what tools are called with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from scallion.errors import Blocked, ScallionError
from scallion.filters.guarding import Place
from scallion.filters.masking import Rest
from scallion.filters.privacy.json_pieces import JsonPieces
from scallion.filters.privacy.values import Walk, failure
from scallion.pii import RedactionStream

T = TypeVar("T")


class _Checked:
    """A stream of which nothing leaves once something was found that may not pass."""

    def __init__(self, guard: str, stream: RedactionStream) -> None:
        self._guard = guard
        self._stream = stream
        self._seen = 0

    def push(self, piece: str) -> str:
        return self._left(self._stream.push, piece)

    def finish(self) -> str:
        return self._left(self._stream.finish)

    def _left(self, step: Callable[..., str], *given: str) -> str:
        try:
            text = step(*given)
        except ScallionError:
            raise
        except Exception as error:
            failed = failure(self._guard, error)
        else:
            if len(self._stream.findings) != self._seen:
                self._check()
            return text
        raise failed

    def _check(self) -> None:
        found = self._stream.findings
        self._seen = len(found)
        if blocked := Counter(one.type for one in found if one.strategy == "block"):
            raise Blocked(self._guard, blocked)


class PiiStream:
    """The stream mask of one answer."""

    def __init__(self, guard: str, walk: Walk, begin: Callable[[], RedactionStream]) -> None:
        self._walk = walk
        self._guard = guard
        self._stream = begin
        self._text: _Checked | None = None
        self._reasoning: _Checked | None = None
        self._args: dict[Any, JsonPieces] = {}

    def text(self, piece: str) -> str:
        """What may leave of the text."""
        if not self._walk.covers("output"):
            return piece
        self._text = self._text or self._begin()
        return self._text.push(piece)

    def reasoning(self, piece: str) -> str:
        """What may leave of what the model thinks."""
        if not self._walk.covers("output"):
            return piece
        self._reasoning = self._reasoning or self._begin()
        return self._reasoning.push(piece)

    def args(self, index: Any, piece: str) -> str:
        """What may leave of the arguments of one call."""
        if not self._walk.covers("tool_args"):
            return piece
        if index not in self._args:
            self._args[index] = JsonPieces(self._begin, self._whole)
        return self._args[index].push(piece)

    def end(self) -> Rest:
        """The rest of all of them."""
        args = {index: rest for index, one in self._args.items() if (rest := one.finish())}
        return Rest(_finished(self._text), _finished(self._reasoning), args)

    def _begin(self) -> _Checked:
        return _Checked(self._guard, self._stream())

    def _whole(self, text: str) -> str:
        place: Place = "tool_args"
        return self._walk.text(text, place)


def _finished(stream: _Checked | None) -> str:
    return "" if stream is None else stream.finish()
