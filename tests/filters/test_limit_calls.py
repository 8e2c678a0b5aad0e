"""`limit_calls`: exact, looked at before a call, kept over pauses and processes; and its three ways out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from modes import Drive, delivered
from processes import processes
from tests.scenes import asks, call, results

import scallion.agent
import scallion.loop.invocation
from scallion import (
    Agent,
    ChatReply,
    ChatRequest,
    Completed,
    ConfigurationError,
    FilterActed,
    LimitExceeded,
    Limits,
    ModelError,
    Paused,
    SQLCheckpointer,
    approve,
    around_chat,
    around_tool,
    around_turn,
    compose,
    filters,
    pause,
    reject,
    respond,
)
from scallion.filters.limit_calls import added, larger, more_for, timed
from scallion.testing import ScriptedModel

LATE = TimeoutError("late")
PRICES = {"scripted": {"input": 1_000_000, "output": 2_000_000}}
"""A token read costs 1, a token written costs 2."""


def batch(*tools: str) -> AIMessage:
    """One message that calls these tools."""
    return asks(*(call(tool, f"c{number}", n=number) for number, tool in enumerate(tools)))


class Log(list[str]):
    """What tools did."""

    def tool(self, name: str, **options: Any) -> BaseTool:
        """A tool of both colours that notes each run."""

        def run(n: int) -> str:
            """Do it."""
            self.append(f"{name} {n}")
            return f"{name} {n} done"

        async def arun(n: int) -> str:
            await asyncio.sleep(0)
            return run(n)

        return StructuredTool.from_function(run, coroutine=arun, name=name, **options)


def endless(messages: list[Any]) -> AIMessage:
    """A model that always looks once more, but for a user who says stop."""
    last = [one.text for one in messages if isinstance(one, HumanMessage)][-1]
    return AIMessage("stopped") if last == "stop" else asks(call("look", f"c{len(messages)}", n=len(messages)))


def build(model: Any, log: Log, *stack: Any, tools: tuple[str, ...] = ("look", "send"), saver: Any = None) -> Agent:
    """An agent with these tools."""
    made = model if isinstance(model, ScriptedModel) else ScriptedModel(model)
    return Agent(made, tools=[log.tool(name) for name in tools], filters=stack, checkpointer=saver)


class TestModelCalls:
    """Every model call that is made."""

    @pytest.mark.parametrize("allowed", [1, 2, 3])
    def test_are_exact(self, drive: Drive, memory: Any, allowed: int) -> None:
        model, log = ScriptedModel(endless), Log()
        agent = build(model, log, filters.limit_calls(allowed), saver=memory)
        with pytest.raises(LimitExceeded) as caught:
            drive(agent).start("go", thread="t")
        error = caught.value
        assert (error.limit, error.used, error.allowed, error.per) == ("model_calls", allowed, allowed, "turn")
        assert (len(model.calls), len(log)) == (allowed, allowed)
        done, _ = drive(agent).start("stop", thread="t")  # the thread is usable, and the next turn has its own
        assert done.answer == "stopped"

    def test_what_fits_exactly_completes(self, drive: Drive) -> None:
        result, _ = drive(build([batch("look"), "ok"], Log(), filters.limit_calls(2))).start("go")
        assert result.answer == "ok"

    @pytest.mark.parametrize("outside", [True, False])
    def test_each_attempt_counts_wherever_the_limit_stands(self, drive: Drive, outside: bool) -> None:
        model, spare = ScriptedModel([LATE] * 5), ScriptedModel([LATE] * 5)
        around = [filters.fallback(spare), filters.retry_model(2, initial_delay=0.001)]
        limit = filters.limit_calls(4)
        with pytest.raises(LimitExceeded):
            drive(build(model, Log(), *([limit, *around] if outside else [*around, limit]))).start("go")
        assert (len(model.calls), len(spare.calls)) == (3, 1)

    def test_what_a_filter_answers_itself_is_no_model_call(self, drive: Drive) -> None:
        @around_chat
        def caching(request: Any, state: Any, next: Any) -> Any:
            seen = len(request.messages)
            return ChatReply(batch("look")) if seen == 1 else next(request)

        result, _ = drive(build(["ok"], Log(), filters.limit_calls(1), caching)).start("go")
        assert result.answer == "ok"

    def test_what_a_filter_asks_for_itself_counts_too(self, drive: Drive) -> None:
        refused = []

        @around_chat
        def asking(request: Any, state: Any, next: Any) -> Any:
            try:
                next(request.replace(aside=True))
            except ModelError as error:
                refused.append(error.kind)
            return next(request)

        model = ScriptedModel(endless)
        result, _ = drive(build(model, Log(), asking, filters.limit_calls(2, exit="finish"))).start("go")
        assert result.message.response_metadata["limit"] == "model_calls"
        assert (len(model.calls), refused) == (2, ["semantic"])

    def test_they_add_up_over_re_entries(self, drive: Drive) -> None:
        check = filters.validate_answer(lambda message: "no", max_retries=9)
        model = ScriptedModel(lambda messages: "bad")
        with pytest.raises(LimitExceeded):
            drive(build(model, Log(), check, filters.limit_calls(3))).start("go")
        assert len(model.calls) == 3

    def test_they_add_up_over_loops_that_failed(self, drive: Drive, any_saver: Any) -> None:
        @around_turn
        def stubborn(request: Any, state: Any, next: Any) -> Any:
            while True:
                try:
                    return next(request)
                except ModelError:
                    continue

        model = ScriptedModel(lambda messages: LATE if messages[-1].type == "tool" else batch("look"))
        agent = build(model, Log(), stubborn, filters.limit_calls(5), saver=any_saver)
        with pytest.raises(LimitExceeded):
            drive(agent).start("go", thread="t")
        assert len(model.calls) == 5

    def test_the_tighter_one_of_this_and_the_limits_of_the_agent_holds(self, drive: Drive) -> None:
        for limits, own, made in ((Limits(model_calls=2), 5, 2), (Limits(model_calls=5), 2, 2)):
            model, log = ScriptedModel(endless), Log()
            stack = [filters.limit_calls(own)]
            agent = Agent(model, tools=[log.tool("look")], filters=stack, limits=limits)
            with pytest.raises(LimitExceeded) as caught:
                drive(agent).start("go")
            assert (caught.value.limit, len(model.calls)) == ("model_calls", made)


class TestToolCalls:
    """Every call that the model makes, whatever comes of it."""

    @pytest.mark.parametrize("allowed", [1, 2, 4])
    @pytest.mark.parametrize("serial", [False, True])
    def test_a_batch_is_cut_exactly(self, drive: Drive, memory: Any, allowed: int, serial: bool) -> None:
        log = Log()
        tool = log.tool("look", metadata={"serial": serial})
        model = ScriptedModel([batch(*["look"] * 5), "stopped"])
        limit = filters.limit_calls(tools=allowed)
        agent = Agent(model, tools=[tool], filters=[limit], checkpointer=memory)
        with pytest.raises(LimitExceeded) as caught:
            drive(agent).start("go", thread="t")
        assert (caught.value.limit, caught.value.used, caught.value.allowed) == ("tool_calls", allowed, allowed)
        assert sorted(log) == [f"look {number}" for number in range(allowed)]
        kept = results(agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"])
        assert [one.startswith("not run: the turn reached") for one in kept] == [n >= allowed for n in range(5)]
        done, _ = drive(agent).start("stop", thread="t")
        assert done.answer == "stopped"

    @settings(max_examples=20, deadline=None)
    @given(
        calls=some.lists(some.lists(some.sampled_from(["look", "send"]), min_size=1, max_size=5), max_size=4),
        look=some.integers(1, 6),
        send=some.none() | some.integers(1, 6),
    )
    def test_by_tool_the_first_ones_run_and_no_other(self, calls: list[list[str]], look: int, send: int | None) -> None:
        log, limits = Log(), {"look": look, **({"send": send} if send else {})}
        script = [*(batch(*one) for one in calls), "ok"]
        agent = build(script, log, filters.limit_calls(tools=limits, exit="finish"))
        result = agent.invoke("go")
        left, ran = {"look": look, "send": send or 99}, []
        for one in calls:
            cut = False
            for number, tool in enumerate(one):
                left[tool] -= 1
                cut = cut or left[tool] < 0
                ran += [f"{tool} {number}"] if left[tool] >= 0 else []
            if cut:
                break
        else:
            assert result.answer == "ok"
        assert sorted(log) == sorted(ran)

    def test_a_cut_call_is_not_shown_to_a_person(self, drive: Drive, memory: Any) -> None:
        log = Log()
        stack = [filters.approval({"send": True}), filters.limit_calls(tools={"send": 1}, exit="finish")]
        agent = build([batch("send", "send", "send"), "ok"], log, *stack, saver=memory)
        paused, _ = drive(agent).start("go", thread="t")
        assert isinstance(paused, Paused)
        assert [one.call_id for one in paused.approvals] == ["c0"]
        result, _ = drive(agent).resume("t", approve())
        assert isinstance(result, Completed)
        assert log == ["send 0"]

    @pytest.mark.parametrize("outside", [True, False])
    def test_a_retry_is_no_further_call_wherever_the_limit_stands(self, drive: Drive, outside: bool) -> None:
        attempts = []

        @around_tool
        def failing(request: Any, state: Any, next: Any) -> Any:
            attempts.append(request.call["id"])
            reply = next(request)
            if attempts.count(request.call["id"]) > 2:
                return reply
            return reply.replace(error=SimpleNamespace(kind="transient", exception=None, retry_after=None))

        retry, limit = filters.retry_tool(initial_delay=0.001), filters.limit_calls(tools=2)
        stack = [limit, retry, failing] if outside else [retry, failing, limit]
        result, _ = drive(build([batch("look", "look"), "ok"], Log(), *stack)).start("go")
        assert (result.answer, len(attempts)) == ("ok", 6)

    def test_a_name_that_no_tool_has_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="'lok'"):
            build([], Log(), filters.limit_calls(tools={"lok": 1}))


class TestFlow:
    """Tokens, cost and seconds: what was used is known afterwards, and the next call is not made."""

    def test_tokens(self, drive: Drive) -> None:
        counts = []

        def say(messages: list[Any]) -> AIMessage:
            counts.append(10)
            usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
            return batch("look").model_copy(update={"usage_metadata": usage})

        with pytest.raises(LimitExceeded) as caught:
            drive(build(say, Log(), filters.limit_calls(tokens=25))).start("go")
        assert (caught.value.limit, caught.value.used, len(counts)) == ("tokens", 30, 3)

    async def _price(self, message: AIMessage) -> float:
        await asyncio.sleep(0)
        return 0.1

    @pytest.mark.parametrize("of", ["table", "def", "async def"])
    def test_cost(self, drive: Drive, of: str) -> None:
        usage = {"input_tokens": 80_000, "output_tokens": 10_000, "total_tokens": 90_000}
        said = batch("look").model_copy(
            update={"usage_metadata": usage, "response_metadata": {"model_name": "gpt-x-2026-01-31"}}
        )
        prices = {"table": {"gpt-x": {"input": 1, "output": 2}}, "def": lambda message: 0.1, "async def": self._price}
        model = ScriptedModel(lambda messages: said)
        with pytest.raises(LimitExceeded) as caught:
            drive(build(model, Log(), filters.limit_calls(cost=0.3, prices=prices[of]))).start("go")
        assert (caught.value.limit, caught.value.used, len(model.calls)) == (
            "cost",
            0.3,
            3,
        )  # and no 0.30000000000000004

    def test_a_model_without_a_price_or_a_count_of_tokens_is_not_taken_for_free(self) -> None:
        with pytest.raises(ConfigurationError, match="none for 'scripted'"):
            build(["ok"], Log(), filters.limit_calls(cost=1, prices={"gpt-x": {"input": 1, "output": 2}})).invoke("go")

        silent = filters.limit_calls(tokens=10)
        chain = compose([silent], "chat", lambda request: ChatReply(AIMessage("ok")))
        with pytest.raises(ConfigurationError, match="tells of no tokens"):
            chain(ChatRequest([HumanMessage("go")]))

    @pytest.mark.parametrize("limit", ["tokens", "seconds"])
    def test_no_tool_runs_any_more_either(self, drive: Drive, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
        log, clock = Log(), Clock(monkeypatch)

        def say(messages: list[Any]) -> AIMessage:
            clock.now += 10
            return batch("look", "send")

        one = filters.limit_calls(**{limit: 1})
        with pytest.raises(LimitExceeded) as caught:
            drive(build(say, log, one)).start("go")
        assert (caught.value.limit, log) == (limit, [])

    def test_seconds_of_a_pause_do_not_count(self, drive: Drive, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock(monkeypatch)

        def say(messages: list[Any]) -> AIMessage:
            clock.now += 4
            return AIMessage("ok") if results(messages) else batch("look")

        stack = [filters.approval({"look": True}), filters.limit_calls(seconds=9)]
        agent = build(say, Log(), *stack, saver=memory)
        paused, _ = drive(agent).start("go", thread="t")
        assert isinstance(paused, Paused)
        clock.now += 100_000
        result, _ = drive(agent).resume("t", approve())
        assert result.answer == "ok"

    @pytest.mark.parametrize("exit", ["error", "finish"])
    def test_no_retry_waits_for_a_call_that_would_come_too_late(self, drive: Drive, exit: Any) -> None:
        model = ScriptedModel([LATE])
        retry, limit = filters.retry_model(initial_delay=60, max_delay=60), filters.limit_calls(seconds=30, exit=exit)
        with pytest.raises(ModelError) as caught:
            drive(build(model, Log(), retry, limit)).start("go")
        assert caught.value.__cause__ is LATE


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        patch.setattr(scallion.loop.invocation, "time", SimpleNamespace(monotonic=lambda: self.now))


def one_turn(url: str) -> None:
    """A turn in a process of its own."""
    limit = filters.limit_calls(2, per="thread")
    with SQLCheckpointer(url) as saver:
        build(["ok"], Log(), limit, saver=saver).invoke("go", thread="t")


class TestThread:
    """One budget for all turns of a thread."""

    def test_it_adds_up_from_turn_to_turn(self, drive: Drive, any_saver: Any) -> None:
        log = Log()
        agent = build(
            lambda messages: AIMessage("ok") if messages[-1].type == "tool" else batch("look", "look"),
            log,
            filters.limit_calls(tools=3, per="thread"),
            saver=any_saver,
        )
        drive(agent).start("go", thread="t")
        with pytest.raises(LimitExceeded) as caught:
            drive(agent).start("again", thread="t")
        assert (caught.value.per, str(caught.value)) == ("thread", "the thread reached its limit of 3 tool calls")
        assert len(log) == 3
        drive(agent).start("go", thread="another")
        assert len(log) == 5

    def test_seconds_too(self, drive: Drive, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock(monkeypatch)

        def say(messages: list[Any]) -> str:
            clock.now += 4
            return "ok"

        agent = build(say, Log(), filters.limit_calls(seconds=10, per="thread"), saver=memory)
        for _ in range(3):
            drive(agent).start("go", thread="t")
            clock.now += 1_000
        with pytest.raises(LimitExceeded) as caught:
            drive(agent).start("go", thread="t")
        assert (caught.value.limit, caught.value.used) == ("seconds", 12)

    def test_a_thread_that_nobody_keeps_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="per thread"):
            build([], Log(), filters.limit_calls(3, per="thread"))

    def test_another_process_goes_on_counting(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'agent.db'}"
        other = processes.Process(target=one_turn, args=(url,))
        other.start()
        other.join(60)
        assert other.exitcode == 0
        with SQLCheckpointer(url) as saver:
            agent = build(["ok"], Log(), filters.limit_calls(2, per="thread"), saver=saver)
            agent.invoke("go", thread="t")
            with pytest.raises(LimitExceeded) as caught:
                agent.invoke("go", thread="t")
        assert caught.value.used == 2


class TestFinish:
    """The turn ends with an answer."""

    @pytest.mark.parametrize("limit", [{"model": 2}, {"tools": 1}, {"tools": {"look": 1}}, {"tokens": 1}])
    def test_that_says_so(self, drive: Drive, memory: Any, limit: dict[str, Any]) -> None:
        model, log = ScriptedModel(endless), Log()
        agent = build(model, log, filters.limit_calls(**limit, exit="finish"), saver=memory)
        result, events = drive(agent).start("go", thread="t")
        assert isinstance(result, Completed)
        assert result.answer.startswith("Stopped: the turn reached its limit of ")
        assert result.message.response_metadata["finish_reason"] == "limit"
        if events:
            assert delivered(events) == result.answer
            assert any(isinstance(one, FilterActed) and one.filter == "limit_calls" for one in events)
        done, _ = drive(agent).start("stop", thread="t")
        assert done.answer == "stopped"

    @pytest.mark.parametrize("first", [0, 1])
    def test_it_is_no_call_for_the_usage(self, first: int) -> None:
        both = [filters.usage(), filters.limit_calls(2, exit="finish")]
        result = build(endless, Log(), both[first], both[1 - first]).invoke("go")
        assert result.filter_state["usage"]["models"]["scripted"]["calls"] == 2

    def test_in_your_words(self, drive: Drive) -> None:
        agent = build(endless, Log(), filters.limit_calls(1, exit="finish", answer="I have to stop."))
        assert drive(agent).start("go")[0].answer == "I have to stop."

    def test_it_is_not_judged_as_the_models_answer(self, drive: Drive) -> None:
        model = ScriptedModel(endless)
        check = filters.validate_answer(lambda message: "no", max_retries=5)
        result, _ = drive(build(model, Log(), check, filters.limit_calls(2, exit="finish"))).start("go")
        assert (result.attempts, len(model.calls)) == (1, 2)


class TestAsk:
    """A person allows as much again, or stops it."""

    def test_who_approves_allows_as_much_again(self, drive: Drive, memory: Any) -> None:
        model, log = ScriptedModel(endless), Log()
        agent = build(model, log, filters.limit_calls(2, exit="ask"), saver=memory)
        made = []
        result, _ = drive(agent).start("go", thread="t")
        for _ in range(3):
            assert isinstance(result, Paused)
            [asked] = result.approvals
            made.append((asked.description, len(model.calls)))
            result, _ = drive(agent).resume("t", approve())
        told = "The turn reached its limit of {} model calls. Go on, with as much again?"
        assert made == [(told.format(number), number) for number in (2, 4, 6)]

    def test_who_rejects_ends_the_turn(self, drive: Drive, memory: Any) -> None:
        model = ScriptedModel(endless)
        agent = build(model, Log(), filters.limit_calls(2, exit="ask"), saver=memory)
        drive(agent).start("go", thread="t")
        result, _ = drive(agent).resume("t", reject())
        assert isinstance(result, Completed)
        assert (result.answer, len(model.calls)) == ("Stopped: the turn reached its limit of 2 model calls.", 2)
        done, _ = drive(agent).start("stop", thread="t")
        assert done.answer == "stopped"

    def test_calls_of_a_batch_are_asked_about_and_counted_exactly(self, drive: Drive, memory: Any) -> None:
        log = Log()
        agent = build([batch(*["look"] * 5), batch("look"), "ok"], log, filters.limit_calls(tools=2, exit="ask"),
                      saver=memory)  # fmt: skip
        paused, _ = drive(agent).start("go", thread="t")
        assert isinstance(paused, Paused)
        assert sorted(str(one.call_id) for one in paused.approvals) == ["c2", "c3", "c4"]
        assert sorted(log) == ["look 0", "look 1"]
        decisions = {one.id: reject() if one.call_id == "c4" else approve() for one in paused.approvals}
        result, _ = drive(agent).resume("t", decisions)
        assert sorted(log) == ["look 0", "look 1", "look 2", "look 3"]
        assert isinstance(result, Completed)  # whoever stops one of them stops the turn
        assert result.message.response_metadata["limit"] == "tool_calls"

    def test_what_is_allowed_holds_for_the_calls_that_follow(self, drive: Drive, memory: Any) -> None:
        log = Log()
        script = [batch("look", "look", "look"), batch("look"), "ok"]
        agent = build(script, log, filters.limit_calls(tools=2, exit="ask"), saver=memory)
        drive(agent).start("go", thread="t")
        result, _ = drive(agent).resume("t", approve())
        assert isinstance(result, Completed)
        assert (result.answer, len(log)) == ("ok", 4)

    def test_time_that_was_up_stays_up_on_the_resume(
        self, drive: Drive, memory: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Clock(monkeypatch)

        def say(messages: list[Any]) -> AIMessage:
            clock.now += 4
            return endless(messages)

        model = ScriptedModel(say)
        agent = build(model, Log(), filters.limit_calls(seconds=7, exit="ask"), saver=memory)
        drive(agent).start("go", thread="t")
        result, _ = drive(agent).resume("t", reject())
        assert isinstance(result, Completed)
        assert (result.message.response_metadata["limit"], len(model.calls)) == ("seconds", 2)

    def test_it_needs_somebody_who_keeps_the_pause(self) -> None:
        with pytest.raises(ConfigurationError, match="checkpointer"):
            build([], Log(), filters.limit_calls(2, exit="ask"))


class TestPauses:
    """What was counted before a pause is counted after it, once."""

    def test_counts_survive_and_nothing_counts_twice(self, drive: Drive, any_saver: Any) -> None:
        @around_chat
        def careful(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            pause("Fine?")
            return reply

        model, log = ScriptedModel(endless), Log()
        agent = build(model, log, careful, filters.limit_calls(3, tools=9), saver=any_saver)
        result, _ = drive(agent).start("go", thread="t")
        for _ in range(2):
            assert isinstance(result, Paused)
            result, _ = drive(agent).resume("t", respond("yes"))
        with pytest.raises(LimitExceeded) as caught:
            drive(agent).resume("t", respond("yes"))
        assert (caught.value.used, len(model.calls), len(log)) == (3, 3, 3)

    def test_a_limit_in_a_batch_that_paused_is_raised_when_the_batch_is_done(self, drive: Drive, memory: Any) -> None:
        def one() -> Agent:
            stack = [filters.approval({"send": True}), filters.limit_calls(tools={"look": 1})]
            return build([batch("look", "look", "send"), "ok"], log, *stack, saver=memory)

        log = Log()
        paused, _ = drive(one()).start("go", thread="t")
        assert isinstance(paused, Paused)
        with pytest.raises(LimitExceeded) as caught:
            drive(one()).resume("t", approve())
        assert (caught.value.limit, log) == ("tool_calls:look", ["look 0", "send 2"])

    def test_the_bare_graph_keeps_it_too(self) -> None:
        log = Log()
        agent = build([batch("look", "look"), "ok"], log, filters.limit_calls(tools=1, exit="finish"))
        kept = agent.graph.invoke({"messages": [HumanMessage("go")]})["messages"]
        assert (kept[-1].response_metadata["limit"], log) == ("tool_calls", ["look 0"])

    def test_a_batch_that_paused_is_counted_once(self, drive: Drive, memory: Any) -> None:
        log = Log()
        stack = [filters.approval({"send": True}), filters.limit_calls(tools=4)]
        agent = build([batch("look", "send", "look"), batch("look"), "ok"], log, *stack, saver=memory)
        drive(agent).start("go", thread="t")
        result, _ = drive(agent).resume("t", approve())
        assert (result.answer, result.filter_state["limit_calls"]["used"]["tool_calls"]) == ("ok", 4)


class TestPure:
    """The sums."""

    @given(used=some.floats(0.001, 1e6), limit=some.floats(0.001, 1e6))
    def test_there_is_room_behind_what_was_used(self, used: float, limit: float) -> None:
        assert limit + more_for(used, limit) > used - limit * 1e-6

    def test_tables_add_up(self) -> None:
        assert added({"a": 0.1, "b": 1}, {"a": 0.2, "c": 3}) == {"a": 0.3, "b": 1, "c": 3}
        assert larger({"a": 4}, {"a": 2, "b": 2}) == {"a": 4, "b": 2}

    def test_time_is_that_of_all_turns(self) -> None:
        time = timed([0, None, 0], "a", 3)
        time = timed(time, "a", 5)
        assert timed(time, "b", 2) == [5, "b", 2]

    def test_state_is_plain_data(self) -> None:
        one = filters.limit_calls(1)
        assert json.loads(json.dumps(one.init)) == one.init


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": 0},
        {"model": 1.5},
        {"model": True},
        {"tools": "three"},
        {"tools": {"look": -1}},
        {"tools": {}},
        {"tokens": float("inf")},
        {"seconds": float("nan")},
        {"seconds": "1"},
        {"model": 1, "per": "day"},
        {"model": 1, "exit": "warn"},
        {"cost": 1},
        {"model": 1, "prices": PRICES},
        {"cost": 1, "prices": {"gpt-x": 3}},
        {"cost": 1, "prices": {"gpt-x": {"input": 1, "output": float("inf")}}},
        {"cost": 1, "prices": {}},
        {"model": 1, "exit": "finish", "answer": 5},
        {"model": 1, "exit": "finish", "answer": ""},
        {"model": 1, "answer": "Enough."},
    ],
)
def test_what_cannot_be_is_refused_where_it_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="limit_calls"):
        filters.limit_calls(**options)


def test_it_stands_inside_of_model_calls_and_outside_of_tool_calls() -> None:
    stack = [filters.retry_model(), filters.limit_calls(3), filters.retry_tool()]
    layers = Agent(ScriptedModel([]), filters=stack).layers
    assert layers["chat"] == ["retry_model", "limit_calls"]
    assert layers["tool"] == ["limit_calls", "retry_tool"]


def test_two_of_them_hold_side_by_side() -> None:
    log = Log()
    stack = [filters.limit_calls(tools=5), filters.limit_calls(tools={"send": 1}, exit="finish", name="letters")]
    result = build([batch("look", "send", "send"), "ok"], log, *stack).invoke("go")
    assert (result.message.response_metadata["limit"], log) == ("tool_calls:send", ["look 0", "send 1"])


class TestTwoLimits:
    """A cap inside of another one: what the inner one says is no answer of a model."""

    def test_the_stop_of_the_inner_one_is_not_counted(self, drive: Drive) -> None:
        inner = filters.limit_calls(1, exit="finish", name="inner")
        outer = filters.limit_calls(9, tokens=10**6, name="outer")
        model = ScriptedModel([batch("look")])
        result, _ = drive(build(model, Log(), outer, inner)).start("go")
        assert result.message.response_metadata["limit"] == "model_calls"
        assert result.filter_state["outer"]["used"]["model_calls"] == len(model.calls) == 1
        assert result.filter_state["outer"]["used"]["tokens"] == result.usage["total_tokens"]

    def test_what_the_inner_one_does_not_let_ask_is_not_counted(self, drive: Drive) -> None:
        @around_chat
        def asking(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            with pytest.raises(ModelError):
                next(request.replace(aside=True))
            return reply

        stack = [asking, filters.limit_calls(9, name="outer"), filters.limit_calls(1, exit="finish", name="inner")]
        result, _ = drive(build(["ok"], Log(), *stack)).start("go")
        assert (result.answer, result.filter_state["outer"]["used"]) == ("ok", {"model_calls": 1})


class TestMalformedCalls:
    """A call whose arguments are no JSON is one that the model made."""

    @staticmethod
    def bad(*tools: str) -> AIMessage:
        made = [{"name": one, "args": "{x", "id": f"b{n}", "error": None} for n, one in enumerate(tools)]
        return AIMessage("", invalid_tool_calls=made)

    @pytest.mark.parametrize("limited", [3, {"look": 2}])
    def test_they_count_and_end(self, drive: Drive, memory: Any, limited: Any) -> None:
        model = ScriptedModel([self.bad("look"), self.bad("send", "look"), *[self.bad("look")] * 9])
        agent = build(model, Log(), filters.limit_calls(tools=limited), saver=memory)
        with pytest.raises(LimitExceeded) as caught:
            drive(agent).start("go", thread="t")
        assert caught.value.used == (limited if isinstance(limited, int) else 2)
        assert len(model.calls) == 3
        kept = results(agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"])
        assert [one.startswith("not run: the arguments") for one in kept] == [True] * 3 + [False]

    def test_a_person_may_allow_more(self, drive: Drive, memory: Any) -> None:
        model = ScriptedModel([self.bad("look"), self.bad("look"), "ok"])
        driver = drive(build(model, Log(), filters.limit_calls(tools=1, exit="ask"), saver=memory))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        result, _ = driver.resume("t", approve())
        assert (result.answer, result.filter_state["limit_calls"]["used"]) == (
            "ok",
            {"model_calls": 3, "tool_calls": 2},
        )

    def test_no_other_filter_sees_them(self, drive: Drive) -> None:
        seen = []

        @around_tool
        def watching(request: Any, state: Any, next: Any) -> Any:
            seen.append(request.call["id"])
            return next(request)

        message = AIMessage(
            "", tool_calls=[call("look", "c1", n=1)], invalid_tool_calls=self.bad("look").invalid_tool_calls
        )
        limit = filters.limit_calls(tools=1, exit="finish")
        result, _ = drive(build([message, "never"], Log(), watching, limit)).start("go")
        assert seen == ["c1"]
        assert result.message.response_metadata["limit"] == "tool_calls"


@pytest.mark.parametrize("price", [-5, float("nan"), float("inf")])
@pytest.mark.parametrize("exit", ["error", "finish"])
def test_a_price_that_cannot_be_stops_the_turn(drive: Drive, price: float, exit: Any) -> None:
    """Money that comes back would leave it without a limit."""
    limit = filters.limit_calls(cost=1, exit=exit, prices=lambda message: price, name="money")
    agent = build(endless, Log(), limit)
    with pytest.raises(
        ConfigurationError, match=r"filter 'money': prices= gave .*: have it give a number from zero up"
    ):
        drive(agent).start("go")
