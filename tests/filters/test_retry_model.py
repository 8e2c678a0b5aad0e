"""`retry_model`: which failures are tried again, how often, after what wait, and what a reader of the stream sees."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from modes import Drive, delivered
from tests.scenes import Desk, asks, call

from scallion import (
    Agent,
    Blocked,
    ChatRequest,
    Completed,
    ConfigurationError,
    FilterActed,
    FilterError,
    LimitExceeded,
    Limits,
    ModelError,
    Paused,
    Retracted,
    Token,
    ToolCallDelta,
    approve,
    around_chat,
    compose,
    filters,
    pause,
    token_transform,
)
from scallion.filters.retrying import backoff
from scallion.filters.retrying.backoff import Backoff
from scallion.testing import BreaksOff, ScriptedModel

QUICK = {"initial_delay": 0.001, "max_delay": 0.002}
LATE, GONE, DENIED, WRONG = TimeoutError("late"), ConnectionError("gone"), PermissionError("no"), ValueError("bad")


class Busy(Exception):
    """A provider that says when to come back."""

    def __init__(self, seconds: float) -> None:
        self.status_code = 429
        self.response = SimpleNamespace(headers={"retry-after": str(seconds)})


def agent(model: ScriptedModel, *more: Any, **options: Any) -> Agent:
    """An agent over that model, with a quick retry of one's own choice."""
    limits, saver = options.pop("limits", Limits()), options.pop("checkpointer", None)
    retry = filters.retry_model(**{**QUICK, **options})
    return Agent(model, filters=[retry, *more], limits=limits, checkpointer=saver)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited, in seconds: nothing is."""
    slept: list[float] = []
    monkeypatch.setattr(backoff, "wait_for", slept.append)
    return slept


class TestAttempts:
    """Which calls are made again."""

    @pytest.mark.parametrize("failures", [1, 2, 3])
    def test_it_is_tried_again_until_it_works(self, drive: Drive, failures: int) -> None:
        model = ScriptedModel([LATE] * failures + ["Five."])
        result, _ = drive(agent(model)).start("2 + 3?")
        assert isinstance(result, Completed)
        assert (result.answer, len(model.calls), result.usage["model_calls"]) == ("Five.", failures + 1, failures + 1)
        assert all(asked == model.calls[0] for asked in model.calls)

    def test_the_last_error_stands_as_it_is(self, drive: Drive) -> None:
        last = ConnectionError("the last one")
        model = ScriptedModel([LATE, GONE, last])
        with pytest.raises(ModelError) as caught:
            drive(agent(model, max_retries=2)).start("2 + 3?")
        assert caught.value.__cause__ is last
        assert len(model.calls) == 3

    @pytest.mark.parametrize("failure", [DENIED, WRONG])
    def test_what_waiting_does_not_mend_is_not_tried_again(self, drive: Drive, failure: Exception) -> None:
        model = ScriptedModel([failure])
        with pytest.raises(ModelError) as caught:
            drive(agent(model)).start("2 + 3?")
        assert caught.value.__cause__ is failure

    @pytest.mark.parametrize(
        ("retry_on", "again"),
        [
            ("environment", [DENIED]),
            (["transient", "semantic"], [LATE, GONE, WRONG]),
            (ValueError, [WRONG]),
            (("environment", TimeoutError), [DENIED, LATE]),
            (lambda error: isinstance(error.__cause__, ConnectionError), [GONE]),
        ],
    )
    def test_one_says_which_failures(self, retry_on: Any, again: list[Exception]) -> None:
        for failure in (LATE, GONE, DENIED, WRONG):
            model = ScriptedModel([failure, "Five."])
            if failure in again:
                assert agent(model, retry_on=retry_on).invoke("2 + 3?").answer == "Five."
            else:
                with pytest.raises(ModelError):
                    agent(model, retry_on=retry_on).invoke("2 + 3?")

    def test_the_function_may_be_async(self, drive: Drive) -> None:
        async def says(error: ModelError) -> bool:
            await asyncio.sleep(0)
            return error.kind == "semantic"

        result, _ = drive(agent(ScriptedModel([WRONG, "Five."]), retry_on=says)).start("2 + 3?")
        assert result.answer == "Five."

    def test_a_function_that_raises_fails_the_turn_and_nothing_is_tried_again(self) -> None:
        model = ScriptedModel([LATE])
        with pytest.raises(FilterError, match="retry_model"):
            agent(model, retry_on=lambda error: 1 / 0).invoke("2 + 3?")

    def test_a_guard_that_stops_is_no_failure_of_the_model(self) -> None:
        @around_chat
        def guard(request: Any, state: Any, next: Any) -> Any:
            raise Blocked("guard")

        model = ScriptedModel([])
        with pytest.raises(Blocked):
            agent(model, guard).invoke("2 + 3?")

    def test_each_attempt_counts_for_the_limits_of_the_turn(self, drive: Drive) -> None:
        model = ScriptedModel([LATE] * 9)
        with pytest.raises(LimitExceeded):
            drive(agent(model, limits=Limits(model_calls=2))).start("2 + 3?")
        assert len(model.calls) == 2

    def test_each_round_has_its_own_attempts(self, drive: Drive) -> None:
        desk, model = Desk(), ScriptedModel([LATE, LATE, asks(call("look", order=1)), LATE, LATE, "Here."])
        retry = filters.retry_model(2, **QUICK)
        result, events = drive(Agent(model, tools=[desk.look()], filters=[retry])).start("where?")
        assert (result.answer, desk.ran) == ("Here.", ["look 1"])
        if events:
            assert events.count(FilterActed("retry_model", "around_chat", "retry")) == 2


class TestWaits:
    """How long is waited, and when not at all."""

    @given(
        retry=some.integers(0, 99),
        initial=some.floats(0, 100),
        factor=some.floats(1, 100),
        jitter=some.floats(0, 1),
        spread=some.floats(-1, 1),
        asked=some.none() | some.floats(0, 1e6),
    )
    def test_a_delay_is_within_its_bounds(
        self, retry: int, initial: float, factor: float, jitter: float, spread: float, asked: float | None
    ) -> None:
        delay = Backoff(9, initial, factor, 100, jitter, 300).delay(retry, asked, spread)
        grown = min(100, initial * factor**retry)
        assert delay >= (asked or 0)
        assert delay == asked or grown * (1 - jitter) * 0.999 <= delay <= min(100, grown * (1 + jitter) * 1.001)

    def test_delays_grow_up_to_the_longest(self, drive: Drive, waits: list[float]) -> None:
        retry = filters.retry_model(5, initial_delay=1, backoff_factor=3, max_delay=10, jitter=0)
        drive(Agent(ScriptedModel([LATE] * 5 + ["Five."]), filters=[retry])).start("2 + 3?")
        assert waits == [1, 3, 9, 10, 10]

    def test_the_jitter_spreads_them(self, waits: list[float]) -> None:
        retry = filters.retry_model(50, initial_delay=1, backoff_factor=1, jitter=0.25)
        Agent(ScriptedModel([LATE] * 49 + ["Five."]), filters=[retry]).invoke("2 + 3?")
        assert min(waits) < 0.95
        assert max(waits) > 1.05
        assert all(0.75 <= one <= 1.25 for one in waits)

    @pytest.mark.parametrize(("asked", "waited"), [(0.2, 1), (1.5, 1.5), (40, 40)])
    def test_what_the_provider_asks_for_is_kept_to(self, waits: list[float], asked: float, waited: float) -> None:
        Agent(ScriptedModel([Busy(asked), "Five."]), filters=[filters.retry_model(jitter=0)]).invoke("2 + 3?")
        assert waits == [waited]

    @pytest.mark.parametrize("asked", [3600, float("inf")])
    def test_where_that_is_too_long_the_error_stands_at_once(self, waits: list[float], asked: float) -> None:
        with pytest.raises(ModelError) as caught:
            Agent(ScriptedModel([Busy(asked)]), filters=[filters.retry_model()]).invoke("2 + 3?")
        assert (caught.value.retry_after, waits) == (asked, [])

    def test_no_attempt_begins_behind_the_total_time(self, waits: list[float]) -> None:
        retry = filters.retry_model(9, initial_delay=1, jitter=0, max_seconds=3)
        model = ScriptedModel([LATE] * 9)
        with pytest.raises(ModelError):
            Agent(model, filters=[retry]).invoke("2 + 3?")
        assert waits == [1, 2]  # nothing is really waited here, so that the third one, of four seconds, does not fit

    def test_nor_behind_the_time_of_the_turn(self, drive: Drive, waits: list[float]) -> None:
        model = ScriptedModel([LATE] * 2)
        with pytest.raises(ModelError) as caught:
            drive(agent(model, initial_delay=20, max_delay=60, limits=Limits(seconds=30))).start("2 + 3?")
        assert caught.value.__cause__ is LATE
        assert len(waits) == 1
        assert len(model.calls) == 2

    def test_other_turns_run_while_one_waits(self) -> None:
        slow = agent(ScriptedModel([LATE, "slow"]), initial_delay=0.2, max_delay=1)
        quick = Agent(ScriptedModel(["quick"]))
        ended: list[str] = []

        async def ask(one: Agent) -> None:
            ended.append((await one.ainvoke("2 + 3?")).answer)

        async def both() -> None:
            await asyncio.gather(ask(slow), ask(quick))

        asyncio.run(both())
        assert ended == ["quick", "slow"]

    def test_a_cancelled_run_does_not_wait_any_longer(self) -> None:
        model = ScriptedModel([LATE] * 2)

        async def give_up() -> None:
            task = asyncio.ensure_future(agent(model, initial_delay=60, max_delay=60).ainvoke("2 + 3?"))
            while not model.calls:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        begun = time.monotonic()
        asyncio.run(give_up())
        assert time.monotonic() - begun < 30
        assert len(model.calls) == 1

    def test_a_stream_that_is_closed_does_not_wait_any_longer(self) -> None:
        model = ScriptedModel([BreaksOff("It is", LATE, chunks=1)])
        begun, events = time.monotonic(), agent(model, initial_delay=60, max_delay=60).stream("2 + 3?")
        while not isinstance(next(events), Token):
            pass
        events.close()
        assert time.monotonic() - begun < 30
        assert len(model.calls) == 1


class TestStreams:
    """A stream that failed half way: what was read of it does not stand."""

    def test_the_text_of_the_failed_attempt_is_taken_back(self, drive: Drive) -> None:
        model = ScriptedModel([BreaksOff("It is about six", GONE, chunks=2), "It is five."])
        result, events = drive(agent(model)).start("2 + 3?")
        assert result.answer == "It is five."
        if events:
            assert delivered(events) == "It is five."
            assert sum(isinstance(one, Retracted) for one in events) == 1
            assert FilterActed("retry_model", "around_chat", "retry") in events

    def test_nothing_that_a_transform_held_back_comes_later(self, drive: Drive) -> None:
        @token_transform(init="", flush=lambda held: [held])
        def holds_one(token: Token, held: str) -> Any:
            return [held], token.text

        model = ScriptedModel([BreaksOff("secret half", GONE, chunks=2), "It is five."])
        result, events = drive(agent(model, holds_one)).start("2 + 3?")
        assert result.answer == "It is five."
        if events:
            assert delivered(events) == "It is five."
            assert sum(isinstance(one, Retracted) for one in events) == 1

    def test_a_call_of_the_failed_attempt_never_runs(self, drive: Drive) -> None:
        desk = Desk()
        half = BreaksOff(asks(call("look", order=1), text="Let me see"), GONE, chunks=6)
        model = ScriptedModel([half, asks(call("look", order=2)), "Here."])
        result, _ = drive(Agent(model, tools=[desk.look()], filters=[filters.retry_model(**QUICK)])).start("where?")
        assert (result.answer, desk.ran) == ("Here.", ["look 2"])

    def test_pieces_of_a_call_alone_are_taken_back_too(self, drive: Drive) -> None:
        half = BreaksOff(asks(call("look", order=1234567890)), GONE, chunks=2)
        model = ScriptedModel([half, asks(call("look", order=2)), "Here."])
        agent = Agent(model, tools=[Desk().look()], filters=[filters.retry_model(**QUICK)])
        _, events = drive(agent).start("where?")
        gone = [one.call for one in events if isinstance(one, Retracted)]
        if events:
            assert gone == [next(one.call for one in events if isinstance(one, ToolCallDelta))]
            standing = [one for one in events if isinstance(one, ToolCallDelta) and one.call not in gone]
            assert "".join(one.args or "" for one in standing) == '{"order": 2}'


class TestPauses:
    """A pause between two attempts."""

    def test_attempts_before_a_pause_are_not_made_again_nor_waited_for(self, drive: Drive, any_saver: Any) -> None:
        @around_chat
        def careful(request: Any, state: Any, next: Any) -> Any:
            if len(model.calls) == 1:
                pause("The model failed once. Go on?", allowed=("approve",))
            return next(request)

        model = ScriptedModel([LATE, "Five."])
        on = lambda error: isinstance(error.__cause__, TimeoutError)  # noqa: E731 - a replayed error has no cause
        one = agent(model, careful, retry_on=on, checkpointer=any_saver)
        paused, _ = drive(one).start("2 + 3?", thread="t")
        assert isinstance(paused, Paused)
        patient = agent(model, careful, retry_on=on, checkpointer=any_saver, initial_delay=60, max_delay=60)
        result, _ = drive(patient).resume("t", approve())
        assert isinstance(result, Completed)
        assert (result.answer, len(model.calls)) == ("Five.", 2)


class TestAlone:
    """Without an agent, and wrongly built."""

    def test_it_works_in_a_chain_of_its_own(self) -> None:
        failures = iter([ModelError("transient", "late"), ModelError("semantic", "bad")])

        def innermost(request: Any) -> Any:
            raise next(failures)

        with pytest.raises(ModelError, match="bad"):
            compose([filters.retry_model(**QUICK)], "chat", innermost)(ChatRequest([]))

    @pytest.mark.parametrize(
        "options",
        [
            {"max_retries": -1},
            {"max_retries": 1.5},
            {"max_retries": True},
            {"max_retries": 1000},
            {"initial_delay": -1},
            {"initial_delay": float("nan")},
            {"initial_delay": 40},
            {"backoff_factor": 0.5},
            {"max_delay": "1"},
            {"jitter": 2},
            {"max_seconds": None},
            {"retry_on": "transiet"},
            {"retry_on": 3},
            {"retry_on": ()},
            {"retry_on": [int]},
            {"retry_on": {"transient": 1}},
        ],
    )
    def test_what_cannot_be_is_refused_where_it_is_built(self, options: dict[str, Any]) -> None:
        [field] = options
        with pytest.raises(ConfigurationError, match=f"^filter 'mine': {field}"):
            filters.retry_model(**options, name="mine")

    def test_two_of_them_need_two_names(self) -> None:
        with pytest.raises(ConfigurationError, match="retry_model"):
            Agent(ScriptedModel([]), filters=[filters.retry_model(), filters.retry_model()])
        pair = [filters.retry_model(), filters.retry_model(retry_on="environment", name="slow")]
        assert Agent(ScriptedModel([]), filters=pair).layers["chat"] == ["retry_model", "slow"]
