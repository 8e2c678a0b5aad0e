"""Graphs that the tests of the checkpointer run: a tool loop that asks before each call."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.func import task
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Send, interrupt


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Broken(Exception):
    """What the tool raises when it is told to."""


class Loop:
    """Two calls per turn; the first asks twice. `broken` makes the tools fail after they were answered."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self.broken = False
        graph = StateGraph(State)
        graph.add_node("chat", self.chat)
        graph.add_node("tool", self.tool)
        graph.add_edge(START, "chat")
        graph.add_conditional_edges("chat", self.route)
        graph.add_edge("tool", "chat")
        self.graph = graph.compile(checkpointer=saver)

    def chat(self, state: State) -> dict[str, Any]:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage("done")]}
        calls = [{"name": "pay", "args": {"euro": n}, "id": f"c{n}"} for n in range(2)]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def route(self, state: State) -> Any:
        last = state["messages"][-1]
        return [Send("tool", call) for call in last.tool_calls] if getattr(last, "tool_calls", None) else END

    def tool(self, state: Any) -> dict[str, Any]:
        rate(state["args"]["euro"]).result()
        answers = [interrupt(f"pay {state['id']}?")]
        if state["id"] == "c0":
            answers.append(interrupt("really?"))
        if self.broken:
            raise Broken
        return {"messages": [ToolMessage(str(answers), tool_call_id=state["id"])]}


@task
def rate(euro: int) -> int:
    """A task inside a node, which writes under its own id."""
    return euro * 2
