"""Who holds a lease: a name that tells people which process it is, and other processes of its machine whether it lives.

    web-1:4711/3f2a9c01d7b84e55.4026531836/9b1c7e02a4d3/12

That is host and process; which start of which machine and which of its process spaces they are of, "-" where that
cannot be known; this run of the process; and a number of its own for each lease.
"""

from __future__ import annotations

import os
import socket
from itertools import count
from pathlib import Path
from uuid import uuid4


class _Process:
    """What leases of this process are called, and which of them are in use."""

    def __init__(self) -> None:
        self.prefix = f"{socket.gethostname()[:100].replace('/', '_')}:{os.getpid()}/{_machine()}/{uuid4().hex[:12]}"
        self.numbers = count(1)
        self.in_use: set[str] = set()


def _machine() -> str:
    """The start of this machine and the space that its process numbers are of."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        return f"{started[:16]}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return "-"


_process: _Process | None = None


def _forked() -> None:
    global _process
    _process = None  # a child holds nothing of what its parent holds


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _here() -> _Process:
    global _process
    if _process is None:
        _process = _Process()
    return _process


def begin() -> str:
    """A new holder, which lives until `end`."""
    here = _here()
    holder = f"{here.prefix}/{next(here.numbers)}"
    here.in_use.add(holder)
    return holder


def end(holder: str) -> None:
    """The holder holds nothing any more, whatever a database says of it."""
    _here().in_use.discard(holder)


def shown(holder: str) -> str:
    """What people are told of the holder: host and process."""
    return holder.split("/", 1)[0]


def is_gone(holder: str) -> bool:
    """Whether it is sure that the holder does nothing any more: its process ended, or is this one and forgot it.

    Of other machines nothing is sure. A number that another process has by now counts as alive.
    """
    here = _here()
    mine = here.prefix.split("/")
    try:
        name, machine, run, _ = holder.split("/")
        host, number = name.rsplit(":", 1)
        process = int(number)
    except ValueError:  # written by no program of ours
        return False
    if [name, machine, run] == mine:
        return holder not in here.in_use
    if machine == "-" or machine != mine[1] or host != mine[0].rsplit(":", 1)[0]:
        return False
    return process == os.getpid() or not _lives(process)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
