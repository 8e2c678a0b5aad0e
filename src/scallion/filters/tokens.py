"""Token transforms: what is delivered of a model's text, piece by piece. The stored answer stays the original."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scallion.bridge import awaited
from scallion.errors import FilterError
from scallion.events import Token
from scallion.filters.replies import BadReply, reason

Deliver = Callable[[Token], None]


@dataclass(frozen=True)
class TokenTransform:
    """`step(Token, state) -> (tokens, state)` for each piece, `flush(state) -> tokens` at the end of the text.

    Both may be `def` or `async def`. Tokens may be given as `Token` or as text, which keeps the meta of the piece it
    came from. `init` is the state that each model stream starts from. `may_wait` is for a `def` that waits for
    something asynchronous (`bridge.wait`, or by returning an awaitable).
    """

    step: Callable[[Token, Any], Any]
    init: Any = None
    flush: Callable[[Any], Any] | None = None
    may_wait: bool = False


class Pipeline:
    """The transforms of one model stream in order; the first one sees the raw token."""

    def __init__(self, transforms: Sequence[tuple[str, TokenTransform]], deliver: Deliver) -> None:
        self._transforms = transforms
        self._states = [copy.deepcopy(transform.init) for _, transform in transforms]
        self._deliver = deliver
        self._last = Token("")

    def push(self, token: Token) -> None:
        """Send one raw token through all transforms."""
        self._last = token
        self._feed(0, token)

    def close(self) -> None:
        """Flush each transform through those behind it. Not called on an error: what is held is dropped."""
        for position, (name, transform) in enumerate(self._transforms):
            if transform.flush is not None:
                for token in self._flushed(name, transform.flush, self._states[position]):
                    self._feed(position + 1, token)

    def _feed(self, position: int, token: Token) -> None:
        if position == len(self._transforms):
            if token.text:
                self._deliver(token)
            return
        for out in self._stepped(position, token):
            self._feed(position + 1, out)

    def _stepped(self, position: int, token: Token) -> list[Token]:
        name, transform = self._transforms[position]
        try:
            tokens, self._states[position] = awaited(transform.step(token, self._states[position]))
            return [_as_token(out, token) for out in tokens]
        except Exception as error:
            raise FilterError(name, "token_transform", reason(error)) from error

    def _flushed(self, name: str, flush: Callable[[Any], Any], state: Any) -> list[Token]:
        try:
            tokens: Iterable[Token | str] = awaited(flush(state))
            return [_as_token(out, self._last) for out in tokens]
        except Exception as error:
            raise FilterError(name, "token_transform", reason(error)) from error


def _as_token(out: Token | str, source: Token) -> Token:
    if isinstance(out, Token):
        return out
    if isinstance(out, str):
        return source if out == source.text else source.replace(text=out)
    raise BadReply(f"a token transform gives tokens or texts, not {type(out).__name__}")
