"""`scallion` as a command of which every process has imported it already: to start Python for each takes seconds."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from processes import started

from scallion.cli import main

ROOT = Path(__file__).parents[2]
OURS = {str(ROOT), str(ROOT / "graphs"), str(ROOT / "tests")}
"""What the tests can import from and a command cannot."""
ASKING = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"+"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    sys.exit(int(server.recv(16)))
"""


@contextmanager
def command() -> Iterator[str]:
    """A folder for PATH with `scallion` in it."""
    with TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as server:
        folder = Path(name)
        server.bind(str(folder / "asked"))
        server.listen()
        (folder / "asking.py").write_text(ASKING)
        words = [sys.executable, "-IS", str(folder / "asking.py"), str(folder / "asked")]
        (folder / "scallion").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (folder / "scallion").chmod(0o755)
        serving = Thread(target=_serve, args=(server,), daemon=True)
        serving.start()
        yield name
        server.shutdown(socket.SHUT_RDWR)
        serving.join()


def _serve(server: socket.socket) -> None:
    while True:
        try:
            asked, _ = server.accept()
        except OSError:  # nobody will ask any more
            return
        Thread(target=_answer, args=(asked,), daemon=True).start()


def _answer(asked: socket.socket) -> None:
    """Run the command; if who asked is gone before its end, it is ended."""
    with asked, asked.makefile("rb") as lines:
        _, streams, _, _ = socket.recv_fds(asked, 1, 3)
        words, place, environment = json.loads(lines.readline())
        process = started(run, words, streams=streams, place=place, environment=environment)
        for one in streams:
            os.close(one)
        if asked in wait([asked, process.sentinel]):
            process.terminate()
        process.join()
        asked.sendall(str(process.exitcode).encode())
        process.close()


def run(words: list[str]) -> int:
    """The command, with the path that it has elsewhere."""
    sys.path[:] = [one for one in sys.path if one not in OURS and not Path(one).is_relative_to(Path.cwd())]
    return main(words)
