"""Processes that kill themselves at a named point, many at the same time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from processes import processes

AT_ONCE = 6
"""How many run at the same time: more would wait for each other's imports."""


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def all_killed(step: Callable[..., None], jobs: Sequence[tuple[Any, ...]]) -> None:
    """Run `step` once for each of the arguments, each in a process of its own, which must kill itself."""
    for start in range(0, len(jobs), AT_ONCE):
        batch = [processes.Process(target=step, args=args) for args in jobs[start : start + AT_ONCE]]
        for one in batch:
            one.start()
        for one, args in zip(batch, jobs[start : start + AT_ONCE], strict=True):
            one.join(60)
            code = one.exitcode
            one.kill()
            one.join()
            assert code == -signal.SIGKILL, f"the process of {args[1:]} was to be killed, and ended with {code}"


@contextmanager
def dying(
    owner: type, verb: str, *, after: bool = False, only: Callable[..., bool] = lambda *args: True
) -> Iterator[None]:
    """Within the block the process dies where it calls this method in either colour, or right after it returns."""
    sync, asynchronous = getattr(owner, verb), getattr(owner, f"a{verb}")

    def dies(*args: Any, **options: Any) -> Any:
        if not only(*args):
            return sync(*args, **options)
        if after:
            sync(*args, **options)
        return die()

    async def adies(*args: Any, **options: Any) -> Any:
        if not only(*args):
            return await asynchronous(*args, **options)
        if after:
            await asynchronous(*args, **options)
        return die()

    with mock.patch.object(owner, verb, dies), mock.patch.object(owner, f"a{verb}", adies):
        yield
