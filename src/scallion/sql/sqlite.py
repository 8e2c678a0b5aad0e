"""SQLite: how a connection is set up, how its transactions begin, and connections that stay at hand."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition
from typing import Any

from sqlalchemy import Connection, Engine, event

from scallion.errors import StorageError
from scallion.sql.forks import gate

BUSY_TIMEOUT = "PRAGMA busy_timeout=60000"
SYNCHRONOUS = "PRAGMA synchronous=FULL"
PRAGMAS = (
    BUSY_TIMEOUT,  # first: the others may have to wait too
    "PRAGMA journal_mode=WAL",
    SYNCHRONOUS,
    "PRAGMA foreign_keys=ON",
)

Error = sqlite3.Error

HELP = {
    "SQLITE_FULL": "the disk is full: nothing of this was stored, what was there is unharmed; make room and go on",
    "SQLITE_READONLY": "it may only be read: SQLite has to write to the file and to its directory",
    "SQLITE_PERM": "it may only be read: SQLite has to write to the file and to its directory",
    "SQLITE_NOTADB": "it is no SQLite database, or damaged: name another file, or restore it",
    "SQLITE_CORRUPT": "it is damaged: restore it, or save what is left with the command `sqlite3 FILE .recover`",
    "SQLITE_IOERR": "the disk failed, or is full: nothing of this was stored",
    "SQLITE_BUSY": "another program has had it locked for a minute",
}
"""What an error means, by the beginning of its name."""


def explained(error: Error, file: str) -> str:
    """What is wrong with the file, and what helps."""
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith("SQLITE_CANTOPEN"):
        return f"the database {file} cannot be opened: {_unopened(Path(file))}"
    told = next((told for start, told in HELP.items() if name.startswith(start)), None)
    return f"the database {file}: {told or error} ({name or type(error).__name__})"


def _unopened(path: Path) -> str:
    if path.is_dir():
        return "it is a directory; name a file in it"
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}; make it first"
    return "look at the permissions of the file and of its directory"


def prepare(engine: Engine) -> None:
    """Have every new connection of the engine set up."""
    if not event.contains(engine, "connect", _connected):
        event.listen(engine, "connect", _connected)
        event.listen(engine, "invalidate", _given_up)


def _connected(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `transaction`, not by the driver
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _given_up(connection: Any, record: Any, error: Any) -> None:
    """SQLAlchemy only closes it, and as long as anybody keeps the error, a cursor would keep the transaction open."""
    connection.rollback()


@contextmanager
def transaction(conn: Connection, write: bool, durable: bool = True) -> Iterator[None]:
    """A transaction; a writing one has the database's lock from the start.

    One that reads first and writes later could not wait for the lock: it would fail. What is not `durable` is on the
    disk with the next one that is: a power cut takes the last of them back, in order.
    """
    raw: Any = conn.connection.dbapi_connection
    try:
        with conn.begin():
            _begin(raw, write, durable)
            yield
    finally:
        if not durable:
            _wait_again(raw)


def _begin(raw: Any, write: bool, durable: bool) -> None:
    if raw.in_transaction:  # one that an engine of somebody else's began by itself
        raw.execute("ROLLBACK")
    if not durable:
        raw.execute("PRAGMA synchronous=NORMAL")
    raw.execute("BEGIN IMMEDIATE" if write else "BEGIN")


def _wait_again(raw: Any) -> None:
    """From now on commits wait for the disk."""
    with suppress(Error):  # it was closed, with an error
        raw.execute(SYNCHRONOUS)


def scrub(conn: Connection) -> None:
    """Write the file anew, so that nothing is left in it of what was deleted or changed. Raises StorageError."""
    raw: Any = conn.connection.dbapi_connection
    raw.execute("PRAGMA busy_timeout=5000")  # a reader that goes on longer goes on for long
    try:
        raw.execute("VACUUM")
        is_busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.execute(BUSY_TIMEOUT)
    if is_busy:
        raise StorageError("somebody reads the database at this moment")


class AtHand:
    """Connections to one file that stay open between transactions: taking one costs nothing.

    `file`: its path; None where it has none.
    """

    MOST = 40
    """How many there are at the same time; who needs one more waits."""

    WAIT = 60.0
    """How many seconds that may last."""

    def __init__(self, engine: Engine, file: str | None) -> None:
        self._engine = engine
        self._changed = Condition()
        self._free: list[Connection] = []
        self._in_use = 0
        self._file = file
        self._identity: tuple[int, int] | None = None
        self._is_shut = False

    def taken(self) -> Connection:
        """A connection that nobody else uses, until it is `left`. Raises StorageError if the file is gone."""
        conn = self._taken()
        try:
            self._check_file()
        except BaseException:
            self.left(conn, failed=True)
            raise
        return conn

    def left(self, conn: Connection, *, failed: bool) -> None:
        """The connection is not used any more; after an error it is closed."""
        if failed:
            conn.close()
            self._left(None)
            return
        self._left(conn)
        if self._is_shut:
            self.close()

    def _taken(self) -> Connection:
        with self._changed:
            if self._in_use >= self.MOST and not self._changed.wait_for(lambda: self._in_use < self.MOST, self.WAIT):
                raise StorageError(f"all {self.MOST} connections to {self._file} were in use for {self.WAIT:g} seconds")
            self._in_use += 1
            if self._free:
                return self._free.pop()
        try:
            return self._engine.connect()
        except BaseException:
            self._left(None)
            raise

    def _left(self, conn: Connection | None) -> None:
        """One is not used any more; it can be used again unless it is None."""
        with self._changed:
            self._in_use -= 1
            if conn is not None:
                self._free.append(conn)
            self._changed.notify()

    def _check_file(self) -> None:
        """A file that was deleted could still be written, and all would be lost at the end of the process."""
        found = self._found()
        if self._identity is None:
            self._identity = found
        elif found != self._identity:
            raise StorageError(
                f"the database {self._file} was deleted or replaced while it was open: nothing was stored; close this "
                "saver or inbox, and make a new one"
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._file) if self._file is not None else None
        except OSError:
            return None
        return found and (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Close those that nobody uses."""
        with self._changed:
            free, self._free = self._free, []
        for conn in free:
            conn.detach()
            conn.close()

    def shut(self) -> None:
        """As `close`, and from now on those that come back."""
        self._is_shut = True
        self.close()


class Transaction:
    """As `transaction`, on a connection at hand: every turn has ten of them, hence no generators.

    `check` raises where none may begin any more, as it may have been closed while this waited for a fork.
    """

    __slots__ = ("_at_hand", "_check", "_conn", "_durable", "_inner", "_raw", "_write")

    def __init__(self, at_hand: AtHand, check: Callable[[], None], write: bool, durable: bool) -> None:
        self._at_hand = at_hand
        self._check = check
        self._write = write
        self._durable = durable
        self._raw: Any = None

    def __enter__(self) -> Connection:
        gate.__enter__()
        try:
            self._check()
            conn = self._conn = self._at_hand.taken()
            try:
                self._begin(conn)
            except BaseException:
                self._end(failed=True)
                raise
        except BaseException:
            gate.__exit__()
            raise
        return conn

    def _begin(self, conn: Connection) -> None:
        self._raw = conn.connection.dbapi_connection
        self._inner = conn.begin()
        try:
            _begin(self._raw, self._write, self._durable)
        except BaseException as error:
            self._inner.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        failed = True
        try:
            self._inner.__exit__(kind, error, trace)
            failed = error is not None
        finally:
            try:
                self._end(failed=failed)
            finally:
                gate.__exit__()

    def _end(self, *, failed: bool) -> None:
        try:
            if not self._durable and self._raw is not None:
                _wait_again(self._raw)
        finally:
            self._at_hand.left(self._conn, failed=failed)
