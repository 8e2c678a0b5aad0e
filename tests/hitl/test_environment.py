"""Tools that fail for want of something that a person can mend: the turn waits, and only the failed call runs again."""

from __future__ import annotations

from typing import Any

import pytest
from modes import Drive
from scenes import asks, call, results

from scallion import Agent, Blocked, Completed, Filter, Paused, approve, filters, pause, reject, rerun, respond, stop
from scallion.testing import ScriptedModel


class Shop:
    """A tool that works once its credentials were renewed, and one that always does."""

    def __init__(self) -> None:
        self.expired = True
        self.ran: list[str] = []

    def order(self, n: int) -> str:
        """Order something."""
        self.ran.append(f"order {n}")
        if self.expired:
            raise PermissionError("the token has expired")
        return f"ordered {n}"

    def look(self, n: int) -> str:
        """Look something up."""
        self.ran.append(f"look {n}")
        return f"saw {n}"

    def agent(self, saver: Any, *more: Any, **options: Any) -> Agent:
        """It orders, and looks something up beside it."""

        def say(messages: list[Any]) -> Any:
            told = results(messages)
            return " / ".join(told) if told else asks(call("order", "c1", n=1), call("look", "c2", n=2))

        stack = [filters.pause_on_environment_error(), *more]
        return Agent(ScriptedModel(say), tools=[self.order, self.look], filters=stack, checkpointer=saver, **options)


def paused(drive: Drive, agent: Agent) -> Any:
    """The one approval that it waits for."""
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Paused)
    [asked] = result.approvals
    assert (asked.kind, asked.tool, asked.args) == ("environment", "order", {"n": 1})
    assert "the token has expired" in asked.description
    return asked


@pytest.mark.parametrize("decision", [rerun(), approve()], ids=["rerun", "approve"])
@pytest.mark.parametrize("guarded", [False, True], ids=["bare", "once"])
def test_mended_only_the_failed_call_runs_again(drive: Drive, sql: Any, decision: Any, guarded: bool) -> None:
    shop = Shop()
    agent = shop.agent(sql, *([filters.once("order")] if guarded else []))
    paused(drive, agent)
    shop.expired = False
    done, _ = drive(agent).resume("t", decision, by="ana")
    assert isinstance(done, Completed)
    assert done.answer == "ordered 1 / saw 2"
    assert sorted(shop.ran) == ["look 2", "order 1", "order 1"]


def test_not_mended_it_asks_again(drive: Drive, any_saver: Any) -> None:
    shop = Shop()
    agent = shop.agent(any_saver)
    paused(drive, agent)
    again, _ = drive(agent).resume("t", rerun())
    assert isinstance(again, Paused)
    shop.expired = False
    done, _ = drive(agent).resume("t", rerun())
    assert isinstance(done, Completed)
    assert sorted(shop.ran) == ["look 2", *["order 1"] * 3]


@pytest.mark.parametrize(
    ("decision", "told"),
    [(respond("ordered by phone"), "ordered by phone / saw 2"), (reject("too late"), "not to run it again: too late")],
    ids=["respond", "reject"],
)
def test_answered_it_is_not_run_again(drive: Drive, any_saver: Any, decision: Any, told: str) -> None:
    shop = Shop()
    agent = shop.agent(any_saver)
    paused(drive, agent)
    done, _ = drive(agent).resume("t", decision)
    assert isinstance(done, Completed)
    assert told in done.answer
    assert sorted(shop.ran) == ["look 2", "order 1"]


def test_stopped_the_turn_ends_and_the_thread_stays_usable(drive: Drive, any_saver: Any) -> None:
    shop = Shop()
    agent = shop.agent(any_saver)
    paused(drive, agent)
    with pytest.raises(Blocked, match="pause_on_environment_error"):
        drive(agent).resume("t", stop())
    done, _ = drive(agent).start("and now?", thread="t")
    assert isinstance(done, Completed)
    assert "the token has expired" in done.answer
    assert sorted(shop.ran) == ["look 2", "order 1"]


@pytest.mark.parametrize("error", [ValueError("wrong"), TimeoutError("late")], ids=["semantic", "transient"])
def test_other_failures_do_not_pause(drive: Drive, sql: Any, error: Exception) -> None:
    shop = Shop()

    def order(n: int) -> str:
        """Order something."""
        raise error

    shop.order = order  # type: ignore[method-assign]
    done, _ = drive(shop.agent(sql)).start("go", thread="t")
    assert isinstance(done, Completed)


def test_a_second_failure_after_a_crash_is_not_run_a_third_time_by_one_decision(drive: Drive, sql: Any) -> None:
    """The guard binds what a person said to the attempt that it was about."""
    shop = Shop()
    agent = shop.agent(sql, filters.once("order"))
    paused(drive, agent)
    drive(agent).resume("t", rerun())
    assert shop.ran.count("order 1") == 2
    assert isinstance(drive(agent).resume("t")[0], Paused)
    assert shop.ran.count("order 1") == 2


@pytest.mark.parametrize("how", ["supersede", "alongside", "cancel"])
@pytest.mark.parametrize("guarded", [False, True], ids=["bare", "once"])
def test_closed_without_an_answer_the_model_is_told_that_it_failed(
    drive: Drive, sql: Any, how: str, guarded: bool
) -> None:
    shop = Shop()
    options = {} if how == "cancel" else {"on_message_while_paused": how}
    agent = shop.agent(sql, *([filters.once("order")] if guarded else []), **options)
    paused(drive, agent)
    if how == "cancel":
        assert agent.cancel("t")
    done, _ = drive(agent).start("hello", thread="t")
    assert sorted(results(done.messages)) == ["error: PermissionError: the token has expired", "saw 2"]


@pytest.mark.parametrize("how", ["supersede", "cancel"])
def test_what_ran_before_another_pause_is_not_told_to_have_not(drive: Drive, sql: Any, how: str) -> None:
    """A filter looks at the result, and asks a person about that."""

    def looks(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        if request.call["name"] == "order":
            pause("may the model see it?")
        return reply

    shop = Shop()
    shop.expired = False
    agent = shop.agent(sql, Filter("looks", around_tool=looks), on_message_while_paused="supersede")
    drive(agent).start("go", thread="t")
    if how == "cancel":
        agent.cancel("t")
    done, _ = drive(agent).start("hello", thread="t")
    assert sorted(results(done.messages)) == [
        "it ran before the turn was closed; what came of it is not known",
        "saw 2",
    ]
