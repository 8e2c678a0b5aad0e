"""Threads on a journey: each graph is brought to a place worth moving, and goes on from there elsewhere."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypedDict

from checkpoints.graphs_that_ask import Loop
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from scallion.testing import ScriptedModel

Saver = BaseCheckpointSaver[Any]


class Mood(Enum):
    """A class of the application."""

    CALM = "calm"


@dataclass
class Parcel:
    """Another one, too large to lie in place."""

    number: int
    mood: Mood
    note: str = "handle with care " * 9


class Plain(TypedDict, total=False):
    """A state of several kinds of values."""

    log: Annotated[list[Any], operator.add]
    parcel: Any
    count: int
    raw: bytes


def joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    """One list after the other."""
    return [*state, *(word for words in writes for word in words)]


class Delta(TypedDict):
    """A state that is made of its writes."""

    log: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=3)]


def steps(state: Plain) -> dict[str, Any]:
    """Adds to everything."""
    n = state.get("count", 0) + 1
    return {"log": [f"step {n} " * 20, ("pair", n)], "count": n, "parcel": Parcel(n, Mood.CALM), "raw": b"\0\xff" * n}


def ask(state: Plain) -> dict[str, Any]:
    """Asks twice."""
    return {"log": [f"{interrupt({'first': len(state['log'])})}, {interrupt('second')}"]}


def forked(saver: Saver) -> Any:
    """A graph whose thread has two branches."""
    return StateGraph(Plain).add_node(steps).add_edge(START, "steps").compile(checkpointer=saver)


def nested(saver: Saver) -> Any:
    """A graph whose subgraph asks."""
    inner = StateGraph(Plain).add_node(steps).add_node(ask).add_edge(START, "steps").add_edge("steps", "ask").compile()
    outer = StateGraph(Plain).add_node("inner", inner).add_node(steps)
    return outer.add_edge(START, "steps").add_edge("steps", "inner").compile(checkpointer=saver)


def delta(saver: Saver) -> Any:
    """A graph with a channel that is only stored as its writes."""
    graph = StateGraph(Delta).add_node("say", lambda state: {"log": [f"{len(state['log'])} so far"]})
    return graph.add_edge(START, "say").compile(checkpointer=saver)


def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def approved(saver: Saver) -> Any:
    """LangChain's agent, which asks before it sends."""

    def answer(messages: Sequence[Any]) -> Any:
        if messages[-1].type != "human":
            return "all sent"
        calls = [{"name": "send", "args": {"to": name}, "id": name} for name in ("ana", "bo")]
        return AIMessage("", tool_calls=calls)

    gate = HumanInTheLoopMiddleware(interrupt_on={"send": True})
    return create_agent(ScriptedModel(answer), tools=[send], middleware=[gate], checkpointer=saver)


def _fork(graph: Any, config: Any) -> None:
    for n in range(3):
        graph.invoke({"log": [f"round {n}"]}, config)
    old = list(graph.get_state_history(config))[4]
    graph.update_state(old.config, {"log": ["another way " * 30], "count": 40})


def _talk(graph: Any, config: Any) -> None:
    for n in range(4):
        graph.invoke({"log": [f"word {n} " * 10]}, config)


def _answered(graph: Any, config: Any) -> Any:
    asked = graph.get_state(config).interrupts
    while asked:
        result = graph.invoke(Command(resume={one.id: "yes" for one in asked}), config)
        asked = result.get("__interrupt__", ())
    return result


@dataclass(frozen=True)
class Journey:
    """A graph, how its thread gets to where it is moved, how it goes on, and how many approvals are open there."""

    build: Callable[[Saver], Any]
    before: Callable[[Any, Any], Any]
    after: Callable[[Any, Any], Any]
    open: int = 0


HELLO = {"messages": [HumanMessage("pay them", id="h1")]}
APPROVE = Command(resume={"decisions": [{"type": "approve"}, {"type": "approve"}]})
JOURNEYS = {
    "loop": Journey(lambda saver: Loop(saver).graph, lambda graph, at: graph.invoke(HELLO, at), _answered, 2),
    "forked": Journey(forked, _fork, lambda graph, at: graph.invoke({"log": ["on"]}, at)),
    "nested": Journey(nested, lambda graph, at: graph.invoke({"log": ["go"]}, at), _answered, 1),
    "delta": Journey(delta, _talk, lambda graph, at: graph.invoke({"log": ["on"]}, at)),
    "approved": Journey(
        approved, lambda graph, at: graph.invoke(HELLO, at), lambda graph, at: graph.invoke(APPROVE, at), 2
    ),
}
ALLOWED = [(__name__, "Parcel"), (__name__, "Mood")]
"""The classes of these graphs, for the serializer."""
AT = {"configurable": {"thread_id": "t"}}


def history(graph: Any, config: Any = AT) -> list[Any]:
    """All that the graph tells about its past."""
    return [plain(snapshot._asdict()) for snapshot in graph.get_state_history(config)]


def plain(value: Any) -> Any:
    """The value in terms that are equal where it is the same."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_asdict"):
        return [plain(part) for part in value]
    return plain(value._asdict()) if hasattr(value, "_asdict") else value


def said(result: Any) -> Any:
    """What a run gave, without the ids that it made up."""
    messages = [{**one["data"], "id": None} for one in messages_to_dict(result.get("messages", []))]
    return {name: value for name, value in result.items() if name != "messages"} | {"messages": messages}
