"""What a failing database becomes: another attempt where that is safe, or an error of ours.

A read consists of several statements, and on a server each of them sees what is committed by then. None of them mixes
two states of a thread: what deletes of it gives its session another generation, which every statement compares, and
items never change. Where they find another state, the work is done again.

A transaction whose COMMIT was not sent was rolled back: the whole piece of work is done again. That is also right where
the connection died during COMMIT, for work that gives the same when it is done twice; other work says what to do then.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, TimeoutError

from scallion.errors import ConfigurationError, StorageError, WrongKey
from scallion.sql import packets, sqlite
from scallion.sql.commits import InDoubt

T = TypeVar("T")
Work = Callable[[Connection], T]

ATTEMPTS = 10
"""How often a transaction is tried that the database gives up to end a deadlock."""

PATIENCE = 10.0
"""How many seconds a database that worked before may be away: about what a restart takes."""


REFUSALS = frozenset({"ProgrammingError", "IntegrityError", "DataError", "NotSupportedError"})
"""What drivers call the errors of a server that is there."""


class Vanished(Exception):
    """What a row refers to is not there (any more): somebody deletes or prunes a thread while it is read."""


class Trial(Generic[T]):
    """One piece of work, through as many attempts as it takes.

    `unsure`: what is done after a COMMIT that may have come through. `patient`: wait for a server that is away.
    `file`: what an SQLite database is called. `keys`: those of the database, which may change meanwhile.
    """

    def __init__(
        self,
        work: Work[T],
        unsure: Work[T] | None,
        *,
        patient: bool,
        file: str | None = None,
        keys: Callable[[], object] = lambda: None,
    ) -> None:
        self._work = work
        self._unsure = unsure or work
        self._patience = PATIENCE if patient else 0.0
        self._file = file
        self._keys = keys
        self._tried = keys()
        self._stage: Literal["connecting", "working", "committing"] = "connecting"
        self._attempts = 0
        self._lost_at: float | None = None
        self._sent = 0
        self.pause = 0.0
        """Seconds to wait before the next attempt."""

    def run(self, conn: Connection) -> T:
        """Do the work; when this returns, COMMIT is next."""
        self._stage = "working"
        self._tried = self._keys()
        if self._sent:
            packets.check(conn, self._sent)
        try:
            done = self._work(conn)
        except DBAPIError as error:
            self._sent = packets.sent(conn, error)
            raise
        self._stage = "committing"
        return done

    def ended(self, attempt: Callable[[], T], again: Callable[[], T] | None = None) -> T:
        """What the first attempt gives that comes to something; those behind the first are `again`, if given."""
        while True:
            with self:
                return attempt()
            attempt = again or attempt
            time.sleep(self.pause)

    def __enter__(self) -> None:
        self._stage = "connecting"
        self._attempts += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Go on behind it where another attempt helps. Raises StorageError where none does, or ConfigurationError.

        The statement and its parameters, which may hold anything, are not told.
        """
        if isinstance(error, Vanished):
            if self._attempts < ATTEMPTS:
                return True
            raise StorageError("parts of a thread are missing: it is changed all the time, or damaged") from None
        if isinstance(error, DBAPIError | sqlite.Error | OSError):
            original: Any = error.orig if isinstance(error, DBAPIError) else error
            if self._may_try_again(error, original):
                return True
            raise _refused(original, self._file) from original
        if isinstance(error, InDoubt):
            self._work = self._unsure
            return True
        if isinstance(error, WrongKey):
            return self._tried is not self._keys()
        if isinstance(error, TimeoutError):
            told = "all connections of the pool were in use for too long: give an Engine with a larger pool_size"
            raise StorageError(told) from error
        if self._stage == "connecting" and isinstance(error, TypeError | ValueError) and self._file is None:
            raise _unknown_option(error) from None
        if isinstance(error, UnicodeEncodeError):
            raise StorageError("the database cannot hold a text with half of a surrogate pair") from None
        return False

    def _may_try_again(self, error: Exception, original: Any) -> bool:
        if _was_victim(original):
            return self._attempts < ATTEMPTS
        if self._file is not None:
            return False
        if not self._is_lost(error):  # asyncmy may say something else of a connection that was broken off
            return bool(self._sent) and self._attempts == 1
        if self._stage == "committing":
            self._work = self._unsure
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        self.pause = min(1.0, 2 * self.pause or 0.05) if self._lost_at < now else 0.0
        if self._stage == "connecting":
            return now + self.pause - self._lost_at < self._patience
        return self._attempts < ATTEMPTS

    def _is_lost(self, error: Exception) -> bool:
        """Whether the connection died, or could not be had."""
        if isinstance(error, DBAPIError):
            return self._stage == "connecting" or error.connection_invalidated
        return isinstance(error, OSError)


def _was_victim(original: Any) -> bool:
    """Whether the database ended the transaction because of a deadlock or a conflict, so that another try helps."""
    if getattr(original, "sqlstate", None) in ("40001", "40P01"):
        return True
    arguments: Any = getattr(original, "args", ())
    return bool(arguments) and arguments[0] in (1205, 1213)


def is_forbidden(original: Any) -> bool:
    """Whether the database refused because this user, or anybody at this server, may not write."""
    if isinstance(original, sqlite.Error):
        return str(getattr(original, "sqlite_errorname", "")).startswith("SQLITE_READONLY")
    arguments: Any = getattr(original, "args", ())
    refused = (1044, 1142, 1143, 1290, 1792, 1836)  # MariaDB: not granted; the server, or the transaction, only reads
    return getattr(original, "sqlstate", None) in ("42501", "25006") or bool(arguments and arguments[0] in refused)


def is_refusal(original: Any) -> bool:
    """Whether the database is there and refused a statement: the same one does not come through later either."""
    kinds = {kind.__name__ for kind in type(original).__mro__}
    return is_forbidden(original) or isinstance(original, sqlite.Error) or not kinds.isdisjoint(REFUSALS)


def _refused(original: Any, file: str | None) -> StorageError:
    if file is not None and isinstance(original, sqlite.Error):
        return StorageError(sqlite.explained(original, file))
    if isinstance(original, OSError):
        return StorageError(
            f"the database cannot be reached: {type(original).__name__}: {original.strerror or original}"
        )
    first = str(original).splitlines()[0] if original and str(original) else ""
    return StorageError(f"the database refused: {type(original).__name__}: {first}")


def _unknown_option(error: Exception) -> ConfigurationError:
    """The driver was called with an option that it does not know, or with a value; what it says may hold that one."""
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    named = f"option {found[1]!r}" if found else "options"
    return ConfigurationError(f"the driver does not take the {named} of the URL: give an engine with connect_args=...")
