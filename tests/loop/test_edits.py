"""A chat hook that changes what the thread holds, and one that answers calls itself."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from modes import Drive
from tests.scenes import Desk, asks, call, heard

from scallion import Agent, SQLCheckpointer, approve, around_chat, around_turn, filters
from scallion.testing import ScriptedModel

KEPT: Any = {"configurable": {"thread_id": "t"}}


@around_chat
def shortens(request: Any, state: Any, next: Any) -> Any:
    """Keep a note in the place of all that came before the turn's own messages."""
    reply = next(request)
    last = max(n for n, one in enumerate(request.stored) if one.type == "human")
    note = [] if last == 0 else [HumanMessage("Earlier: much.", id=f"note-{last}")]
    return reply.replace(stored=[*note, *request.stored[last:]])


@around_chat
def answers(request: Any, state: Any, next: Any) -> Any:
    """Answer the calls of one tool, and one that nobody made."""
    reply = next(request)
    calls = [one for one in reply.message.tool_calls if one["name"] == "refund"]
    made = [ToolMessage("by hand", tool_call_id=one["id"]) for one in calls]
    return reply.replace(results=[*made, ToolMessage("for nobody", tool_call_id="unknown")])


@around_turn
def around(request: Any, state: Any, next: Any) -> Any:
    """Stand around the turn, so that it is committed."""
    return next(request)


def test_a_thread_holds_what_the_reply_says_it_does(drive: Drive, sql: SQLCheckpointer) -> None:
    """Over a pause, with a filter around the turn, and in the turns that follow."""
    desk = Desk()
    script = ["one", asks(call("look", order=1)), "two", "three"]
    stack = [around, shortens, filters.approval({"look": True})]
    agent = drive(Agent(ScriptedModel(script), tools=desk.tools, filters=stack, checkpointer=sql))
    agent.start("a", thread="t")
    agent.start("b", thread="t")
    result, _ = agent.resume("t", approve())
    told = [("human", "Earlier: much."), ("human", "b"), ("ai", ""), ("tool", "order 1 is here"), ("ai", "two")]
    assert heard(result.messages) == told
    assert heard(agent.agent.graph.get_state(KEPT).values["messages"]) == told
    agent.start("c", thread="t")
    kept = heard(agent.agent.graph.get_state(KEPT).values["messages"])
    assert kept == [("human", "Earlier: much."), ("human", "c"), ("ai", "three")]


def test_a_call_that_a_chat_hook_answered_does_not_run(drive: Drive) -> None:
    desk = Desk()
    both, one = asks(call("refund", "c1", order=1), call("look", "c2", order=2)), asks(call("refund", "c3", order=3))
    agent = drive(Agent(ScriptedModel([both, one, "done"]), tools=desk.tools, filters=[answers]))
    result, _ = agent.start("go")
    assert desk.ran == ["look 2"]
    assert [text for kind, text in heard(result.messages) if kind == "tool"] == [
        "by hand",
        "order 2 is here",
        "by hand",
    ]
    assert result.answer == "done"
