"""Graphs that are not Scallion's, on its checkpointer: an agent of LangChain with its gate, and a node that asks."""

import os
from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from scallion import SQLCheckpointer
from scallion.testing import ScriptedModel


def pay(order: int) -> str:
    """Pay an order."""
    print("on the way")
    return f"paid {order}"


def answer(messages: list[Any]) -> Any:
    """Two calls, then what they gave."""
    results = [message.text for message in messages if message.type == "tool"]
    if results:
        return " / ".join(results)
    return AIMessage("", tool_calls=[{"name": "pay", "args": {"order": n}, "id": f"c{n}"} for n in (1, 2)])


class Form(TypedDict):
    sure: bool


async def ask(form: Form) -> Form:
    """Only an async graph runs this."""
    return {"sure": interrupt("Sure?", response_schema=bool)}


def ask_twice(form: Form) -> Form:
    """Ask, and ask again."""
    return {"sure": interrupt("Sure?") == interrupt("Really?")}


saver = SQLCheckpointer(os.environ.get("SCALLION_DB", "sqlite:///scallion.db"))
gate = HumanInTheLoopMiddleware({"pay": True})
graph = create_agent(ScriptedModel(answer), [pay], middleware=[gate], checkpointer=saver)
form: Any = StateGraph(Form).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
twice: Any = StateGraph(Form).add_node("ask", ask_twice).add_edge(START, "ask").compile(checkpointer=saver)
elsewhere = create_agent(ScriptedModel(answer), [pay], middleware=[gate], checkpointer=InMemorySaver())
keepless = create_agent(ScriptedModel(answer), [pay])
