"""Filters beside one that is tested: one that asks, one that only has a state, and one that watches its hooks."""

from __future__ import annotations

import copy
import time
from asyncio import _get_running_loop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from scallion.filters.filter import CHAINS, Chain, Filter, is_async
from scallion.filters.onion import PauseSignal
from scallion.filters.pausing import pause


def asking(chain: Chain, *, pauses: bool = True, asked: list[str] | None = None) -> Filter:
    """A filter that asks a person before it goes on; with `pauses=False` it only goes on."""

    def hook(request: Any, state: Any, next: Any) -> Any:
        if asked is not None:
            asked.append(chain)
        if pauses:
            pause(asking.__name__)
        return next(request)

    hooks: dict[str, Any] = {f"around_{chain}": hook}
    return Filter("asking", **hooks)


def beside(name: str) -> Filter:
    """A filter whose state nobody else has any business with."""
    return Filter(name, around_turn=_goes_on, around_chat=_goes_on, around_tool=_goes_on, init={"untouched": True})


def watched(one: Filter, lost: list[str]) -> Filter:
    """The filter, with a note in `lost` for each hook that was given a pause and did not let it pass."""
    copied = copy.copy(one)
    for chain in CHAINS:
        if (hook := one.hook(chain)) is not None:
            watch = _awatching if is_async(hook) else _watching
            setattr(copied, f"around_{chain}", watch(hook, f"around_{chain} of filter {one.name!r}", lost))
    return copied


@contextmanager
def held() -> Iterator[list[float]]:
    """The seconds of each `time.sleep` within the block that a running event loop has to wait for."""
    sleeps: list[float] = []
    sleep = time.sleep

    def noting(seconds: float) -> None:
        if _get_running_loop() is not None:
            sleeps.append(seconds)
        sleep(seconds)

    with mock.patch.object(time, "sleep", noting):
        yield sleeps


def _goes_on(request: Any, state: Any, next: Any) -> Any:
    return next(request)


class _Watch:
    """Whether one run of a hook let the pauses pass that it was given; `lost` gets a note of those that it did not."""

    def __init__(self, where: str, lost: list[str]) -> None:
        self._where = where
        self._lost = lost
        self._paused = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Around a call of `next`."""
        if self._paused:  # who goes on behind a pause did not let it pass
            self._lost.append(self._where)
        try:
            yield
        except PauseSignal:
            self._paused = True
            raise

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Around the hook."""
        let_pass = False
        try:
            yield
        except PauseSignal:
            let_pass = True
            raise
        finally:
            if self._paused and not let_pass:
                self._lost.append(self._where)


def _watching(hook: Callable[..., Any], where: str, lost: list[str]) -> Callable[..., Any]:
    def watching(request: Any, state: Any, next: Any) -> Any:
        watch = _Watch(where, lost)

        def noting(request: Any) -> Any:
            with watch.inside():
                return next(request)

        with watch.outside():
            return hook(request, state, noting)

    return watching


def _awatching(hook: Callable[..., Any], where: str, lost: list[str]) -> Callable[..., Any]:
    async def watching(request: Any, state: Any, next: Any) -> Any:
        watch = _Watch(where, lost)

        async def noting(request: Any) -> Any:
            with watch.inside():
                return await next(request)

        with watch.outside():
            return await hook(request, state, noting)

    return watching
