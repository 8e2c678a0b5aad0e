"""The threads of a released database, and how they are read: by the release that made them, and by every later one."""

from __future__ import annotations

from typing import Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from scallion import Agent, SQLCheckpointer, approve, filters
from scallion.testing import ScriptedModel

THREADS = ("idle", "paused", "decided", "nested")


class Form(TypedDict):
    name: str


def refund(order: int) -> str:
    """Pay an order back."""
    return f"{order} paid back"


def _reply(messages: Any) -> AIMessage | str:
    last = messages[-1]
    if isinstance(last, HumanMessage) and last.text.startswith("Refund"):
        return AIMessage("", tool_calls=[{"name": "refund", "args": {"order": 7}, "id": f"call {len(messages)}"}])
    return f"Reply {len(messages)}: {last.text}"


def desk(saver: SQLCheckpointer) -> Agent:
    """An agent whose tool asks first."""
    asks = filters.approval({"refund": True})
    return Agent(ScriptedModel(_reply), tools=[refund], filters=[asks], checkpointer=saver, name="desk")


def nested(saver: SQLCheckpointer) -> Any:
    """A graph that asks inside of another one."""
    inner = StateGraph(Form).add_node("ask", lambda form: {"name": interrupt("What is your name?")})
    outer = StateGraph(Form).add_node("inner", inner.add_edge(START, "ask").compile())
    return outer.add_edge(START, "inner").compile(checkpointer=saver)


def fill(saver: SQLCheckpointer) -> None:
    """Make the threads."""
    agent = desk(saver)
    for text in ("Hello", "Hello again, with ünicode 🧅"):
        agent.invoke(text, thread="idle", owner="mira")
    saver.sessions.tag("idle", "vip", "parcels")
    agent.invoke("Refund 7", thread="paused", owner="mira")
    agent.invoke("Refund 8", thread="decided")
    saver.approvals.decide(saver.approvals.list(thread="decided").items[0].id, approve(), by="ana")
    nested(saver).invoke({"name": ""}, place("nested"))


def place(thread: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}


def history(saver: SQLCheckpointer) -> list[Any]:
    """Every checkpoint of every thread, as plain data."""
    return [_plain(found) for thread in THREADS for found in saver.list(place(thread))]


def _plain(found: Any) -> list[Any]:
    at, values = found.config["configurable"], found.checkpoint["channel_values"]
    messages = [[one.type, one.id, one.text, one.additional_kwargs] for one in values.get("messages", ())]
    parent = found.parent_config and found.parent_config["configurable"]["checkpoint_id"]
    others = sorted(name for name in values if name != "messages")
    pending = [[task, channel, repr(value)] for task, channel, value in found.pending_writes]
    where = [at["thread_id"], at["checkpoint_ns"], at["checkpoint_id"], parent]
    return [*where, found.metadata["source"], found.metadata["step"], messages, others, pending]


def listed(saver: SQLCheckpointer) -> dict[str, Any]:
    """What the inbox shows of the threads."""
    approvals = [one.to_json() for status in ("pending", "decided") for one in saver.approvals.list(status).items]
    return {"sessions": [one.to_json() for one in saver.sessions.list().items], "approvals": approvals}
