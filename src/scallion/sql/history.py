"""Histories of conversations, for `filters.memory`: each is a thread of the checkpointer.

So it is encrypted, owned, listed, moved, pruned and deleted as any thread, and has no tables of its own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint

from scallion.bridge import call, enter_async, sleep
from scallion.errors import ThreadBusy, ThreadError
from scallion.sql import names
from scallion.sql.leases import Leases
from scallion.values import identity

if TYPE_CHECKING:
    from scallion.sql.saver import SQLCheckpointer

AGENT = "memory"
"""What the session of a history has as its agent; its thread begins with that."""
PREFIX = f"{AGENT}:"
PATIENCE = 10.0
"""Seconds that a writer waits for another one, who needs a few milliseconds."""
NEAR = 0.01


def unknown(messages: Sequence[BaseMessage], before: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages that are not there yet, each once by its `identity`; those without an id are given one."""
    seen = set(map(identity, before))
    new: list[BaseMessage] = []
    for one in messages:
        if one.id is None or identity(one) not in seen:
            new.append(one if one.id is not None else one.model_copy(update={"id": uuid.uuid4().hex}))
            seen.add(identity(new[-1]))
    return new


class SQLHistory:
    """The messages of one conversation, each once, with the methods of a history of LangChain.

    Writers wait for each other, in all processes.
    """

    def __init__(self, saver: SQLCheckpointer, leases: Leases, conversation: object, owner: str | None = None) -> None:
        self._saver = saver
        self._leases = leases
        self._conversation = conversation
        self._owner = owner
        self.thread = names.text("thread id", PREFIX + names.text("conversation", conversation))
        self._config: dict[str, Any] = {"configurable": {"thread_id": self.thread, "checkpoint_ns": ""}}

    def for_owner(self, owner: str) -> SQLHistory:
        """The same for turns of `owner`: one of nobody becomes theirs, to use that of another raises ThreadError."""
        return SQLHistory(self._saver, self._leases, self._conversation, owner)

    @property
    def messages(self) -> list[BaseMessage]:
        """All of them, the first first."""
        return _messages(self._head())

    async def aget_messages(self) -> list[BaseMessage]:
        """As `messages`."""
        return _messages(await enter_async(self._head))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add those that are not there yet. Raises ThreadBusy where others write all the time."""
        with self._held() as configurable:
            head = self._head()
            before = _messages(head)
            if new := unknown(messages, before):
                self._put(configurable, head, [*before, *new])

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As `add_messages`."""
        await enter_async(self.add_messages, messages)

    def clear(self) -> None:
        """Delete the history."""
        call(self._saver.delete_thread, self._saver.adelete_thread, self.thread)

    async def aclear(self) -> None:
        """As `clear`."""
        await enter_async(self.clear)

    def _head(self) -> CheckpointTuple | None:
        if self._owner is not None:
            sessions = self._saver.sessions
            session = call(sessions.get, sessions.aget, self.thread)
            if session is not None and session.owner not in (None, self._owner):
                raise ThreadError(self.thread, f"the history {self.thread!r} belongs to another owner")
        return call(self._saver.get_tuple, self._saver.aget_tuple, self._config)

    def _put(self, configurable: dict[str, Any], head: CheckpointTuple | None, messages: list[BaseMessage]) -> None:
        before = head.checkpoint["channel_versions"].get("messages") if head is not None else None
        version = self._saver.get_next_version(before, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = {"messages": version}
        step = head.metadata.get("step", 0) + 1 if head is not None else 0
        if head is not None:
            configurable = {**configurable, "checkpoint_id": head.checkpoint["id"]}
        metadata: Any = {"source": "update", "step": step, "parents": {}, "agent": AGENT}
        if self._owner is not None:
            metadata["owner"] = self._owner
        config: Any = {"configurable": configurable}
        call(self._saver.put, self._saver.aput, config, checkpoint, metadata, {"messages": version})

    @contextmanager
    def _held(self) -> Iterator[dict[str, Any]]:
        """The right to write, as what a config carries."""
        lease = self._taken(time.monotonic() + PATIENCE)
        failed = True
        try:
            yield {**self._config["configurable"], **lease.configurable}
            failed = False
        finally:
            call(self._leases.release, self._leases.arelease, lease, failed=failed)

    def _taken(self, deadline: float) -> Any:
        while True:
            try:
                whose = {"owner": self._owner, "bound": self._saver.owner}
                return call(self._leases.take, self._leases.atake, self.thread, new=True, **whose)
            except ThreadBusy:
                if time.monotonic() >= deadline:
                    raise
            sleep(NEAR)


def _messages(head: CheckpointTuple | None) -> list[BaseMessage]:
    return list(head.checkpoint["channel_values"].get("messages") or ()) if head is not None else []


class Remembering:
    """Gives histories, for `filters.memory(saver.history)`."""

    writers: Leases
    """The rights to write into histories, also where turns have no leases."""

    def is_history(self, thread: str) -> bool:
        """Whether the thread is that of a history: no turn runs on it."""
        return thread.startswith(PREFIX)

    def history(self: Any, conversation: object) -> SQLHistory:
        """The history of a conversation, in both colours.

        It is a thread of this database, `memory:` and the name of the conversation, on which no turn runs. Raises
        ConfigurationError for what is no name.
        """
        return SQLHistory(self, self.writers, conversation)
