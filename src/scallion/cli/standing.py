"""Where a thread of an agent stands, for whoever wants to go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scallion.values import Approval

if TYPE_CHECKING:
    from scallion.agent import Agent


@dataclass(frozen=True)
class Standing:
    """Whether the thread takes a message, waits for decisions, or has a turn that did not come to its end."""

    status: Literal["idle", "paused", "interrupted"]
    approvals: Sequence[Approval] = ()


def standing(agent: Agent, thread: str) -> Standing:
    """Where the thread stands now."""
    from scallion.approvals.ledger import open_approvals

    if agent.checkpointer is None:
        return Standing("idle")
    snapshot = agent.graph.get_state({"configurable": {"thread_id": thread}})
    if snapshot.interrupts:
        ledger = getattr(agent.checkpointer, "approvals", None)
        return Standing("paused", open_approvals(snapshot.interrupts, thread, ledger))
    marker = snapshot.values.get("turn")
    # Tasks, not `next`: that leaves out a step that had finished when a kill came before its checkpoint.
    return Standing("interrupted" if snapshot.tasks or (marker and marker.get("open")) else "idle")
