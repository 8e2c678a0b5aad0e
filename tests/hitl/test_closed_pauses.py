"""Pauses that were closed without their graph: in the inbox, by `scallion cancel`, or by a process that was killed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any, get_args

import pytest
from checkpoints.databases import one_of_each
from loop.scripts import assert_valid
from modes import Drive, Mode
from scenes import Desk, results
from sqlalchemy import select, update
from tests.hitl.paused import ONION, TURN, desk_of, history, says

from scallion import (
    Agent,
    AlreadyDecided,
    ApprovalExpired,
    Completed,
    Filter,
    NotPaused,
    Paused,
    Policy,
    SQLCheckpointer,
    ThreadPaused,
    approve,
    filters,
    pause,
)
from scallion.sql import sessions
from scallion.testing import ScriptedModel
from scallion.values import ApprovalStatus

EXPIRES = Policy(expires_in=3600)
BOTH = filters.approval({"refund": EXPIRES, "look": EXPIRES})
DECIDABLE = {"pending", "decided"}


def around_chat(request: Any, state: Any, next: Any) -> Any:
    if request.messages[-1].text.startswith("go"):
        pause("May the model be called?", allowed=("approve", "reject"), expires_in=3600)
    return next(request)


def around_turn(request: Any, state: Any, next: Any) -> Any:
    result = next(request)
    pause("May this be sent?", allowed=("approve", "reject"), expires_in=3600)
    return result


STACKS: dict[str, tuple[int, list[Filter]]] = {
    "calls": (2, [TURN, BOTH]),
    "chat": (1, [Filter("chat", around_chat=around_chat)]),
    "turn": (1, [Filter("turn", around_turn=around_turn)]),
}
CASES = [
    (stack, statuses)
    for stack, (asked, _) in STACKS.items()
    for statuses in combinations_with_replacement(get_args(ApprovalStatus), asked)
]


class Time:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def give(saver: SQLCheckpointer, id: str, status: str) -> None:
    """Have the ledger say so of the approval, whatever led to it."""
    if status in ("decided", "used"):
        saver.approvals.decide(id, approve(), by="ana")
    t = saver.database.tables

    def work(conn: Any) -> None:
        conn.execute(update(t.approvals).where(t.approvals.c.id == id).values(status=status))
        sessions.recount(
            conn, t, conn.execute(select(t.approvals.c.session).where(t.approvals.c.id == id)).scalar_one()
        )

    saver.database.run(work, write=True)


def tried(verb: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return verb(*args, **options)
    except (ApprovalExpired, AlreadyDecided, NotPaused, ThreadPaused) as error:
        return error


VERBS: dict[str, Callable[[Agent, str], Any]] = {
    "resume": lambda agent, thread: tried(agent.resume, thread),
    "recover": lambda agent, thread: tried(agent.recover, thread),
    "invoke": lambda agent, thread: tried(agent.invoke, "and now?", thread=thread),
    "approve": lambda agent, thread: tried(agent.resume, thread, approve()),
    "repair": lambda agent, thread: agent.checkpointer.doctor.repair(thread, give_up=True),
}


@pytest.mark.parametrize(("stack", "statuses"), CASES)
def test_no_status_is_for_ever(sql: SQLCheckpointer, stack: str, statuses: tuple[str, ...]) -> None:
    """Whatever became of what a thread waits for: it ends idle, or with something that somebody can decide."""
    time = sql.database.clock = Time()
    agent = Agent(ScriptedModel(says), tools=Desk().tools, filters=STACKS[stack][1], checkpointer=sql)
    for thread, verb in VERBS.items():
        for one, status in zip(agent.invoke("go", thread=thread).approvals, statuses, strict=True):
            give(sql, one.id, status)
        if "expired" in statuses:
            time.now += timedelta(hours=2)
        verb(agent, thread)
        left = tried(agent.resume, thread)
        if isinstance(left, Paused):
            assert {one.status for one in left.approvals} <= DECIDABLE
            assert isinstance(agent.resume(thread, approve()), Completed)
        assert sql.sessions.get(thread).status == "idle"
        assert sql.doctor.examine(thread) == []
        assert_valid(history(agent, thread))


class TestCancelledInTheInbox:
    """As `scallion cancel THREAD` does, and a process that dies in the middle of `agent.cancel`."""

    def test_a_resume_closes_the_turn(self, drive: Drive, mode: Mode, sql: SQLCheckpointer) -> None:
        agent = desk_of(sql, "refuse", *ONION[mode])
        driver = drive(agent)
        driver.start("go", thread="t")
        sql.approvals.close("t", "cancelled")
        with pytest.raises(AlreadyDecided, match="is already cancelled"):
            driver.resume("t", approve())
        with pytest.raises(NotPaused, match="the turn of thread 't' was cancelled; it is closed now"):
            driver.resume("t")
        assert results(history(agent, "t")) == ["order 2 is here", "cancelled"]
        with pytest.raises(NotPaused, match="has nothing to resume"):
            driver.resume("t")
        assert driver.start("hello", thread="t")[0].answer == "heard hello"

    @one_of_each
    def test_so_does_recover(self, saver: SQLCheckpointer) -> None:
        agent = desk_of(saver, "refuse", TURN)
        agent.invoke("go", thread="t")
        saver.approvals.close("t", "cancelled")
        assert agent.recover("t") is None
        assert (saver.sessions.get("t").status, saver.doctor.examine("t")) == ("idle", [])
        assert [one.status for one in saver.approvals.list(None).items] == ["cancelled"]

    def test_what_waited_in_the_queue_is_answered(self, drive: Drive, sql: SQLCheckpointer) -> None:
        driver = drive(desk_of(sql, "queue"))
        driver.start("go", thread="t")
        driver.start("hello", thread="t")
        sql.approvals.close("t", "cancelled")
        assert driver.resume("t")[0].answer == "heard hello"

    def test_a_part_that_was_asked_behind_it_is_closed_too(self, sql: SQLCheckpointer) -> None:
        """A turn that ran on while it was cancelled: nobody decided that it goes on."""
        desk = Desk()
        agent = Agent(ScriptedModel(says), tools=desk.tools, filters=[BOTH], checkpointer=sql)
        first, second = agent.invoke("go", thread="t").approvals
        give(sql, first.id, "cancelled")
        sql.approvals.decide(second.id, approve(), by="ana")
        assert agent.recover("t") is None
        assert (desk.ran, results(history(agent, "t"))) == ([], ["cancelled", "cancelled"])
        assert sql.approvals.get(second.id).status == "superseded"

    def test_what_was_used_is_not_run_again(self, sql: SQLCheckpointer) -> None:
        desk = Desk()
        agent = desk_of(sql, "refuse", desk=desk)
        give(sql, agent.invoke("go", thread="t").approvals[0].id, "used")
        with pytest.raises(NotPaused, match="was interrupted; it is closed now"):
            agent.resume("t")
        assert desk.ran == ["look 2"]
        assert "whether it took effect is not known" in results(history(agent, "t"))[1]

    def test_the_doctor_says_so(self, sql: SQLCheckpointer) -> None:
        desk_of(sql, "refuse").invoke("go", thread="t")
        sql.approvals.close("t", "cancelled")
        [found] = sql.doctor.examine("t")
        assert found.remedy == "`scallion resume GRAPH THREAD` ends it, as the next message does"
