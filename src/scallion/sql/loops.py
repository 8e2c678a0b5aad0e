"""An async engine for each event loop: a pool of connections must not serve two. It ends with its loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

Lives = AsyncGenerator["AsyncEngine"]


class Loops:
    """The engines of the loops that use a database, made by `make`."""

    def __init__(self, make: Callable[[], AsyncEngine]) -> None:
        self._make = make
        self._lives: dict[asyncio.AbstractEventLoop, tuple[AsyncEngine, Lives]] = {}

    async def engine(self) -> AsyncEngine:
        """The engine of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._lives:
            known = list(self._lives)  # other threads add theirs meanwhile
            for ended in [one for one in known if one.is_closed()]:  # by whoever forgot its generators
                self._lives.pop(ended, None)
            made = self._make()
            self._lives[loop] = made, self._life(loop, made)
            await anext(self._lives[loop][1])
        return self._lives[loop][0]

    async def _life(self, loop: asyncio.AbstractEventLoop, engine: AsyncEngine) -> Lives:
        """A generator that is never finished: a loop that ends closes those, and with it the connections."""
        try:
            yield engine
        finally:
            self._lives.pop(loop, None)
            await engine.dispose()

    async def aclose(self) -> None:
        """Close the connections of the running loop, and soon those of other loops that run."""
        if own := self._lives.pop(asyncio.get_running_loop(), None):
            await own[1].aclose()
        self.close()

    def close(self) -> None:
        """Close the connections of all loops that run, soon."""
        for loop, (engine, _) in list(self._lives.items()):
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(engine.dispose(), loop)
