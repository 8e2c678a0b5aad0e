"""Where a thread of an agent stands, for whoever wants to go on with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from scallion.values import Approval, Completed, Paused

if TYPE_CHECKING:
    from scallion.agent import Agent


@dataclass(frozen=True)
class Standing:
    """Whether the thread takes a message, waits for decisions, or has a turn that did not come to its end.

    `cancelled`: it was paused, and nobody can decide any more; the turn is still to be closed.
    """

    status: Literal["idle", "paused", "interrupted", "cancelled"]
    approvals: Sequence[Approval] = ()
    unfinished: Sequence[str] = ()
    """The tools of calls that had begun, or were about to, when the turn was interrupted: they run again."""


def resuming(graph: str, thread: str) -> str:
    """The command that goes on with the thread."""
    return shlex.join(["scallion", "resume", graph, thread])


def behind_a_change(graph: str, thread: str) -> str:
    """The ways on from a pause that the program does not answer to any more: resuming it again fails again."""
    give_up = shlex.join(["scallion", "cancel", thread, "--graph", graph])
    return (
        f'; resume it with the program that asked, or build the agent with on_changed="ask"; to give it up: {give_up}'
    )


def standing(agent: Agent, thread: str) -> Standing:
    """Where the thread stands now."""
    from scallion.approvals.ledger import open_approvals
    from scallion.threads import why_closed

    if agent.checkpointer is None:
        return Standing("idle")
    snapshot = agent.graph.get_state({"configurable": {"thread_id": thread}})
    if snapshot.interrupts:
        ledger = getattr(agent.checkpointer, "approvals", None)
        approvals = open_approvals(snapshot.interrupts, thread, ledger)
        return Standing("cancelled" if why_closed(approvals) else "paused", approvals)
    marker = snapshot.values.get("turn")
    # Tasks, not `next`: that leaves out a step that had finished when a kill came before its checkpoint.
    if snapshot.tasks or (marker and marker.get("open")):
        return Standing("interrupted", unfinished=_unfinished(snapshot))
    return Standing("idle")


def _unfinished(snapshot: Any) -> list[str]:
    from scallion.history import open_calls

    running = sum(task.name == "tool" and task.result is None for task in snapshot.tasks)
    return [call["name"] for call in open_calls(snapshot.values.get("messages") or [])[:running]]


def aside(result: Completed | Paused, thread: str) -> str:
    """What became of a message that found its thread paused; nothing where it began a turn there."""
    if isinstance(result, Paused):
        return f"{result.queued} message(s) queued: answered when that is decided" if result.queued else ""
    if result.thread in (None, thread):
        return ""
    return f"answered in thread {result.thread}; thread {thread} still waits for a decision"
