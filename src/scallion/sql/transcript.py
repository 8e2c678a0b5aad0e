"""The conversation of a thread as it is stored, for who has neither its graph nor the classes of its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scallion.sql import deltas, summary

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

    from scallion.sql.saver import SQLCheckpointer


def transcript(saver: SQLCheckpointer, thread: str) -> Sequence[Any]:
    """The messages of the thread's outermost graph, in the channel that the session's row tells of.

    A call that finished beside one that waits has given its result already, which is the last of them here.
    """
    found = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if found is None:
        return []
    values = found.checkpoint["channel_values"]
    if channels := summary.deltas(values, found.metadata):
        return next(filter(None, (_of_delta(saver, found, channel) for channel in channels)), [])
    stored: dict[Any, Any] = {}
    for message in summary.conversation(values):
        id = deltas.id_of(message)
        stored[object() if id is None or id in stored else id] = message
    return _with_pending(stored, found, summary.channel(values) or "messages")


def _of_delta(saver: SQLCheckpointer, found: CheckpointTuple, channel: str) -> Sequence[Any]:
    """The messages that led to the checkpoint: a value, and what each step added to it."""
    past = saver.get_delta_channel_history(config=found.config, channels=[channel])[channel]
    seed = [past["seed"]] if "seed" in past else []
    return _with_pending(_added({}, channel, [*seed, *(value for _, _, value in past["writes"])]), found, channel)


def _with_pending(stored: Mapping[Any, Any], found: CheckpointTuple, channel: str) -> Sequence[Any]:
    pending = [value for _, name, value in found.pending_writes or [] if name == channel]
    return [*_added(stored, channel, pending).values()]


def _added(stored: Mapping[Any, Any], channel: str, written: Sequence[Any]) -> Mapping[Any, Any]:
    return deltas.added(stored, written, deltas.speaks_in(channel), lambda message: message)
