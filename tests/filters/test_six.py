"""The same stack of six mixed filters gives the same state and text in all four modes and on resume."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from modes import Driver, delivered
from scenes import Desk, asks, call, heard

from scallion import (
    Agent,
    Completed,
    Filter,
    ModelError,
    Paused,
    SQLCheckpointer,
    Token,
    TokenTransform,
    approve,
    filters,
)
from scallion.testing import ScriptedModel


class Count(TypedDict):
    n: Annotated[int, operator.add]


async def validate(request: Any, state: Any, next: Any) -> Any:
    """async, turn: asks for a better answer once."""
    out = await next(request)
    if "good" in out.answer:
        return out, {"tries": out.attempts}
    out = await next(request.replace(messages=[*out.messages, HumanMessage("better", id="fb")], load_history=False))
    return out, {"tries": out.attempts}


def retry(request: Any, state: Any, next: Any) -> Any:
    """def, chat: a second attempt."""
    try:
        return next(request)
    except ModelError as error:
        state.update(seen=error.kind)
        return next(request)


async def count_chat(request: Any, state: Any, next: Any) -> Any:
    """async, chat."""
    await asyncio.sleep(0)
    return await next(request), {"n": 1}


def count_tool(request: Any, state: Any, next: Any) -> Any:
    """def, tool, the same state."""
    state.update(n=100)
    out = next(request)
    return out.replace(message=out.message.model_copy(update={"content": f"[{out.message.text}]"}))


def upper(token: Token, held: str) -> tuple[list[str], str]:
    """Holds back a character, so that there is something to flush."""
    text = held + token.text.upper()
    return [text[:-1]], text[-1:]


def six() -> list[Filter]:
    return [
        Filter("validate", around_turn=validate, init={"tries": 0}),
        Filter("retry", around_chat=retry),
        Filter("counts", around_chat=count_chat, around_tool=count_tool, init={"n": 0}, state_schema=Count),
        filters.approval({"refund": True}),
        Filter("upper", token_transform=TokenTransform(upper, init="", flush=lambda held: [held])),
        Filter("dots", token_transform=TokenTransform(lambda t, s: ([t.text.replace(" ", ".")], s))),
    ]


SCRIPT = [
    asks(call("refund", "c1", order=1), call("mail", "c2", to="bo"), text="let me see"),
    ConnectionError("reset"),
    "a bad answer",
    asks(call("refund", "c3", order=2)),
    "a good answer",
]


def stack(desk: Desk, saver: Any, script: list[Any]) -> Agent:
    return Agent(ScriptedModel(script), tools=desk.tools, filters=six(), checkpointer=saver)


def outcome(agent: Agent, desk: Desk, result: Any) -> Any:
    assert isinstance(result, Completed)
    usage = {name: value for name, value in result.usage.items() if name != "seconds"}
    kept = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    return (
        result.answer,
        result.filter_state,
        usage,
        result.attempts,
        heard(result.messages),
        heard(kept),
        sorted(desk.ran),
    )


EXPECTED_STATE = {
    "validate": {"tries": 2},
    "retry": {"seen": "transient"},
    "counts": {"n": 304},
    "approval": {},
    "upper": {},
    "dots": {},
}


@pytest.mark.parametrize("resumed_in", [None, "invoke", "astream"])
def test_the_same_in_every_mode(mode: Any, resumed_in: Any, sql: SQLCheckpointer) -> None:
    """Started in one mode, resumed in the same or any other, by new Agent objects; compared with plain `invoke`."""
    desk = Desk()
    agent = stack(desk, sql, SCRIPT)
    first = Driver(agent, mode)
    second = first if resumed_in is None else Driver(agent, resumed_in)
    result, events = first.start("go", thread="t")
    assert isinstance(result, Paused)
    while isinstance(result, Paused):
        result, more = second.resume("t", approve())
        events += more
    answer, state, usage, attempts, messages, kept, ran = outcome(agent, desk, result)
    assert answer == "a good answer"
    assert state == EXPECTED_STATE
    assert (usage["model_calls"], usage["tool_calls"], attempts) == (5, 3, 2)
    assert ran == ["mail bo", "refund 1", "refund 2"]
    assert kept == [
        ("human", "go"),
        ("ai", "let me see"),
        ("tool", "[refunded 1]"),
        ("tool", "[sent hello to bo]"),
        ("ai", ""),
        ("tool", "[refunded 2]"),
        ("ai", "a good answer"),
    ]
    assert ("human", "better") in messages
    if first.streams and second.streams:
        assert delivered(events) == "LET.ME.SEEA.GOOD.ANSWER"


def test_no_pause_no_saver(drive: Any) -> None:
    """The same stack without its gate needs no saver."""
    desk = Desk()
    model = ScriptedModel([asks(call("look", order=1)), AIMessage("a good answer")])
    agent = Agent(model, tools=desk.tools, filters=[one for one in six() if one.name != "approval"])
    driver = drive(agent)
    result, events = driver.start("go")
    assert result.filter_state["counts"] == {"n": 102}
    assert result.answer == "a good answer"
    if driver.streams:
        assert delivered(events) == "A.GOOD.ANSWER"
