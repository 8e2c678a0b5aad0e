"""Conversations for the tests of sessions: an agent that looks up, pays after asking, or just answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.base import empty_checkpoint
from scenes import asks, call

from scallion import Agent, Filter, Session, filters
from scallion.testing import ScriptedModel

FAILS = "fail"
"""A message that the model raises on."""


def reply(messages: Sequence[BaseMessage]) -> AIMessage:
    """What the model says: it works where the message begins with the name of a tool."""
    last = messages[-1]
    if last.type != "human":
        return AIMessage(f"{len(messages)}: {last.text}")
    if last.text == FAILS:
        raise ConnectionError("no model")
    word = str(last.text).partition(" ")[0]
    if word in ("look", "pay"):
        return asks(call(word, f"c{len(messages)}", of=str(last.text)))
    return AIMessage(f"{len(messages)}: heard {last.text}")


def tell(saver: Any, thread: str, *messages: Any, step: int = 1, **metadata: Any) -> None:
    """Store a checkpoint with these messages, which the ones before are no part of."""
    values = {"messages": list(messages)}
    checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": {"messages": step}}
    place: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saver.put(place, checkpoint, {"source": "loop", "step": step, **metadata}, {"messages": step})


class Counter:
    """Tools that write down each execution."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def look(self, of: str) -> str:
        """Look something up."""
        self.ran.append(of)
        return f"seen {of} " + "." * 300

    def pay(self, of: str) -> str:
        """Pay for something."""
        self.ran.append(of)
        return f"paid {of}"


def talker(saver: Any, *, around: Sequence[Filter] = (), counter: Counter | None = None, **options: Any) -> Agent:
    """The agent. It pays once a person has approved, and never twice for the same call."""
    counter = counter or Counter()
    guards = [filters.approval({"pay": True})] + ([filters.once("pay")] if hasattr(saver, "effects") else [])
    return Agent(
        ScriptedModel(reply),
        tools=[counter.look, counter.pay],
        filters=[*around, *guards],
        checkpointer=saver,
        **options,
    )


class Spoken:
    """A session whose verbs are run in one mode: the four that run turns, all others in the colour of the mode."""

    def __init__(self, session: Session, mode: str) -> None:
        self.session = session
        self.mode = mode

    def send(self, input: Any, **options: Any) -> Any:
        """Run a turn."""
        return self._turn({"invoke": "send", "ainvoke": "asend"}.get(self.mode, self.mode), input, **options)

    def resume(self, *args: Any, **options: Any) -> Any:
        """Go on with one."""
        verbs = {"invoke": "resume", "ainvoke": "aresume", "stream": "stream_resume", "astream": "astream_resume"}
        return self._turn(verbs[self.mode], *args, **options)

    def do(self, verb: str, *args: Any, **options: Any) -> Any:
        """Any other verb."""
        if not self.mode.startswith("a"):
            return getattr(self.session, verb)(*args, **options)
        return asyncio.run(_awaited(getattr(self.session, f"a{verb}"), *args, **options))

    def see(self, name: str) -> Any:
        """What is looked up."""
        return self.do(name) if self.mode.startswith("a") else getattr(self.session, name)

    def fork(self, *args: Any, **options: Any) -> Spoken:
        """The fork in the same mode."""
        return Spoken(self.do("fork", *args, **options), self.mode)

    def _turn(self, verb: str, *args: Any, **options: Any) -> Any:
        made = getattr(self.session, verb)(*args, **options)
        if "stream" not in self.mode:
            return asyncio.run(_one(made)) if self.mode == "ainvoke" else made
        return (asyncio.run(_listed(made)) if self.mode == "astream" else list(made))[-1]


async def _awaited(verb: Any, *args: Any, **options: Any) -> Any:
    return await verb(*args, **options)


async def _one(made: Any) -> Any:
    return await made


async def _listed(made: Any) -> list[Any]:
    return [one async for one in made]


def said(messages: Sequence[BaseMessage]) -> list[str]:
    """Who says what, short."""
    return [f"{one.type}: {str(one.text).rstrip('. ')}" for one in messages]
