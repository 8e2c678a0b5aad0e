"""Waiting in a hook: never beyond the time of the turn, and no longer than the turn itself."""

from __future__ import annotations

import time
from typing import Protocol

from scallion.bridge import sleep
from scallion.filters.journal import current_frame

STEP = 0.1
"""Seconds between two looks at whether the turn still goes on."""


class Clock(Protocol):
    """The time of a turn, and what it has used, as its loop counts it."""

    def used(self, name: str) -> float:
        """How much it has used of `model_calls` or `total_tokens`."""

    def seconds(self) -> float:
        """How long the turn has been active; what it was paused does not count."""

    def seconds_left(self) -> float | None:
        """How long it may still be, None where nothing limits it; raises where the turn is to stop."""

    def end_at(self, seconds: float) -> None:
        """Let nothing wait beyond the time when it has been active for so long."""


def seconds_left() -> float | None:
    """How long the turn may still be active; None where nothing limits it. Raises where the turn is to stop."""
    clock = current_frame.get().run.clock
    return None if clock is None else clock.seconds_left()


def wait_for(seconds: float) -> None:
    """Wait in either kind of run; a turn that is cancelled meanwhile ends."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        seconds_left()
        sleep(min(left, STEP))
