"""`rate_limit`: model calls wait until there is room for them, in all threads of a process that share the filter."""

from __future__ import annotations

import math
import threading
import time
from bisect import insort
from collections.abc import Callable
from typing import Any

from langchain_core.rate_limiters import BaseRateLimiter

from scallion.bridge import awaited, wait, waits_on_loop
from scallion.errors import ConfigurationError, LimitExceeded
from scallion.filters.filter import Filter
from scallion.filters.given import as_key, is_number, is_whole
from scallion.filters.journal import current_frame
from scallion.filters.retrying.waiting import STEP, seconds_left, wait_for
from scallion.values import ChatReply, ChatRequest

Key = Callable[[ChatRequest], Any]
MANY = 1024
"""So many keys are remembered before those that are at rest are forgotten."""


class Rate:
    """`per_second` calls, `burst` of them at once after a rest: the time at which each next one may begin, by key.

    A call takes its place when it comes, so that those that wait go in the order in which they came. The next one that
    comes gets a place that was given back.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval = 1 / per_second
        self._ahead = (burst - 1) * self._interval
        self._lock = threading.Lock()
        self._free: dict[str, list[float]] = {}
        """Those that were given back, in order, and the one behind all that were taken."""

    def reserve(self, key: str, now: float, most: float | None) -> tuple[float, float | None]:
        """How long to wait, and for which place; None where the wait would be longer than `most` seconds."""
        with self._lock:
            if len(self._free) >= MANY:
                self._free = {one: places for one, places in self._free.items() if places[-1] > now}
            at, *others = [place for place in self._free.get(key, ()) if place >= now] or [now]
            seconds = max(at - self._ahead - now, 0.0)
            if most is not None and seconds > most:
                return seconds, None
            self._free[key] = others or [at + self._interval]
            return seconds, at

    def give_back(self, key: str, place: float) -> None:
        """The place was not used."""
        with self._lock:
            if key in self._free:  # forgotten where all its places have passed
                insort(self._free[key], place)


class RateLimit(Filter):
    """The places that are taken are the process's own, and no state of a turn."""

    def __init__(
        self, name: str, limiter: BaseRateLimiter | None, rate: Rate | None, key: Key | None, max_wait: float | None
    ) -> None:
        super().__init__(name)
        self._limiter = limiter
        self._rate = rate
        self._key = key
        self._max_wait = max_wait

    def around_chat(self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]) -> ChatReply:
        """Wait, then call. A call that was begun before a pause has waited."""
        if current_frame.get().went_on:
            return next(request)
        if self._rate is None:
            self._poll()
        else:
            self._take(self._rate, "" if self._key is None else as_key(awaited(self._key(request)), self.name))
        return next(request)

    def _take(self, rate: Rate, key: str) -> None:
        left = seconds_left()
        most = min((one for one in (self._max_wait, left) if one is not None), default=None)
        seconds, place = rate.reserve(key, time.monotonic(), most)
        if place is None:
            raise self._refused(seconds, left)
        try:
            wait_for(seconds)
        except BaseException:
            rate.give_back(key, place)
            raise

    def _poll(self) -> None:
        began = time.monotonic()
        while not self._admitted():
            left, waited = seconds_left(), time.monotonic() - began
            if (left is not None and left < STEP) or (self._max_wait is not None and waited + STEP > self._max_wait):
                raise self._refused(waited + STEP, left)
            wait_for(STEP)

    def _admitted(self) -> bool:
        assert self._limiter is not None
        if waits_on_loop():
            return wait(self._limiter.aacquire(blocking=False))
        return self._limiter.acquire(blocking=False)

    def _refused(self, seconds: float, left: float | None) -> LimitExceeded:
        if self._max_wait is not None and (left is None or self._max_wait <= left):
            return LimitExceeded("seconds of waiting for the rate limit", seconds, self._max_wait)
        return LimitExceeded("seconds", seconds, left or 0)


def rate_limit(
    limiter: BaseRateLimiter | None = None,
    *,
    per_second: float | None = None,
    burst: int = 1,
    key: Key | None = None,
    max_wait: float | None = None,
    name: str = "rate_limit",
) -> Filter:
    """Let model calls begin `per_second` times a second, `burst` at once after a rest; the others wait their turn.

    One filter counts for all threads and agents of the process that it is given to; `key(request) -> str` counts apart,
    by user for example, and what is no text fails the turn with a ConfigurationError. Or give a `limiter` of
    langchain-core. A call that would wait longer than `max_wait` seconds, or than the turn may last
    (`Limits(seconds=)`), does not begin to wait: LimitExceeded. A turn that is cancelled waits no longer, and the next
    one that comes gets its place. Raises ConfigurationError.
    """
    if (limiter is None) == (per_second is None):
        raise ConfigurationError(f"filter {name!r}: give a limiter of LangChain or per_second=, one of them")
    if limiter is not None and not isinstance(limiter, BaseRateLimiter):
        raise ConfigurationError(f"filter {name!r}: limiter is a BaseRateLimiter of LangChain, not {limiter!r}")
    if limiter is not None and (key is not None or burst != 1):
        raise ConfigurationError(f"filter {name!r}: key and burst go with per_second=, a limiter has its own")
    if key is not None and (not callable(key)):
        raise ConfigurationError(f"filter {name!r}: key is a function that takes a request and gives a text")
    if not is_whole(burst):
        raise ConfigurationError(f"filter {name!r}: burst is a whole number above zero, not {burst!r}")
    for field, value in (("per_second", per_second), ("max_wait", max_wait)):
        if value is not None and (not is_number(value) or not 0 < value < math.inf):
            raise ConfigurationError(f"filter {name!r}: {field} is a number above zero, not {value!r}")
    return RateLimit(name, limiter, None if per_second is None else Rate(per_second, burst), key, max_wait)
