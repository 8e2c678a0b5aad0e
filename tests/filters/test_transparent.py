"""A pause is transparent: any stack that asks comes to what it would come to if the answers were there at once."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import MODES, Driver, Mode
from scenes import asks, call, layer, results

from scallion import Agent, Completed, Filter, Paused, pause, respond
from scallion.testing import ScriptedModel

Program = tuple[str, list[str]]
"""A colour, and what a hook does: ask a person, call `next`, add to its state."""


class Count(TypedDict):
    n: Annotated[int, operator.add]


def expected(programs: list[Program]) -> tuple[str, list[str], list[int], int]:
    """The text, the questions, the states and the number of innermost calls, read off the programs."""
    asked: list[str] = []
    states = [0] * len(programs)
    calls = 0

    def run(position: int) -> str:
        nonlocal calls
        if position == len(programs):
            calls += 1
            return f"m{calls}"
        parts = []
        for step in programs[position][1]:
            if step == "ask":
                parts.append(f"a{len(asked)}")
                asked.append(f"{position}?")
            elif step == "next":
                parts.append(run(position + 1))
            else:
                states[position] += 1
        return f"{position}[{' '.join(parts)}]"

    return run(0), asked, states, calls


def filter_of(position: int, program: Program, chain: str) -> Filter:
    """The filter that does what the program says."""
    colour, steps = program

    def hook(request: Any, state: Any) -> Iterator[Any]:
        parts, out = [], None
        for step in steps:
            if step == "ask":
                parts.append(str(pause(f"{position}?").message))
            elif step == "next":
                out = yield request
                parts.append(str(out.message.text))
            else:
                state.update(n=1)
        assert out is not None
        return out.replace(message=out.message.model_copy(update={"content": f"{position}[{' '.join(parts)}]"}))

    return layer(str(position), chain, hook, colour, init={"n": 0}, state_schema=Count)


steps = st.lists(st.sampled_from(["ask", "next", "add"]), min_size=1, max_size=4).filter(
    lambda steps: 1 <= steps.count("next") <= 2
)
programs = st.lists(st.tuples(st.sampled_from(["def", "async"]), steps), min_size=1, max_size=3).filter(
    lambda made: len(expected(made)[1]) <= 6
)


def play(driver: Driver, others: list[Mode], questions: list[str]) -> tuple[Completed, list[str]]:
    """Answer whatever is asked, each time in another mode; the result, and what was asked."""
    outcome, _ = driver.start("go", thread="t")
    asked: list[str] = []
    while isinstance(outcome, Paused):
        assert len(asked) < len(questions)
        (one,) = outcome.approvals
        asked.append(one.description)
        mode = others[len(asked) % len(others)]
        outcome, _ = Driver(driver.agent, mode).resume("t", respond(f"a{len(asked) - 1}"))
    return outcome, asked


@settings(max_examples=30, deadline=None)
@given(made=programs, modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=3))
def test_around_the_model(made: list[Program], modes: list[Mode]) -> None:
    """The model is asked as often as `next` reached it, never again on a resume."""
    text, questions, states, calls = expected(made)
    model = ScriptedModel([AIMessage(f"m{n + 1}") for n in range(calls)])
    stack = [filter_of(n, one, "chat") for n, one in enumerate(made)]
    result, asked = play(Driver(Agent(model, filters=stack, checkpointer=InMemorySaver()), modes[0]), modes, questions)
    assert (result.answer, asked, len(model.calls)) == (text, questions, calls)
    assert [result.filter_state[str(n)]["n"] for n in range(len(made))] == states
    assert result.usage["model_calls"] == calls


@settings(max_examples=30, deadline=None)
@given(made=programs, modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=3))
def test_around_a_tool(made: list[Program], modes: list[Mode]) -> None:
    """The tool runs as often as `next` reached it."""
    text, questions, states, calls = expected(made)
    ran: list[int] = []

    def work() -> str:
        """Work."""
        ran.append(1)
        return f"m{len(ran)}"

    model = ScriptedModel([asks(call("work")), "end"])
    stack = [filter_of(n, one, "tool") for n, one in enumerate(made)]
    agent = Agent(model, tools=[work], filters=stack, checkpointer=InMemorySaver())
    result, asked = play(Driver(agent, modes[0]), modes, questions)
    assert (results(result.messages), asked, len(ran)) == ([text], questions, calls)
    assert [result.filter_state[str(n)]["n"] for n in range(len(made))] == states
    assert len(model.calls) == 2


@settings(max_examples=30, deadline=None)
@given(made=programs, modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=3))
def test_around_the_turn(made: list[Program], modes: list[Mode]) -> None:
    """The loop runs as often as `next` reached it; the thread keeps one answer."""
    text, questions, states, calls = expected(made)
    model = ScriptedModel([AIMessage(f"m{n + 1}") for n in range(calls)])
    stack = [filter_of(n, one, "turn") for n, one in enumerate(made)]
    agent = Agent(model, filters=stack, checkpointer=InMemorySaver())
    result, asked = play(Driver(agent, modes[0]), modes, questions)
    assert (result.answer, asked, len(model.calls)) == (text, questions, calls)
    assert [result.filter_state[str(n)]["n"] for n in range(len(made))] == states
    kept = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert [one.text for one in kept] == ["go", text]
