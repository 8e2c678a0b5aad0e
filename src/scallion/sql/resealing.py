"""Sealed values are bound to their place and their key: another thread or another key needs them sealed anew."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, insert, select, tuple_, update

from scallion.errors import StorageError
from scallion.sql import clock, keyring, rules, schema, searching
from scallion.sql.cipher import DECRYPTING, Cipher, Turning
from scallion.sql.clock import Clock
from scallion.sql.encoding import Blob
from scallion.sql.items import batches
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from scallion.sql.engines import Database


@dataclass(frozen=True, slots=True)
class Sealed:
    """What of a table is sealed, and the columns that, with the session, make up the place."""

    place: tuple[str, ...]
    bytes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


SEALED = {
    "items": Sealed(("id",), bytes=("data",)),
    "checkpoints": Sealed(("ns", "id"), bytes=("leaves",), texts=("metadata",)),
    "writes": Sealed(("ns", "checkpoint", "task"), bytes=("leaves",)),
    "approvals": Sealed(("id",), texts=("payload", "decision")),
    "effects": Sealed(("call", "attempt"), bytes=("result",)),
    "traces": Sealed(("turn", "part"), bytes=("data",)),
    "inbound": Sealed(("created",), bytes=("message",)),
    "votes": Sealed(("approval", "by"), texts=("decision",)),
    "sessions": Sealed((), texts=("title", "preview")),
}


@dataclass(frozen=True, slots=True)
class Move:
    """From one cipher and session to another."""

    source: Cipher
    target: Cipher
    old: int
    new: int
    taken: set[bytes] = field(default_factory=set)
    """The digests of items that are in the new place already."""

    def sealed(self, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a row of the table `name` that are another in the new place."""
        what = SEALED[name]
        key = [row[column] for column in what.place]
        found: dict[str, Any] = {}
        for column in what.bytes:
            found[column] = row[column]
            if row[column] is None:
                continue
            data = self.source.open(bytes(row[column]), f"{name}.{column}", self.old, *key)
            found[column] = self.target.seal(data, f"{name}.{column}", self.new, *key)
            if name == "items":
                found["hash"] = self._digest(Blob(row["type"], data).hash, bytes(row["hash"]))
        for column in what.texts:
            found[column] = row[column]
            if row[column] is not None:
                text = self.source.open_text(row[column], f"{name}.{column}", self.old, *key)
                found[column] = self.target.seal_text(text, f"{name}.{column}", self.new, *key)
        return found

    def _digest(self, hash: bytes, before: bytes) -> bytes:
        digest = self.target.digests(hash, self.new)[0]
        if digest in self.taken and digest != before:  # equal to another, because writers had different keys
            digest = os.urandom(len(hash))
        self.taken.add(digest)
        return digest


def copy(conn: Connection, t: Tables, name: str, old: int, new: int, *which: ColumnElement[bool]) -> None:
    """Copy the rows of a table to another session."""
    table: Table = getattr(t, name)
    move = Move(t.cipher, t.cipher, old, new)
    for rows in _rows(conn, table, table.c.session == old, *which):
        made = [{**row, "session": new, **move.sealed(name, row)} for row in rows]
        conn.execute(insert(table), [{key: value for key, value in row.items() if key != "no"} for row in made])


def _rows(conn: Connection, table: Table, *which: ColumnElement[bool]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The rows in the order of their keys, a portion at a time."""
    key = list(table.primary_key.columns)
    for batch in batches([tuple(row) for row in conn.execute(select(*key).where(*which).order_by(*key))]):
        portion = select(table).where(tuple_(*key).in_(batch)).order_by(*key)
        yield [dict(row) for row in conn.execute(portion).mappings()]


def rekey(database: Database, target: Cipher) -> int:
    """Have the database's key be that of `target`, and seal every value with it; how many threads.

    A thread at a time, so that others go on meanwhile; after an interruption it is done again from the start.
    Raises WrongKey where a value opens with no key of the database's or of `target`, StorageError where old values
    stay in a file.
    """
    before, turning = database.tables, replace(database.tables, cipher=Turning(database.tables.cipher, target))
    database.tables = turning  # first: whoever writes meanwhile has both
    try:
        database.unchecked(partial(_begin, t=turning, now=database.clock), write=True)
    except BaseException:
        database.tables = before
        raise
    turning.cipher.turn_to(turning.cipher.current)
    count, last = 0, 0
    while no := database.unchecked(partial(_next_thread, t=turning, last=last), write=True):
        count, last = count + 1, no
    database.unchecked(partial(rules.reseal, t=turning), write=True)
    if not target.ids:
        database.unchecked(partial(_end, t=replace(turning, cipher=target)), write=True)
    _scrub(database)
    return count


def _scrub(database: Database) -> None:
    try:
        database.scrub()
    except StorageError as error:
        told = f"every value is sealed anew, but old ones are left in the file: {error}; then run rekey again"
        raise StorageError(told) from error


def _begin(conn: Connection, t: Tables, now: Clock | None) -> None:
    schema.check(conn, t)
    there = keyring.current(conn, t)
    if there is not None and there.removeprefix(DECRYPTING) not in t.cipher.ids:
        keyring.require(there, t)
    keyring.put(conn, t, clock.stamp(conn, now))


def _end(conn: Connection, t: Tables) -> None:
    """From here on the database has no key, and all that is said in it may be searched."""
    keyring.put(conn, t, None)
    searching.again(conn, t)


def _next_thread(conn: Connection, t: Tables, last: int) -> int | None:
    """Seal the first session after `last` anew: its number, from 1 on; None if there is none."""
    s = t.sessions.c
    no: int | None = conn.execute(select(s.no).where(s.no > last).order_by(s.no).limit(1).with_for_update()).scalar()
    if no is not None:
        taken = {bytes(hash) for hash in conn.execute(select(t.items.c.hash).where(t.items.c.session == no)).scalars()}
        for name in SEALED:
            _seal(conn, getattr(t, name), name, Move(t.cipher, t.cipher, no, no, taken))
        searching.forget(conn, t, no)  # of a database with a key less is indexed than of one without
    return no


def _seal(conn: Connection, table: Table, name: str, move: Move) -> None:
    key = list(table.primary_key.columns)
    mine = table.c.no if name == "sessions" else table.c.session
    this = update(table).where(*(column == bindparam(f"of_{column.name}") for column in key))
    for rows in _rows(conn, table, mine == move.old):
        changed = [{f"of_{column.name}": row[column.name] for column in key} | move.sealed(name, row) for row in rows]
        columns = SEALED[name].bytes + SEALED[name].texts + (("hash",) if name == "items" else ())
        conn.execute(this.values({column: bindparam(column) for column in columns}), changed)
