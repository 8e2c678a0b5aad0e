"""The checkpointer: LangGraph's saver interface, both colours, over the statements of this package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from sqlalchemy import Connection
from sqlalchemy.engine import URL, Engine

from scallion.errors import ConfigurationError
from scallion.sql import checkpoints, clock, lifecycle, lineage, names, pruning, resealing, sessions, writes
from scallion.sql.auditing import Audited
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.cipher import cipher
from scallion.sql.clock import Clock
from scallion.sql.closing import Closing
from scallion.sql.delivering import Telling
from scallion.sql.doctor.doctor import Examining
from scallion.sql.effects import Keeping
from scallion.sql.engines import Database
from scallion.sql.failures import Vanished, Work
from scallion.sql.history import Remembering
from scallion.sql.inbound import Receiving
from scallion.sql.leases import Leases, carried
from scallion.sql.memory import Codec, Known, Memory
from scallion.sql.owners import Owned
from scallion.sql.resuming import Resuming
from scallion.sql.serde import StrictSerializer
from scallion.sql.sessions import SessionStatus
from scallion.sql.standing import Ruled
from scallion.sql.tables import tables
from scallion.sql.translation import Translation
from scallion.sql.travelling import Travelling
from scallion.sql.views import Approvals, Sessions
from scallion.sql.walk import Walk

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine


class SQLCheckpointer(
    Owned,
    Resuming,
    Keeping,
    Receiving,
    Audited,
    Ruled,
    Examining,
    Telling,
    Remembering,
    Travelling,
    Closing,
    BaseCheckpointSaver[Any],
):
    """Keeps the threads of any LangGraph graph in a SQL database, for sync and async callers alike.

    `url_or_engine`: a SQLAlchemy URL (`sqlite:///agent.db`, `postgresql+psycopg://...`), an `Engine`, an `AsyncEngine`.
    `key`: encrypts what is stored: 32 bytes or their text, or several keys, of which the database has one.
    `schema`: of the tables, on a server; `prefix`: of their names. `serde`: LangGraph's serializer, by default a strict
    one. `metadata_keys`: keys of `configurable` that are copied into the metadata; no others are. `auto_upgrade`:
    migrate on first use, by default for SQLite only. `clock`: gives aware times instead of the database.
    `lease_seconds`: how long the thread of an agent's turn stays held when its process dies; None: a thread is held
    against other turns of this process alone. `outbox`: have `outbox` tell of each
    approval. Raises ConfigurationError for what is not supported.
    """

    def __init__(
        self,
        url_or_engine: str | URL | Engine | AsyncEngine,
        *,
        key: Any = None,
        schema: str | None = None,
        prefix: str = "",
        serde: SerializerProtocol | None = None,
        metadata_keys: Sequence[str] = (),
        auto_upgrade: bool | None = None,
        clock: Clock | None = None,
        lease_seconds: float | None = 30,
        outbox: bool = False,
    ) -> None:
        super().__init__(serde=serde or StrictSerializer())
        self.database = Database(
            url_or_engine, tables(prefix, schema, outbox), key=key, auto_upgrade=auto_upgrade, clock=clock
        )
        self.metadata_keys = tuple(names.texts("key of configurable", metadata_keys))
        self._memory = Memory()
        self.leases = None if lease_seconds is None else Leases(self.database, self._memory, lease_seconds)
        self.writers = self.leases or Leases(self.database, self._memory, 30)
        self.approvals = Approvals(self.database)
        self.sessions = Sessions(self.database)

    def setup(self) -> None:
        """Create the tables, or bring them up to date."""
        self.database.setup(upgrade=True)

    async def asetup(self) -> None:
        """As `setup`."""
        await self.database.asetup(upgrade=True)

    def rekey(self, key: Any) -> int:
        """Encrypt everything with another key, or with None decrypt it; how many threads that were.

        Others may go on meanwhile if they have both keys. Afterwards nothing is sealed with another key; after an
        interruption, do it again. Raises WrongKey; ConfigurationError where it is bound to one owner; StorageError
        where an SQLite file could not be rid of old values.
        """
        if self.owner is not None:
            raise ConfigurationError("this is bound to one owner: a whole database is encrypted by who knows all of it")
        return resealing.rekey(self.database, cipher(key))

    async def arekey(self, key: Any) -> int:
        """As `rekey`, in a thread."""
        return await asyncio.to_thread(self.rekey, key)

    def status(self, thread: str) -> SessionStatus | None:
        """Whether the thread is "idle", "running", "paused" or "failed"; None if there is none. Reads no checkpoint."""
        return self.database.run(self._status(thread))

    async def astatus(self, thread: str) -> SessionStatus | None:
        """As `status`."""
        return await self.database.arun(self._status(thread))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the newest of its thread and namespace."""
        found = self.database.find(self._find(config))
        return found and self._translation.tuple(*found)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        found = await self.database.afind(self._find(config))
        return found and self._translation.tuple(*found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; `filter` compares metadata. Other calls may be made while iterating."""
        walk = Walk(config, filter, before, limit)
        while walk.is_open:
            yield from self._tuples(walk, *self.database.run(self._page(walk)))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        walk = Walk(config, filter, before, limit)
        while walk.is_open:
            for found in self._tuples(walk, *(await self.database.arun(self._page(walk)))):
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and move its session on, in one transaction. Raises NotSerializable."""
        work, stored = self._put(config, checkpoint, metadata, new_versions)
        self.database.store(work, self._memory, stored["configurable"]["thread_id"])
        return stored

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        work, stored = self._put(config, checkpoint, metadata, new_versions)
        await self.database.astore(work, self._memory, stored["configurable"]["thread_id"])
        return stored

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote and the approvals that follow from it, at once. Raises NotSerializable."""
        self.database.store(*self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
        await self.database.astore(*self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete the thread and everything that belongs to it."""
        self.sessions.delete(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await self.sessions.adelete(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, with their writes."""
        self.database.run(self._delete_runs(run_ids), write=True)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await self.database.arun(self._delete_runs(run_ids), write=True)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a whole thread, what waits in it included. Raises StorageError if the target exists."""
        work, unsure = self._copy(source_thread_id, target_thread_id)
        self.database.run(work, write=True, unsure=unsure)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        work, unsure = self._copy(source_thread_id, target_thread_id)
        await self.database.arun(work, write=True, unsure=unsure)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace, or, with "delete", nothing.

        A checkpoint that stays keeps what its delta channels are made of.
        """
        self.database.run(self._prune(thread_ids, strategy), write=True)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await self.database.arun(self._prune(thread_ids, strategy), write=True)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What leads to the values of delta channels at a checkpoint: by channel a value and the writes after it.

        Raises StorageError if the checkpoint that `config` names is gone.
        """
        found = self.database.run(self._history(config, channels))
        return self._translation.history(*found) if found else {name: {"writes": []} for name in channels}

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        found = await self.database.arun(self._history(config, channels))
        return self._translation.history(*found) if found else {name: {"writes": []} for name in channels}

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version after `current`: counts up, also from the texts that LangGraph's own SQL savers use."""
        if isinstance(current, str):
            head, _, tail = current.partition(".")
            return f"{int(head) + 1:0{len(head)}}.{tail}"
        return (current or 0) + 1

    @property
    def _translation(self) -> Translation:
        return Translation(Codec(self.serde, self._memory), self.metadata_keys, self.owner)

    def _status(self, thread: str) -> Work[SessionStatus | None]:
        thread = names.text("thread id", thread)
        return lambda conn: sessions.status(conn, self.database.tables, thread, self.owner)

    def _delete_runs(self, run_ids: Sequence[str]) -> Work[None]:
        runs = names.texts("run_id", run_ids)

        def work(conn: Connection) -> None:
            for thread in lifecycle.delete_runs(conn, self.database.tables, runs, self.owner):
                self._retell(conn, thread)

        return work

    def _retell(self, conn: Connection, thread: str) -> None:
        """Some checkpoints are gone: have the thread's row say what the newest one says that is left."""
        t = self.database.tables
        claimed = sessions.claim(conn, t, thread, None)
        stored = checkpoints.find(conn, t, thread, "", None)
        changes = sessions.NOTHING
        if stored is not None:
            newest = self._translation.tuple(*self._loaded(conn, stored))
            changes = self._translation.head(conn, t, claimed, newest)
        sessions.advance(conn, t, Known(self._memory, claimed, thread), changes)

    def _copy(self, source: str, target: str) -> tuple[Work[None], Work[None]]:
        source, target = names.texts("thread id", (source, target))

        def work(conn: Connection) -> None:
            now = clock.stamp(conn, self.database.clock)
            lifecycle.copy(conn, self.database.tables, source, target, now, self.owner)

        def unsure(conn: Connection) -> None:
            if not lifecycle.is_copy(conn, self.database.tables, source, target):
                work(conn)

        return work, unsure

    def _prune(self, threads: Sequence[str], strategy: str) -> Work[None]:
        threads = names.texts("thread id", threads)
        return lambda conn: pruning.prune(conn, self.database.tables, threads, strategy, self.owner)

    def _find(self, config: RunnableConfig) -> Work[_Found | None]:
        key = *names.address(config), self.owner

        def work(conn: Connection) -> _Found | None:
            stored = checkpoints.find(conn, self.database.tables, *key)
            return self._loaded(conn, stored) if stored else None

        return work

    def _history(self, config: RunnableConfig, channels: Sequence[str]) -> Work[_Past | None]:
        key = *names.address(config), self.owner

        def work(conn: Connection) -> _Past | None:
            t = self.database.tables
            stored = checkpoints.find(conn, t, *key)
            if stored is None:
                if key[2] is not None:
                    raise checkpoints.gone(key[0], key[2])
                return None
            past = lineage.history(conn, t, stored, channels)
            leaves = [leaf for written in past.writes.values() for _, leaf in written]
            seeds = replace(stored, values=past.seeds)
            return stored, past, checkpoints.contents(conn, t, self._memory, seeds, leaves)

        return work

    def _page(self, walk: Walk) -> Work[tuple[Sequence[StoredCheckpoint], Sequence[_Found]]]:
        def work(conn: Connection) -> tuple[Sequence[StoredCheckpoint], Sequence[_Found]]:
            page = checkpoints.page(conn, self.database.tables, **walk.arguments, owner=self.owner)
            return page, [found for row in walk.chosen(page) if (found := self._left(conn, row)) is not None]

        return work

    def _left(self, conn: Connection, row: StoredCheckpoint) -> _Found | None:
        """As `_loaded`; None if it is gone. So one thread that changes does not have the whole page read again."""
        try:
            return self._loaded(conn, row)
        except Vanished:
            again = checkpoints.find(conn, self.database.tables, row.thread, row.ns, row.id, self.owner)
            return self._loaded(conn, again) if again else None

    def _loaded(self, conn: Connection, row: StoredCheckpoint) -> _Found:
        t = self.database.tables
        pending = writes.read(conn, t, row.session, row.generation, row.ns, row.id)
        return row, pending, checkpoints.contents(conn, t, self._memory, row, [write.leaf for write in pending])

    def _tuples(
        self, walk: Walk, page: Sequence[StoredCheckpoint], chosen: Sequence[_Found]
    ) -> Iterator[CheckpointTuple]:
        walk.go_on(page, len(chosen))
        return (self._translation.tuple(*found) for found in chosen)

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[Work[Known], RunnableConfig]:
        new = self._translation.checkpoint(config, checkpoint, metadata, new_versions)
        place = {"thread_id": new.thread, "checkpoint_ns": new.ns, "checkpoint_id": new.id}
        lease = carried(config, self.database, new.thread)

        def work(conn: Connection) -> Known:
            now = clock.stamp(conn, self.database.clock)
            return checkpoints.put(conn, self.database.tables, self._memory, new, now, lease)

        return work, {"configurable": place}

    def _put_writes(
        self, config: RunnableConfig, rows: Sequence[tuple[str, Any]], task: str, path: str
    ) -> tuple[Work[Known], Memory, str]:
        new = self._translation.writes(config, rows, task, path)
        lease = carried(config, self.database, new.thread)

        def work(conn: Connection) -> Known:
            now = clock.stamp(conn, self.database.clock)
            return writes.put(conn, self.database.tables, self._memory, new, now, lease)

        return work, self._memory, new.thread


_Past = tuple[StoredCheckpoint, lineage.History, checkpoints.Contents]
_Found = tuple[StoredCheckpoint, Sequence[writes.StoredWrite], checkpoints.Contents]
