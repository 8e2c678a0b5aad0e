"""Graphs of LangGraph's that are interrupted otherwise than by a question, on the checkpointer."""

import os
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from scallion import SQLCheckpointer


def first(state: Any) -> Any:
    """Done once."""
    with Path("log").open("a") as log:
        log.write("first\n")
    return {"messages": [AIMessage("first")]}


def second(state: Any) -> Any:
    """Fails, or ends the process, as long as there is a file of that name."""
    if Path("die").exists():
        os._exit(9)
    if Path("fail").exists():
        raise RuntimeError("S3CRET")
    return {"messages": [AIMessage("second")]}


def greet(state: Any, config: RunnableConfig) -> Any:
    """Reads its config after it has asked."""
    word = interrupt("Greet?")
    told = {key: value for key, value in config["configurable"].items() if key in ("user", "times")}
    return {"messages": [AIMessage(f"{word} {told}")]}


saver = SQLCheckpointer(os.environ.get("SCALLION_DB", "sqlite:///scallion.db"))
builder: Any = StateGraph(MessagesState).add_node("first", first).add_node("second", second)
builder.add_edge(START, "first").add_edge("first", "second")
steps = builder.compile(checkpointer=saver)
stops = builder.compile(checkpointer=saver, interrupt_before=["second"])
greets: Any = StateGraph(MessagesState).add_node("greet", greet).add_edge(START, "greet").compile(checkpointer=saver)


@entrypoint(checkpointer=saver)
def publish(topic: Any) -> Any:
    """Returns what it is told, or a message."""
    told = interrupt("What?")
    return AIMessage(told) if topic == "message" else told


if __name__ == "__main__":
    steps.invoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "t"}}, durability="sync")
