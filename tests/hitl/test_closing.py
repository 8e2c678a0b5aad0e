"""What ends a turn does so in one checkpoint, and says what is true of the calls and questions that it ends."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from checkpoints.databases import one_of_each
from loop.scripts import assert_valid
from modes import Drive
from tests.hitl.killing import all_killed, dying
from tests.hitl.paused import TURN, Crash, crashing, desk_of, history
from tests.hitl.test_while_paused import asks_within

from scallion import (
    Agent,
    Filter,
    FilterError,
    NotPaused,
    Paused,
    SQLCheckpointer,
    approve,
    respond,
)

WITHIN = ("chat", "before", "after")
"""Where a pause is one of the chat node."""


def events(saver: Any, approval: str) -> list[str]:
    """What the audit says of an approval, the oldest first."""
    return [one.event for one in reversed(saver.audit.list(limit=100).items) if one.subject == approval]


class TestAPauseOfTheChatNode:
    """It is closed as any other one, in one checkpoint."""

    @one_of_each
    @pytest.mark.parametrize("decided", [False, True], ids=["open", "decided"])
    def test_its_approval_is_superseded(self, saver: SQLCheckpointer, decided: bool) -> None:
        agent = asks_within(saver, "supersede", "after")
        [one] = agent.invoke("go", thread="t").approvals
        if decided:
            saver.approvals.decide(one.id, respond("no"), by="ana")
        agent.invoke("never mind", thread="t")
        assert saver.approvals.get(one.id).status == "superseded"
        assert events(saver, one.id) == [*["decided"] * decided, "superseded"]

    def test_that_is_answered_is_used(self, drive: Drive, sql: SQLCheckpointer) -> None:
        driver = drive(asks_within(sql, "supersede", "after"))
        [one] = driver.start("go", thread="t")[0].approvals
        driver.resume("t", respond("yes"))
        assert sql.approvals.get(one.id).status == "used"
        assert events(sql, one.id) == ["decided", "used"]

    @pytest.mark.parametrize("where", WITHIN)
    def test_a_crash_leaves_the_pause(self, drive: Drive, any_saver: Any, where: str) -> None:
        agent = asks_within(any_saver, "supersede", where)
        driver = drive(agent)
        paused, _ = driver.start("go", thread="t")
        with crashing(any_saver, 0):
            driver.start("never mind", thread="t")
        again, _ = driver.resume("t")
        assert isinstance(again, Paused)
        assert [(one.id, one.status) for one in again.approvals] == [(paused.approvals[0].id, "pending")]
        assert driver.start("hello", thread="t")[0].answer == "heard hello"
        assert_valid(history(agent, "t"))

    def test_a_crash_at_the_end_of_the_turn_leaves_the_decision(self, drive: Drive, sql: SQLCheckpointer) -> None:
        driver = drive(asks_within(sql, "refuse", "after"))
        [one] = driver.start("go", thread="t")[0].approvals
        with crashing(sql, 0):
            driver.resume("t", respond("yes"))
        assert sql.approvals.get(one.id).status == "decided"
        assert driver.resume("t")[0].answer == "heard go"

    @one_of_each
    def test_killed_while_it_is_closed(self, saver: SQLCheckpointer, database: str) -> None:
        agent = asks_within(saver, "supersede", "after")
        [one] = agent.invoke("go", thread="t").approvals
        all_killed(_supersedes_and_dies, [(database,)])
        assert (saver.approvals.get(one.id).status, saver.status("t")) == ("pending", "paused")
        assert agent.invoke("hello", thread="t").answer == "heard hello"

    @pytest.mark.parametrize("where", WITHIN)
    @pytest.mark.parametrize("verb", ["resume", "start", "cancel"])
    def test_what_an_older_release_wrote_by_half_is_brought_to_its_end(
        self, drive: Drive, sql: SQLCheckpointer, where: str, verb: str
    ) -> None:
        agent = asks_within(sql, "refuse", where)
        driver = drive(agent)
        driver.start("go", thread="t")
        place = {"configurable": {"thread_id": "t"}}
        held = agent.graph.get_state(place)
        with crashing(sql, 0):
            agent.graph.update_state(place, {"turn": {}, "base": None}, as_node="chat", task_id=held.tasks[0].id)
        if verb == "resume":
            with pytest.raises(NotPaused):
                driver.resume("t")
        if verb == "cancel":
            agent.cancel("t")
        if verb != "start":
            assert sql.status("t") == "idle"
        assert driver.start("hello", thread="t")[0].answer == "heard hello"
        assert_valid(history(agent, "t"))


def _supersedes_and_dies(url: str) -> None:
    with SQLCheckpointer(url) as saver, dying(SQLCheckpointer, "put"):
        asks_within(saver, "supersede", "after").invoke("never mind", thread="t")


class TestAMessageThatWaits:
    """Only the turn that answers it takes it out, not what ends the turn before."""

    def closed(self, saver: Any, *onion: Filter) -> Agent:
        """An agent whose thread was paused while a message came; nobody waits for an answer any more."""
        agent = desk_of(saver, "queue", *onion)
        agent.invoke("go", thread="t")
        agent.invoke("one", thread="t")
        saver.approvals.close("t", "cancelled")
        return agent

    @one_of_each
    def test_it_stays_where_its_turn_does_not_begin(self, saver: SQLCheckpointer) -> None:
        self.closed(saver)
        failing = Filter("limits", around_turn=_fails)
        with pytest.raises(FilterError):
            desk_of(saver, "queue", failing).invoke("two", thread="t")
        assert [one.messages[0].text for one in saver.inbound.list("t")] == ["one"]

    @pytest.mark.parametrize("onion", [[], [TURN]], ids=["bare", "around"])
    def test_it_stays_where_the_process_dies(self, drive: Drive, sql: SQLCheckpointer, onion: list[Filter]) -> None:
        agent = self.closed(sql, *onion)
        driver = drive(agent)
        with crashing(sql, 1):  # the first one ends the turn that was paused
            driver.start("two", thread="t")
        assert sql.inbound.count("t") == 1
        driver.start("three", thread="t")
        said = [one.text for one in history(agent, "t") if one.type == "human"]
        assert said == ["go", "one", "three"]
        assert sql.inbound.count("t") == 0

    def test_behind_a_turn_that_was_not_committed(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """The rest of that turn is done for who began it, and the message is its sender's."""
        seen: list[Any] = []

        def notes(request: Any, state: Any, next: Any) -> Any:
            seen.append(request.context.user)
            return next(request)

        agent = desk_of(sql, "queue", Filter("notes", around_turn=notes))
        driver = drive(agent)
        driver.start("go", thread="t", user="ana")
        driver.start("one", thread="t", user="bo")
        with mock.patch("scallion.turn.update", side_effect=Crash), suppress(Crash):
            driver.resume("t", approve())
        with crashing(sql, 1):
            driver.start("two", thread="t", user="cy")
        assert sql.inbound.count("t") == 1
        driver.start("three", thread="t", user="cy")
        assert [one.text for one in history(agent, "t") if one.type == "human"] == ["go", "one", "three"]
        assert seen[-2:] == ["bo", "cy"]


def _fails(request: Any, state: Any, next: Any) -> Any:
    raise RuntimeError("too many turns")
