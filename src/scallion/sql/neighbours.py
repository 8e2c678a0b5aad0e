"""The tables of LangGraph's own savers, for SQLite and PostgreSQL, as they are read: nothing of them is changed.

SQLite has the values of all channels in each checkpoint. PostgreSQL has plain ones in the checkpoint and the others in
`checkpoint_blobs`, by channel and version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.types import TASKS
from sqlalchemy import Connection, Engine, NullPool, and_, column, create_engine, func, inspect, literal, select, table
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from scallion.errors import ConfigurationError, StorageError
from scallion.sql import opaque
from scallion.sql.opaque import JSON, Value
from scallion.sql.opening import opened, parsed

KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
CHECKPOINTS = table("checkpoints", *map(column, (*KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata")))
BLOBS = table("checkpoint_blobs", *map(column, (*KEY[:2], "channel", "version", "type", "blob")))
WRITE = (*KEY, "task_id", "task_path", "idx", "channel", "type")
WRITES = {
    "sqlite": table("writes", *map(column, (*WRITE, "value"))),
    "postgresql": table("checkpoint_writes", *map(column, (*WRITE, "blob"))),
}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A checkpoint of another saver. `values` has what gives the values, by channel."""

    ns: str
    id: str
    parent: str | None
    fixed: Mapping[str, Any]
    versions: Mapping[str, Any]
    seen: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Callable[[], Value]]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What one task of a checkpoint wrote: (index, channel, value) each."""

    task: str
    path: str
    rows: Sequence[tuple[int, str, Value]]


class Neighbour:
    """The database of one of LangGraph's savers, at one moment."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._writes = WRITES[conn.dialect.name]
        self._check_tables()

    def _check_tables(self) -> None:
        inspector = inspect(self._conn)
        there = {one: {c["name"] for c in inspector.get_columns(one)} for one in inspector.get_table_names()}
        needed = [CHECKPOINTS, self._writes, *([] if self._inline else [BLOBS])]
        lacking = [
            f"{one.name}.{c.name}"
            for one in needed
            for c in one.columns
            if c.name not in there.get(one.name, ()) and c.name != "task_path"
        ]
        if lacking:
            raise ConfigurationError(
                f"this is not the database of a LangGraph saver, or of a very old one: it has no {', '.join(lacking)}"
            )
        self._has_path = "task_path" in there[self._writes.name]

    @property
    def _inline(self) -> bool:
        return self._conn.dialect.name == "sqlite"

    def threads(self) -> list[str]:
        """The names of all threads."""
        thread = CHECKPOINTS.c.thread_id
        return list(self._conn.execute(select(thread).distinct().order_by(thread)).scalars())

    def has(self, thread: str) -> bool:
        """Whether there is such a thread."""
        thread_id = CHECKPOINTS.c.thread_id
        return self._conn.execute(select(thread_id).where(thread_id == thread).limit(1)).first() is not None

    def head(self, thread: str) -> str | None:
        """The newest checkpoint of the outermost graph."""
        c = CHECKPOINTS.c
        head: str | None = self._conn.execute(
            select(func.max(c.checkpoint_id)).where(c.thread_id == thread, c.checkpoint_ns == "")
        ).scalar()
        return head

    def checkpoints(self, thread: str) -> Iterator[Foreign]:
        """The checkpoints of all namespaces, oldest first; one is in memory at a time."""
        c = CHECKPOINTS.c
        keys = select(c.checkpoint_ns, c.checkpoint_id).where(c.thread_id == thread)
        stored: dict[str, set[tuple[str, str]]] = {}
        for ns, id in self._conn.execute(keys.order_by(c.checkpoint_id, c.checkpoint_ns)).all():
            if not self._inline and ns not in stored:
                stored[ns] = self._stored(thread, ns)
            yield self._checkpoint(thread, ns, id, stored.get(ns, set()))

    def _checkpoint(self, thread: str, ns: str, id: str, stored: set[tuple[str, str]]) -> Foreign:
        c = CHECKPOINTS.c
        row = self._conn.execute(select(CHECKPOINTS).where(_at(c, thread, ns, id))).one()
        if self._inline:
            kind, content = _opened(row)
            values = {name: _given(Value(kind, one)) for name, one in content.pop("channel_values", {}).items()}
        else:
            kind, content = JSON, dict(row.checkpoint)
            values = self._separate(thread, ns, content, stored)
        found = Foreign(
            ns=ns,
            id=id,
            parent=row.parent_checkpoint_id or None,
            versions=content.pop("channel_versions", None) or {},
            seen=content.pop("versions_seen", None) or {},
            fixed={name: one for name, one in content.items() if name != "id"},
            values=values,
            metadata=_metadata(row.metadata),
        )
        return self._with_sends(thread, found, kind) if content.get("v", 1) < 4 else found

    def _stored(self, thread: str, ns: str) -> set[tuple[str, str]]:
        """The channels and versions that have a blob."""
        b = BLOBS.c
        query = select(b.channel, b.version).where(b.thread_id == thread, b.checkpoint_ns == ns, b.type != "empty")
        return {(channel, version) for channel, version in self._conn.execute(query)}

    def _separate(
        self, thread: str, ns: str, content: dict[str, Any], stored: set[tuple[str, str]]
    ) -> dict[str, Callable[[], Value]]:
        plain = content.pop("channel_values", None) or {}
        values = {name: _given(opaque.plain(one)) for name, one in plain.items()}
        for channel, version in content.get("channel_versions", {}).items():
            if (channel, str(version)) in stored:
                values[channel] = partial(self._blob, thread, ns, channel, str(version))
        return values

    def _blob(self, thread: str, ns: str, channel: str, version: str) -> Value:
        b = BLOBS.c
        here = and_(b.thread_id == thread, b.checkpoint_ns == ns, b.channel == channel, b.version == version)
        type, data = self._conn.execute(select(b.type, b.blob).where(here)).one()
        return opaque.value(f"channel {channel!r}", type, data)

    def _with_sends(self, thread: str, found: Foreign, kind: opaque.Opaque) -> Foreign:
        """A checkpoint from before version 4, when only their parents' writes had the tasks that were sent."""
        fixed = dict(found.fixed)
        inline = fixed.pop("pending_sends", None)
        sent = [Value(kind, one) for one in inline or ()]
        if not sent and found.parent:
            written = (row for task in self.writes(thread, found.ns, found.parent) for row in task.rows)
            sent = [one for _, channel, one in written if channel == TASKS]
        if not sent:
            return replace(found, fixed=fixed)
        version = max(found.versions.values(), default=1)
        values = {**found.values, TASKS: _given(opaque.joined(sent))}
        return replace(found, fixed=fixed, values=values, versions={**found.versions, TASKS: version})

    def writes(self, thread: str, ns: str, id: str) -> list[Task]:
        """What the tasks of this checkpoint wrote, in the order of (path, task, index)."""
        w = self._writes.c
        path = w.task_path if self._has_path else literal("")
        data = w.value if self._inline else w.blob
        query = select(path, w.task_id, w.idx, w.channel, w.type, data).where(_at(w, thread, ns, id))
        rows = sorted(self._conn.execute(query).all(), key=lambda row: tuple(row)[:3])
        return [
            Task(
                task, path, [(row[2], row[3], opaque.value(f"a write to {row[3]!r}", row[4], row[5])) for row in group]
            )
            for (path, task), group in groupby(rows, key=lambda row: (row[0], row[1]))
        ]


def _given(value: Value) -> Callable[[], Value]:
    return lambda: value


def _at(c: Any, thread: str, ns: str, id: str) -> Any:
    return and_(c.thread_id == thread, c.checkpoint_ns == ns, c.checkpoint_id == id)


def _opened(row: Any) -> tuple[opaque.Opaque, dict[str, Any]]:
    found = opaque.value("a checkpoint", row.type, row.checkpoint)
    if not isinstance(found.content, dict):
        raise StorageError("a checkpoint is damaged: it holds no channels")
    return found.kind, found.content


def _metadata(stored: Any) -> dict[str, Any]:
    try:
        found = json.loads(stored) if isinstance(stored, str | bytes) else stored
    except ValueError:
        raise StorageError("the metadata of a checkpoint is damaged: it is no JSON") from None
    return found if isinstance(found, dict) else {}


@contextmanager
def reading(url: str) -> Iterator[Neighbour]:
    """The neighbour at this URL, of which everything is read as of now. Raises ConfigurationError, StorageError."""
    engine = _engine(url)
    try:
        with engine.connect() as conn:
            if conn.dialect.name == "sqlite":
                conn.exec_driver_sql("BEGIN")
            yield Neighbour(conn)
    except DBAPIError as error:
        told = str(error.orig).splitlines()[0] if str(error.orig) else ""
        raise StorageError(f"LangGraph's database cannot be read: {type(error.orig).__name__}: {told}") from error.orig
    finally:
        engine.dispose()


def _engine(url: str) -> Engine:
    """An engine for what LangGraph takes: a path, or what psycopg takes; and for the URLs that we take."""
    target = parsed(url if "://" in url else f"sqlite:///{url}")
    backend = target.drivername.split("+")[0]
    if backend == "sqlite":
        file = Path(target.database or "").absolute()
        if not file.is_file():
            raise StorageError(f"there is no database at {file}")
        read_only = URL.create("sqlite", database=file.as_uri(), query={"mode": "ro", "uri": "true"})
        return create_engine(read_only, poolclass=NullPool, connect_args={"check_same_thread": False})
    if backend not in ("postgres", "postgresql"):
        raise ConfigurationError(f"LangGraph's savers use SQLite or PostgreSQL, not {backend}")
    return opened(target.set(drivername="postgresql+psycopg"))[1].execution_options(isolation_level="REPEATABLE READ")
