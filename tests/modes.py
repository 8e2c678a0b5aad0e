"""One agent, four modes: the same turn driven by invoke, ainvoke, stream or astream, and resumed in the same mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from scallion import Agent, Completed, Decision, Paused, Retracted, Token, approve

Mode = Literal["invoke", "ainvoke", "stream", "astream"]
MODES: tuple[Mode, ...] = ("invoke", "ainvoke", "stream", "astream")
Result = Completed | Paused
Outcome = tuple[Result, list[Any]]
"""The result, and the events in front of it: none where the mode does not stream."""


class Driver:
    """Drives one agent in one mode."""

    def __init__(self, agent: Agent, mode: Mode) -> None:
        self.agent = agent
        self.mode = mode

    @property
    def streams(self) -> bool:
        """Whether this mode gives events."""
        return "stream" in self.mode

    def start(self, input: Any, **options: Any) -> Outcome:
        """Run one turn on a message."""
        return self._run(self.mode, input, **options)

    def resume(self, thread: str, decisions: Any = None, **options: Any) -> Outcome:
        """Go on with a paused turn."""
        verbs = {"invoke": "resume", "ainvoke": "aresume", "stream": "stream_resume", "astream": "astream_resume"}
        return self._run(verbs[self.mode], thread, decisions, **options)

    def finish(self, input: Any, *, thread: str, decision: Decision | None = None, **options: Any) -> Outcome:
        """Run one turn and give every pause the same decision; the events of all its parts in order."""
        result, events = self.start(input, thread=thread, **options)
        for _ in range(20):
            if isinstance(result, Completed):
                return result, events
            result, more = self.resume(thread, decision or approve(), **options)
            events += more
        raise AssertionError("the turn still pauses after 20 decisions")

    def _run(self, verb: str, *args: Any, **options: Any) -> Outcome:
        call = getattr(self.agent, verb)
        if not self.streams:
            out = call(*args, **options)
            return (asyncio.run(_awaited(out)) if self.mode == "ainvoke" else out), []
        items = (
            asyncio.run(_collected(call(*args, **options))) if self.mode == "astream" else list(call(*args, **options))
        )
        *events, result = items
        assert isinstance(result, Completed | Paused)
        assert not any(isinstance(one, Completed | Paused) for one in events)
        return result, events


def delivered(events: Sequence[Any]) -> str:
    """What a reader holds at the end: the tokens, without those of model calls that were retracted."""
    gone = {one.call for one in events if isinstance(one, Retracted)}
    return "".join(one.text for one in events if isinstance(one, Token) and one.call not in gone)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


async def _collected(items: Any) -> list[Any]:
    return [item async for item in items]


Drive = Callable[[Agent], Driver]
