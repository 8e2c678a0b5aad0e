"""Budgets of a turn: exact, checked before a call, kept over re-entries and resumes; the thread stays usable."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from modes import Drive
from tests.loop.scripts import Log, asks, assert_valid, call, history, results

import scallion.agent
import scallion.loop.invocation
from scallion import (
    Agent,
    ChatReply,
    Completed,
    ConfigurationError,
    LimitExceeded,
    Limits,
    ModelError,
    Paused,
    approve,
    around_chat,
    around_turn,
    filters,
)
from scallion.testing import ScriptedModel

NOT_RUN = "not run: limit"


def endless(messages: Any) -> AIMessage:
    """A model that never comes to an end, but for a user who says stop."""
    last = [one.text for one in messages if isinstance(one, HumanMessage)][-1]
    return AIMessage("stopped") if last == "stop" else asks(call("send", f"c{len(messages)}", text="x"))


def desk(model: Any, limits: Limits, **parts: Any) -> tuple[Agent, Log]:
    """An agent with one tool, these limits and a checkpointer."""
    log = Log()
    parts = {"checkpointer": InMemorySaver(), **parts}
    return Agent(model, tools=[log.tool("send")], limits=limits, **parts), log


def exceeds(drive: Drive, agent: Agent, limit: str) -> LimitExceeded:
    """The turn ends at that limit, over a valid history, and the thread takes a new message."""
    with pytest.raises(LimitExceeded) as caught:
        drive(agent).start("go", thread="t")
    assert caught.value.limit == limit
    kept = history(agent, "t")
    done, _ = drive(agent).start("stop", thread="t")
    assert isinstance(done, Completed)
    assert done.answer == "stopped"
    assert_valid(history(agent, "t"))
    assert history(agent, "t")[: len(kept)] == kept or not results(kept)
    return caught.value


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_model_calls_are_exact(drive: Drive, allowed: int) -> None:
    model = ScriptedModel(endless)
    agent, log = desk(model, Limits(model_calls=allowed))
    error = exceeds(drive, agent, "model_calls")
    assert len(model.calls) == allowed + 1  # one more of the turn that stops
    assert len(log) == allowed
    assert (error.used, error.allowed) == (allowed, allowed)


def test_a_turn_that_needs_exactly_its_model_calls_completes(drive: Drive) -> None:
    agent, _ = desk(ScriptedModel([asks(call("send")), "ok"]), Limits(model_calls=2))
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Completed)


@pytest.mark.parametrize("allowed", [1, 2, 4])
def test_tool_calls_cut_a_batch_exactly_and_the_rest_is_answered(drive: Drive, allowed: int) -> None:
    batch = asks(*(call("send", f"c{number}", text=str(number)) for number in range(5)))
    agent, log = desk(ScriptedModel([batch, "stopped"]), Limits(tool_calls=allowed))
    with pytest.raises(LimitExceeded) as caught:
        drive(agent).start("go", thread="t")
    assert (caught.value.limit, caught.value.used, caught.value.allowed) == ("tool_calls", allowed, allowed)
    assert sorted(log) == [f"send {number}" for number in range(allowed)]
    kept = results(history(agent, "t"))
    assert [kept[f"c{number}"] == NOT_RUN for number in range(5)] == [number >= allowed for number in range(5)]
    assert_valid(history(agent, "t"))
    done, _ = drive(agent).start("stop", thread="t")
    assert isinstance(done, Completed)
    assert_valid(history(agent, "t"))


def test_a_batch_that_fits_exactly_is_not_cut(drive: Drive) -> None:
    batch = asks(*(call("send", f"c{number}") for number in range(3)))
    agent, log = desk(ScriptedModel([batch, "ok"]), Limits(tool_calls=3))
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Completed)
    assert len(log) == 3


def test_tool_calls_are_counted_over_rounds(drive: Drive) -> None:
    agent, log = desk(ScriptedModel(endless), Limits(tool_calls=3))
    exceeds(drive, agent, "tool_calls")
    assert len(log) == 3


def test_tool_calls_are_exact_in_a_serial_batch(drive: Drive) -> None:
    log = Log()
    batch = asks(*(call("send", f"c{number}", text=str(number)) for number in range(4)))
    agent = Agent(
        ScriptedModel([batch, "stopped"]),
        tools=[log.tool("send", metadata={"serial": True})],
        limits=Limits(tool_calls=2),
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(LimitExceeded):
        drive(agent).start("go", thread="t")
    assert log == ["send 0", "send 1"]
    assert list(results(history(agent, "t")).values())[2:] == [NOT_RUN, NOT_RUN]
    assert_valid(history(agent, "t"))


def test_unknown_tools_count_too_so_that_a_confused_model_ends(drive: Drive) -> None:
    model = ScriptedModel(lambda messages: asks(call("nope", f"c{len(messages)}")))
    agent, _ = desk(model, Limits(model_calls=None, tool_calls=5))
    with pytest.raises(LimitExceeded) as caught:
        drive(agent).start("go", thread="t")
    assert caught.value.limit == "tool_calls"


def test_malformed_calls_end_too(drive: Drive) -> None:
    from tests.loop.scripts import broken

    model = ScriptedModel(lambda messages: asks(broken("send", f"c{len(messages)}")))
    agent, _ = desk(model, Limits(model_calls=None, tool_calls=5))
    with pytest.raises(LimitExceeded):
        drive(agent).start("go", thread="t")
    assert_valid(history(agent, "t"))


def test_tokens_are_checked_before_each_model_call(drive: Drive) -> None:
    usage = {"input_tokens": 40, "output_tokens": 10, "total_tokens": 50}

    def costly(messages: Any) -> AIMessage:
        return endless(messages).model_copy(update={"usage_metadata": usage})

    model = ScriptedModel(costly)
    agent, _ = desk(model, Limits(tokens=120))
    error = exceeds(drive, agent, "tokens")
    assert error.used == 150
    assert len(model.calls) == 3 + 1


def test_tokens_that_are_used_up_answer_the_open_calls(drive: Drive) -> None:
    usage = {"input_tokens": 90, "output_tokens": 10, "total_tokens": 100}
    first = asks(call("send", text="a")).model_copy(update={"usage_metadata": usage})
    agent, log = desk(ScriptedModel([first, "stopped"]), Limits(tokens=100))
    with pytest.raises(LimitExceeded):
        drive(agent).start("go", thread="t")
    assert log == []
    assert results(history(agent, "t")) == {"c1": NOT_RUN}


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(scallion.loop.invocation, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_seconds_are_checked_before_each_call(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def slow(messages: Any) -> AIMessage:
        clock.now += 4
        return endless(messages)

    model = ScriptedModel(slow)
    agent, log = desk(model, Limits(seconds=10))
    exceeds(drive, agent, "seconds")
    assert len(model.calls) == 3 + 1
    assert len(log) == 2


def test_the_time_of_a_pause_does_not_count(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def slow(messages: Any) -> AIMessage:
        clock.now += 4
        return asks(call("send")) if len(messages) == 1 else AIMessage("ok")

    agent, log = desk(ScriptedModel(slow), Limits(seconds=10), filters=[filters.approval({"send": True})])
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Paused)
    clock.now += 3600
    result, _ = drive(agent).resume("t", approve())
    assert isinstance(result, Completed)
    assert log == ["send"]


def test_the_time_before_a_pause_counts_after_it(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def slow(messages: Any) -> AIMessage:
        clock.now += 6
        return asks(call("send", f"c{len(messages)}"))

    agent, _ = desk(ScriptedModel(slow), Limits(seconds=10), filters=[filters.approval({"send": True})])
    with pytest.raises(LimitExceeded) as caught:
        drive(agent).finish("go", thread="t")
    assert caught.value.limit == "seconds"


def test_budgets_are_shared_over_pauses(drive: Drive) -> None:
    model = ScriptedModel(endless)
    agent, log = desk(model, Limits(model_calls=3), filters=[filters.approval({"send": True})])
    with pytest.raises(LimitExceeded):
        drive(agent).finish("go", thread="t")
    assert (len(model.calls), len(log)) == (3, 3)


@pytest.mark.parametrize("saver", [lambda: None, InMemorySaver], ids=["no saver", "memory"])
def test_budgets_are_shared_over_reentries(drive: Drive, saver: Any) -> None:
    @around_turn
    def again(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        for _ in range(10):
            more = [*result.messages, HumanMessage("once more")]
            result = next(request.replace(messages=more, load_history=False))
        return result

    model = ScriptedModel(lambda messages: "answer")
    agent, _ = desk(model, Limits(model_calls=4), filters=[again], checkpointer=saver())
    with pytest.raises(LimitExceeded):
        drive(agent).start("go", thread="t")
    assert len(model.calls) == 4


def test_the_next_turn_has_a_budget_of_its_own(drive: Drive) -> None:
    agent, _ = desk(ScriptedModel([asks(call("send")), "a", asks(call("send", "c2")), "b"]), Limits(2, 1))
    for answer in ("a", "b"):
        result, _ = drive(agent).start("go", thread="t")
        assert result.answer == answer


def test_retries_of_a_chat_filter_count(drive: Drive) -> None:
    @around_chat
    def stubborn(request: Any, state: Any, next: Any) -> Any:
        while True:
            try:
                return next(request)
            except ModelError:
                continue

    model = ScriptedModel([TimeoutError("slow")] * 20)
    agent, _ = desk(model, Limits(model_calls=3), filters=[stubborn])
    with pytest.raises(LimitExceeded):
        drive(agent).start("go", thread="t")
    assert len(model.calls) == 3


def test_retries_that_succeeded_count_against_later_calls(drive: Drive) -> None:
    @around_chat
    def retry(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except ModelError:
            return next(request)

    model = ScriptedModel([TimeoutError("slow"), asks(call("send")), "too late"])
    agent, log = desk(model, Limits(model_calls=2), filters=[retry])
    with pytest.raises(LimitExceeded):
        drive(agent).start("go", thread="t")
    assert len(model.calls) == 2
    assert log == ["send"]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_bare_graph_keeps_limits(colour: str) -> None:
    agent, log = desk(ScriptedModel(endless), Limits(tool_calls=2), checkpointer=None)
    given = {"messages": [HumanMessage("go")]}
    with pytest.raises(LimitExceeded):
        agent.graph.invoke(given) if colour == "sync" else asyncio.run(agent.graph.ainvoke(given))
    assert len(log) == 2


def test_the_bare_graph_keeps_limits_over_a_pause() -> None:
    model = ScriptedModel(endless)
    agent, log = desk(model, Limits(model_calls=2), filters=[filters.approval({"send": True})])
    config = {"configurable": {"thread_id": "t"}}
    approved = Command(resume={"type": "approve"})
    assert agent.graph.invoke({"messages": [HumanMessage("go")]}, config)["__interrupt__"]
    assert agent.graph.invoke(approved, config)["__interrupt__"]
    with pytest.raises(LimitExceeded):
        agent.graph.invoke(approved, config)
    assert (len(model.calls), len(log)) == (2, 2)


def test_without_limits_a_long_turn_is_not_stopped_by_langgraphs_step_limit() -> None:
    def long(messages: Any) -> AIMessage:
        return asks(call("send", f"c{len(messages)}")) if len(messages) < 120 else AIMessage("ok")

    agent, log = desk(ScriptedModel(long), Limits(model_calls=None, tool_calls=None), checkpointer=None)
    assert isinstance(agent.invoke("go"), Completed)
    assert len(log) == 60


@pytest.mark.parametrize("wrong", [0, -1, "3", True, 0.0])
@pytest.mark.parametrize("name", ["model_calls", "tool_calls", "seconds", "tokens"])
def test_limits_are_numbers_above_zero(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: wrong})


@pytest.mark.parametrize("name", ["model_calls", "tool_calls", "seconds", "tokens"])
def test_a_limit_that_compares_with_nothing_is_refused_as_it_would_never_be_reached(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: float("nan")})


def test_limits_may_be_absent_and_have_the_documented_defaults() -> None:
    assert Limits() == Limits(model_calls=50, tool_calls=100, seconds=None, tokens=None)
    assert Limits(None, None, None, None).model_calls is None


def test_the_usage_of_a_turn_that_used_nothing_has_its_counts_too(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def answering(request: Any, state: Any, next: Any) -> Any:
        return Completed(AIMessage("at once"), [*request.messages, AIMessage("at once")])

    @around_chat
    def inside(request: Any, state: Any, next: Any) -> Any:
        return ChatReply(AIMessage("at once"))

    for one in (answering, inside):
        result, _ = drive(Agent(ScriptedModel([]), filters=[one], checkpointer=any_saver)).start("go", thread=one.name)
        counts = dict(result.usage)
        assert counts.pop("seconds") >= 0
        names = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "total_tokens")
        assert counts == dict.fromkeys(names, 0)


def test_what_a_filter_asks_around_the_turn_counts_for_the_turn_only(drive: Drive, any_saver: Any) -> None:
    @filters.filter_input
    def asking(view: Any) -> None:
        filters.llm("one")
        filters.llm("two")

    def build(limit: Any) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(lambda messages: "x")
        return Agent(model, filters=[asking, limit], checkpointer=any_saver), model

    agent, model = build(filters.limit_calls(2, exit="finish"))
    result, _ = drive(agent).start("go", thread="a")
    assert (result.message.response_metadata["limit"], len(model.calls)) == ("model_calls", 2)
    agent, model = build(filters.limit_calls(2, per="thread"))
    for _ in range(2):
        result, _ = drive(agent).start("go", thread="b")
    assert (result.filter_state["limit_calls"]["used"], len(model.calls)) == ({"model_calls": 2}, 6)


def test_a_resume_that_failed_is_not_counted(drive: Drive, any_saver: Any) -> None:
    """The limit that the documentation tells of, for `Limits` and `limit_calls` alike."""
    for stack, limits in (([filters.limit_calls(2)], Limits()), ([], Limits(model_calls=2))):
        late = [TimeoutError("late")] * 3
        model, log = ScriptedModel([asks(call("look", text="x")), *late, "done"]), Log()
        parts: Any = {"filters": [*stack, filters.approval(default=True)], "limits": limits}
        driver = drive(Agent(model, tools=[log.tool("look")], checkpointer=any_saver, **parts))
        thread = f"t{len(stack)}"
        driver.start("go", thread=thread)
        for _ in late:
            with pytest.raises(ModelError):
                driver.resume(thread, approve() if len(model.calls) == 1 else None)
        result, _ = driver.resume(thread)
        assert (result.answer, len(model.calls), result.usage["model_calls"]) == ("done", 5, 2)
