"""A desk whose refunds wait for a person, and a saver that dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any
from unittest import mock

from langgraph.checkpoint.memory import InMemorySaver
from loop.scripts import assert_valid
from scenes import Desk, asks, call
from tests.hitl.killing import dying
from tests.modes import Driver, Mode

from scallion import Agent, Filter, SQLCheckpointer, approve, filters
from scallion.testing import ScriptedModel

CALLS = (call("refund", "c1", order=1), call("look", "c2", order=2))
GATE = filters.approval({"refund": True})


def passes(request: Any, state: Any, next: Any) -> Any:
    return next(request)


TURN = Filter("turn", around_turn=passes)
ONION: dict[Mode, list[Filter]] = {"invoke": [TURN], "ainvoke": [], "stream": [], "astream": [TURN]}
"""What stands around the turn in each mode: with and without a filter, a turn is stored in different steps."""


def says(messages: list[Any]) -> Any:
    """Calls the tools where a message begins with "go"; else it repeats what it was told last."""
    assert_valid([one for one in messages if one.type != "system"])
    last = messages[-1]
    return asks(*CALLS) if last.type == "human" and last.text.startswith("go") else f"heard {last.text}"


def desk_of(saver: Any, on_message: Any, *onion: Filter, desk: Desk | None = None, **options: Any) -> Agent:
    tools = (desk or Desk()).tools
    stack = [*onion, GATE]
    model = options.pop("model", None) or ScriptedModel(says)
    return Agent(model, tools=tools, filters=stack, checkpointer=saver, on_message_while_paused=on_message, **options)


def history(agent: Agent, thread: str) -> list[Any]:
    """What the thread holds."""
    found = agent.graph.get_state({"configurable": {"thread_id": thread}}).values
    return list(found.get("messages") or [])


class Crash(Exception):
    """Stands for the end of the process: nothing is written after it."""


@contextmanager
def crashing(saver: Any, at: int) -> Iterator[None]:
    """The process is gone right before it stores its checkpoint number `at`, counted from zero."""
    stored = count()
    put, aput = saver.put, saver.aput

    def dies(*args: Any) -> Any:
        if next(stored) >= at:
            raise Crash
        return put(*args)

    async def adies(*args: Any) -> Any:
        if next(stored) >= at:
            raise Crash
        return await aput(*args)

    own = {} if isinstance(saver, InMemorySaver) else {"aput": adies}  # that one's calls its `put`
    with mock.patch.multiple(saver, put=dies, **own), suppress(Crash):
        yield


def resumes_and_dies(url: str, thread: str, mode: Mode, at: int) -> None:
    """Goes on with a pause and then with its queue; the process is killed before it stores its checkpoint `at`."""
    stored = count()
    agent = desk_of(SQLCheckpointer(url), "queue", TURN)
    with dying(SQLCheckpointer, "put", only=lambda *args: next(stored) >= at):
        Driver(agent, mode).resume(thread, approve())
