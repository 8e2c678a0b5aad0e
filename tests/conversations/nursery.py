"""A new process for every step, forked from one that has imported and run everything once: real, but quick."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .dialogues import Dialogue
from .player import step

History = list[dict[str, Any]]


class Nursery:
    """Starts a process for each step, and tells how it ended."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def step(self, dialogue: Dialogue, folder: Path, message: str | None) -> History | None:
        """The whole history when the turn ended in that process, None when it paused."""
        self._pipe.send((dialogue, folder, message))
        exitcode, history = self._pipe.recv()
        assert exitcode == 0, "the process of the step failed: see its stderr"
        return history  # type: ignore[no-any-return]


@contextmanager
def nursery() -> Iterator[Nursery]:
    """The warmed process for the time of the block."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    warmed = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    warmed.start()
    there.close()
    try:
        yield Nursery(here)
    finally:
        here.close()
        warmed.join()
        warmed.close()


def _serve(pipe: Connection) -> None:
    _warm_up()
    forking = multiprocessing.get_context("fork")
    while (task := _next(pipe)) is not None:
        results, child = forking.Pipe(duplex=False)
        process = forking.Process(target=step, args=(*task, child))
        process.start()
        child.close()
        history = _next(results)
        process.join()
        pipe.send((process.exitcode, history))
        results.close()


def _next(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        return None


def _warm_up() -> None:
    """One turn with a pause: imports, compiled schemas and statements are then there for every child."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    found = {"role": "tool", "content": "there", "tool_call_id": "c", "name": "look"}
    dialogue = Dialogue(
        "warm-up", [{"role": "user", "content": "?"}, asked, found, {"role": "assistant", "content": "Yes."}]
    )
    here, there = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder, here, there:
        for message in ("?", None, None):
            step(dialogue, Path(folder), message, there)
            here.recv()
