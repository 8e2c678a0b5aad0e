"""Ctrl-C during a turn: the first one stops the turn after its current step, the second one the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click


@contextmanager
def stoppable(way_on: str) -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first Ctrl-C; say the way on and leave at once at the second."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _Stop(way_on))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Stop:
    def __init__(self, way_on: str) -> None:
        self._asked = False
        self._way_on = way_on

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            # A tool that does not end holds the interpreter back. Everything stored is whole: a thread survives a kill.
            os.write(2, f"\ninterrupted{self._way_on}\n".encode())  # `echo` may be in the middle of another line
            os._exit(1)
        self._asked = True
        click.echo("\nstopping after this step; Ctrl-C again leaves at once", err=True)
        raise KeyboardInterrupt
