"""`fallback`: the next model is asked where one fails, with the same request; a half answer does not stand."""

from __future__ import annotations

from typing import Any

import pytest
from modes import Drive, delivered
from tests.scenes import Desk, asks, call

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    FilterActed,
    LimitExceeded,
    Limits,
    ModelError,
    Paused,
    Retracted,
    approve,
    around_chat,
    filters,
    pause,
)
from scallion.testing import BreaksOff, ScriptedModel

LATE, DENIED, WRONG = TimeoutError("late"), PermissionError("no"), ValueError("bad")
QUICK = {"initial_delay": 0.001, "max_delay": 0.002}


def test_models_are_asked_in_their_order_until_one_answers(drive: Drive) -> None:
    first, second, third, fourth = (ScriptedModel(one) for one in ([LATE], [DENIED], ["Five."], []))
    result, events = drive(Agent(first, filters=[filters.fallback(second, third, fourth)])).start("2 + 3?")
    assert (result.answer, result.usage["model_calls"]) == ("Five.", 3)
    assert [len(one.calls) for one in (first, second, third, fourth)] == [1, 1, 1, 0]
    if events:
        assert FilterActed("fallback", "around_chat", "retry") in events


def test_where_the_first_one_answers_no_other_is_asked(drive: Drive) -> None:
    spare = ScriptedModel([])
    result, _ = drive(Agent(ScriptedModel(["Five."]), filters=[filters.fallback(spare)])).start("2 + 3?")
    assert result.answer == "Five."
    assert spare.calls == []


def test_the_error_of_the_last_one_stands_as_it_is(drive: Drive) -> None:
    last = ConnectionError("the last one")
    with pytest.raises(ModelError) as caught:
        drive(Agent(ScriptedModel([LATE]), filters=[filters.fallback(ScriptedModel([last]))])).start("2 + 3?")
    assert caught.value.__cause__ is last


def test_each_round_begins_with_the_first_model(drive: Drive) -> None:
    desk = Desk()
    first, spare = ScriptedModel([LATE, "Here."]), ScriptedModel([asks(call("look", order=1))])
    result, _ = drive(Agent(first, tools=[desk.look()], filters=[filters.fallback(spare)])).start("where?")
    assert (result.answer, desk.ran, len(first.calls), len(spare.calls)) == ("Here.", ["look 1"], 2, 1)


@pytest.mark.parametrize(
    ("on", "falls"),
    [
        (("transient", "environment"), [LATE, DENIED]),
        ("transient", [LATE]),
        ("semantic", [WRONG]),
        (PermissionError, [DENIED]),
        (lambda error: error.kind != "environment", [LATE, WRONG]),
    ],
)
def test_one_says_on_which_failures(on: Any, falls: list[Exception]) -> None:
    for failure in (LATE, DENIED, WRONG):
        spare = ScriptedModel(["Five."])
        agent = Agent(ScriptedModel([failure]), filters=[filters.fallback(spare, on=on)])
        if failure in falls:
            assert agent.invoke("2 + 3?").answer == "Five."
        else:
            with pytest.raises(ModelError) as caught:
                agent.invoke("2 + 3?")
            assert caught.value.__cause__ is failure
            assert spare.calls == []


class TestRequest:
    """Whoever is asked is asked the same."""

    def test_tools_prompts_settings_and_changes_of_other_filters_go_with_it(self, drive: Drive) -> None:
        @around_chat
        def outside(request: Any, state: Any, next: Any) -> Any:
            return next(request.replace(settings={"temperature": 0.5}, tool_choice="look"))

        seen = []

        @around_chat
        def inside(request: Any, state: Any, next: Any) -> Any:
            seen.append(request.model)
            return next(request)

        desk, first, spare = Desk(), ScriptedModel([LATE]), ScriptedModel(["Here."])
        stack = [outside, filters.fallback(spare), inside]
        agent = Agent(first, tools=desk.tools, filters=stack, system_prompt="Be short.")
        result, _ = drive(agent).start("where?")
        assert result.answer == "Here."
        assert spare.calls == first.calls
        assert spare.calls[0][0].text == "Be short."
        assert spare.settings == first.settings
        assert spare.settings[0]["temperature"] == 0.5
        assert (spare.bound, seen) == (first.bound, [first, spare])

    def test_each_attempt_counts(self, drive: Drive) -> None:
        spare = ScriptedModel([])
        agent = Agent(ScriptedModel([LATE]), filters=[filters.fallback(spare)], limits=Limits(model_calls=1))
        with pytest.raises(LimitExceeded):
            drive(agent).start("2 + 3?")
        assert spare.calls == []


class TestStreams:
    """A stream that fails, before its first piece and behind it."""

    @pytest.mark.parametrize("pieces", [0, 2])
    def test_the_reader_holds_the_answer_once(self, drive: Drive, pieces: int) -> None:
        first, spare = (
            ScriptedModel([BreaksOff("It is about six", LATE, chunks=pieces)]),
            ScriptedModel(["It is five."]),
        )
        result, events = drive(Agent(first, filters=[filters.fallback(spare)])).start("2 + 3?")
        assert result.answer == "It is five."
        if events:
            assert delivered(events) == "It is five."
            assert sum(isinstance(one, Retracted) for one in events) == (1 if pieces else 0)


class TestOrder:
    """Retry behind fallback, or in front of it."""

    def test_behind_it_each_model_is_tried_again_before_the_next_is_asked(self, drive: Drive) -> None:
        first, spare = ScriptedModel([LATE, LATE]), ScriptedModel([LATE, "Five."])
        stack = [filters.fallback(spare), filters.retry_model(1, **QUICK)]
        result, _ = drive(Agent(first, filters=stack)).start("2 + 3?")
        assert (result.answer, len(first.calls), len(spare.calls)) == ("Five.", 2, 2)

    def test_in_front_of_it_all_models_are_asked_in_each_attempt(self, drive: Drive) -> None:
        first, spare = ScriptedModel([LATE, "Five."]), ScriptedModel([LATE])
        stack = [filters.retry_model(1, **QUICK), filters.fallback(spare)]
        result, _ = drive(Agent(first, filters=stack)).start("2 + 3?")
        assert (result.answer, len(first.calls), len(spare.calls)) == ("Five.", 2, 1)

    def test_a_key_that_is_refused_is_not_tried_again_but_falls_back(self, drive: Drive) -> None:
        first, spare = ScriptedModel([DENIED]), ScriptedModel(["Five."])
        stack = [filters.fallback(spare), filters.retry_model(**QUICK)]
        result, _ = drive(Agent(first, filters=stack)).start("2 + 3?")
        assert (result.answer, len(first.calls)) == ("Five.", 1)


def test_after_a_pause_the_model_that_failed_is_not_asked_again(drive: Drive, any_saver: Any) -> None:
    @around_chat
    def careful(request: Any, state: Any, next: Any) -> Any:
        if request.model is spare:
            pause("Ask the other one?", allowed=("approve",))
        return next(request)

    first, spare = ScriptedModel([LATE]), ScriptedModel(["Five."])
    stack = [filters.fallback(spare, on=TimeoutError), careful]  # a replayed error has no exception any more
    agent = Agent(first, filters=stack, checkpointer=any_saver)
    paused, _ = drive(agent).start("2 + 3?", thread="t")
    assert isinstance(paused, Paused)
    result, _ = drive(agent).resume("t", approve())
    assert isinstance(result, Completed)
    assert (result.answer, len(first.calls)) == ("Five.", 1)


@pytest.mark.parametrize(
    ("models", "options"),
    [((), {}), ((3,), {}), (("",), {}), (("no-such-provider:x",), {}), ((ScriptedModel([]),), {"on": "sometimes"})],
)
def test_what_cannot_be_is_refused_where_it_is_built(models: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^filter 'fb'"):
        filters.fallback(*models, **options, name="fb")


def test_a_model_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ScriptedModel(["Five."])
    monkeypatch.setattr("langchain.chat_models.init_chat_model", {"some:model": made}.__getitem__)
    agent = Agent(ScriptedModel([LATE]), filters=[filters.fallback("some:model")])
    assert agent.invoke("2 + 3?").answer == "Five."
