"""A thread as records that any database takes: its session, items, logs, checkpoints, writes, approvals, effects,
waiting messages and traces.

Values stay serialised as they are, so that any class is carried, and none is imported. Numbers of items are those of
the exported session; where the records are loaded they get new ones.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, select

from scallion.errors import ConfigurationError, InvalidDecision, StorageError
from scallion.sql import checkpoints, effects, inbound, items, ledger, lines, listing, marks, sessions, traces, writes
from scallion.sql.asking import Place
from scallion.sql.checkpoints import StoredCheckpoint
from scallion.sql.clock import from_micros, to_micros
from scallion.sql.encoding import DICT, LIST, RUNS, Blob, Leaf
from scallion.sql.lines import Record, Spool
from scallion.sql.memory import Known, Memory
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from scallion.sql.engines import Database

T = TypeVar("T")

PORTION = 20
"""How many records are stored at a time."""
ROW = ("owner", "agent", "title", "preview", "message_count", "progress", "head")
"""What the header has of the session's row, beside its name, times and tags."""
NO_EXPORT = (
    AttributeError, ConfigurationError, IndexError, InvalidDecision, KeyError, OverflowError, TypeError, ValueError,
)  # fmt: skip
"""What comes of records that were made up."""
TIMES = ("created", "expires", "decided")
"""The columns of an approval that are instants."""
SPAN = ("begun", "ended")
"""Those of an effect."""


def export(conn: Connection, t: Tables, thread: str, owner: str | None, file: Spool) -> None:
    """Write the thread to the file, as it is at this moment. Raises StorageError if there is none."""
    s = t.sessions.c
    locked = select(s.no, s.progress, s.head).where(s.thread == thread).with_for_update()  # nobody changes it meanwhile
    row = conn.execute(locked).one_or_none()
    session = listing.get(conn, t, thread, owner) if row else None
    if row is None or session is None:
        raise StorageError(f"there is no thread {thread!r}")
    tags = marks.every(conn, t, row.no)  # what somebody said of it goes along
    known = {**session.to_json(), "progress": row.progress, "head": row.head, "tags": tags}
    header = {name: known[name] for name in ("thread", "created", "updated", "tags", *ROW)}
    lines.write(file, header, _records(conn, t, row.no))


def _records(conn: Connection, t: Tables, session: int) -> Iterator[Record]:
    for id, blob in items.every(conn, t, session):
        if blob.type != checkpoints.FORM:  # made anew from the checkpoints
            type, data = blob.typed
            yield {"item": id, "type": type, "data": _text(data)}
    for channel, pos, ids in items.logs(conn, t, session):
        yield {"log": channel, "at": pos, "items": ids}
    for _, stored in checkpoints.every(conn, t, session):
        yield _checkpoint(stored)
    for (ns, checkpoint, task), path, written in writes.every(conn, t, session):
        leaves = [[index, channel, _plain(leaf)] for index, (channel, leaf) in written.items()]
        yield {"writes": leaves, "ns": ns, "checkpoint": checkpoint, "task": task, "path": path}
    for row in ledger.every(conn, t, session):
        yield {"approval": row.pop("id"), **row, **{name: _moment(row[name]) for name in TIMES}}
    for row in effects.every(conn, t, session):
        result = None if row["result"] is None else _text(row["result"])
        yield {"effect": row.pop("call"), **row, "result": result, **{name: _moment(row[name]) for name in SPAN}}
    for row in inbound.every(conn, t, session):
        yield {"inbound": _moment(row["created"]), "by": row["by"], "message": _text(row["message"])}
    for row in traces.every(conn, t, session):
        yield {"trace": row.pop("turn"), **row, "ended": _moment(row["ended"]), "data": _text(row["data"])}


def _checkpoint(stored: StoredCheckpoint) -> Record:
    return {
        "checkpoint": stored.id,
        "ns": stored.ns,
        "parent": stored.parent,
        "fixed": stored.fixed,
        "versions": stored.versions,
        "seen": stored.seen,
        "values": {name: _plain(leaf) for name, leaf in stored.values.items()},
        "metadata": stored.metadata,
        "past": _past(stored.past, _plain),
    }


def _past(past: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """What a checkpoint knows of ancestors that are gone, its leaves changed."""
    return {
        name: [[[task, change(leaf)] for task, leaf in written], *map(change, seed)]
        for name, (written, *seed) in past.items()
    }


def _plain(leaf: Leaf) -> Any:
    """A leaf without bytes."""
    if isinstance(leaf, int) or leaf[0] == RUNS:
        return leaf
    if leaf[0] in (LIST, DICT):
        return [leaf[0], *_parts(leaf, _plain)]
    type, data = Blob(*leaf).typed
    return [type, _text(data)]


def _parts(leaf: Sequence[Any], change: Callable[[Any], Any]) -> Iterator[Any]:
    """What follows the head of a list or dict; its leaves changed, its keys not."""
    for number, part in enumerate(leaf[1:]):
        yield part if leaf[0] == DICT and number % 2 == 0 else change(part)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _moment(micros: int | None) -> str | None:
    return None if micros is None else from_micros(micros).isoformat()


def _micros(text: str | None) -> int | None:
    return None if text is None else to_micros(datetime.fromisoformat(text))


def load(conn: Connection, t: Tables, file: Spool, header: Record, thread: str) -> None:
    """Store the thread of a checked file under this name. Raises StorageError if the database has one of that name."""
    try:
        _check(header)
        loading = _Loading(conn, t, sessions.vacant(conn, t, thread, _micros(header["created"])), thread)
        loading.take(lines.records(file))
        loading.finish(header)
    except NO_EXPORT:
        raise StorageError("the file of the thread holds records that no export has") from None


def _check(header: Record) -> None:
    """Raise for what no session's row has."""
    sessions.check_choice("progress", header["progress"], sessions.STATUSES)
    if not isinstance(header["tags"], list) or not 0 <= header["message_count"] < 2**31:
        raise ValueError


def once(work: Callable[[Connection], T], database: Database, thread: str) -> Callable[[Connection], T | None]:
    """What is done after a COMMIT whose outcome is unknown: the work, unless the thread, which was not there, is."""
    return lambda conn: None if listing.get(conn, database.tables, thread) else work(conn)


class _Loading:
    """One thread on its way into the database."""

    def __init__(self, conn: Connection, t: Tables, claimed: sessions.Claimed, thread: str) -> None:
        self._conn = conn
        self._t = t
        self._thread = thread
        self._known = Known(Memory(), claimed, thread)
        self._ids: dict[int, int] = {}
        self._bytes = 0

    def take(self, records: Iterable[dict[str, Any]]) -> None:
        """Store the records, which come one kind after the other."""
        kinds = {
            "item": self._items,
            "log": self._log,
            "checkpoint": self._checkpoint,
            "writes": self._writes,
            "approval": self._approvals,
            "effect": self._effects,
            "inbound": self._inbound,
            "trace": self._traces,
        }
        for kind, group in groupby(records, key=lambda record: next(iter(record))):
            for portion in _portions(group):
                kinds[kind](portion)

    def finish(self, header: Record) -> None:
        """Bring the session's row up to date."""
        conn, t = self._conn, self._t
        changes = {name: header[name] for name in ROW} | {"version": 1, "bytes": self._bytes}
        sessions.advance(conn, t, self._known, changes, _micros(header["updated"]))
        sessions.recount(conn, t, self._known.session)
        sessions.tag(conn, t, self._thread, header["tags"])

    def _items(self, records: Sequence[Record]) -> None:
        blobs = [Blob.of(record["type"], b64decode(record["data"], validate=True)) for record in records]
        claimed = self._known.claimed._replace(item_count=self._known.item_count)
        self._known = Known(Memory(), claimed, self._thread)  # a new one, so that not all blobs are kept
        self._bytes += items.store(self._conn, self._t, self._known, blobs)
        ids = self._known.items(blobs)
        self._ids.update(zip(map(itemgetter("item"), records), ids, strict=True))

    def _log(self, records: Sequence[Record]) -> None:
        for record in records:
            if record["at"] < 0:
                raise ValueError
            ids = [self._ids[id] for id in record["items"]]
            items.log(self._conn, self._t, self._known.session, record["log"], record["at"], ids)

    def _checkpoint(self, records: Sequence[Record]) -> None:
        for record in records:
            stored = StoredCheckpoint(
                session=self._known.session,
                generation=0,
                thread=self._thread,
                ns=record["ns"],
                id=record["checkpoint"],
                parent=record["parent"],
                fixed=record["fixed"],
                versions=record["versions"],
                seen=record["seen"],
                values={name: self._leaf(leaf) for name, leaf in record["values"].items()},
                metadata=record["metadata"],
                past=_past(record["past"], self._leaf),
            )
            self._bytes += checkpoints.restore(self._conn, self._t, self._known, stored)

    def _writes(self, records: Sequence[Record]) -> None:
        for record in records:
            place = Place(record["ns"], record["checkpoint"], record["checkpoint"], record["task"])
            written = {index: [channel, self._leaf(leaf)] for index, channel, leaf in record["writes"]}
            writes.restore(self._conn, self._t, self._known.session, place, record["path"], written)

    def _approvals(self, records: Sequence[Record]) -> None:
        rows = [
            {**record, "id": record["approval"], **{name: _micros(record[name]) for name in TIMES}}
            for record in records
        ]
        ledger.restore(self._conn, self._t, self._known.session, rows)

    def _effects(self, records: Sequence[Record]) -> None:
        rows = [
            {
                **record,
                "call": record["effect"],
                "result": None if record["result"] is None else b64decode(record["result"], validate=True),
                **{name: _micros(record[name]) for name in SPAN},
            }
            for record in records
        ]
        effects.restore(self._conn, self._t, self._known.session, rows)

    def _inbound(self, records: Sequence[Record]) -> None:
        rows = [
            {
                "created": _micros(record["inbound"]),
                "by": record["by"],
                "message": b64decode(record["message"], validate=True),
            }
            for record in records
        ]
        inbound.restore(self._conn, self._t, self._known.session, rows)

    def _traces(self, records: Sequence[Record]) -> None:
        rows = [
            {
                "turn": record["trace"],
                **{name: record[name] for name in ("part", "checkpoint")},
                "ended": _micros(record["ended"]),
                "data": b64decode(record["data"], validate=True),
            }
            for record in records
        ]
        traces.restore(self._conn, self._t, self._known.session, rows)

    def _leaf(self, plain: Any) -> Leaf:
        """The reverse of `_plain`, with the numbers that the items have here."""
        if isinstance(plain, int):
            return self._ids[plain]
        if plain[0] == RUNS:
            return plain
        if plain[0] in (LIST, DICT):
            return [plain[0], *_parts(plain, self._leaf)]
        blob = Blob.of(plain[0], b64decode(plain[1], validate=True))
        return [blob.type, blob.data]


def _portions(values: Iterable[T]) -> Iterator[list[T]]:
    portion: list[T] = []
    for value in values:
        portion.append(value)
        if len(portion) == PORTION:
            yield portion
            portion = []
    if portion:
        yield portion
