"""The newest checkpoint of a thread, as far as the doctor looks at it, and the checkpoint that is put behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import Any
from uuid import UUID, uuid4

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, _DeltaSnapshot
from langgraph.graph.message import add_messages

from scallion.approvals.questions import Question, questions
from scallion.sql import deltas, summary
from scallion.sql.asking import Place
from scallion.sql.doctor.conversation import is_read, mended
from scallion.sql.doctor.standing import Standing

REPAIR = "repair"
"""Where the metadata of a checkpoint has what it repaired."""
NO_TASK = "00000000-0000-0000-0000-000000000000"
"""The task of writes that are input."""
ASIDE = {INTERRUPT, RESUME, ERROR, "__error_source_node__"}
"""The channels of writes that tell of a task, and are no result of it."""


@dataclass(frozen=True)
class Head:
    """The newest checkpoint of the outermost graph; `messages` are those of its conversation, in `channel`."""

    found: CheckpointTuple
    channel: str | None
    messages: Sequence[Any]

    @property
    def id(self) -> str:
        """Of the checkpoint."""
        return str(self.found.checkpoint["id"])

    @property
    def values(self) -> Mapping[str, Any]:
        """By channel; those of delta channels may be missing."""
        return self.found.checkpoint["channel_values"]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Of the checkpoint."""
        return self.found.metadata or {}

    @cached_property
    def work(self) -> list[str]:
        """The channels that give the graph a next step."""
        return [name for name, value in self.values.items() if summary.has_work({name: value})]

    @property
    def is_ours(self) -> bool:
        """Whether an Agent wrote it, which holds a lease while it runs."""
        account = self.values.get("loop")
        return isinstance(self.metadata.get("agent"), str) or (isinstance(account, Mapping) and "turn" in account)

    @property
    def is_uncommitted(self) -> bool:
        """Whether it has the marker of a turn that was not committed."""
        marker = self.values.get("turn")
        return self.is_ours and isinstance(marker, Mapping) and bool(marker.get("open"))

    @cached_property
    def asked(self) -> Mapping[str, Sequence[Question]]:
        """What tasks wait for an answer to, by task."""
        return waiting(self.found)

    @cached_property
    def finished(self) -> Mapping[str, Sequence[tuple[str, Any]]]:
        """What tasks wrote that came to their end, by task."""
        return {task: rows for task, rows in _outputs(self.found).items() if rows}

    @property
    def is_read(self) -> bool:
        """Whether all of the conversation can be judged."""
        return is_read(self.messages)

    @cached_property
    def given_up(self) -> Sequence[Any] | None:
        """The conversation if the turn goes on no more, an answer to each open call; None where only its graph knows.

        That is where finished tasks wrote what it would have to fold in, beside messages.
        """
        written = [value for rows in self.finished.values() for name, value in rows if name == self.channel]
        if self.further or not self.is_read:
            return None
        try:
            return mended(reduce(add_messages, written, list(self.messages))).messages  # type: ignore[arg-type]
        except Exception:  # what is no message of any form
            return None

    @property
    def further(self) -> set[str]:
        """The channels beside the conversation's that finished tasks wrote to, and that only the graph can fold in."""
        written = {name for rows in self.finished.values() for name, _ in rows}
        return {name for name in written - {self.channel} if not name.startswith(("__", "branch:", "join:"))}

    def place(self, standing: Standing, task: str) -> Place:
        """The task as one that asks."""
        user = self.metadata.get("user")
        return Place("", self.id, self.id, task, standing.owner, user if isinstance(user, str) else None)


def waiting(found: CheckpointTuple) -> dict[str, list[Question]]:
    """What the tasks of a checkpoint wait for an answer to, by task."""
    done = _outputs(found)
    asked: dict[str, list[Question]] = {}
    for task, channel, value in found.pending_writes or []:
        if channel == INTERRUPT and not done.get(task):
            asked[task] = questions([value], _answers(found, task))
    return asked


def _answers(found: CheckpointTuple, task: str) -> int:
    given = [value for by, name, value in found.pending_writes or [] if by == task and name == RESUME]
    return max((len(value) for value in given if isinstance(value, list)), default=0)


def _outputs(found: CheckpointTuple) -> dict[str, list[tuple[str, Any]]]:
    written: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in found.pending_writes or []:
        if task != NO_TASK and channel not in ASIDE:
            written.setdefault(task, []).append((channel, value))
    return written


def listed(value: Any) -> list[Any]:
    """The messages that a channel holds."""
    whole = value.value if isinstance(value, _DeltaSnapshot) else value
    return list(whole) if isinstance(whole, list) else []


def added_up(channel: str, written: Sequence[Any]) -> list[Any]:
    """The messages of a delta channel after all that was written to it."""
    return [*deltas.added({}, written, deltas.speaks_in(channel), lambda message: message).values()]


def next_checkpoint(head: Head, messages: Sequence[Any], version: Any, kinds: Sequence[str]) -> tuple[Any, Any, Any]:
    """The checkpoint behind the head that has these messages and no work, its metadata, and the new versions.

    `version`: gives the version after another.
    """
    old, name = head.found.checkpoint, head.channel
    values = {key: value for key, value in head.values.items() if key not in head.work and not _is_joint(key)}
    gone = [key for key in head.values if key not in values]
    if name is not None:
        values[name] = _in_form(head, messages)
    versions = {key: version(old["channel_versions"].get(key), None) for key in (*gone, *([name] if name else []))}
    changes = {"channel_values": values, "channel_versions": {**old["channel_versions"], **versions}}
    made = {**old, "id": _id_behind(head.id), "ts": datetime.now(UTC).isoformat(), "updated_channels": None, **changes}
    return made, _metadata(head, kinds), versions


def _is_joint(channel: str) -> bool:
    """Whether a node waits there for several: one that came already is forgotten with the step."""
    return channel.startswith("join:")


def _in_form(head: Head, messages: Sequence[Any]) -> Any:
    """The messages as their channel is stored: of a delta channel, whole."""
    value = head.values.get(head.channel or "")
    is_delta = value is None or isinstance(value, _DeltaSnapshot)
    return _DeltaSnapshot(list(messages)) if is_delta else list(messages)


def _metadata(head: Head, kinds: Sequence[str]) -> dict[str, Any]:
    step = head.metadata.get("step")
    told = {"source": "update", "step": step + 1 if isinstance(step, int) else 0, REPAIR: sorted(set(kinds))}
    made = {**head.metadata, **told, "run_id": f"repair-{uuid4().hex}"}
    counters = made.get(summary.COUNTERS)
    if isinstance(counters, Mapping):
        made[summary.COUNTERS] = {name: count for name, count in counters.items() if name != head.channel}
    return made


def _id_behind(head: str) -> str:
    """A new checkpoint id that is behind the head's, also where the clock of who wrote that is ahead."""
    new = str(uuid6(clock_seq=-2))
    return new if new > head else str(UUID(int=UUID(head).int + 1))
