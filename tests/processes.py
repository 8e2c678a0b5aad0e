"""Processes of the tests' own, forked from one that has imported what they need.

There is one such server for each run, and it hears what to import only before it starts: so the list is here, for all.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "scallion.agent",
        "scallion.sql.saver",
        "scallion.filters",
        "scallion.testing",
        "alembic.command",
        "sqlalchemy.dialects.sqlite",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.mysql.pymysql",
        "psycopg",
        "pymysql",
        "langgraph.graph",
        "langchain_openai.chat_models.base",
        "langchain_anthropic.chat_models",
        "openai.resources.chat.completions",
        "openai.resources.responses",
        "httpcore2",
    ]
)


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    status: int
    out: str
    err: str


def ended(work: Callable[..., Any], *args: Any, typed: str = "", seconds: float = 90) -> Ended:
    """Do that work in a process of its own, in the folder and environment of the caller; what it returns is the status.

    `typed` is on its standard input. Raises TimeoutError, and the process is gone, if it takes longer.
    """
    with TemporaryDirectory() as name:
        given, out, err = (Path(name) / stream for stream in ("in", "out", "err"))
        given.write_text(typed, encoding="utf-8")
        with given.open() as first, out.open("w") as second, err.open("w") as third:
            streams = [first.fileno(), second.fileno(), third.fileno()]
            process = started(work, *args, streams=streams, place=os.getcwd(), environment=os.environ)
        process.join(seconds)
        status = process.exitcode
        process.kill()
        process.join()
        process.close()
        told = Ended(status or 0, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
    if status is None:
        raise TimeoutError(f"it did not end within {seconds} s:\n{told.out}{told.err}")
    return told


def started(
    work: Callable[..., Any], *args: Any, streams: Sequence[int], place: str, environment: Mapping[str, str]
) -> BaseProcess:
    """A process that does that work there. `streams`: its standard input, output, errors; the caller closes them."""
    copies = [Connection(os.dup(one)) for one in streams]  # whatever they are: a connection can be handed over
    process = processes.Process(target=_work, args=(work, args, copies, place, dict(environment)))
    process.start()
    for one in copies:
        one.close()
    return process


def _work(
    work: Callable[..., Any], args: tuple[Any, ...], streams: Sequence[Any], place: str, environment: Mapping[str, str]
) -> None:
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(one, "w", buffering=1, encoding="utf-8", closefd=False) for one in (1, 2))
    sys.exit(work(*args))
