"""Group commit: pieces of work that wait for SQLite's one writer are written by it in one transaction.

A commit waits for the disk, which takes longer than most of what is committed. Nobody hears of a success before the
common commit; a piece that fails is undone alone, and if all fail together, each is tried again by itself. A signal
interrupts whose thread it reaches, and nobody else: what it finds committed is not done again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock, current_thread, main_thread
from typing import Any, Literal, Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Work = Callable[[Connection], T]


class Begin(Protocol):
    """Begins a transaction, which ends with the context: committed, or after an error rolled back."""

    def __call__(self, *, durable: bool = True) -> AbstractContextManager[Connection]: ...


class InDoubt(Exception):
    """Nobody knows whether the work was committed."""


class _Batch:
    """Pieces that are committed together."""

    __slots__ = ("outcome",)

    def __init__(self) -> None:
        self.outcome: Literal["undone", "in doubt", "committed"] = "undone"

    def commit(self, conn: Connection) -> None:
        """Commit, and know the outcome whenever a signal comes; only a second one can leave it in doubt."""
        raw: Any = conn.connection.dbapi_connection
        self.outcome = "in doubt"
        try:
            raw.execute("COMMIT")
            self.outcome = "committed"
        except Exception:
            self.outcome = "undone"
            raise
        except BaseException:
            self.outcome = "undone" if raw.in_transaction else "committed"
            raise


class _Piece:
    """Work that waits, or what came of it in its batch."""

    __slots__ = ("batch", "error", "is_durable", "is_given_up", "is_taken", "value", "work")

    def __init__(self, work: Work[Any], durable: bool) -> None:
        self.work = work
        self.is_durable = durable
        self.batch = _Batch()
        self.is_taken = self.is_given_up = False
        self.value: Any = None
        self.error: Exception | None = None

    def run(self, conn: Connection) -> None:
        """Do the work inside a savepoint."""
        raw: Any = conn.connection.dbapi_connection
        raw.execute("SAVEPOINT piece")
        try:
            self.value = self.work(conn)
        except Exception as error:
            self.error = error
            raw.execute("ROLLBACK TO piece")
        raw.execute("RELEASE piece")

    def result(self) -> Any:
        """What the work gave, or raised."""
        if self.error is not None:
            raise self.error
        return self.value


class Commits:
    """The one place of a database from where a process writes."""

    def __init__(self) -> None:
        self._writing = Lock()
        self._waiting: deque[_Piece] = deque()

    def alone(self, work: Work[T], begin: Callable[[], AbstractContextManager[Connection]]) -> T:
        """What `work` gives, in a transaction of its own."""
        with self._writing, begin() as conn:
            return work(conn)

    def together(self, work: Work[T], begin: Begin, *, durable: bool = True) -> T:
        """What `work` gives, in a transaction with whatever else waits at this moment. Raises InDoubt.

        It waits for the disk if one of them has to be `durable`.
        """
        mine = _Piece(work, durable)
        self._waiting.append(mine)
        try:
            with self._writing:
                if not mine.is_taken:
                    self._write(self._taken(), begin)
        except BaseException:
            mine.is_given_up = True
            raise
        if mine.batch.outcome == "in doubt":
            raise InDoubt
        return mine.result() if mine.batch.outcome == "committed" else self.alone(work, begin)

    def _taken(self) -> list[_Piece]:
        pieces = [self._waiting.popleft() for _ in range(len(self._waiting))]
        for piece in pieces:
            piece.is_taken = True
        return [piece for piece in pieces if not piece.is_given_up]

    def _write(self, pieces: Sequence[_Piece], begin: Begin) -> None:
        batch = _Batch()
        durable = any(piece.is_durable for piece in pieces)
        for piece in pieces:
            piece.batch = batch
        if len(pieces) == 1:
            with begin(durable=durable) as conn:
                pieces[0].value = pieces[0].work(conn)
            batch.outcome = "committed"
            return
        try:
            with begin(durable=durable) as conn:
                for piece in pieces:
                    piece.run(conn)
                batch.commit(conn)
        except BaseException as error:
            if not isinstance(error, Exception) and current_thread() is main_thread():
                raise  # that is where signals arrive, whosever piece it was
