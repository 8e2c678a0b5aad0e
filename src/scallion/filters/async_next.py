"""The `next` of a hook that is an `async def`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from scallion.bridge import spawn
from scallion.filters.journal import Frame


def as_async(frame: Frame, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The `next` of a hook as an `async def` may call it; the chain waits for what it leaves behind."""

    async def next(request: Any) -> Any:
        done = asyncio.get_running_loop().create_future()
        frame.run.running.add(done)
        try:
            return await spawn(call, request)
        finally:
            frame.run.running.discard(done)
            if not done.done():
                done.set_result(None)

    return next
