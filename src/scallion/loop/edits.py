"""What a reply of the chat chain writes: the message, and what filters changed of the conversation in front of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from scallion.filters.replies import normalised
from scallion.history import calls_of, changes, with_ids
from scallion.values import ChatReply


def written_by(reply: ChatReply, state: Mapping[str, Any]) -> dict[str, Any]:
    """The writes to the channels of the loop graph; results that answer no call of the message are left out."""
    before: list[BaseMessage] = state["messages"]
    after = before if reply.stored is None else with_ids(reply.stored)
    message = normalised(reply.message, after)
    calls = {call["id"] for call in calls_of(message)}
    results = [one for one in reply.results if one.tool_call_id in calls]
    edits = None if after is before else changes(before, after)
    written: dict[str, Any] = {"messages": [*(edits or ()), message, *results]}
    return written if edits is None else written | _rebased(state, before, after)


def _rebased(state: Mapping[str, Any], before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> dict[str, Any]:
    """The marker of the open turn, where there is one, for the history that it stands on now."""
    marker = state.get("turn") or {}
    if not marker.get("open"):
        return {}
    own = state["base"] if marker["replaced"] else before[: marker["base_length"]]
    base = {one.id for one in own}
    turn = {one.id for one in before} - base
    length = next((place for place, one in enumerate(after) if one.id in turn), len(after))
    left = {one.id for one in after}
    kept = [one for one in marker["kept"] if one.id in left]
    written: dict[str, Any] = {"turn": {**marker, "base_length": length, "kept": kept, "edited": True}}
    return written | {"base": list(after[:length])} if marker["replaced"] else written


def base_after(values: Mapping[str, Any], base: Any, kept: Any) -> tuple[Any, Any]:
    """The history before the turn and its request, after a loop in which filters may have changed them."""
    marker = values.get("turn") or {}
    if not marker.get("edited"):
        return base, kept
    stored = values.get("base") if marker["replaced"] else values["messages"][: marker["base_length"]]
    return stored, marker["kept"]
