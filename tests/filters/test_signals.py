"""A pause is not an error: whatever a filter does with exceptions, it is not lost, and nothing runs behind it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.types import interrupt
from modes import Drive
from scenes import Desk, asks, call, reply, results

from scallion import Agent, Completed, Filter, Paused, approve, filters, pause, reject, respond
from scallion.testing import ScriptedModel


def instead(request: Any) -> Any:
    """A reply that a filter makes up where it thinks that the chain failed."""
    kind = type(request).__name__
    return reply({"TurnRequest": "turn", "ChatRequest": "chat", "ToolRequest": "tool"}[kind], "made up")


def swallows_errors(request: Any, state: Any, next: Any) -> Any:
    try:
        return next(request)
    except Exception:
        return instead(request)


def swallows_all(request: Any, state: Any, next: Any) -> Any:
    try:
        return next(request)
    except:  # noqa: E722
        return instead(request)


def returns_in_finally(request: Any, state: Any, next: Any) -> Any:
    out = None
    try:
        out = next(request)
    finally:
        return out or instead(request)  # noqa: B012


def suppresses(request: Any, state: Any, next: Any) -> Any:
    with contextlib.suppress(BaseException):
        return next(request)


def raises_another(request: Any, state: Any, next: Any) -> Any:
    try:
        return next(request)
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        raise RuntimeError("something else") from None


def tries_again(request: Any, state: Any, next: Any) -> Any:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            return next(request)
    return instead(request)


async def aswallows_all(request: Any, state: Any, next: Any) -> Any:
    try:
        return await next(request)
    except:  # noqa: E722
        return instead(request)


async def atries_again(request: Any, state: Any, next: Any) -> Any:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            return await next(request)
    return instead(request)


async def in_a_group(request: Any, state: Any, next: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(next(request))
    return task.result()


async def in_a_group_that_is_caught(request: Any, state: Any, next: Any) -> Any:
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(next(request))
        return task.result()
    except BaseException:
        return instead(request)


async def gathers(request: Any, state: Any, next: Any) -> Any:
    return (await asyncio.gather(next(request)))[0]


async def gathers_exceptions(request: Any, state: Any, next: Any) -> Any:
    out = (await asyncio.gather(next(request), return_exceptions=True))[0]
    return instead(request) if isinstance(out, BaseException) else out


async def waits_for(request: Any, state: Any, next: Any) -> Any:
    return await asyncio.wait_for(next(request), 20)


async def in_a_task(request: Any, state: Any, next: Any) -> Any:
    return await asyncio.ensure_future(next(request))


async def shields(request: Any, state: Any, next: Any) -> Any:
    return await asyncio.shield(next(request))


HOOKS = [
    swallows_errors,
    swallows_all,
    returns_in_finally,
    suppresses,
    raises_another,
    tries_again,
    aswallows_all,
    atries_again,
    in_a_group,
    in_a_group_that_is_caught,
    gathers,
    gathers_exceptions,
    waits_for,
    in_a_task,
    shields,
]
hooks = pytest.mark.parametrize("hook", HOOKS, ids=lambda one: one.__name__)


@hooks
def test_a_gate_inside_a_tool_filter_holds(drive: Drive, hook: Any, memory: Any) -> None:
    """The pause of an approval passes; the tool runs once, after it; the person's verdict is what the model reads."""
    desk = Desk()
    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    stack = [Filter("careless", around_tool=hook), filters.approval(default=True)]
    driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert [(one.tool, one.args) for one in paused.approvals] == [("refund", {"order": 1})]
    assert desk.ran == []
    assert len(model.calls) == 1
    result, _ = driver.resume("t", approve())
    assert isinstance(result, Completed)
    assert desk.ran == ["refund 1"]
    assert results(result.messages) == ["refunded 1"]


@hooks
@pytest.mark.parametrize("chain", ["turn", "chat"])
def test_a_pause_inside_the_other_chains_passes(drive: Drive, hook: Any, chain: str, memory: Any) -> None:
    """Asked before `next` by the inner filter: nothing behind it has run when the turn waits."""
    desk = Desk()
    behind: list[str] = []

    def asking(request: Any, state: Any, next: Any) -> Any:
        pause("go on?", allowed=("approve",))
        behind.append(chain)
        return next(request)

    model = ScriptedModel([asks(call("look", order=1)), "end"])
    stack = [Filter("careless", **{"around_" + chain: hook}), Filter("asking", **{"around_" + chain: asking})]
    driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert [one.description for one in paused.approvals] == ["go on?"]
    assert (behind, desk.ran, len(model.calls)) == ([], [], 0)
    result = paused
    for _ in range(2):  # a chat hook asks in both rounds
        if isinstance(result, Paused):
            result, _ = driver.resume("t", approve())
    assert result.answer == "end"
    assert desk.ran == ["look 1"]
    assert len(model.calls) == 2


@hooks
def test_a_turn_filter_does_not_lose_a_pause_of_the_loop(drive: Drive, hook: Any, memory: Any) -> None:
    desk = Desk()
    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    stack = [Filter("careless", around_turn=hook), filters.approval(default=True)]
    driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert desk.ran == []
    result, _ = driver.resume("t", reject("no"))
    assert isinstance(result, Completed)
    assert result.answer == "end"
    assert desk.ran == []
    assert "no" in results(result.messages)[0]


@hooks
@pytest.mark.parametrize("ask", [lambda: pause("why?").message, lambda: interrupt("why?")], ids=["pause", "interrupt"])
def test_a_question_of_a_tool_passes_filters(drive: Drive, hook: Any, ask: Any, memory: Any) -> None:
    """By our own `pause`, and by LangGraph's `interrupt`, which is an Exception."""
    done: list[str] = []

    def consult() -> str:
        """Ask a person."""
        answer = ask()
        done.append("ran")
        return f"said {answer if isinstance(answer, str) else answer['message']}"

    model = ScriptedModel([asks(call("consult")), "end"])
    driver = drive(Agent(model, tools=[consult], filters=[Filter("careless", around_tool=hook)], checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert done == []
    result, _ = driver.resume("t", respond("because"))
    assert isinstance(result, Completed)
    assert results(result.messages) == ["said because"]
    assert done == ["ran"]


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_tool_that_swallows_its_own_pause_still_pauses(drive: Drive, colour: str, memory: Any) -> None:
    """A bare `except` in a tool body."""

    def consult() -> str:
        """Ask a person."""
        try:
            return str(pause("why?").message)
        except BaseException:
            return "nobody answered"

    async def aconsult() -> str:
        """Ask a person."""
        return consult()

    tool = (
        StructuredTool.from_function(consult)
        if colour == "def"
        else StructuredTool.from_function(coroutine=aconsult, name="consult")
    )
    model = ScriptedModel([asks(call("consult")), "end"])
    driver = drive(Agent(model, tools=[tool], checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    result, _ = driver.resume("t", respond("because"))
    assert results(result.messages) == ["because"]


def test_after_a_swallowed_pause_a_second_next_runs_nothing(drive: Drive, memory: Any) -> None:
    """Not the inner filters, not the tool: neither when the turn stops nor beside other calls."""
    desk = Desk()
    inner: list[str] = []

    def greedy(request: Any, state: Any, next: Any) -> Any:
        out = None
        for order in (1, 2, 3):
            with contextlib.suppress(BaseException):
                out = next(request.replace(call={**request.call, "args": {"order": order}}))
        return out or instead(request)

    def sees(request: Any, state: Any, next: Any) -> Any:
        inner.append(str(request.call["args"]["order"]))
        return next(request)

    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    stack = [Filter("greedy", around_tool=greedy), Filter("sees", around_tool=sees), filters.approval(default=True)]
    driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert (inner, desk.ran) == (["1"], [])
    assert len(paused.approvals) == 1


def test_two_nexts_at_once_where_one_pauses(drive: Drive, memory: Any) -> None:
    """The second of a `gather` does not run behind the pause of the first."""
    desk = Desk()

    async def both(request: Any, state: Any, next: Any) -> Any:
        one, _ = await asyncio.gather(next(request), next(request))
        return one

    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    stack = [Filter("both", around_tool=both), filters.approval(default=True)]
    driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert (len(paused.approvals), desk.ran) == (1, [])


def test_a_pause_in_a_thread_of_the_hook_is_seen(drive: Drive, memory: Any) -> None:
    """`asyncio.to_thread` carries the context along."""

    async def asks_elsewhere(request: Any, state: Any, next: Any) -> Any:
        said = await asyncio.to_thread(pause, "sure?", allowed=("approve",))
        assert said.type == "approve"
        return await next(request)

    driver = drive(
        Agent(ScriptedModel(["end"]), filters=[Filter("f", around_chat=asks_elsewhere)], checkpointer=memory)
    )
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert driver.resume("t", approve())[0].answer == "end"


def test_an_error_beside_a_pause_does_not_hide_it(drive: Drive, memory: Any) -> None:
    """A filter that crashes over the signal: the turn waits, and the crash is not reported as the filter's."""
    desk = Desk()

    def cleans_up(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        finally:
            if not desk.ran:
                raise KeyError("cleaning up failed")

    model = ScriptedModel([asks(call("refund", order=1)), AIMessage("end")])
    stack = [Filter("cleans", around_tool=cleans_up), filters.approval(default=True)]
    driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    assert driver.resume("t", approve())[0].answer == "end"
    assert desk.ran == ["refund 1"]
