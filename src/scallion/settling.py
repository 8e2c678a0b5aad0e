"""What the open calls of a turn are answered with that is ended without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from scallion.approvals.payload import placed
from scallion.approvals.questions import questions
from scallion.filters.effects import recorded
from scallion.filters.environment import failure
from scallion.history import calls_of, last_batch, open_calls
from scallion.values import Approval

UNKNOWN_OUTCOME = "the turn was interrupted before this call gave a result; whether it took effect is not known"
SUPERSEDED = "not run: the person went on with another message"
RAN = "it ran before the turn was closed; what came of it is not known"
CANCELLED = "cancelled"
STOPPED = "not run: a guard stopped the turn"
LATE = "the request to approve this call expired unanswered; it did not run"
BEGUN = "it had begun before the turn was closed; what it did until then is not known"


def answered(
    saver: Any, thread: str, history: Sequence[BaseMessage], interrupts: Sequence[Any], text: str
) -> list[ToolMessage]:
    """A result for each open call: the recorded one of an effect, what is known of one that ran, or else `text`."""
    messages = list(history)
    calls, batch = open_calls(messages), last_batch(messages)[0]
    known = recorded(saver, thread, batch, calls)
    ran = dict(_ran(interrupts, [str(one["id"]) for one in calls_of(batch)] if batch else []))
    return [
        known.get(one["id"])
        or ToolMessage(
            UNKNOWN_OUTCOME if one["id"] in known else ran.get(one["id"], text),
            tool_call_id=one["id"],
            name=one["name"],
            status="error",
        )
        for one in calls
    ]


def _ran(interrupts: Sequence[Any], order: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is known, by id, of the calls that ran before the pause, whole or in part; `order`: the ids of the batch."""
    for one in (each.approval("") for each in questions(interrupts)):
        place = placed(one.bound)
        if one.bound.get("ran") and not one.bound.get("depth"):
            yield str(one.call_id), failure(one.description) if one.kind == "environment" else RAN
        elif _asks_inside(one) and place and place[0] < len(order):
            yield order[place[0]], BEGUN


def _asks_inside(approval: Approval) -> bool:
    """Whether the tool itself asks, or what runs in it: an agent, or a graph."""
    return bool(approval.bound.get("depth")) or approval.bound.get("layer") == ""
