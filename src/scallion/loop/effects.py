"""Where a tool call stands: its thread, its message, the checkpoint that holds it; for the ledger of effects and the
standing rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from scallion.approvals.effects import Wanted, call_digest, digest
from scallion.approvals.rules import Asked, RuleBook, Ruling
from scallion.bridge import call
from scallion.errors import ConfigurationError
from scallion.filters.effects import Effect
from scallion.filters.pausing import args_schema
from scallion.history import last_batch, position
from scallion.loop.platform import CHECKPOINTER, DURABILITY
from scallion.values import ToolRequest


@dataclass(frozen=True, slots=True)
class ToolPlace:
    """What the tool chain needs of its node: the state of the graph, what ran, and the way to the ledger."""

    state: Mapping[str, Any]
    made: dict[str, Any]
    config: RunnableConfig
    lease: Any = None
    """The turn's lease on its thread, where it has one."""

    def position(self, call_id: Any, tool: str | None = None) -> int:
        """How many open calls of the batch come before this one, of all tools or of the one of that name."""
        return position(self.state, call_id, tool)

    def effect(self, request: ToolRequest) -> Effect | None:
        """The call in its ledger; None where the checkpointer has none. Raises ConfigurationError."""
        place = self.config["configurable"]
        ledger = self._kept("effects")
        if ledger is None:
            return None
        if place.get(DURABILITY) == "exit":
            raise ConfigurationError('a tool that runs at most once needs durability "sync" or "async", not "exit"')
        self.made["args"] = request.call["args"]  # also where it ran in another process
        return Effect(ledger, self._wanted(request, str(place["thread_id"])), request)

    def ruling(self, request: ToolRequest, *, deny_only: bool) -> Ruling | None:
        """What the standing rules say about the call; None where the checkpointer has none."""
        place = self.config["configurable"]
        book = self._kept("rules")
        if not isinstance(book, RuleBook):
            return None
        message, id = self._known(request)
        asked = Asked(
            thread=str(place["thread_id"]),
            call=digest([self._checkpoint, message, id]),  # who goes back in the thread asks anew
            call_id=id,
            checkpoint=self._checkpoint,
            tool=request.call["name"],
            args=request.call["args"],
            args_schema=args_schema(request.tool),
            deny_only=deny_only,
        )
        return call(book.use, book.ause, asked)

    def _kept(self, name: str) -> Any:
        """What the checkpointer keeps under that name, for this turn; None where it has none."""
        found = getattr(self.config["configurable"].get(CHECKPOINTER), name, None)
        return found if found is None or self.lease is None else found.under(self.lease)

    @property
    def _checkpoint(self) -> tuple[str, str]:
        """Namespace and id of the checkpoint that the node runs from."""
        place = self.config["configurable"]
        ns = place["checkpoint_ns"].rpartition("|")[0]
        return ns, place["checkpoint_map"][ns]

    def _known(self, request: ToolRequest) -> tuple[str, str]:
        message, _ = last_batch(self.state["messages"])
        return str(message.id if message else ""), str(request.call["id"])

    def _wanted(self, request: ToolRequest, thread: str) -> Wanted:
        wanted = request.call
        known = self._known(request)
        ns, checkpoint = self._checkpoint
        return Wanted(
            thread=thread,
            call=call_digest(*known),
            args=digest([wanted["name"], wanted["args"]]),
            key=digest([thread, *known, wanted["name"], wanted["args"]]),
            tool=wanted["name"],
            ns=ns,
            checkpoint=checkpoint,
            call_id=known[1],
        )
