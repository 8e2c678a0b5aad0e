"""`retry_tool`: a tool that failed runs again, each call of a batch for itself, never against the ledger of effects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool
from modes import Drive
from tests.scenes import asks, call, results

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    Limits,
    Paused,
    SQLCheckpointer,
    ToolFailure,
    ToolReply,
    approve,
    around_tool,
    filters,
    happened,
    pause,
    rerun,
)
from scallion.filters.retrying import backoff
from scallion.testing import ScriptedModel

QUICK = {"initial_delay": 0.001, "max_delay": 0.002}


class Shaky:
    """A tool that fails as often as it is told before it works; it notes each execution."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = failures
        self.ran: list[int] = []

    def tool(self, name: str = "fetch") -> BaseTool:
        """The tool, which has both colours."""

        def fetch(page: int) -> str:
            """Fetch a page."""
            self.ran.append(page)
            if (number := self.ran.count(page)) <= len(self.failures):
                raise self.failures[number - 1]
            return f"page {page}"

        async def afetch(page: int) -> str:
            await asyncio.sleep(0)
            return fetch(page)

        return StructuredTool.from_function(fetch, coroutine=afetch, name=name)


def repeats(*pages: int) -> Callable[[list[Any]], AIMessage]:
    """A model that fetches these pages at once, and repeats what it was given."""
    batch = asks(*(call("fetch", f"c{page}", page=page) for page in pages))
    return lambda messages: AIMessage(" / ".join(results(messages))) if results(messages) else batch


def agent(shaky: Shaky, *more: Any, pages: tuple[int, ...] = (1,), saver: Any = None, **options: Any) -> Agent:
    """An agent that fetches pages, with a quick retry."""
    limits = options.pop("limits", Limits())
    retry = filters.retry_tool(**{**QUICK, **options})
    model = ScriptedModel(repeats(*pages))
    return Agent(model, tools=[shaky.tool()], filters=[retry, *more], limits=limits, checkpointer=saver)


def test_it_runs_again_until_it_works(drive: Drive) -> None:
    shaky = Shaky(TimeoutError("late"), ConnectionError("gone"))
    result, _ = drive(agent(shaky)).start("go")
    assert (result.answer, shaky.ran) == ("page 1", [1, 1, 1])
    assert result.usage["tool_calls"] == 1  # the model made one call


def test_the_model_reads_the_last_error_as_it_is(drive: Drive) -> None:
    shaky = Shaky(TimeoutError("late"), ConnectionError("gone"), TimeoutError("the last"))
    result, _ = drive(agent(shaky, max_retries=2)).start("go")
    assert result.answer == "error: TimeoutError: the last"
    assert len(shaky.ran) == 3


@pytest.mark.parametrize("failure", [PermissionError("no"), ValueError("bad")])
def test_what_waiting_does_not_mend_is_not_tried_again(drive: Drive, failure: Exception) -> None:
    shaky = Shaky(failure)
    result, _ = drive(agent(shaky)).start("go")
    assert result.answer.startswith(f"error: {type(failure).__name__}")
    assert len(shaky.ran) == 1


async def _is_bad(failure: ToolFailure) -> bool:
    await asyncio.sleep(0)
    return str(failure.exception) == "bad"


@pytest.mark.parametrize("retry_on", ["semantic", ValueError, ["environment", ValueError], _is_bad])
def test_one_says_which_failures(drive: Drive, retry_on: Any) -> None:
    shaky = Shaky(ValueError("bad"))
    result, _ = drive(agent(shaky, retry_on=retry_on)).start("go")
    assert (result.answer, len(shaky.ran)) == ("page 1", 2)


def test_each_call_of_a_batch_has_its_own_attempts(drive: Drive) -> None:
    shaky = Shaky(TimeoutError("late"), TimeoutError("late"))
    result, _ = drive(agent(shaky, pages=(1, 2, 3), max_retries=2)).start("go")
    assert result.answer == "page 1 / page 2 / page 3"
    assert sorted(shaky.ran) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_only_the_tools_that_were_named(drive: Drive) -> None:
    shaky, other = Shaky(TimeoutError("late")), Shaky(TimeoutError("late"))
    batch = asks(call("fetch", "c1", page=1), call("pay", "c2", page=2))
    retry = filters.retry_tool(tools=["fetch"], **QUICK)
    model = ScriptedModel([batch, lambda messages: AIMessage(" / ".join(results(messages)))])
    result, _ = drive(Agent(model, tools=[shaky.tool(), other.tool("pay")], filters=[retry])).start("go")
    assert result.answer == "page 1 / error: TimeoutError: late"
    assert (len(shaky.ran), len(other.ran)) == (2, 1)


@pytest.mark.parametrize("named", [True, False])
def test_a_tool_that_is_marked_sensitive_runs_twice_only_where_it_is_named(drive: Drive, named: bool) -> None:
    shaky = Shaky(TimeoutError("late"))
    tool = shaky.tool()
    tool.metadata = {"sensitive": True}
    retry = filters.retry_tool(tools=["fetch"] if named else None, **QUICK)
    drive(Agent(ScriptedModel(repeats(1)), tools=[tool], filters=[retry])).start("go")
    assert len(shaky.ran) == (2 if named else 1)


def test_a_name_that_no_tool_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'fech'"):
        agent(Shaky(), tools=["fech"])
    with pytest.raises(ConfigurationError, match="brackets"):
        filters.retry_tool(tools="fetch")


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries": -1},
        {"jitter": 2},
        {"retry_on": "often"},
        {"max_seconds": -1},
        {"initial_delay": 60},
        {"tools": 5},
        {"tools": [["fetch"]]},
        {"tools": b"fetch"},
    ],
)
def test_what_cannot_be_is_refused_where_it_is_built(options: dict[str, Any]) -> None:
    [field] = options
    with pytest.raises(ConfigurationError, match=f"^filter 'mine': {field}"):
        filters.retry_tool(**options, name="mine")


class TestWaits:
    """What is waited between two attempts."""

    @pytest.fixture
    def waits(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """What was waited, in seconds: nothing is."""
        slept: list[float] = []
        monkeypatch.setattr(backoff, "wait_for", slept.append)
        return slept

    def test_what_the_service_asks_for_is_kept_to(self, drive: Drive, waits: list[float]) -> None:
        busy = ConnectionError("busy")
        busy.response = SimpleNamespace(headers={"retry-after": "7"})  # type: ignore[attr-defined]
        result, _ = drive(agent(Shaky(busy))).start("go")
        assert (result.answer, waits) == ("page 1", [7])

    def test_no_attempt_begins_behind_the_time_of_the_turn(self, drive: Drive, waits: list[float]) -> None:
        shaky = Shaky(TimeoutError("late"))
        one = agent(shaky, initial_delay=60, max_delay=60, limits=Limits(seconds=20))
        result, _ = drive(one).start("go")
        assert (result.answer, waits) == ("error: TimeoutError: late", [])


class TestPauses:
    """A tool that asks a person, and a gate."""

    def test_the_attempt_that_paused_goes_on_and_those_before_it_are_not_made_again(
        self, drive: Drive, any_saver: Any
    ) -> None:
        @around_tool
        def careful(request: Any, state: Any, next: Any) -> Any:
            if shaky.ran:
                pause("It failed once. Go on?", allowed=("approve",))
            return next(request)

        shaky = Shaky(TimeoutError("late"))
        paused, _ = drive(agent(shaky, careful, saver=any_saver)).start("go", thread="t")
        assert isinstance(paused, Paused)
        result, _ = drive(agent(shaky, careful, saver=any_saver, initial_delay=60, max_delay=60)).resume("t", approve())
        assert (result.answer, shaky.ran) == ("page 1", [1, 1])

    @pytest.mark.parametrize("outside", [True, False])
    def test_a_person_is_asked_once_however_often_it_fails(self, drive: Drive, any_saver: Any, outside: bool) -> None:
        shaky, gate, retry = Shaky(TimeoutError("late")), filters.approval({"fetch": True}), filters.retry_tool(**QUICK)
        stack = [retry, gate] if outside else [gate, retry]
        one = Agent(ScriptedModel(repeats(1)), tools=[shaky.tool()], filters=stack, checkpointer=any_saver)
        paused, _ = drive(one).start("go", thread="t")
        assert isinstance(paused, Paused)
        result, _ = drive(one).resume("t", approve())
        assert (result.answer, shaky.ran) == ("page 1", [1, 1])


class TestLedger:
    """`filters.once` has the last word on whether a tool runs a second time."""

    @pytest.mark.parametrize("once_first", [True, False])
    def test_an_unknown_outcome_is_asked_about_and_not_tried_again(
        self, drive: Drive, sql: SQLCheckpointer, once_first: bool
    ) -> None:
        shaky, retry, guard = Shaky(TimeoutError("late")), filters.retry_tool(**QUICK), filters.once()
        stack = [guard, retry] if once_first else [retry, guard]
        one = Agent(ScriptedModel(repeats(1)), tools=[shaky.tool()], filters=stack, checkpointer=sql)
        paused, _ = drive(one).start("go", thread="t")
        assert isinstance(paused, Paused)
        assert (paused.approvals[0].kind, shaky.ran) == ("unknown_outcome", [1])
        result, _ = drive(one).resume("t", happened("it had arrived"))
        assert (result.answer, shaky.ran) == ("it had arrived", [1])

    def test_a_person_may_have_it_run_again(self, drive: Drive, sql: SQLCheckpointer) -> None:
        shaky = Shaky(TimeoutError("late"))
        one = agent(shaky, filters.once(), saver=sql)
        drive(one).start("go", thread="t")
        result, _ = drive(one).resume("t", rerun())
        assert (result.answer, shaky.ran) == ("page 1", [1, 1])

    def test_what_may_run_again_is_tried_again(self, drive: Drive, sql: SQLCheckpointer) -> None:
        shaky = Shaky(TimeoutError("late"), TimeoutError("late"))
        result, _ = drive(agent(shaky, filters.once(on_unknown="rerun"), saver=sql)).start("go", thread="t")
        assert isinstance(result, Completed)
        assert (result.answer, shaky.ran) == ("page 1", [1, 1, 1])

    def test_what_failed_for_good_is_not_run_again(self, drive: Drive, sql: SQLCheckpointer) -> None:
        shaky = Shaky(ValueError("bad"), ValueError("worse"))
        result, _ = drive(agent(shaky, filters.once(), saver=sql, retry_on="semantic")).start("go", thread="t")
        assert (result.answer, shaky.ran) == ("error: ValueError: bad", [1])


def test_a_filter_inside_that_answers_is_asked_again(drive: Drive) -> None:
    answers = iter(["transient", None])

    @around_tool
    def answering(request: Any, state: Any, next: Any) -> ToolReply:
        kind = answers.__next__()
        reply = next(request)
        return reply.replace(error=ToolFailure(kind)) if kind else reply

    shaky = Shaky()
    result, _ = drive(agent(shaky, answering)).start("go")
    assert (result.answer, shaky.ran) == ("page 1", [1, 1])
