"""Hooks around the turn in every mode: order, state, pauses, errors, and a crash before the commit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from tests.loop.scripts import Log, asks, assert_valid, call, history, told

import scallion.turn
from scallion import (
    Agent,
    Completed,
    Filter,
    FilterError,
    Limits,
    ModelError,
    Paused,
    approve,
    around_chat,
    around_tool,
    around_turn,
    filters,
    pause,
    respond,
)
from scallion.testing import ScriptedModel


def noted(name: str, notes: list[str], *, asynchronous: bool = False) -> Filter:
    """A layer that notes when the turn comes in and goes out."""

    def hook(request: Any, state: Any, next: Any) -> Any:
        notes.append(f"in {name}")
        result = next(request)
        notes.append(f"out {name}")
        return result

    async def ahook(request: Any, state: Any, next: Any) -> Any:
        notes.append(f"in {name}")
        result = await next(request)
        notes.append(f"out {name}")
        return result

    return Filter(name, around_turn=ahook if asynchronous else hook)


def test_hooks_around_the_turn_nest_first_outermost_whatever_their_colour(drive: Drive) -> None:
    notes: list[str] = []
    onion = [
        noted("a", notes),
        noted("b", notes, asynchronous=True),
        noted("c", notes),
        noted("d", notes, asynchronous=True),
    ]
    result, _ = drive(Agent(ScriptedModel(["ok"]), filters=onion, checkpointer=InMemorySaver())).start("go", thread="t")
    assert isinstance(result, Completed)
    assert notes == ["in a", "in b", "in c", "in d", "out d", "out c", "out b", "out a"]


def test_a_hook_sees_this_turns_messages_only(drive: Drive) -> None:
    seen = []

    @around_turn
    def watch(request: Any, state: Any, next: Any) -> Any:
        seen.append((told(request.messages), request.resume, request.load_history))
        return next(request)

    agent = Agent(ScriptedModel(["a", "b"]), filters=[watch], checkpointer=InMemorySaver())
    drive(agent).start("one", thread="t")
    drive(agent).start("two", thread="t")
    assert seen == [(["user: one"], None, True), (["user: two"], None, True)]


def test_on_resume_a_hook_runs_again_with_the_same_messages_and_is_told_so(drive: Drive, any_saver: Any) -> None:
    seen = []

    @around_turn
    def watch(request: Any, state: Any, next: Any) -> Any:
        seen.append((told(request.messages), bool(request.resume)))
        return next(request)

    agent = Agent(
        ScriptedModel([asks(call("send", text="a")), "ok"]),
        tools=[Log().tool("send")],
        filters=[watch, filters.approval({"send": True})],
        checkpointer=any_saver,
    )
    drive(agent).start("go", thread="t")
    drive(agent).resume("t", approve())
    assert seen == [(["user: go"], False), (["user: go"], True)]


def test_a_pause_cannot_be_swallowed_by_a_turn_hook(drive: Drive) -> None:
    @around_turn
    def swallows(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except BaseException:
            return Completed(scallion.turn.AIMessage("swallowed"), [])

    log = Log()
    agent = Agent(
        ScriptedModel([asks(call("send", text="a")), "ok"]),
        tools=[log.tool("send")],
        filters=[swallows, filters.approval({"send": True})],
        checkpointer=InMemorySaver(),
    )
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    done, _ = drive(agent).resume("t", approve())
    assert (done.answer, log) == ("ok", ["send a"])


def release(notes: list[str]) -> Filter:
    """A person releases the final answer."""

    @around_turn(name="release")
    def hook(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        notes.append(result.answer)
        decision = pause(f"Send it? {result.answer}", kind="answer", allowed=("approve", "respond"))
        if decision.type == "approve":
            return result
        message = result.message.model_copy(update={"content": decision.message})
        return result.replace(message=message)

    return hook


def test_a_pause_after_the_loop_shows_the_answer_and_releases_it(drive: Drive, any_saver: Any) -> None:
    log, notes = Log(), []
    model = ScriptedModel([asks(call("send", text="a")), "draft"])
    agent = Agent(model, tools=[log.tool("send")], filters=[release(notes)], checkpointer=any_saver)
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    [one] = paused.approvals
    assert (one.kind, one.tool, one.description) == ("answer", None, "Send it? draft")
    done, _ = drive(agent).resume("t", approve())
    assert isinstance(done, Completed)
    assert (done.answer, len(model.calls), log) == ("draft", 2, ["send a"])
    assert notes == ["draft", "draft"]
    assert told(history(agent, "t")) == ["user: go", "model: send", "tool: send did a", "model: draft"]


def test_a_pause_after_the_loop_may_replace_the_answer(drive: Drive, any_saver: Any) -> None:
    agent = Agent(ScriptedModel(["draft"]), filters=[release([])], checkpointer=any_saver)
    drive(agent).start("go", thread="t")
    done, _ = drive(agent).resume("t", respond("final"))
    assert done.answer == "final"
    assert told(history(agent, "t")) == ["user: go", "model: final"]


def test_a_pause_before_the_loop_asks_first(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def first(request: Any, state: Any, next: Any) -> Any:
        name = pause("Who are you?").message
        return next(request.replace(messages=[HumanMessage(f"{request.messages[0].text} by {name}")]))

    model = ScriptedModel(["ok"])
    agent = Agent(model, filters=[first], checkpointer=any_saver)
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    assert model.calls == []
    done, _ = drive(agent).resume("t", respond("ana"))
    assert isinstance(done, Completed)
    assert told(history(agent, "t")) == ["user: go by ana", "model: ok"]


def test_a_run_id_of_the_callers_own_is_that_of_a_whole_turn_and_of_the_next(drive: Drive, any_saver: Any) -> None:
    """LangGraph takes a second run of the same id for a continuation, and drops its input."""

    @around_turn
    def twice(request: Any, state: Any, next: Any) -> Any:
        pause("may I?")
        first = next(request)
        again = [*first.messages, HumanMessage("once more")]
        result = next(request.replace(messages=again, load_history=False))
        pause("release?")
        return result

    agent = Agent(ScriptedModel(["one", "two", "three", "four"]), filters=[twice], checkpointer=any_saver)
    config = {"metadata": {"run_id": "r1"}}
    for message, answer in (("go", "two"), ("and now?", "four")):
        paused, _ = drive(agent).start(message, thread="t", config=config)
        for question in ("may I?", "release?"):
            assert isinstance(paused, Paused)
            assert [one.description for one in paused.approvals] == [question]
            paused, _ = drive(agent).resume("t", respond("yes"), config=config)
        assert paused.answer == answer
    assert told(history(agent, "t")) == ["user: go", "model: two", "user: and now?", "model: four"]


def test_pauses_before_inside_and_after_the_loop_of_one_turn(drive: Drive, any_saver: Any) -> None:
    log = Log()

    @around_turn
    def both(request: Any, state: Any, next: Any) -> Any:
        before = pause("before?").message
        result = next(request)
        after = pause("after?").message
        return result.replace(message=result.message.model_copy(update={"content": f"{before} {after}"}))

    model = ScriptedModel([asks(call("send", text="a")), "ok", "never"])
    agent = Agent(
        model,
        tools=[log.tool("send")],
        filters=[both, filters.approval({"send": True})],
        checkpointer=any_saver,
    )
    asked = []
    result, _ = drive(agent).start("go", thread="t")
    for answer in (respond("1"), approve(), respond("2")):
        assert isinstance(result, Paused)
        asked += [one.description for one in result.approvals]
        result, _ = drive(agent).resume("t", answer)
    assert isinstance(result, Completed)
    assert asked == ["before?", "The agent wants to call send.", "after?"]
    assert result.answer == "1 2"
    assert (len(model.calls), log) == (2, ["send a"])
    assert_valid(history(agent, "t"))


def test_state_counts_over_all_chains_rounds_pauses_and_is_shown_at_the_end(drive: Drive, any_saver: Any) -> None:
    class Counting(Filter):
        name = "count"
        init = {"turn": 0, "chat": 0, "tool": 0}  # noqa: RUF012

        def around_turn(self, request: Any, state: Any, next: Any) -> Any:
            result = next(request)
            return result, {"turn": state["turn"] + 1}

        def around_chat(self, request: Any, state: Any, next: Any) -> Any:
            return next(request), {"chat": state["chat"] + 1}

        def around_tool(self, request: Any, state: Any, next: Any) -> Any:
            return next(request), {"tool": state["tool"] + 1}

    log = Log()
    agent = Agent(
        ScriptedModel([asks(call("send", "c1", text="a")), asks(call("send", "c2", text="b")), "ok", "ok"]),
        tools=[log.tool("send")],
        filters=[Counting(), filters.approval({"send": True})],
        checkpointer=any_saver,
    )
    result, _ = drive(agent).finish("go", thread="t")
    assert result.filter_state["count"] == {"turn": 1, "chat": 3, "tool": 2}
    result, _ = drive(agent).start("again", thread="t")
    assert result.filter_state["count"] == {"turn": 1, "chat": 1, "tool": 0}


def test_a_turn_hook_that_raises_fails_the_turn_by_name_and_the_thread_goes_on(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def bad(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        if request.messages[0].text == "go":
            raise KeyError("inside")
        return result

    agent = Agent(ScriptedModel(["a", "b"]), filters=[bad], checkpointer=any_saver)
    with pytest.raises(FilterError) as caught:
        drive(agent).start("go", thread="t")
    assert (caught.value.filter, caught.value.hook) == ("bad", "around_turn")
    assert isinstance(caught.value.__cause__, KeyError)
    # The failed turn was not committed by anybody: the next start must not run its hook into the same wall for ever.
    result, _ = drive(agent).start("more", thread="t")
    assert isinstance(result, Completed)
    assert_valid(history(agent, "t"))


def test_a_model_error_reaches_a_turn_hook_and_the_caller(drive: Drive) -> None:
    seen = []

    @around_turn
    def watch(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except ModelError as error:
            seen.append(error.kind)
            raise

    agent = Agent(ScriptedModel([TimeoutError("slow"), "ok"]), filters=[watch], checkpointer=InMemorySaver())
    with pytest.raises(ModelError) as caught:
        drive(agent).start("go", thread="t")
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert seen == ["transient"]
    result, _ = drive(agent).start("more", thread="t")
    assert result.answer == "ok"


def test_hooks_of_all_chains_nest_in_one_order(drive: Drive) -> None:
    notes: list[str] = []

    def noting(name: str) -> Any:
        def hook(request: Any, state: Any, next: Any) -> Any:
            notes.append(f"{name} in")
            reply = next(request)
            notes.append(f"{name} out")
            return reply

        return hook

    onion = [
        around_tool(name="tool")(noting("tool")),
        around_chat(name="chat")(noting("chat")),
        around_turn(name="turn")(noting("turn")),
    ]
    model = ScriptedModel([asks(call("send")), "ok"])
    drive(Agent(model, tools=[Log().tool("send")], filters=onion)).start("go")
    assert notes == [
        "turn in", "chat in", "chat out", "tool in", "tool out", "chat in", "chat out", "turn out",
    ]  # fmt: skip


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def crashing_commit(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The commit of a turn crashes once."""
    commit = scallion.turn.TurnRunner._commit
    crashes = [True]

    def crash(*args: Any) -> None:
        if crashes.pop():
            crashes.append(False)
            raise Crash
        crashes.append(False)
        commit(*args)

    monkeypatch.setattr(scallion.turn.TurnRunner, "_commit", crash)


def polite(notes: list[str]) -> Filter:
    """Rewrites the answer."""

    @around_turn(name="polite")
    def hook(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        notes.append(result.answer)
        message = result.message.model_copy(update={"content": f"{result.answer}, please"})
        return result.replace(message=message, messages=[*result.messages[:-1], message])

    return hook


@pytest.mark.usefixtures("crashing_commit")
def test_a_turn_that_crashed_before_its_commit_is_finished_at_the_next_start(drive: Drive, any_saver: Any) -> None:
    notes: list[str] = []
    model = ScriptedModel(["one", "two"])
    agent = Agent(model, filters=[polite(notes)], checkpointer=any_saver)
    with pytest.raises(Crash):
        drive(agent).start("go", thread="t")
    result, _ = drive(agent).start("more", thread="t")
    assert result.answer == "two, please"
    assert told(history(agent, "t")) == [
        "user: go", "model: one, please", "user: more", "model: two, please",
    ]  # fmt: skip
    assert len(model.calls) == 2


@pytest.mark.usefixtures("crashing_commit")
def test_a_turn_that_crashed_before_its_commit_is_finished_by_recover(any_saver: Any) -> None:
    agent = Agent(ScriptedModel(["one"]), filters=[polite([])], checkpointer=any_saver)
    with pytest.raises(Crash):
        agent.invoke("go", thread="t")
    done = agent.recover("t")
    assert isinstance(done, Completed)
    assert done.answer == "one, please"
    assert agent.recover("t") is None
    assert told(history(agent, "t")) == ["user: go", "model: one, please"]


def test_the_time_of_a_turn_that_is_finished_late_is_not_counted_for_the_next_one(
    sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit failed after 40 seconds; the next message finishes that turn and has the whole limit for its own."""
    fails = [True]

    @around_turn
    def stumbles(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        if fails.pop() if fails else False:
            raise KeyError("once")
        return result

    now = [1000.0]
    monkeypatch.setattr("scallion.loop.invocation.time", SimpleNamespace(monotonic=lambda: now[0]))

    def slow(messages: Any) -> str:
        now[0] += 40
        return "late"

    agent = Agent(ScriptedModel(slow), filters=[stumbles], checkpointer=sql, limits=Limits(seconds=60))
    with pytest.raises(FilterError):
        agent.invoke("first", thread="t")
    result = agent.invoke("second", thread="t")
    assert isinstance(result, Completed)
    assert result.usage["seconds"] == 40
