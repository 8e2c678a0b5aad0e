"""Processes that kill themselves at a named point, many at the same time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from processes import processes

from scallion.testing.crash import die
from scallion.testing.probes import probed

__all__ = ["AT_ONCE", "all_killed", "die", "dying"]

AT_ONCE = 6
"""How many run at the same time: more would wait for each other's imports."""


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


def dying(
    owner: type, verb: str, *, after: bool = False, only: Callable[..., bool] = lambda *args: True
) -> AbstractContextManager[None]:
    """Within the block the process dies where it calls this method in either colour, or right after it returns."""

    def dies(*args: Any, **options: Any) -> None:
        if only(*args):
            die()

    return probed(owner, verb, **{"after" if after else "before": dies})
