"""A task that fails after it was answered: LangGraph keeps the answer, and nothing may hand it to the next question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from checkpoints.databases import sync_kinds
from checkpoints.foreign_graphs import CONFIG, run, statuses
from checkpoints.shapes_that_ask import NOTHING, Node, graph
from langgraph.func import entrypoint
from langgraph.types import Command, interrupt

from scallion import respond
from scallion.errors import AlreadyDecided, DecisionError
from scallion.sql.saver import SQLCheckpointer

FIRST, SECOND = "Pay 100?", "Wipe the disk?"


class Fault(Exception):
    """What a node raises between its two questions, and before them, when it is told to."""


class Careless:
    """Asks twice, with effects that may fail in front and in between."""

    def __init__(self) -> None:
        self.fails: str | None = None

    def __call__(self, state: Any) -> Any:
        self._effect("in front")
        first = interrupt(FIRST)
        self._effect("in between")
        return {"said": [first, interrupt(SECOND)]}

    def _effect(self, where: str) -> None:
        if self.fails == where:
            raise Fault


def in_a_subgraph(saver: Any, node: Node, own: bool | None) -> Any:
    return graph(saver, {"n": graph(own, {"ask": node})})


def in_a_function(saver: Any, node: Node) -> Any:
    @entrypoint(checkpointer=saver)
    def flow(given: Any) -> Any:
        return node(given)

    return flow


MADE: dict[str, Callable[[Any, Node], Any]] = {
    "a node": lambda saver, node: graph(saver, {"n": node}),
    "a subgraph": lambda saver, node: in_a_subgraph(saver, node, None),
    "a subgraph of its own": lambda saver, node: in_a_subgraph(saver, node, True),
    "a function": in_a_function,
}
made = pytest.mark.parametrize("make", MADE.values(), ids=MADE)
durabilities = pytest.mark.parametrize("durability", ["async", "exit"])


def pending(saver: SQLCheckpointer) -> dict[str, str]:
    return {one.description: one.id for one in saver.approvals.list().items}


def decide(saver: SQLCheckpointer, question: str, answer: str) -> None:
    saver.approvals.decide(pending(saver)[question], respond(answer))


@made
@durabilities
def test_an_answer_is_given_once(saver: SQLCheckpointer, make: Any, durability: str) -> None:
    node = Careless()
    built = make(saver, node)
    run(built, NOTHING, durability=durability)
    decide(saver, FIRST, "yes")
    node.fails = "in between"
    for _ in range(2):
        with pytest.raises(Fault):
            run(built, saver.command_for("t"), durability=durability)
        assert (statuses(saver), saver.status("t")) == (["decided"], "paused")
    node.fails = None
    run(built, saver.command_for("t"), durability=durability)
    assert list(pending(saver)) == [SECOND]
    decide(saver, SECOND, "no")
    assert run(built, saver.command_for("t"), durability=durability) == []
    assert built.get_state(CONFIG).values["said"] == ["yes", "no"]
    assert (statuses(saver), saver.status("t")) == (["used", "used"], "idle")


@made
@durabilities
@pytest.mark.parametrize("where", ["in front", "in between"])
def test_what_was_not_reached_is_given_again(saver: SQLCheckpointer, make: Any, durability: str, where: str) -> None:
    node = Careless()
    built = make(saver, node)
    run(built, NOTHING, durability=durability)
    decide(saver, FIRST, "yes")
    run(built, saver.command_for("t"), durability=durability)
    decide(saver, SECOND, "no")
    node.fails = where
    with pytest.raises(Fault):
        run(built, saver.command_for("t"), durability=durability)
    assert statuses(saver) == ["used", "decided"]
    node.fails = None
    run(built, saver.command_for("t"), durability=durability)
    assert built.get_state(CONFIG).values["said"] == ["yes", "no"]
    assert statuses(saver) == ["used", "used"]


@sync_kinds
def test_what_was_taken_is_not_taken_back(saver: SQLCheckpointer) -> None:
    node = Careless()
    built = graph(saver, {"n": node})
    (id,) = run(built, NOTHING)
    decide(saver, FIRST, "yes")
    assert saver.approvals.withdraw(id).status == "pending"
    decide(saver, FIRST, "yes")
    node.fails = "in between"
    with pytest.raises(Fault):
        run(built, saver.command_for("t"))
    with pytest.raises(DecisionError, match="the graph has taken the answer"):
        saver.approvals.withdraw(id)
    assert saver.approvals.answers("t") == {}


def test_a_raw_answer_that_failed_cannot_be_decided_again(saver: SQLCheckpointer) -> None:
    node = Careless()
    built = graph(saver, {"n": node})
    (id,) = run(built, NOTHING)
    node.fails = "in between"
    with pytest.raises(Fault):
        run(built, Command(resume={id: "yes"}))
    with pytest.raises(AlreadyDecided) as refused:
        saver.approvals.decide(id, respond("no"))
    assert (refused.value.status, refused.value.decision) == ("decided", None)
    node.fails = None
    run(built, saver.command_for("t"))
    decide(saver, SECOND, "no")
    run(built, saver.command_for("t"))
    assert built.get_state(CONFIG).values["said"] == ["yes", "no"]


def test_the_innermost_task_is_the_one_that_asks(saver: SQLCheckpointer) -> None:
    """Whichever of the two writes comes first: the tasks around it pass the question on."""
    built = in_a_subgraph(saver, Careless(), None)
    run(built, NOTHING)
    writes = [
        (found.config, task, value)
        for found in saver.list(None)
        for task, channel, value in found.pending_writes or ()
        if channel == "__interrupt__"
    ]
    outermost = built.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    spaces = [config["configurable"]["checkpoint_ns"] for config, _, _ in writes]
    assert sorted(map(bool, spaces)) == [False, True]
    for order in (writes, writes[::-1]):
        saver.approvals.close("t", "cancelled")
        saver.copy_thread("t", name := f"copy{order is writes}")
        for config, task, value in order:
            config["configurable"] |= {"thread_id": name, "checkpoint_map": {"": outermost}}
            saver.put_writes(config, [("__interrupt__", value)], task)
        (one,) = saver.approvals.list(thread=name).items
        inner = next(row for row, space in zip(writes, spaces, strict=True) if space)
        saver.put_writes(inner[0], [("said", [])], inner[1])
        assert saver.approvals.get(one.id, thread=name).status == "used"
