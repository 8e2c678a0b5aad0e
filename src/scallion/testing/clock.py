"""A clock that stands still until a test moves it, and waits that take no time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest import mock

from scallion.filters.retrying import waiting


class Clock:
    """`SQLCheckpointer(url, clock=Clock())`: what is stored is stamped by it, what expires does so by it.

    `now`: aware, and kept as UTC; a naive time is a ValueError. It is not the clock of `Limits.seconds`, which is the
    machine's.
    """

    def __init__(self, now: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        if now.tzinfo is None:
            raise ValueError("a clock needs an aware time, as datetime(2030, 1, 1, tzinfo=UTC) is")
        self.now = now.astimezone(UTC)
        self.waits: list[float] = []
        """The seconds of every wait that was skipped, in order."""
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **span: float) -> None:
        """Let time pass: `forward(hours=2)`, as for `timedelta`."""
        self.now = self.now.astimezone(UTC) + timedelta(**span)  # by UTC: a clock on a wall skips hours

    @contextmanager
    def skipping_waits(self) -> Iterator[None]:
        """Within the block the filters of this process that wait (retries, `rate_limit`) move the clock instead."""
        passed = [0.0]

        def sleep(seconds: float) -> None:
            with self._lock:
                passed[0] += seconds
                self.waits.append(seconds)
                self.forward(seconds=seconds)

        time = SimpleNamespace(monotonic=lambda: passed[0])
        with (
            mock.patch.object(waiting, "time", time),
            mock.patch.object(waiting, "sleep", sleep),
            mock.patch.object(waiting, "STEP", float("inf")),
        ):
            yield
