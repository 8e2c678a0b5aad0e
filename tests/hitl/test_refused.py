"""What is refused where it is said, and not at the first pause, or years later: times, kinds, and names of people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from scenes import Desk, asks, call

from scallion import (
    Agent,
    ConfigurationError,
    FilterError,
    InvalidDecision,
    Paused,
    Policy,
    SQLCheckpointer,
    approve,
    around_tool,
    filters,
    pause,
)
from scallion.errors import StorageError
from scallion.testing import ScriptedModel

TOO_LONG = [1e12, 1e308, 10**400, timedelta.max, timedelta(days=36_526)]
NOBODY = ["", " ", "ana ", "\tana", "ana\nbo", "ana\x1b[2J", "ana\0", "a" * 241]


def build(saver: Any, policy: Any = True, desk: Desk | None = None) -> Agent:
    """An agent that makes one call, behind a gate."""
    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    tools = (desk or Desk()).tools
    return Agent(model, tools=tools, filters=[filters.approval(default=policy)], checkpointer=saver)


@pytest.mark.parametrize("span", TOO_LONG)
def test_what_does_not_end_within_a_hundred_years(sql: SQLCheckpointer, span: Any) -> None:
    made: list[Callable[[], Any]] = [
        lambda: Policy(expires_in=span),
        lambda: filters.once(expires_in=span),
        lambda: filters.pause_on_environment_error(expires_in=span),
        lambda: sql.rules.add("refund", by="ana", expires_in=span),
    ]
    for one in made:
        with pytest.raises(ConfigurationError, match="at most a hundred years"):
            one()
    assert not sql.rules.list(ended=True).items


def test_a_hundred_years_are_not_too_long(sql: SQLCheckpointer) -> None:
    century = timedelta(days=36_525)
    assert isinstance(build(sql, Policy(expires_in=century)).invoke("go", thread="t"), Paused)
    assert sql.rules.add("refund", by="ana", expires_in=century).expires_at is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"expires_in": 1e12}, "at most a hundred years"),
        ({"kind": "quiz"}, r"pause\(kind=...\) is one of tool_call, question"),
        ({"allowed": ("aprove",)}, "knows no 'aprove'; there are approve, edit"),
        ({"allowed": ("expired",)}, "knows no 'expired'"),
        ({"allowed": "respond"}, "sequence of kinds of decision"),
        ({"allowed": ()}, "sequence of kinds of decision"),
        ({"allowed": None}, "sequence of kinds of decision"),
    ],
)
def test_what_pause_cannot_ask(sql: SQLCheckpointer, drive: Drive, options: Any, told: str) -> None:
    @around_tool
    def asks_so(request: Any, state: Any, next: Any) -> Any:
        pause("sure?", **options)
        return next(request)

    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    desk = Desk()
    agent = Agent(model, tools=desk.tools, filters=[asks_so], checkpointer=sql)
    with pytest.raises((ConfigurationError, FilterError), match=told):
        drive(agent).start("go", thread="t")
    assert not desk.ran
    assert not sql.approvals.list().items


@one_of_each
def test_a_name_that_names_nobody_decides_nothing(saver: SQLCheckpointer) -> None:
    [asked] = build(saver).invoke("go", thread="t").approvals
    rule = saver.rules.add("look", by="ana")
    for by in NOBODY:
        with pytest.raises((InvalidDecision, StorageError), match="who decides"):
            saver.approvals.decide(asked.id, approve(), by=by)
        with pytest.raises((InvalidDecision, StorageError), match=r"who (decides|withdraws)"):
            saver.approvals.withdraw(asked.id, by)
        said: list[Callable[[], Any]] = [
            lambda by=by: saver.rules.add("refund", by=by),
            lambda by=by: saver.rules.add_from(asked.id, by=by),
            lambda by=by: saver.rules.revoke(rule.id, by=by),
        ]
        for one in said:
            with pytest.raises(ConfigurationError, match="name of who"):
                one()
    assert saver.approvals.get(asked.id).status == "pending"
    assert saver.rules.list(ended=True).items == [rule]


@pytest.mark.parametrize("saves", ["database", "memory"])
def test_a_name_that_names_nobody_resumes_nothing(sql: SQLCheckpointer, drive: Drive, saves: str) -> None:
    desk = Desk()
    driver = drive(build(sql if saves == "database" else InMemorySaver(), desk=desk))
    driver.start("go", thread="t")
    for by in NOBODY:
        with pytest.raises(InvalidDecision, match="who decides is a text"):
            driver.resume("t", approve(), by=by)
    assert not desk.ran
    assert driver.resume("t", approve(), by="ana")[0].answer == "end"
