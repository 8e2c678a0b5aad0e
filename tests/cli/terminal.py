"""A program in a real pseudo-terminal, driven as a person would drive it."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self


def _in_front() -> None:
    """Ctrl-C is a signal, also where whoever runs the tests in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """Starts a command whose terminal is ours; `see` waits for a text, `type` sends keys."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, *, kind: str = "dumb", columns: int = 100
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "TERM": kind, "COLUMNS": str(columns)},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_in_front,
        )
        os.close(theirs)
        self.shown = ""
        self._seen = 0

    def type(self, keys: str) -> None:
        """Send keys as they are: a line ends in a newline, Ctrl-C is `\\x03`, Ctrl-D `\\x04`.

        Not at once, as nobody does: a Ctrl-C between the prompt and the first wait of CPython's readline is lost
        (a bare loop around `input` loses about one in 100,000 on a busy machine).
        """
        time.sleep(0.1)
        os.write(self._ours, keys.encode())

    def see(self, text: str, seconds: float = 20) -> str:
        """Wait until the text is shown behind what was seen before, and return what came with it."""
        deadline = time.monotonic() + seconds
        while text not in self.shown[self._seen :]:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} was not shown; this was:\n{self.shown[self._seen :]}")
        start, self._seen = self._seen, self.shown.index(text, self._seen) + len(text)
        return self.shown[start : self._seen]

    def leave(self) -> int:
        """Press Ctrl-D and wait for the end: the exit status."""
        self.type("\x04")
        return self.end()

    def end(self) -> int:
        """Wait for the end: the exit status."""
        while self._read(20):
            pass
        return self.process.wait(20)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(seconds, 0))
        try:
            data = os.read(self._ours, 65536) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
