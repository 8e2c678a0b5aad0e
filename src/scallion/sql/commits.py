"""Group commit: pieces of work that wait for SQLite's one writer are written by it in one transaction.

A commit waits for the disk, which takes longer than most of what is committed. Nobody hears of a success before the
common commit; a piece that fails is undone alone, and if all fail together, each is tried again by itself. A signal
interrupts whose thread it reaches, and nobody else: what it finds committed is not done again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock, current_thread, main_thread
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from sqlalchemy import Connection

from scallion.sql.garbage import collector_at_rest

if TYPE_CHECKING:
    from scallion.sql.failures import Trial

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
        self.outcome: Literal["undone", "in doubt", "settled"] = "undone"

    def commit(self, conn: Connection) -> None:
        """Commit, and know the outcome whenever a signal comes; only a second one can leave it in doubt."""
        raw: Any = conn.connection.dbapi_connection
        self.outcome = "in doubt"
        try:
            raw.execute("COMMIT")
            self.outcome = "settled"
        except Exception:
            self.outcome = "undone"
            raise
        except BaseException:
            self.outcome = "undone" if raw.in_transaction else "settled"
            raise


class Piece:
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

    def run_alone(self, begin: Begin) -> None:
        """Do the work in a transaction of its own."""
        try:
            with begin(durable=self.is_durable) as conn:
                self.value = self.work(conn)
        except Exception as error:
            self.error = error

    def result(self) -> Any:
        """What the work gave, or raised: once, as an error that is kept keeps its connection."""
        error, self.error = self.error, None
        if error is None:
            return self.value
        try:
            raise error
        finally:
            del error


class Commits:
    """The one place of a database from where a process writes."""

    def __init__(self) -> None:
        self._writing = Lock()
        self._waiting: deque[Piece] = deque()

    def alone(self, work: Work[T], begin: Callable[[], AbstractContextManager[Connection]]) -> T:
        """What `work` gives, in a transaction of its own."""
        with self._writing, begin() as conn:
            return work(conn)

    def together(self, work: Work[T], begin: Begin, *, durable: bool = True) -> T:
        """What `work` gives, in a transaction with whatever else waits at this moment. Raises InDoubt.

        It waits for the disk if one of them has to be `durable`.
        """
        mine = Piece(work, durable)
        try:
            self.write([mine], begin)
        except BaseException:
            mine.is_given_up = True
            raise
        done: T = self.outcome(mine, begin)
        return done

    def write(self, mine: Sequence[Piece], begin: Begin) -> tuple[()]:
        """Have these pieces written, with whatever else waits at this moment."""
        self._waiting.extend(mine)
        with self._writing:
            if not all(piece.is_taken for piece in mine):
                self._write(self._taken(), begin)
        return ()

    def outcome(self, piece: Piece, begin: Begin) -> Any:
        """What the piece gave, or raised, when it was written. Raises InDoubt."""
        if piece.batch.outcome == "in doubt":
            raise InDoubt
        return piece.result() if piece.batch.outcome == "settled" else self.alone(piece.work, begin)

    def _taken(self) -> list[Piece]:
        pieces = [self._waiting.popleft() for _ in range(len(self._waiting))]
        for piece in pieces:
            piece.is_taken = True
        return [piece for piece in pieces if not piece.is_given_up]

    def _write(self, pieces: Sequence[Piece], begin: Begin) -> None:
        batch = _Batch()
        durable = any(piece.is_durable for piece in pieces)
        for piece in pieces:
            piece.batch = batch
        if len(pieces) == 1:
            pieces[0].run_alone(begin)
            batch.outcome = "settled"
            return
        try:
            with begin(durable=durable) as conn, collector_at_rest():
                for piece in pieces:
                    piece.run(conn)
                batch.commit(conn)
        except BaseException as error:
            if not isinstance(error, Exception) and current_thread() is main_thread():
                raise  # that is where signals arrive, whosever piece it was


class Tried(Piece):
    """A piece that is tried as often as it takes: with others at first."""

    __slots__ = ("_begin", "_commits", "_trial")

    def __init__(self, trial: Trial[Any], commits: Commits, begin: Begin, durable: bool) -> None:
        super().__init__(trial.run, durable)
        self._trial, self._commits, self._begin = trial, commits, begin

    @property
    def is_written(self) -> bool:
        """As in `Awaited`."""
        return self.batch.outcome == "settled"

    def ended(self) -> Any:
        """As in `Awaited`."""
        again = partial(self._commits.together, self.work, self._begin, durable=self.is_durable)
        return self._trial.ended(partial(self._commits.outcome, self, self._begin), again)
