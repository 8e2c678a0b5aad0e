"""One agent, four modes: the same turn driven by invoke, ainvoke, stream or astream, and resumed in the same mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import uuid4

from scallion.errors import ConfigurationError
from scallion.events import Retracted, Token
from scallion.values import Approval, Completed, Decision, Paused, approve

if TYPE_CHECKING:
    from scallion.agent import Agent

Mode = Literal["invoke", "ainvoke", "stream", "astream"]
"""A way to run a turn."""
MODES: tuple[Mode, ...] = get_args(Mode)
"""All of them, for `pytest.mark.parametrize`."""
RESUMES = {"invoke": "resume", "ainvoke": "aresume", "stream": "stream_resume", "astream": "astream_resume"}
Result = Completed | Paused
Outcome = tuple[Result, list[Any]]
"""The result, and the events in front of it: none where the mode does not stream."""
Decide = Decision | Callable[[Approval], Decision] | Mapping[str | None, Decision | Callable[[Approval], Decision]]
"""What is decided: one decision for all, a function of the approval, or a mapping of tools; its None is for all others,
questions too."""


class Driver:
    """Drives one agent in one mode; the asynchronous ones run to their end here, also inside of a running loop."""

    def __init__(self, agent: Agent, mode: Mode = "invoke") -> None:
        if mode not in MODES:
            raise ConfigurationError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
        if not hasattr(agent, "stream_resume"):
            raise ConfigurationError(f"what is driven is an Agent, not {type(agent).__name__}")
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
        return self._run(RESUMES[self.mode], thread, decisions, **options)

    def finish(
        self, input: Any, *, thread: str, decision: Decide | None = None, most: int = 20, **options: Any
    ) -> tuple[Completed, list[Any]]:
        """Run one turn to its answer, deciding each pause (None: approving); the events of all its parts in order.

        Raises AssertionError where it still pauses after `most` resumes, or pauses for what `decision` does not name.
        """
        result, events = self.start(input, thread=thread, **options)
        for _ in range(most):
            if isinstance(result, Completed):
                return result, events
            result, more = self.resume(thread, decided(result, approve() if decision is None else decision), **options)
            events += more
        if isinstance(result, Completed):
            return result, events
        raise AssertionError(f"the turn still pauses after it was resumed {most} times: {_open(result)}")

    def _run(self, verb: str, *args: Any, **options: Any) -> Outcome:
        call = getattr(self.agent, verb)
        if not self.streams:
            out = call(*args, **options)
            return (_run_to_its_end(_awaited(out)) if self.mode == "ainvoke" else out), []
        out = call(*args, **options)
        *events, result = _run_to_its_end(_collected(out)) if self.mode == "astream" else list(out)
        assert isinstance(result, Completed | Paused)
        assert not any(isinstance(one, Completed | Paused) for one in events)
        return result, events


def approve_with(
    agent: Agent,
    input: Any,
    decide: Decide,
    *,
    thread: str | None = None,
    mode: Mode = "invoke",
    most: int = 20,
    **options: Any,
) -> Completed:
    """Run a turn to its answer, and decide each pause on the way: by a decision, a function, or a mapping of tools.

    `thread`: a new one where it is None. `options`: those of the agent's verbs. Raises AssertionError where a pause is
    for what `decide` does not name, or where the turn still pauses after `most` resumes.
    """
    named = thread or f"test-{uuid4().hex}"
    return Driver(agent, mode).finish(input, thread=named, decision=decide, most=most, **options)[0]


def decided(paused: Paused, decide: Decide) -> dict[str, Decision]:
    """A decision for each approval that is open, by its id; raises AssertionError for one without."""
    return {one.id: _decision(one, decide) for one in paused.approvals if one.status == "pending"}


def delivered(events: Sequence[Any]) -> str:
    """What a reader holds at the end: the tokens, without those of model calls that were retracted."""
    gone = {one.call for one in events if isinstance(one, Retracted)}
    return "".join(one.text for one in events if isinstance(one, Token) and one.call not in gone)


def _decision(approval: Approval, decide: Any) -> Decision:
    if isinstance(decide, Mapping):
        if approval.tool not in decide and None not in decide:
            named = ", ".join(map(str, decide)) or "nothing"
            raise AssertionError(f"{_told(approval)} waits for a decision, and there is one for {named}")
        decide = decide.get(approval.tool, decide.get(None, approve()))
    if not isinstance(decide, Decision) and not callable(decide):
        told = "what is decided is a decision, a function of the approval, or a mapping of tools"
        raise ConfigurationError(f"{told}, not {type(decide).__name__}")
    decision: Decision = decide if isinstance(decide, Decision) else decide(approval)
    return decision


def _open(paused: Paused) -> str:
    return ", ".join(_told(one) for one in paused.approvals)


def _told(approval: Approval) -> str:
    return f"{approval.kind} of {approval.tool}" if approval.tool else approval.kind


def _run_to_its_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:  # a loop cannot run inside of another one
        return thread.submit(copy_context().run, asyncio.run, coroutine).result()


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


async def _collected(items: Any) -> list[Any]:
    return [item async for item in items]


Drive = Callable[["Agent"], Driver]
"""What the fixture `drive` is."""
