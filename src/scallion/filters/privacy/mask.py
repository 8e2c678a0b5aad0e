"""The mask of `pii`: what it takes out of one run of a chain, and the tokens that it puts in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

from scallion.errors import ScallionError
from scallion.filters.guarding import Place
from scallion.filters.masking import Share, StreamMask
from scallion.filters.privacy.errors import cleaned_error
from scallion.filters.privacy.stream import PiiStream
from scallion.filters.privacy.values import Walk, failure
from scallion.filters.privacy.vault import TOKEN, Vault
from scallion.filters.redact_tokens import transform
from scallion.filters.redaction import Redactor
from scallion.filters.tokens import TokenTransform
from scallion.values import Completed, ToolReply

if TYPE_CHECKING:
    from scallion.filters.pii import Pii

M = TypeVar("M", bound=BaseMessage)
T = TypeVar("T")


class Spelling(Walk):
    """A walk over a message that puts other texts into it, and looks for nothing."""

    def __init__(self, spell: Callable[[str], str]) -> None:
        self._spell = spell
        self.found = {}

    def covers(self, place: Place) -> bool:
        """Nothing is looked for in what lies in several blocks."""
        return False

    def text(self, text: str, place: Place) -> str:
        """The text as it is spelt."""
        return self._spell(text)

    def plain(self, text: str, place: Place) -> str:
        """As any other."""
        return self._spell(text)


class PiiMask:
    """One run of a chain."""

    def __init__(self, guard: Pii, state: Any, share: Share) -> None:
        self._guard = guard
        self._vault = Vault(guard.key, state, guard.name, share) if guard.tokenises else None
        self._tokens = self._token if self._vault is not None else None
        self._state = state

    def _token(self, kind: str, value: str) -> str:
        assert self._vault is not None
        self._guard.begin_for(self._state)
        return self._vault.token(kind, value)

    def reply(self, message: AIMessage) -> AIMessage:
        """What the model answered, and what it calls tools with."""
        return self.told(message)

    def told(self, message: M) -> M:
        """A message of any kind; what is found in it is told."""
        return self._cleaned(lambda walk: walk.message(message))  # type: ignore[no-any-return]

    def kept(self, message: BaseMessage) -> BaseMessage:
        """What was in the thread before the guard; only what is new may stop the turn."""
        walk = self._guard.walk(self._tokens)
        cleaned = self._walked(lambda: walk.message(message))
        self._keep()
        return cleaned

    def result(self, reply: ToolReply) -> ToolReply:
        """What a tool gave: its message with the artifact, what it writes, and its exception."""
        message, writes = self._cleaned(
            lambda walk: (walk.message(reply.message), walk.value(reply.writes, "tool_results"))
        )
        error = reply.error
        if error is not None and error.exception is not None:
            error = replace(error, exception=self.error(error.exception))
        is_same = message is reply.message and writes is reply.writes and error is reply.error
        return reply if is_same else reply.replace(message=message, writes=writes, error=error)

    def value(self, value: Any, place: Place | None = None) -> Any:
        """Messages by where they came from; anything else as what stands in that place, or in any that is covered."""
        return self._cleaned(lambda walk: self._every(walk, value, place or self._guard.apply_to[0]), quiet=True)

    def error(self, error: BaseException) -> BaseException:
        """The error, or one like it. What would stop a turn is replaced: it has failed already."""
        place = self._guard.apply_to[0]
        clean = lambda one: self._guard.walk(self._tokens).value(one, place)  # noqa: E731
        cleaned = self._walked(lambda: cleaned_error(error, clean))
        self._keep()
        return cleaned

    def stream(self) -> StreamMask:
        """The mask of an answer that comes in pieces."""
        guard = self._guard
        return PiiStream(guard.name, guard.walk(self._tokens), lambda: guard.redaction.stream(self._tokens))

    def behind(self) -> tuple[str, TokenTransform] | None:
        """The reader of the stream has the values, where the caller is to have them."""
        if self._vault is None or "answer" not in self._guard.restore:
            return None
        restored = self._vault.restored
        return self._guard.name, transform(Redactor(TOKEN, lambda found: restored(found[0])), None)

    def restored(self, result: Completed) -> Completed:
        """The answer with the values, for the caller alone."""
        if self._vault is None or "answer" not in self._guard.restore:
            return result
        message: Any = Spelling(self._vault.restored).message(result.message)
        rest = [message if one is result.message else one for one in result.messages]
        return result if message is result.message else result.replace(message=message, messages=rest)

    def args(self, args: Any) -> Any:
        """The arguments of a call that runs: with the values, where tools are to have them."""
        return self._vault.value(args) if self._vault is not None and "tool_args" in self._guard.restore else args

    def _cleaned(self, step: Callable[[Walk], Any], *, quiet: bool = False) -> Any:
        """What the step makes with a walk, told and kept; raises Blocked."""
        walk = self._guard.walk(self._tokens)
        cleaned = self._walked(lambda: step(walk))
        self._keep()
        walk.settle(quiet=quiet)
        return cleaned

    def _walked(self, step: Callable[[], T]) -> T:
        """What the step makes. What cannot be walked through, or rebuilt, passes nowhere."""
        try:
            return step()
        except ScallionError:
            raise
        except Exception as error:
            failed = failure(self._guard.name, error)
        raise failed

    def _every(self, walk: Walk, value: Any, place: Place) -> Any:
        if isinstance(value, list) and value and all(isinstance(one, BaseMessage) for one in value):
            return [walk.message(one) for one in value]
        return walk.value(value, place)

    def _keep(self) -> None:
        if self._vault is not None:
            self._vault.keep()
