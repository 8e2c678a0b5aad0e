"""A tool call in the ledger of effects, as the filters that guard it see it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage

from scallion.approvals.effects import Attempt, AttemptStatus, EffectLedger, Wanted, call_digest
from scallion.bridge import call, sleep
from scallion.errors import ConfigurationError, StorageError, ThreadError
from scallion.filters.journal import current_frame
from scallion.values import ToolFailure, ToolReply, ToolRequest

PATIENCE = 10.0
"""How many seconds a checkpoint that is written in the background may take."""
log = logging.getLogger("scallion.filters")

_running: ContextVar[tuple[str, Wanted] | None] = ContextVar("scallion_effect", default=None)
_granted: ContextVar[bool] = ContextVar("scallion_granted", default=False)


class EffectKey(str):
    """The idempotency key of a call, which is what it is as a text, with what it belongs to."""

    __slots__ = ("args", "call_id", "thread", "tool")

    thread: str
    tool: str
    call_id: str
    args: Mapping[str, Any]


def idempotency_key() -> str:
    """The key of the tool call that runs, for the service that does the effect: 64 hexadecimal digits.

    It is the same whenever this call runs, after retries, resumes and crashes, and another one for any other call.
    Raises ConfigurationError outside of a tool that `filters.once` guards.
    """
    found = _running.get()
    if found is None:
        raise ConfigurationError("idempotency_key() is for tools that filters.once guards, while they run")
    return found[0]


@contextmanager
def granted() -> Iterator[None]:
    """Within the block a person has said that what failed is to be run again."""
    token = _granted.set(True)
    try:
        yield
    finally:
        _granted.reset(token)


def is_granted() -> bool:
    """Whether a person has said so about the call at hand."""
    return _granted.get()


@contextmanager
def running(one: Effect, key: str) -> Iterator[None]:
    """Within the block the tool runs, and has its key."""
    tokens = _running.set((key, one.wanted)), _granted.set(False)  # a grant is not for the calls of an agent inside
    try:
        yield
    finally:
        _running.reset(tokens[0])
        _granted.reset(tokens[1])


def is_running(one: Effect) -> bool:
    """Whether another guard around this one has begun the same call."""
    found = _running.get()
    return found is not None and found[1] == one.wanted


@dataclass(frozen=True, slots=True)
class Effect:
    """One call and its ledger."""

    ledger: EffectLedger
    wanted: Wanted
    request: ToolRequest

    def begin(self, over: int = 0) -> Attempt:
        """Begin an attempt, or give the one in the way, once a crash would leave the call itself."""
        waited = 0.0
        while waited < PATIENCE:
            found: Attempt | None = call(self.ledger.begin, self.ledger.abegin, self.wanted, over=over)
            if found is not None:
                return found
            sleep(0.01)
            waited += 0.01
        raise StorageError(
            f"{self.wanted.tool} is not run: the message that calls it was not stored (durability is not to be 'exit')"
        )

    def end(self, number: int, status: AttemptStatus, reply: ToolReply | None = None) -> None:
        """Say what came of an attempt.

        What cannot be said stays unknown, and is asked for where it matters: the reply itself is not lost by that.
        """
        try:
            call(self.ledger.end, self.ledger.aend, self.wanted, number, status, reply and dumped(reply))
        except (StorageError, ThreadError) as error:
            log.warning("the outcome of a call of %s is not in the ledger: %s", self.wanted.tool, type(error).__name__)

    def key(self, attempt: Attempt) -> EffectKey:
        """What the tool and `verify` are given."""
        key = EffectKey(attempt.key)
        key.thread, key.tool = self.wanted.thread, self.wanted.tool
        key.call_id, key.args = str(self.request.call["id"]), self.request.call["args"]
        return key

    def message(self, content: Any, status: Any = "success") -> ToolMessage:
        """A result of the call."""
        given = self.request.call
        return ToolMessage(content, tool_call_id=given["id"], name=given["name"], status=status)


def effect(request: ToolRequest) -> Effect:
    """The running call in its ledger. Raises ConfigurationError where the checkpointer has none."""
    frame = current_frame.get(None)
    place = getattr(frame.run.extra, "effect", None) if frame is not None else None
    found: Effect | None = place(request) if place is not None else None
    if found is None:
        raise ConfigurationError("effects are kept by a SQLCheckpointer: build the Agent with checkpointer=...")
    return found


def dumped(reply: ToolReply) -> dict[str, Any]:
    """What the ledger keeps of a reply."""
    return {"message": reply.message, "writes": dict(reply.writes), "error": reply.error.kind if reply.error else None}


def loaded(result: Mapping[str, Any]) -> ToolReply:
    """The reply that was kept."""
    return ToolReply(
        result["message"], result["writes"], error=ToolFailure(result["error"]) if result["error"] else None
    )


def recorded(saver: Any, thread: str, message: Any, calls: Any) -> dict[str, ToolMessage | None]:
    """By call id the result that the ledger has for a call; None for one that was begun, and of which no more is known.

    A call that was not begun is left out.
    """
    ledger: EffectLedger | None = getattr(saver, "effects", None)
    if ledger is None or not calls:
        return {}
    digests = {call_digest(str(message.id or ""), str(one["id"])): one["id"] for one in calls}
    known: Mapping[str, Attempt] = call(ledger.known, ledger.aknown, thread, list(digests))
    return {
        digests[digest]: loaded(attempt.result).message if attempt.result else None
        for digest, attempt in known.items()
        if attempt.status != "open"
    }
