"""Threads of LangGraph's own savers become ours: every checkpoint with its writes, and what is open as approvals.

Their values are not rebuilt, but for what a listing shows: the messages of the newest checkpoint, and the questions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from sqlalchemy import Connection

from scallion.approvals.questions import Question, questions
from scallion.errors import StorageError
from scallion.sql import asking, checkpoints, clock, deltas, names, sessions, summary, writes
from scallion.sql.asking import Place
from scallion.sql.checkpoints import NewCheckpoint
from scallion.sql.memory import Codec, Memory
from scallion.sql.neighbours import Foreign, Neighbour, Task
from scallion.sql.opaque import Value
from scallion.sql.tables import Tables
from scallion.sql.writes import NewWrites

THEIRS = ("source", "step", "parents", "writes", "run_id", "ls_integration", summary.COUNTERS)
KEPT = frozenset((*THEIRS, "owner", "user", *summary.AGENTS))
"""The metadata that LangGraph or a listing needs.

All else may be of `configurable`, which LangGraph's savers copy: it is where secrets are handed over.
"""
ALL = "*"
"""As a key of metadata: every one."""


def move(
    conn: Connection, t: Tables, theirs: Neighbour, thread: str, now: Any, keys: Collection[str] = ()
) -> Collection[str]:
    """Store a neighbour's thread, with its own times; `now` is for checkpoints that tell none.

    `keys`: of its metadata, what is taken along beside `KEPT`. Returns the keys that were left out.
    Raises StorageError if we have one of that name, or for what cannot be moved.
    """
    try:
        moving = _Moving(conn, t, theirs, thread, theirs.head(thread), now, keys)
        for found in theirs.checkpoints(thread):
            moving.take(found)
        moving.ask()
        return moving.left_out
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise StorageError("its rows hold what no saver of LangGraph writes") from error


class _Moving:
    """One thread on its way."""

    def __init__(
        self,
        conn: Connection,
        t: Tables,
        theirs: Neighbour,
        thread: str,
        head: str | None,
        now: Any,
        keys: Collection[str],
    ) -> None:
        self._conn = conn
        self._t = replace(t, tells=False) if t.tells else t  # it was told where the thread came from
        self._theirs = theirs
        self._thread = thread
        self._memory = Memory()
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=None)  # of other classes it gives the plain data
        self._codec = Codec(self._serde, self._memory)
        self._head = head
        self._now = now
        self._keys = keys
        self.left_out: set[str] = set()
        self._asked: list[tuple[Place, list[Question]]] = []
        self._session: int | None = None

    def take(self, found: Foreign) -> None:
        """Store a checkpoint and its writes."""
        found = replace(found, metadata=self._kept(found.metadata))
        self._now = _micros(found.fixed.get("ts")) or self._now
        if self._session is None:
            self._session = sessions.vacant(self._conn, self._t, self._thread, self._now).no
        shown = self._shown(found)
        tells = deltas.teller(self._codec, found.parent, found.id, shown, found.metadata)
        new = NewCheckpoint(
            thread=self._thread,
            ns=found.ns,
            id=found.id,
            parent=found.parent,
            fixed=found.fixed,
            versions=found.versions,
            seen=found.seen,
            plans={},
            changed=frozenset(found.versions.keys() - found.values.keys()),  # not even what the parent has of them
            present=frozenset(found.values),
            plan_again=lambda name: found.values[name]().plan(name),
            metadata=found.metadata,
            session={} if found.ns else summary.of(shown, found.metadata),
            told=tells if self._is_head(found) else None,
        )
        checkpoints.put(self._conn, self._t, self._memory, new, self._now).keep()
        for task in self._theirs.writes(self._thread, found.ns, found.id):
            self._write(found, task)

    def _kept(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        kept = {key: value for key, value in metadata.items() if key in KEPT or key in self._keys or ALL in self._keys}
        self.left_out |= metadata.keys() - kept.keys()
        return kept

    def _shown(self, found: Foreign) -> dict[str, Any]:
        """The values that a listing depends on, which is the newest checkpoint's affair."""
        return {name: self._rebuilt(one()) for name, one in found.values.items()} if self._is_head(found) else {}

    def _is_head(self, found: Foreign) -> bool:
        return found.ns == "" and found.id == self._head

    def _write(self, found: Foreign, task: Task) -> None:
        channels = {channel for _, channel, _ in task.rows}
        place = self._place(found, task)
        new = NewWrites(
            thread=self._thread,
            place=place,
            path=task.path,
            rows=[(index, channel, value.plan(channel)) for index, channel, value in task.rows],
            failed=ERROR in channels,
        )
        writes.put(self._conn, self._t, self._memory, new, self._now).keep()
        if INTERRUPT in channels and channels <= WRITES_IDX_MAP.keys():  # it has not come to its end
            asked = [self._rebuilt(value) for _, channel, value in task.rows if channel == INTERRUPT]
            answers = [self._rebuilt(value) for _, channel, value in task.rows if channel == RESUME]
            number = max((len(one) for one in answers if isinstance(one, list)), default=0)
            self._asked.append((place, questions(asked, 0 if ERROR in channels else number)))

    def _place(self, found: Foreign, task: Task) -> Place:
        parents: Mapping[str, Any] = found.metadata.get("parents") or {}
        return Place(
            ns=found.ns,
            checkpoint=found.id,
            root=str(parents.get("", found.id)) if found.ns else found.id,
            task=task.task,
            owner=names.somebody(found.metadata, "owner"),
            user=names.somebody(found.metadata, "user"),
        )

    def ask(self) -> None:
        """Record what is open: what tasks of the newest checkpoint wait for, each where it was asked first."""
        waiting = {
            question.id
            for place, asked in self._asked
            if place.ns == "" and place.checkpoint == self._head
            for question in asked
        }
        for place, asked in sorted(self._asked, key=lambda pair: -len(pair[0].ns.split("|")) if pair[0].ns else 0):
            if (
                self._session
                and place.root == self._head
                and (now := [question for question in asked if question.id in waiting])
            ):
                asking.ask(self._conn, self._t, self._session, place, now, self._now)

    def _rebuilt(self, value: Value) -> Any:
        logger = logging.getLogger("langgraph.checkpoint.serde.jsonplus")
        before, logger.disabled = logger.disabled, True  # it warns of every class that is not rebuilt
        try:
            return self._serde.loads_typed(value.typed())
        finally:
            logger.disabled = before


def _micros(ts: Any) -> int | None:
    """The instant of a checkpoint."""
    try:
        return clock.to_micros(datetime.fromisoformat(ts))
    except (TypeError, ValueError):  # none, or without a zone
        return None
