"""Between LangGraph's values and what the statements store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    EXCLUDED_METADATA_KEYS,
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from sqlalchemy import Connection

from scallion.approvals.changed import asks_again
from scallion.approvals.questions import questions
from scallion.errors import NotSerializable
from scallion.sql import deltas, encoding, names, owners, summary
from scallion.sql.asking import Place
from scallion.sql.checkpoints import Contents, NewCheckpoint, StoredCheckpoint
from scallion.sql.deltas import Delta
from scallion.sql.lineage import History
from scallion.sql.memory import Codec
from scallion.sql.sessions import Claimed
from scallion.sql.tables import Tables
from scallion.sql.writes import NewWrites, StoredWrite

TAKEN = "scallion_taken"
"""The metadata that names a message that waited in `inbound` and is in the checkpoint; it is not stored."""
SAFE = 2**53
"""Every reader of JSON reads a smaller number as it was."""
APART = ("id", "channel_values", "channel_versions", "versions_seen")
"""The keys of a checkpoint that have columns or leaves of their own."""


@dataclass(frozen=True)
class Translation:
    """Turns what LangGraph gives into rows and back."""

    codec: Codec
    metadata_keys: Sequence[str] = ()
    owner: str | None = None
    """Whose threads may be written to; None: everybody's."""

    def checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> NewCheckpoint:
        """The checkpoint with its new values serialised, which needs no transaction."""
        thread, ns, parent = names.address(config)
        id = names.text("checkpoint id", checkpoint["id"])
        values = checkpoint["channel_values"]
        changed = frozenset(new_versions)
        stored = self._metadata(config, metadata)
        self._check_owner(stored)
        answered, taken = stored.pop("answered", None), stored.pop(TAKEN, None)

        def plan(name: str) -> encoding.Plan:
            return encoding.plan(self.codec, name, values[name], self.codec.memory.series(thread, ns, name))

        return NewCheckpoint(
            thread=thread,
            ns=ns,
            id=id,
            parent=parent,
            fixed={key: value for key, value in checkpoint.items() if key not in APART},
            versions=checkpoint["channel_versions"],
            seen=checkpoint["versions_seen"],
            plans={name: plan(name) for name in changed if name in values},
            changed=changed,
            present=frozenset(values),
            plan_again=plan,
            metadata=stored,
            answered=answered if isinstance(answered, str) else None,
            taken=taken if isinstance(taken, int) and not ns else None,
            session={} if ns else summary.of(values, stored),
            told=deltas.teller(self.codec, parent, id, values, stored),
            owner=self.owner,
        )

    def head(self, conn: Connection, t: Tables, claimed: Claimed, stored: CheckpointTuple) -> dict[str, Any]:
        """What the thread's row says when this stored checkpoint is its head."""
        values, metadata = stored.checkpoint["channel_values"], cast("Mapping[str, Any]", stored.metadata)
        changes = summary.of(values, metadata) | {"head": stored.checkpoint["id"]}
        each = Delta.each(conn, t, self.codec, claimed, channels := summary.deltas(values, metadata))
        return changes | (deltas.told(one.at(stored.checkpoint["id"]) for one in each) if channels else {})

    def _metadata(self, config: RunnableConfig, metadata: CheckpointMetadata) -> dict[str, Any]:
        """Metadata as JSON data. Of `configurable` only what was asked for: it is where secrets are handed over."""
        place = config.get("configurable", {})
        allowed = {key: place[key] for key in self.metadata_keys if key in place}
        merged = _merged(metadata, config.get("metadata") or {}, allowed)
        if all(map(_is_flat, merged, merged.values())):  # as nearly always: JSON would give back the same
            return merged
        try:
            if not _has_names(merged):
                raise NotSerializable("metadata", "dict", "its keys must be texts")
            return cast("dict[str, Any]", json.loads(json.dumps(merged)))
        except (TypeError, ValueError, RecursionError) as error:
            raise NotSerializable("metadata", type(error).__name__) from None

    def writes(self, config: RunnableConfig, rows: Sequence[tuple[str, Any]], task: str, path: str) -> NewWrites:
        """The writes of a task, serialised, and what they mean for approvals."""
        thread = names.address(config).thread
        self._check_owner(config.get("metadata") or {})
        channels = {channel for channel, _ in rows}
        interrupts = [value for channel, value in rows if channel == INTERRUPT]
        given = max((one for channel, one in rows if channel == RESUME and isinstance(one, list)), key=len, default=[])
        return NewWrites(
            thread=thread,
            place=_place(config, task),
            path=path,
            rows=[
                (
                    WRITES_IDX_MAP.get(channel, index),
                    channel,
                    encoding.plan(self.codec, channel, _written(channel, value)),
                )
                for index, (channel, value) in enumerate(rows)
            ],
            questions=questions(interrupts, len(given)),
            answers=len(given),
            asks_again=asks_again(given) is not None,
            failed=ERROR in channels,
            finished=not channels <= WRITES_IDX_MAP.keys() and ERROR not in channels and INTERRUPT not in channels,
            owner=self.owner,
        )

    def _check_owner(self, metadata: Mapping[str, Any]) -> None:
        if self.owner is not None and (named := names.somebody(metadata, "owner")):
            owners.narrow(self.owner, named)

    def history(self, stored: StoredCheckpoint, found: History, contents: Contents) -> dict[str, DeltaChannelHistory]:
        """The history of delta channels as LangGraph knows it; `contents` are those of its seeds and writes."""
        seeds = self._values(replace(stored, values=found.seeds), contents)
        return {
            name: {
                "writes": [(task, name, encoding.value(self.codec, leaf, contents.items)) for task, leaf in written],
                **({"seed": seeds[name]} if name in seeds else {}),  # type: ignore[typeddict-item]
            }
            for name, written in found.writes.items()
        }

    def tuple(self, stored: StoredCheckpoint, pending: Sequence[StoredWrite], contents: Contents) -> CheckpointTuple:
        """The checkpoint as LangGraph knows it."""
        values = self._values(stored, contents)
        checkpoint = {
            **stored.fixed,
            "id": stored.id,
            "channel_values": values,
            "channel_versions": dict(stored.versions),
            "versions_seen": {node: dict(versions) for node, versions in stored.seen.items()},
        }
        return CheckpointTuple(
            config=_config(stored, stored.id),
            checkpoint=cast("Checkpoint", checkpoint),
            metadata=cast("CheckpointMetadata", stored.metadata),
            parent_config=_config(stored, stored.parent) if stored.parent else None,
            pending_writes=[(write.task, write.channel, self._value(write, contents)) for write in pending],
        )

    def _values(self, stored: StoredCheckpoint, contents: Contents) -> dict[str, Any]:
        return {
            name: self.codec.load_list((stored.thread, stored.ns, name), contents.lists[name], contents.items)
            if name in contents.lists
            else encoding.value(self.codec, found, contents.items)
            for name, found in stored.values.items()
        }

    def _value(self, write: StoredWrite, contents: Contents) -> Any:
        return encoding.value(self.codec, write.leaf, contents.items)


def _is_flat(key: Any, value: Any) -> bool:
    """Whether JSON has this entry as it is."""
    kind = type(value)
    return type(key) is str and (kind is str or value is None or value == {} or (kind is int and -SAFE < value < SAFE))


def _has_names(value: Any) -> bool:
    """Whether all keys of dicts are texts: JSON would make texts of them."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_names(part) for key, part in value.items())
    return all(map(_has_names, value)) if isinstance(value, list | tuple) else True


def _written(channel: str, value: Any) -> Any:
    """What a task wrote; of the error that it failed with, LangGraph's savers keep what they can show."""
    return repr(value) if channel == ERROR and isinstance(value, BaseException) else value


def _merged(metadata: Mapping[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata, and of the others what is plain and not LangGraph's own; texts as they are, NULs included."""
    merged = dict(metadata)
    for key, value in (one for other in others for one in other.items()):
        if key in merged or key in EXCLUDED_METADATA_KEYS or key.startswith("__"):
            continue
        if isinstance(value, str | int | float | UUID):
            merged[key] = str(value) if isinstance(value, UUID) else value
    return merged


def _place(config: RunnableConfig, task: str) -> Place:
    _, ns, id = names.address(config)
    checkpoint = names.text("checkpoint id", id)
    above = config["configurable"].get("checkpoint_map") or {}
    known: Mapping[str, Any] = config.get("metadata") or {}
    return Place(
        ns=ns,
        checkpoint=checkpoint,
        root=names.text("checkpoint id", above.get("", checkpoint)) if ns else checkpoint,
        task=names.text("task id", task),
        owner=names.somebody(known, "owner"),
        user=names.somebody(known, "user"),
    )


def _config(stored: StoredCheckpoint, id: str) -> RunnableConfig:
    place = {"thread_id": stored.thread, "checkpoint_ns": stored.ns, "checkpoint_id": id}
    return {"configurable": place}
