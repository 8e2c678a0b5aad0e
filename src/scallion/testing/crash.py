"""Crashes at a named point: an exception that no filter can catch by accident, or the real end of the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, Self, get_args

from scallion.errors import ConfigurationError
from scallion.testing.probes import MODEL, TOOL, does_run, probed

Place = tuple[type, str]
Point = Literal["before model", "after model", "before tool", "after tool", "before write", "after write"]
POINTS: tuple[Point, ...] = get_args(Point)


class Crash(BaseException):
    """The crash of `crash_at`: no `except Exception` catches it."""


def die() -> None:
    """End this process as `kill -9` does: nothing is flushed, closed or given back."""
    if hasattr(signal, "SIGKILL"):
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
    os._exit(137)


class Crashing:
    """The block of `crash_at`."""

    def __init__(
        self, point: str, where: Sequence[Place], writes: Sequence[Place], nth: int, only: Any, end: Any
    ) -> None:
        self.point = point
        self.seen = 0
        """How many calls came to the point."""
        self.crashed = False
        self._where = where
        self._writes = writes
        self._nth = nth
        self._only = only
        self._end = end
        self._lock = threading.Lock()
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        when = "after" if self.point.startswith("after") else "before"
        for owner, verb in self._where:
            self._patches.enter_context(probed(owner, verb, **{when: self._reached}))
        for owner, verb in self._writes:
            self._patches.enter_context(probed(owner, verb, before=self._check_alive))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._patches.close()
        if isinstance(error, Crash) and self.crashed:
            return True
        if kind is None and not self.crashed:
            raise AssertionError(f"nothing crashed: {self.point!r} was reached {self.seen} time(s), not {self._nth}")
        return False

    def _check_alive(self, *args: Any, **options: Any) -> None:
        """Who is dead writes nothing more: not that the task failed either, as LangGraph would."""
        if self.crashed:
            raise Crash(f"crashed {self.point}")

    def _reached(self, *args: Any, **options: Any) -> None:
        if not self._only(*args):
            return
        with self._lock:
            self.seen += 1
            if self.seen != self._nth:
                return
            self.crashed = True
        self._end(self.point)


def crash_at(point: Point, nth: int = 1, *, tool: str | None = None, saver: Any = None, kill: bool = False) -> Crashing:
    """Within the block, whoever comes to `point` for the `nth` time crashes there; the block ends with the crash.

    `point`: "before model", "after model": a call of the model, also one that a filter makes for itself; "before tool",
    "after tool": the execution of a tool, behind all filters (of the tool named `tool` only); "before write", "after
    write": a write of a checkpoint or of a task, by savers of the class of `saver` (None: SQLCheckpointer).

    It counts all turns of this process. `kill=True` ends the process itself, as `kill -9` does: for a process that the
    test has started. Otherwise `Crash` is raised, a BaseException, and is caught at the end of the block; these savers
    write nothing more in it. But `finally` blocks run, and the lease of the thread is given back.

    Raises AssertionError at the end of a block in which nothing crashed, ConfigurationError for what is no point.
    """
    if point not in POINTS:
        raise ConfigurationError(f"crash_at: the point is one of {', '.join(POINTS)}, not {point!r}")
    if type(nth) is not int or nth < 1:
        raise ConfigurationError(f"crash_at: nth counts from 1, it cannot be {nth!r}")
    writes = _writes(saver)
    where = writes if point.endswith("write") else [MODEL if point.endswith("model") else TOOL]
    return Crashing(point, where, writes, nth, _only(point, tool), _killed if kill else _raised)


def _writes(saver: Any) -> list[Place]:
    if saver is None:
        from scallion.sql.saver import SQLCheckpointer

        saver = SQLCheckpointer
    kind = saver if isinstance(saver, type) else type(saver)
    if not hasattr(kind, "put_writes"):
        raise ConfigurationError(f"crash_at: the saver is a checkpointer, not {kind.__name__}")
    return [(kind, "put"), (kind, "put_writes")]


def _only(point: str, tool: str | None) -> Callable[..., bool]:
    if not point.endswith("tool"):
        return lambda *args: True
    return lambda *args: does_run(*args) and tool in (None, args[1].tool.name)


def _killed(point: str) -> None:
    die()


def _raised(point: str) -> None:
    raise Crash(f"crashed {point}")
