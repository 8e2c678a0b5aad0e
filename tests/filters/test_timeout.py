"""`filters.timeout`: a tool call is stopped at its deadline, or left behind, and said to be."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.types import Command
from modes import Drive
from scenes import Desk, asks, call

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    Filter,
    Paused,
    ToolFinished,
    ToolStarted,
    approve,
    edit,
    filters,
    happened,
    pause,
    respond,
)
from scallion.filters.timeout import Timeout
from scallion.testing import ScriptedModel

SOON = 0.05


class Slow:
    """Tools that wait until they are let go, and write down how far they came."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = 0
        self.ended = threading.Event()
        self.cancelled = 0

    def stubborn(self) -> BaseTool:
        """A synchronous tool, which nobody can stop."""

        def stubborn(order: int) -> Any:
            """Wait."""
            self.began += 1
            assert self.go.wait(10)
            self.ended.set()
            return Command(update={"paid": order})

        return StructuredTool.from_function(stubborn)

    def polite(self) -> BaseTool:
        """An asynchronous tool."""

        async def polite(order: int) -> str:
            """Wait."""
            self.began += 1
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return "done"

        return StructuredTool.from_function(coroutine=polite)

    def both(self) -> BaseTool:
        """A tool in both forms."""
        return StructuredTool.from_function(self.stubborn().func, coroutine=self.polite().coroutine, name="both")


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.go.set()


def agent(
    *replies: Any, tools: Any, before: Any = (), behind: Any = (), seconds: float = SOON, **options: Any
) -> Agent:
    stack = [*before, filters.timeout(seconds), *behind]
    return Agent(ScriptedModel([*replies, "done"]), tools=tools, filters=stack, **options)


def told(result: Any) -> list[Any]:
    return [one for one in result.messages if one.type == "tool"]


@pytest.mark.parametrize("name", ["polite", "both"])
def test_an_asynchronous_tool_is_cancelled(drive: Drive, slow: Slow, name: str) -> None:
    """In a synchronous run too; where a tool has both forms, it is the one that can be stopped that runs."""
    result, events = drive(agent(asks(call(name, order=1)), tools=[getattr(slow, name)()])).start("go")
    (message,) = told(result)
    assert (slow.began, slow.cancelled) == (1, 1)
    assert message.status == "error"
    assert message.text == f"error: {name} took longer than 0.05 s and was stopped; whether it took effect is not known"
    assert message.artifact == {"timeout": SOON, "abandoned": False}
    assert result.answer == "done"
    ends = [one.status for one in events if isinstance(one, ToolFinished)]
    assert ends == ["error"] * len([one for one in events if isinstance(one, ToolStarted)])


def test_a_synchronous_tool_is_left_behind_and_that_is_said(drive: Drive, slow: Slow, caplog: Any) -> None:
    """Defect 3: it went on unannounced. What it gives later, and writes, is never used."""
    seen: list[dict[str, Any]] = []

    def look(request: Any, state: Any, next: Any) -> Any:
        seen.append(dict(request.context.state))
        if request.call["name"] == "look":
            slow.go.set()
            assert slow.ended.wait(10)
        return next(request)

    desk = Desk()
    one = agent(
        asks(call("stubborn", order=1)),
        asks(call("look", "c2", order=2)),
        asks(call("look", "c3", order=3)),
        tools=[slow.stubborn(), desk.look()],
        before=[Filter("look", around_tool=look)],
    )
    result, _ = drive(one).start("go")
    first, second, third = told(result)
    assert first.artifact == {"timeout": SOON, "abandoned": True}
    assert "could not be stopped" in first.text
    assert "'stubborn' is abandoned" in caplog.text
    assert (second.text, third.text) == ("order 2 is here", "order 3 is here")
    assert seen == [{}, {}, {}]


def test_many_abandoned_tools_do_not_use_up_a_pool(slow: Slow) -> None:
    """A pool of threads would be full of them: the tools behind would time out without having begun."""
    many = [asks(*(call("stubborn", f"c{n}-{m}", order=n) for n in range(20))) for m in range(2)]

    async def main() -> Any:
        return await agent(*many, tools=[slow.stubborn()]).ainvoke("go")

    result = asyncio.run(main())  # which waits for the threads of its pool
    assert slow.began == 40
    assert all(one.artifact["abandoned"] for one in told(result))


def test_a_tool_that_swallows_its_cancellation_is_abandoned(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """It has a while to clean up; what it gives then comes too late."""
    monkeypatch.setattr(sys.modules[Timeout.__module__], "GRACE", 0.02)
    ended: list[str] = []

    @tool
    async def deaf(order: int) -> str:
        """Go on."""
        for _ in range(3):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        ended.append("late")
        return "late"

    result, _ = drive(agent(asks(call("deaf", order=1)), tools=[deaf])).start("go")
    assert told(result)[0].artifact["abandoned"] is True
    assert "late" not in told(result)[0].text


def test_what_ends_in_time_passes_unchanged(drive: Drive) -> None:
    desk = Desk()
    made = agent(asks(call("refund", order=1), call("mail", "c2", to="ana")), tools=desk.tools, seconds=5)
    result, _ = drive(made).start("go")
    assert [one.text for one in told(result)] == ["refunded 1", "sent hello to ana"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [(PermissionError("no"), "environment"), (ConnectionError("off"), "transient"), (ValueError("x"), "semantic")],
)
def test_a_failure_in_time_keeps_its_kind(drive: Drive, error: Exception, kind: str) -> None:
    """Defect 2: every error inside of the timeout became a semantic one."""
    kinds: list[str] = []

    def watch(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        kinds.append(reply.error.kind)
        assert reply.error.exception is error
        return reply

    @tool
    def fail(order: int) -> str:
        """Fail."""
        raise error

    drive(
        agent(asks(call("fail", order=1)), tools=[fail], before=[Filter("watch", around_tool=watch)], seconds=5)
    ).start("go")
    assert kinds == [kind]


def test_a_timeout_is_transient(drive: Drive, slow: Slow) -> None:
    """So that a retry around it may try again; a filter inside is run again with a time of its own."""
    kinds: list[str] = []

    def retry(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        kinds.append(reply.error.kind)
        assert isinstance(reply.error.exception, TimeoutError)
        return next(request)

    result, _ = drive(
        agent(asks(call("polite", order=1)), tools=[slow.polite()], before=[Filter("retry", around_tool=retry)])
    ).start("go")
    assert kinds == ["transient"]
    assert slow.began == 2
    assert told(result)[0].status == "error"


def test_a_tool_that_raises_stop_iteration_fails_at_once() -> None:
    """No future takes a StopIteration: the call would have hung until its deadline."""

    @tool
    def first(order: int) -> str:
        """Take the first of nothing."""
        return next(iter([]))

    result = agent(asks(call("first", order=1)), tools=[first], seconds=5).invoke("go")
    assert "StopIteration" in told(result)[0].text


def test_time_that_a_person_takes_does_not_count(drive: Drive, sql: Any) -> None:
    """The pause passes, inside of the timeout and outside; the call has all its seconds after it."""
    for place in ("before", "behind"):
        desk = Desk()
        options: Any = {place: [filters.approval({"refund": True})]}
        one = agent(asks(call("refund", order=1)), tools=desk.tools, checkpointer=sql, seconds=0.25, **options)
        driver = drive(one)
        result, _ = driver.start("go", thread=place)
        assert isinstance(result, Paused)
        threading.Event().wait(0.3)
        result, _ = driver.resume(place, edit({"order": 2}))
        assert isinstance(result, Completed)
        assert desk.ran == ["refund 2"]


def test_a_tool_that_asks_pauses_and_goes_on(drive: Drive, memory: Any) -> None:
    """FLT-14: the pause passes a layer that awaits the call."""

    @tool
    def ask(order: int) -> str:
        """Ask."""
        return f"{order}: {pause('Which?').message}"

    driver = drive(agent(asks(call("ask", order=1)), tools=[ask], checkpointer=memory, seconds=5))
    result, _ = driver.start("go", thread="t")
    assert isinstance(result, Paused)
    result, _ = driver.resume("t", respond("that one"))
    assert told(result)[0].text == "1: that one"


def test_a_question_that_comes_too_late_is_not_asked(drive: Drive, memory: Any, slow: Slow) -> None:
    """An abandoned tool that asks would pause a turn that went on without it."""
    asked = threading.Event()

    @tool
    def ask(order: int) -> str:
        """Ask late."""
        assert slow.go.wait(10)
        try:
            return str(pause("Which?"))
        finally:
            asked.set()

    def release(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        slow.go.set()
        assert asked.wait(10)
        return reply

    one = agent(
        asks(call("ask", order=1)), tools=[ask], before=[Filter("release", around_tool=release)], checkpointer=memory
    )
    result, _ = drive(one).start("go", thread="t")
    assert isinstance(result, Completed)
    assert told(result)[0].artifact["abandoned"] is True


def test_a_call_that_once_guards_is_not_run_again_blindly(drive: Drive, sql: Any, slow: Slow) -> None:
    """`once` stands inside: after the timeout nobody knows what came of it, so a second call of it asks a person."""

    def retry(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return next(request) if reply.error is not None else reply

    one = agent(
        asks(call("polite", order=1)),
        tools=[slow.polite()],
        before=[Filter("retry", around_tool=retry)],
        behind=[filters.once()],
        checkpointer=sql,
        seconds=0.3,
    )
    driver = drive(one)
    result, _ = driver.start("go", thread="t")
    assert isinstance(result, Paused)
    assert result.approvals[0].kind == "unknown_outcome"
    assert slow.began == 1
    result, _ = driver.resume("t", happened("refunded"))
    assert told(result)[0].text == "refunded"
    assert slow.began == 1


def test_an_approved_call_that_timed_out_may_be_tried_again(drive: Drive, sql: Any, slow: Slow) -> None:
    """As any call that failed; nobody is asked again."""

    def retry(request: Any, state: Any, next: Any) -> Any:
        next(request)
        return next(request)

    one = agent(
        asks(call("polite", order=1)),
        tools=[slow.polite()],
        before=[filters.approval({"polite": True}), Filter("retry", around_tool=retry)],
        checkpointer=sql,
    )
    result, _ = drive(one).finish("go", thread="t", decision=approve())
    assert slow.began == 2
    assert told(result)[0].artifact["abandoned"] is False


def test_of_two_deadlines_the_shorter_one_holds(drive: Drive, slow: Slow) -> None:
    """The outer one says too that a thread is left behind inside."""
    model = ScriptedModel([asks(call("stubborn", order=1)), "done"])
    stack = [filters.timeout(SOON, name="outer"), filters.timeout(9, name="inner")]
    result, _ = drive(Agent(model, tools=[slow.stubborn()], filters=stack)).start("go")
    assert told(result)[0].artifact == {"timeout": SOON, "abandoned": True}


def test_one_slow_call_of_a_batch_does_not_hold_up_the_results_of_the_others(drive: Drive, slow: Slow) -> None:
    desk = Desk()
    made = agent(asks(call("polite", order=1), call("refund", "c2", order=2)), tools=[slow.polite(), desk.refund()])
    result, _ = drive(made).start("go")
    assert [one.status for one in told(result)] == ["error", "success"]


def test_a_turn_that_is_cancelled_cancels_the_tool(slow: Slow) -> None:
    async def main() -> None:
        turn = asyncio.ensure_future(
            agent(asks(call("polite", order=1)), tools=[slow.polite()], seconds=9).ainvoke("go")
        )
        while not slow.began:
            await asyncio.sleep(0.001)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(main())
    assert slow.cancelled == 1


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), 10**400, "1", None, True])
def test_what_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'late'.*seconds"):
        filters.timeout(seconds, name="late")
