"""How often something is tried again, and how long is waited before it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from scallion.errors import ConfigurationError
from scallion.filters.given import is_number, is_whole
from scallion.filters.journal import current_frame
from scallion.filters.retrying.waiting import seconds_left, wait_for

MOST = 100
"""More retries than that are a loop that never ends."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds that grow by `factor` from `initial` to `longest`, each up to `jitter` of itself off."""

    max_retries: int
    initial: float
    factor: float
    longest: float
    jitter: float
    max_seconds: float

    def check(self, name: str) -> None:
        """Raise ConfigurationError for values that cannot be; `name` is that of the filter that they were given to."""
        if not is_whole(self.max_retries, 0) or self.max_retries > MOST:
            raise ConfigurationError(f"filter {name!r}: max_retries is a whole number from 0 to {MOST}")
        ranges = {
            "initial_delay": (self.initial, 0, 86_400),
            "backoff_factor": (self.factor, 1, 100),
            "max_delay": (self.longest, 0, 86_400),
            "jitter": (self.jitter, 0, 1),
            "max_seconds": (self.max_seconds, 0, 86_400),
        }
        for field, (value, least, most) in ranges.items():
            if not is_number(value) or not least <= value <= most:
                told = f"{field} is a number from {least:g} to {most:g}, not {value!r}"
                raise ConfigurationError(f"filter {name!r}: {told}")
        if self.initial > self.longest:
            told = f"initial_delay={self.initial:g} is above max_delay={self.longest:g}: raise max_delay too"
            raise ConfigurationError(f"filter {name!r}: {told}")

    def delay(self, retry: int, asked: float | None = None, spread: float = 0.0) -> float:
        """Seconds before the retry of this number, the first being 0; never less than what the other side `asked` for.

        `spread` is from -1 to 1, and says how far of the jitter the delay is off.
        """
        grown = min(self.longest, self.initial * self.factor**retry)
        return max(min(self.longest, grown * (1 + self.jitter * spread)), asked or 0.0)


class Attempts:
    """The attempts at one call, the first of which begins now."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._began = time.monotonic()
        self._retries = 0

    def again(self, asked: float | None = None) -> bool:
        """Wait before the next attempt; False, at once, where there is to be none.

        There is none beyond the number of retries, nor where it would begin too late: for `max_seconds`, or for the
        turn. What was waited for before a pause is not waited for again.
        """
        if self._retries >= self._backoff.max_retries:
            return False
        if not current_frame.get().went_on:
            delay = self._backoff.delay(self._retries, asked, random.uniform(-1, 1))
            if delay > self._left():
                return False
            wait_for(delay)
        self._retries += 1
        return True

    def _left(self) -> float:
        own = self._backoff.max_seconds - (time.monotonic() - self._began)
        turn = seconds_left()
        return own if turn is None else min(own, turn)
