"""Graphs of every shape that ask: nodes, subgraphs with and without a checkpointer of their own, the functional API."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt


class Said(TypedDict):
    said: Annotated[list[str], operator.add]


Node = Callable[[Said], Any]
NOTHING: Any = {"said": []}


def asks(*questions: str) -> Node:
    """A node that asks these, one after the other."""
    return lambda state: {"said": [interrupt(question) for question in questions]}


def graph(saver: Any, *steps: dict[str, Any]) -> Any:
    """Steps that follow each other; the nodes of a step run side by side."""
    builder = StateGraph(Said)
    before = [START]
    for step in steps:
        for name, node in step.items():
            builder.add_node(name, node)
            for one in before:
                builder.add_edge(one, name)
        before = list(step)
    return builder.compile(checkpointer=saver)


def child(*questions: str, own: bool = False) -> Any:
    """A subgraph of one node; `own`: it keeps its state from one call to the next."""
    return graph(own or None, {"ask": asks(*questions)})


def sends(saver: Any) -> Any:
    """One subgraph for each of three sends, all with the same question."""
    builder = StateGraph(Said)
    builder.add_node("x", child("q"))
    builder.add_conditional_edges(START, lambda state: [Send("x", NOTHING) for _ in range(3)])
    return builder.compile(checkpointer=saver)


@task
def ask(question: str) -> Any:
    return interrupt(question)


def entry(saver: Any) -> Any:
    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        return {"said": [interrupt("q1"), ask("q2").result(), interrupt("q3")]}

    return flow


def entry_at_once(saver: Any) -> Any:
    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        futures = [ask("q1"), ask("q2")]
        return {"said": [future.result() for future in futures]}

    return flow


def entry_with_subgraph(saver: Any) -> Any:
    inner = child("q1", "q2")

    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        return inner.invoke(NOTHING)

    return flow


def called(saver: Any, *, own: bool = False) -> Any:
    """A subgraph that the code of a node calls."""
    inner = child("q1", "q2", own=own)
    return graph(saver, {"n": lambda state: inner.invoke(state)})


SHAPES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "a node": (lambda saver: graph(saver, {"n": asks("q1", "q2")}), 2),
    "nodes side by side": (lambda saver: graph(saver, {"x": asks("q1"), "y": asks("q2")}), 2),
    "a subgraph": (lambda saver: graph(saver, {"n": child("q1", "q2")}), 2),
    "a subgraph of its own": (lambda saver: graph(saver, {"n": child("q1", "q2", own=True)}), 2),
    "a subgraph that is called": (called, 2),
    "a subgraph of its own that is called": (lambda saver: called(saver, own=True), 2),
    "two deep": (lambda saver: graph(saver, {"n": graph(None, {"m": child("q1", "q2")})}), 2),
    "two deep of its own": (lambda saver: graph(saver, {"n": graph(None, {"m": child("q1", own=True)})}), 1),
    "steps of a subgraph": (lambda saver: graph(saver, {"n": graph(None, {"a": asks("q1")}, {"b": asks("q2")})}), 2),
    "steps of one of its own": (
        lambda saver: graph(saver, {"n": graph(True, {"a": asks("q1")}, {"b": asks("q2")})}),
        2,
    ),
    "side by side in a subgraph": (
        lambda saver: graph(saver, {"n": graph(None, {"a": asks("q1"), "b": asks("q2")})}),
        2,
    ),
    "subgraphs side by side": (lambda saver: graph(saver, {"x": child("q1"), "y": child("q2", "q3")}), 3),
    "subgraphs of their own": (
        lambda saver: graph(saver, {"x": child("q1", own=True), "y": child("q2", "q3", own=True)}),
        3,
    ),
    "subgraphs one after the other": (lambda saver: graph(saver, {"x": child("q")}, {"y": child("q")}), 2),
    "sends to a subgraph": (sends, 3),
    "the functional API": (entry, 3),
    "tasks at once": (entry_at_once, 2),
    "a subgraph in the functional API": (entry_with_subgraph, 2),
}
"""By name: how it is made for a saver, and how many questions it asks."""
