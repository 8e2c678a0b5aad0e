"""Where a tool call stands in the ledger of effects: its thread, its message, and the checkpoint that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from scallion.approvals.effects import Wanted, call_digest, digest
from scallion.errors import ConfigurationError
from scallion.filters.effects import Effect
from scallion.loop.platform import CHECKPOINTER, DURABILITY
from scallion.loop.state import last_batch
from scallion.values import ToolRequest


@dataclass(frozen=True, slots=True)
class ToolPlace:
    """What the tool chain needs of its node: the state of the graph, what ran, and the way to the ledger."""

    state: Mapping[str, Any]
    made: dict[str, Any]
    config: RunnableConfig
    lease: Any = None
    """The turn's lease on its thread, where it has one."""

    def effect(self, request: ToolRequest) -> Effect | None:
        """The call in its ledger; None where the checkpointer has none. Raises ConfigurationError."""
        place = self.config["configurable"]
        ledger = getattr(place.get(CHECKPOINTER), "effects", None)
        if ledger is None:
            return None
        if place.get(DURABILITY) == "exit":
            raise ConfigurationError('a tool that runs at most once needs durability "sync" or "async", not "exit"')
        if self.lease is not None:
            ledger = ledger.under(self.lease)
        self.made["args"] = request.call["args"]  # also where it ran in another process
        return Effect(ledger, self._wanted(request, str(place["thread_id"])), request)

    def _wanted(self, request: ToolRequest, thread: str) -> Wanted:
        place, call = self.config["configurable"], request.call
        message, _ = last_batch(self.state["messages"])
        known = [str(message.id if message else ""), str(call["id"])]
        ns = place["checkpoint_ns"].rpartition("|")[0]
        return Wanted(
            thread=thread,
            call=call_digest(*known),
            args=digest([call["name"], call["args"]]),
            key=digest([thread, *known, call["name"], call["args"]]),
            tool=call["name"],
            ns=ns,
            checkpoint=place["checkpoint_map"][ns],
        )
