"""Checks that run side by side: who decides, who is cancelled, and that none of them writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from scenes import Desk, asks, call
from tests.filters.hooks import Sheriff, SlowSheriff

from scallion import Agent, ConfigurationError, FilterError, LimitExceeded, Limits, filters, pause
from scallion.filters import break_with, filter_input, filter_output, llm, run_parallel
from scallion.testing import ScriptedModel


def both(*checks: Any) -> list[Callable[[Any], Any]]:
    """An input filter of each colour that runs these checks."""

    def run(conversation: Any) -> None:
        run_parallel(*checks)

    async def arun(conversation: Any) -> None:
        await run_parallel(*checks)

    return [run, arun]


@pytest.fixture(params=[0, 1], ids=["def", "async"])
def runs(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`runs(*checks)` is an input filter, `def` or `async def`."""
    return lambda *checks: filter_input(both(*checks)[request.param], name="checks")


def breaks(text: str) -> Callable[[Any], None]:
    """A `def` check that breaks at once."""

    def check(view: Any) -> None:
        break_with(text)

    return check


def abreaks(text: str, seconds: float = 0) -> Callable[[Any], Any]:
    """An `async def` check that breaks after a while."""

    async def check(view: Any) -> None:
        await asyncio.sleep(seconds)
        break_with(text)

    return check


def passes(view: Any) -> None:
    """A check that lets pass."""


@pytest.mark.parametrize(
    "checks",
    [
        (passes, abreaks("first", 0.02), breaks("second")),
        (abreaks("first", 0.02), breaks("second")),
        (breaks("first"), abreaks("second")),
        (passes, passes, breaks("first")),
    ],
)
def test_the_first_break_in_the_order_of_the_list_is_the_answer_however_slow_it_is(
    drive: Drive, runs: Any, checks: Any
) -> None:
    """Seed defect 31: checks raced, and the first in time won."""
    model = ScriptedModel([])
    result, _ = drive(Agent(model, filters=[runs(*checks)])).start("q")
    assert (result.answer, model.calls) == ("first", [])


def test_all_that_pass_let_the_turn_go_on(drive: Drive, runs: Any) -> None:
    result, _ = drive(Agent(ScriptedModel(["ok"]), filters=[runs(passes, passes, Sheriff(), SlowSheriff())])).start("q")
    assert result.answer == "ok"


def test_they_run_side_by_side(drive: Drive, runs: Any) -> None:
    """Each waits for the other one: one after the other would never end."""
    both_are_here = threading.Barrier(2, timeout=20)

    def meets(view: Any) -> None:
        both_are_here.wait()

    assert drive(Agent(ScriptedModel(["ok"]), filters=[runs(meets, meets)])).start("q")[0].answer == "ok"


def test_the_others_are_cancelled(drive: Drive, runs: Any) -> None:
    ended: list[str] = []

    async def slow(view: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    result, _ = drive(Agent(ScriptedModel([]), filters=[runs(abreaks("No.", 0.02), slow)])).start("q")
    assert (result.answer, ended) == ("No.", ["cancelled"])


async def sets(view: Any) -> None:
    """Writes a field."""
    view.message = "other"


def changes_in_place(view: Any) -> None:
    """Writes into a message."""
    view.input_message.content = "other"


class Louder:
    """A message filter that changes the message."""

    def filter(self, message: Any) -> Any:
        """Shouted."""
        return message.model_copy(update={"content": message.text.upper()})


@pytest.mark.parametrize("check", [sets, changes_in_place, Louder(), Sheriff("q"), SlowSheriff("q")])
def test_a_check_that_writes_fails_the_turn(drive: Drive, runs: Any, check: Any) -> None:
    """Seed defect 31: what such checks wrote raced with each other."""
    model = ScriptedModel([])
    with pytest.raises(FilterError) as error:
        drive(Agent(model, filters=[runs(passes, check)])).start("q")
    assert isinstance(error.value.__cause__, AttributeError)


def test_a_check_that_fails_fails_the_turn_although_a_later_one_breaks(drive: Drive, runs: Any) -> None:
    def fails(view: Any) -> None:
        raise OSError("away")

    with pytest.raises(FilterError) as error:
        drive(Agent(ScriptedModel([]), filters=[runs(fails, breaks("No."))])).start("q")
    assert isinstance(error.value.__cause__, OSError)
    assert drive(Agent(ScriptedModel([]), filters=[runs(breaks("No."), fails)])).start("q")[0].answer == "No."


def test_checks_of_the_output_see_the_answer_and_a_class_is_made_by_the_container(drive: Drive) -> None:
    seen: list[Any] = []

    def look(view: Any) -> None:
        seen.append(([one.text for one in view.input], view.output_message.text))

    agent = Agent(
        ScriptedModel(["a bad answer"]),
        filters=[filter_output(both(look, Sheriff)[0], name="checks")],
        resolve=lambda kind: kind("never"),
    )
    assert drive(agent).start("q")[0].answer == "a bad answer"
    assert seen == [(["q"], "a bad answer")]


def test_a_check_cannot_pause(drive: Drive, runs: Any) -> None:
    """The answer would go to whichever asks first on the resume."""

    def asks(view: Any) -> None:
        pause("Is it fine?")

    agent = Agent(ScriptedModel([]), filters=[runs(asks)], checkpointer=InMemorySaver())
    with pytest.raises(ConfigurationError, match="outside of a turn"):
        drive(agent).start("q", thread="t")


def test_checks_that_ask_a_model_are_counted_one_by_one(drive: Drive, runs: Any) -> None:
    def judge(view: Any) -> None:
        if llm(f"rate {view.message}").text != "SAFE":
            break_with("No.")

    async def ajudge(view: Any) -> None:
        if (await llm(f"rate {view.message}")).text != "SAFE":
            break_with("No.")

    def model() -> ScriptedModel:
        return ScriptedModel(lambda messages: "SAFE" if messages[-1].text.startswith("rate") else "ok")

    result, _ = drive(Agent(model(), filters=[runs(judge, ajudge, judge)])).start("q")
    assert (result.answer, result.usage["model_calls"]) == ("ok", 4)
    asked = model()
    with pytest.raises(LimitExceeded):
        drive(Agent(asked, filters=[runs(*[judge] * 4)], limits=Limits(model_calls=2))).start("q")
    assert len(asked.calls) <= 2


def test_what_is_no_check_is_refused(drive: Drive, runs: Any) -> None:
    with pytest.raises(ConfigurationError, match="str has none"):
        drive(Agent(ScriptedModel([]), filters=[runs("text")])).start("q")


def test_an_empty_list_checks_nothing(drive: Drive, runs: Any) -> None:
    assert drive(Agent(ScriptedModel(["ok"]), filters=[runs()])).start("q")[0].answer == "ok"
    assert filters.run_parallel is run_parallel


def test_nothing_is_done_before_the_checks_have_let_it_pass(drive: Drive, runs: Any) -> None:
    """A neighbour's model, quicker than the check, had its tool run although the check failed."""
    desk = Desk()
    model = ScriptedModel([asks(call("refund", order=1))])
    agent = Agent(model, tools=desk.tools, filters=[runs(abreaks("No.", 0.02))])
    assert (drive(agent).start("q")[0].answer, model.calls, desk.ran) == ("No.", [], [])


@pytest.mark.parametrize("colour", ["def", "async"])
@pytest.mark.parametrize("kind", [StopIteration, SystemExit, KeyboardInterrupt])
def test_what_no_future_and_no_loop_takes_ends_the_turn_and_does_not_hang_it(
    runs: Any, kind: type[BaseException], colour: str
) -> None:
    """A bare `next(...)` is a failure of the check; exits go through."""

    def check(view: Any) -> None:
        raise kind

    async def acheck(view: Any) -> None:
        raise kind

    agent = Agent(ScriptedModel(["ok"]), filters=[runs(check if colour == "def" else acheck)])
    expected = FilterError if kind is StopIteration else kind
    with pytest.raises(expected):
        agent.invoke("q")
    with pytest.raises(expected):
        asyncio.run(agent.ainvoke("q"))
