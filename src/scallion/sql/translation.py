"""Between LangGraph's values and what the statements store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from scallion.errors import NotSerializable
from scallion.sql import encoding, ledger, summary
from scallion.sql.checkpoints import Contents, NewCheckpoint, StoredCheckpoint
from scallion.sql.ledger import Place
from scallion.sql.memory import Codec
from scallion.sql.writes import NewWrites, StoredWrite

APART = ("id", "channel_values", "channel_versions", "versions_seen")
"""The keys of a checkpoint that have columns or leaves of their own."""


@dataclass(frozen=True)
class Translation:
    """Turns what LangGraph gives into rows and back."""

    codec: Codec
    metadata_keys: Sequence[str] = ()

    def checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> NewCheckpoint:
        """The checkpoint with its new values serialised, which needs no transaction."""
        place = config["configurable"]
        values = checkpoint["channel_values"]
        changed = frozenset(new_versions)
        ns = place.get("checkpoint_ns", "")
        stored = self._metadata(config, metadata)
        return NewCheckpoint(
            thread=str(place["thread_id"]),
            ns=ns,
            id=checkpoint["id"],
            parent=place.get("checkpoint_id"),
            fixed={key: value for key, value in checkpoint.items() if key not in APART},
            versions=checkpoint["channel_versions"],
            seen=checkpoint["versions_seen"],
            plans={name: encoding.plan(self.codec, name, values[name]) for name in changed if name in values},
            changed=changed,
            present=frozenset(values),
            plan_again=lambda name: encoding.plan(self.codec, name, values[name]),
            metadata=stored,
            session={} if ns else summary.of(values, stored),
        )

    def _metadata(self, config: RunnableConfig, metadata: CheckpointMetadata) -> Mapping[str, Any]:
        """Metadata as JSON data. Of `configurable` only what was asked for: it is where secrets are handed over."""
        place = config.get("configurable", {})
        allowed = {key: place[key] for key in self.metadata_keys if key in place}
        merged = get_checkpoint_metadata({"metadata": config.get("metadata") or {}, "configurable": allowed}, metadata)
        try:
            return cast("Mapping[str, Any]", json.loads(json.dumps(merged)))
        except (TypeError, ValueError) as error:
            raise NotSerializable("metadata", type(error).__name__) from None

    def writes(self, config: RunnableConfig, rows: Sequence[tuple[str, Any]], task: str, path: str) -> NewWrites:
        """The writes of a task, serialised, and what they mean for approvals."""
        channels = {channel for channel, _ in rows}
        interrupts = [value for channel, value in rows if channel == INTERRUPT]
        return NewWrites(
            thread=str(config["configurable"]["thread_id"]),
            place=_place(config, task),
            path=path,
            rows=[
                (WRITES_IDX_MAP.get(channel, index), channel, encoding.plan(self.codec, channel, value))
                for index, (channel, value) in enumerate(rows)
            ],
            questions=ledger.questions(interrupts),
            failed=ERROR in channels,
            finished=not channels <= WRITES_IDX_MAP.keys() and ERROR not in channels and INTERRUPT not in channels,
        )

    def tuple(self, stored: StoredCheckpoint, pending: Sequence[StoredWrite], contents: Contents) -> CheckpointTuple:
        """The checkpoint as LangGraph knows it."""
        values = {
            name: encoding.value(self.codec, found, contents.items, contents.lists.get(name, ()))
            for name, found in stored.values.items()
        }
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

    def _value(self, write: StoredWrite, contents: Contents) -> Any:
        return encoding.value(self.codec, write.leaf, contents.items)


def _place(config: RunnableConfig, task: str) -> Place:
    place = config["configurable"]
    ns, checkpoint = place.get("checkpoint_ns", ""), place["checkpoint_id"]
    known: Mapping[str, Any] = config.get("metadata") or {}
    return Place(
        ns=ns,
        checkpoint=checkpoint,
        root=(place.get("checkpoint_map") or {}).get("", checkpoint) if ns else checkpoint,
        task=task,
        owner=owner if isinstance(owner := known.get("owner"), str) else None,
        user=user if isinstance(user := known.get("user"), str) else None,
    )


def _config(stored: StoredCheckpoint, id: str) -> RunnableConfig:
    place = {"thread_id": stored.thread, "checkpoint_ns": stored.ns, "checkpoint_id": id}
    return {"configurable": place}
