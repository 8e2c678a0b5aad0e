"""A turn that stops in its first model call is itself: no count, state, limit or part of the turn before is its own."""

from __future__ import annotations

import os
from typing import Any

import pytest
from modes import Drive
from processes import processes
from tests.loop.scripts import asks, call

from scallion import (
    Agent,
    Completed,
    Filter,
    Limits,
    ModelError,
    SQLCheckpointer,
    approve,
    around_chat,
    around_turn,
    filters,
    pause,
)
from scallion.testing import ScriptedModel


@around_turn
def passing(request: Any, state: Any, next: Any) -> Any:
    """Stands around the turn, which then has a marker."""
    return next(request)


def counter(scope: Any) -> Filter:
    """Counts the model calls of its scope."""

    @around_chat(name=f"{scope}_calls", init={"n": 0}, scope=scope)
    def counting(request: Any, state: Any, next: Any) -> Any:
        return next(request), {"n": state["n"] + 1}

    return counting


def failing(times: int) -> ScriptedModel:
    """A model that fails so often when it is told "again", and answers otherwise."""
    left = [times]

    def answer(messages: Any) -> str:
        if messages[-1].text == "again" and left[0]:
            left[0] -= 1
            raise ValueError("away")
        return "ok"

    return ScriptedModel(answer)


def both(saver: Any, drive: Drive, times: int = 1, **options: Any) -> tuple[Agent, Completed, Completed]:
    """A turn that ends, and a second one that fails in its first call so often before it is resumed."""
    agent = Agent(failing(times), checkpointer=saver, **options)
    first, _ = drive(agent).start("first", thread="t")
    with pytest.raises(ModelError):
        drive(agent).start("again", thread="t")
    for _ in range(times - 1):
        with pytest.raises(ModelError):
            drive(agent).resume("t")
    second, _ = drive(agent).resume("t")
    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    return agent, first, second


@pytest.mark.parametrize("around", [[], [passing]], ids=["no filter", "around the turn"])
@pytest.mark.parametrize("times", [1, 2])
def test_it_counts_for_itself(drive: Drive, any_saver: Any, around: list[Any], times: int) -> None:
    stack = [*around, counter("turn"), counter("thread")]
    _, first, second = both(any_saver, drive, times, filters=stack, limits=Limits(model_calls=times))
    assert second.turn != first.turn
    assert second.usage["model_calls"] == 1
    assert second.usage["input_tokens"] == 3
    assert second.filter_state["turn_calls"] == {"n": 1}
    assert second.filter_state["thread_calls"] == {"n": 2}


@pytest.mark.parametrize("around", [[], [passing]], ids=["no filter", "around the turn"])
def test_its_trace_is_its_own(drive: Drive, sql: SQLCheckpointer, around: list[Any]) -> None:
    agent, first, second = both(sql, drive, filters=[*around, filters.usage()])
    session = agent.session("t")
    kept = {turn.id: session.trace(turn) for turn in session.history}
    shown = {id: [part.status for part in trace.parts] for id, trace in kept.items() if trace is not None}
    assert shown == {first.turn: ["completed"], second.turn: ["failed", "completed"]}


def test_it_is_known_by_the_id_that_was_told(drive: Drive, sql: SQLCheckpointer) -> None:
    agent = Agent(failing(1), checkpointer=sql)
    with pytest.raises(ModelError):
        drive(agent).start("again", thread="t")
    (before,) = agent.session("t").history
    second, _ = drive(agent).resume("t")
    assert before.id == second.turn
    assert [turn.id for turn in agent.session("t").history] == [second.turn]


def test_a_pause_before_its_first_call_is_its_own(drive: Drive, any_saver: Any) -> None:
    @around_chat
    def asking(request: Any, state: Any, next: Any) -> Any:
        if request.messages[-1].text == "again":
            pause("go on?", allowed=("approve",))
        return next(request)

    agent = Agent(failing(0), filters=[asking], checkpointer=any_saver, limits=Limits(model_calls=1))
    first, _ = drive(agent).start("first", thread="t")
    paused, _ = drive(agent).start("again", thread="t")
    second, _ = drive(agent).resume("t", approve())
    assert isinstance(second, Completed)
    assert paused.turn == second.turn != first.turn
    assert second.usage["model_calls"] == 1


def die(url: str) -> None:
    """A turn that ends, and one whose process is killed in its first call."""

    def answer(messages: Any) -> str:
        if messages[-1].text == "again":
            os.kill(os.getpid(), 9)
        return "ok"

    session = Agent(ScriptedModel(answer), checkpointer=url).session("t")
    session.send("first")
    session.send("again")


def test_a_killed_one_is_recovered_as_itself(drive: Drive, sql: SQLCheckpointer) -> None:
    url = str(sql.database.engine.url)
    child = processes.Process(target=die, args=(url,))
    child.start()
    child.join(60)
    assert child.exitcode == -9
    agent = Agent(ScriptedModel(["ok"]), checkpointer=sql, limits=Limits(model_calls=1))
    first, killed = agent.session("t").history
    second, _ = drive(agent).resume("t")
    assert (second.turn, second.usage["model_calls"]) == (killed.id, 1)
    assert first.id != killed.id


@pytest.mark.parametrize("verb", ["rerun", "rewind"])
@pytest.mark.parametrize("place", [0, 1], ids=["its input", "its first step"])
def test_from_its_beginning_it_runs_as_itself(drive: Drive, sql: SQLCheckpointer, verb: str, place: int) -> None:
    def look(of: str) -> str:
        """Look something up."""
        return of

    def answer(messages: Any) -> Any:
        return "ok" if messages[-1].type == "tool" else asks(call("look", f"c{len(messages)}", of="a"))

    agent = Agent(ScriptedModel(answer), tools=[look], checkpointer=sql)
    first, _ = drive(agent).start("first", thread="t")
    second, _ = drive(agent).start("second", thread="t")
    session = agent.session("t")
    step = [one for one in session.checkpoints if one.turn == second.turn][place]
    if verb == "rerun":
        again = session.rerun(step).result
    else:
        session.rewind(to=step)
        again, _ = drive(agent).resume("t")
    assert isinstance(again, Completed)
    assert again.turn != first.turn
    assert again.usage["model_calls"] == 2
    trace = session.trace(first.turn)
    assert trace is not None
    assert [part.status for part in trace.parts] == ["completed"]
