"""The outbox: told in the transaction that asks, sent at least once, by one at a time, in order, and seen when not."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import everywhere, one_of_each, sync_kinds
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from modes import Drive
from processes import processes

from scallion import Agent, Inbox, Policy, SQLCheckpointer, approve, filters
from scallion.errors import ConfigurationError
from scallion.notify import NotDelivered, Notification
from scallion.sql import moving, neighbours, telling
from scallion.sql.outbox import Delivery
from scallion.testing import Clock, ScriptedModel


class Told(list[Notification]):
    """Keeps what it is told; fails as often as it is said."""

    def __init__(self, *, fails: int = 0) -> None:
        super().__init__()
        self.fails = fails

    def __call__(self, notification: Notification) -> None:
        self.append(notification)
        if self.fails:
            self.fails -= 1
            raise ValueError("card 4711")


def pay(order: int) -> str:
    """Pay an order."""
    return f"paid {order}"


def clerk(saver: SQLCheckpointer, calls: int = 1, **policy: Any) -> Agent:
    """Asks whether it may pay so many orders."""
    orders = [{"name": "pay", "args": {"order": 4711 + n}, "id": f"c{n}"} for n in range(calls)]
    gate = filters.approval({"pay": Policy(**policy)})

    def say(messages: Any) -> AIMessage:
        return AIMessage("done" if messages[-1].type == "tool" else "", tool_calls=_unless(messages, orders))

    return Agent(ScriptedModel(say), tools=[pay], filters=[gate], checkpointer=saver)


def _unless(messages: Any, orders: list[Any]) -> list[Any]:
    return [] if messages[-1].type == "tool" else orders


def ask(saver: SQLCheckpointer, calls: int = 1, thread: str = "t", **policy: Any) -> list[str]:
    """The approvals that are asked for now, three at a time, in the order of their calls."""
    for n in range(0, calls, 3):
        agent = clerk(saver, min(3, calls - n), **policy)
        agent.invoke("pay", thread=thread if n == 0 else f"{thread}{n}", owner="u1")
    return [one.id for one in saver.approvals.list().items]


def shown(saver: Any) -> list[tuple[str, int, str | None]]:
    return [(one.status, one.attempts, one.error) for one in saver.outbox.list(None).items]


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def saver(database: str, clock: Clock) -> Iterator[SQLCheckpointer]:
    """A saver that tells, under a clock that is moved."""
    with SQLCheckpointer(database, auto_upgrade=True, clock=clock, outbox=True) as saver:
        yield saver


@everywhere
async def test_what_is_asked_is_told_in_both_colours(database: str) -> None:
    async with SQLCheckpointer(database, auto_upgrade=True, outbox=True) as saver:
        result = await clerk(saver, 3).ainvoke("pay", thread="t", owner="u1", user="bo")
        waiting = (await saver.outbox.alist()).items
        assert [(one.status, one.event, one.attempts, one.thread) for one in waiting] == [
            ("waiting", "asked", 0, "t")
        ] * 3
        told = Told()

        async def tell(notification: Notification) -> None:
            told.append(notification)

        for to in (told, tell):
            done = await saver.outbox.adeliver(to, limit=1)
            assert (done.sent, done.failed, done.skipped) == (1, 0, 0)
        assert saver.outbox.deliver(tell).sent == 1
        assert {one.approval for one in told} == {one.id for one in result.approvals}
        assert len({one.id for one in told}) == 3
        assert [one.id for one in waiting] == [one.id for one in told]
        assert saver.outbox.deliver(told).sent == 0
        assert not (await saver.outbox.alist()).items
        assert {one.status for one in (await saver.outbox.alist("delivered")).items} == {"delivered"}


def test_every_mode_tells_once(saver: SQLCheckpointer, drive: Drive) -> None:
    driver, told = drive(clerk(saver, 2)), Told()
    result, _ = driver.start("pay", thread="t")
    assert saver.outbox.deliver(told).sent == 2
    result, _ = driver.resume("t", {result.approvals[0].id: approve()})
    driver.resume("t", {result.approvals[0].id: approve()})
    assert saver.outbox.deliver(told).sent == 0
    assert len(shown(saver)) == 2


def test_nobody_is_told_unless_the_saver_tells(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        ids = ask(saver)
        saver.approvals.decide(ids[0], approve())
        saver.approvals.withdraw(ids[0])
        assert saver.outbox.deliver(Told()).sent == 0
        assert shown(saver) == []


@one_of_each
def test_what_is_told_and_what_is_asked_is_one_transaction(
    saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = telling._add

    def fail(*arguments: Any) -> None:
        add(*arguments)
        raise RuntimeError("between the row and the commit")

    monkeypatch.setattr(telling, "_add", fail)
    with pytest.raises(RuntimeError, match="between"):
        ask(saver)
    monkeypatch.undo()
    assert not saver.approvals.list(None).items
    assert shown(saver) == []


def test_arguments_are_told_on_request_only(saver: SQLCheckpointer) -> None:
    ask(saver, describe="Pay 4711?", allowed=("approve", "reject"), expires_in=60)
    told = Told(fails=1)
    saver.outbox.deliver(told)
    assert "4711" not in str(told[0])
    assert "4711" not in str(told[0].to_json())
    one = told[0]
    assert (one.event, one.thread, one.owner, one.kind, one.tool) == ("asked", "t", "u1", "tool_call", "pay")
    assert (one.allowed, one.expires_at) == (("approve", "reject"), datetime(2026, 1, 1, 0, 1, tzinfo=UTC))
    saver.database.clock.forward(seconds=30)  # type: ignore[union-attr]
    saver.outbox.deliver(told, include_args=True)
    assert told[1].to_json() == one.to_json() | {"args": {"order": 4711}, "description": "Pay 4711?"}


@sync_kinds
def test_what_fails_is_tried_again_later_and_later_and_then_given_up(saver: SQLCheckpointer, clock: Clock) -> None:
    ask(saver)
    told = Told(fails=4)
    pauses = []
    for attempt in range(1, 4):
        done = saver.outbox.deliver(told, attempts=4)
        assert (done.sent, done.failed, done.given_up) == (0, 1, 0)
        (row,) = saver.outbox.list().items
        assert (row.status, row.attempts, row.error) == ("waiting", attempt, "ValueError")
        assert row.due_at is not None
        assert saver.outbox.deliver(told, attempts=4).failed == 0, "before it is due"
        pauses.append((row.due_at - clock.now).total_seconds())
        clock.now = row.due_at
    assert [11 < pauses[0] < 19, 22 < pauses[1] < 38, 45 < pauses[2] < 75] == [True] * 3
    done = saver.outbox.deliver(told, attempts=4)
    assert (done.failed, done.given_up) == (1, 1)
    clock.forward(days=1)
    assert saver.outbox.deliver(told, attempts=4).failed == 0
    assert shown(saver) == [("failed", 4, "ValueError")]
    assert saver.outbox.retry() == 1
    assert saver.outbox.deliver(told, attempts=4).sent == 1
    assert shown(saver) == [("delivered", 1, None)]
    assert len({one.id for one in told}) == 1


def test_the_longest_pause_is_some_hours(saver: SQLCheckpointer, clock: Clock) -> None:
    ask(saver)
    told = Told(fails=99)
    begun = clock.now
    while saver.outbox.list("waiting").items:
        due = saver.outbox.list().items[0].due_at
        assert due is not None
        assert due - clock.now < timedelta(hours=8)
        clock.now = due
        saver.outbox.deliver(told)
    assert len(told) == 15
    assert timedelta(hours=12) < clock.now - begun < timedelta(days=2)


def test_a_reason_is_kept_where_it_is_said_to_be_safe(saver: SQLCheckpointer, caplog: Any) -> None:
    ask(saver, 2)

    def fail(notification: Notification) -> None:
        if notification.id.startswith("1-"):
            raise NotDelivered("nobody is on duty")
        raise RuntimeError("token=s3cret")

    assert saver.outbox.deliver(fail).failed == 2
    assert sorted(str(one.error) for one in saver.outbox.list().items) == ["RuntimeError", "nobody is on duty"]
    assert "s3cret" not in caplog.text


@sync_kinds
@pytest.mark.parametrize(
    ("reason", "kept"), [("a\0b", "a?b"), ("a\ud800b", "a?b"), ("🚫" * 2_000, "🚫" * 1_000), ("", "")]
)
def test_whatever_a_reason_says_the_sending_goes_on(saver: SQLCheckpointer, reason: str, kept: str) -> None:
    ask(saver, 2)

    def fail(notification: Notification) -> None:
        raise NotDelivered(reason)

    assert saver.outbox.deliver(fail).failed == 2
    assert [one.error for one in saver.outbox.list().items] == [kept, kept]


@pytest.mark.parametrize("database", ["file", "postgresql", "mariadb", "asyncpg"], indirect=True)
async def test_one_is_sent_again(database: str) -> None:
    async with SQLCheckpointer(database, outbox=True) as saver:
        ask(saver, 3)
        assert (await saver.outbox.adeliver(Told(fails=2), attempts=1)).given_up == 2
        first, second, sent = (await saver.outbox.alist(None)).items
        assert await saver.outbox.aretry(second.id) == 1
        assert await saver.outbox.aretry(second.id) == await saver.outbox.aretry(sent.id) == 0
        assert [one.status for one in (await saver.outbox.alist()).items] == ["failed", "waiting"]
        for unknown in (f"{first.id}0", "1-", "x", "9" * 30, f"{first.id.split('-')[0]}-{second.id.split('-')[1]}", 1):
            with pytest.raises(ConfigurationError, match="no notification has the id"):
                await saver.outbox.aretry(unknown)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="no notification"):
            await saver.for_owner("u2").outbox.aretry(first.id)
        assert await saver.for_owner("u1").outbox.aretry(first.id) == 1


def test_where_nobody_seems_to_be_there_the_rest_waits(saver: SQLCheckpointer) -> None:
    ask(saver, 8)
    told = Told(fails=8)
    assert saver.outbox.deliver(told).failed == 5
    assert Counter(one.attempts for one in saver.outbox.list().items) == {1: 5, 0: 3}
    assert saver.outbox.deliver(Told()).sent == 3


@sync_kinds
def test_what_is_decided_or_closed_meanwhile_is_not_told(saver: SQLCheckpointer, clock: Clock) -> None:
    decided, withdrawn, expired = ask(saver, 3, expires_in=60)
    saver.approvals.decide(decided, approve())
    saver.approvals.decide(withdrawn, approve())
    ask(saver, thread="closed")
    saver.approvals.close("closed", "cancelled")
    told = Told()
    clock.forward(seconds=30)
    saver.outbox._run(lambda conn: conn.execute(_not_yet(saver, expired)), write=True)
    assert saver.outbox.deliver(told).skipped == 3
    saver.approvals.withdraw(withdrawn)
    assert saver.outbox.deliver(told).sent == 1
    assert [one.approval for one in told] == [withdrawn]
    clock.forward(seconds=60)
    assert saver.outbox.deliver(told).skipped == 1
    assert Counter(one.status for one in saver.outbox.list(None).items) == {"skipped": 3, "delivered": 1}


def _not_yet(saver: SQLCheckpointer, id: str) -> Any:
    o = saver.database.tables.outbox
    return o.update().where(o.c.subject == id).values(due=o.c.due + 60_000_000)


def escalate(saver: SQLCheckpointer, *ids: str) -> None:
    """As a sweep does it."""
    t = saver.database.tables

    def work(conn: Any) -> None:
        for id in ids:
            session = conn.execute(t.approvals.select().where(t.approvals.c.id == id)).one().session
            telling.escalated(conn, t, session, id, saver.outbox._now(conn))

    saver.database.run(work, write=True)


@sync_kinds
def test_of_one_approval_the_older_goes_first(saver: SQLCheckpointer, clock: Clock) -> None:
    ask(saver, 2)
    first, second = (one.approval for one in saver.outbox.list(None).items)  # as they came, of calls side by side
    escalate(saver, first, second)
    told = Told()

    def tell(notification: Notification) -> None:
        if notification.approval == first and not told.fails:
            told.fails = 1
        told(notification)

    saver.outbox.deliver(tell)
    assert [(one.approval, one.event) for one in told] == [(first, "asked"), (second, "asked"), (second, "escalated")]
    clock.forward(minutes=1)
    del told[:]
    assert saver.outbox.deliver(told).sent == 2
    assert [(one.approval, one.event) for one in told] == [(first, "asked"), (first, "escalated")]


def test_an_escalation_is_told(saver: SQLCheckpointer, clock: Clock) -> None:
    ask(saver, expires_in=60, on_expire="escalate:boss", deciders=["ana"])
    told = Told()
    saver.outbox.deliver(told)
    clock.forward(seconds=61)
    assert saver.approvals.sweep().escalated == 1
    assert saver.outbox.deliver(told).sent == 1
    assert [(one.event, one.deciders, one.escalated) for one in told] == [
        ("asked", ("ana",), None),
        ("escalated", ("ana",), "boss"),
    ]
    assert told[1].to_json()["deciders"] == ["ana"]


def test_who_was_not_told_to_tell_does_not_tell_of_escalations(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        escalate(saver, *ask(saver))
        assert shown(saver) == []


@one_of_each
def test_two_at_once_send_each_once(database: str) -> None:
    with SQLCheckpointer(database, auto_upgrade=True, outbox=True) as saver:
        ask(saver, 24)
        told = Told()
        with ThreadPoolExecutor(6) as threads:
            done = list(threads.map(lambda _: _deliver(database, told), range(6)))
        assert sum(one.sent for one in done) == 24
        assert Counter(one.id for one in told).most_common(1)[0][1] == 1
        assert {one.status for one in saver.outbox.list(None).items} == {"delivered"}


def _deliver(database: str, told: Told) -> Any:
    with Inbox(database) as inbox:
        return inbox.outbox.deliver(told)


def send_and_die(url: str, log: str) -> None:
    """Send one notification, and be killed before that is noted."""

    def tell(notification: Notification) -> None:
        with Path(log).open("a") as file:
            file.write(f"{notification.id}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    with Inbox(url) as inbox:
        inbox.outbox.deliver(tell)


@one_of_each
def test_who_dies_while_sending_has_it_sent_again(database: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with SQLCheckpointer(database, auto_upgrade=True, outbox=True) as saver:
        ask(saver)
        sender = processes.Process(target=send_and_die, args=(database, str(log)))
        sender.start()
        sender.join(30)
        assert sender.exitcode == -signal.SIGKILL
        told = Told()
        assert saver.outbox.deliver(told).sent == 0, "it may be on its way"
    later = datetime.now(UTC) + timedelta(minutes=10)
    with SQLCheckpointer(database, clock=lambda: later) as saver:
        assert saver.outbox.deliver(told).sent == 1
        assert [one.id for one in told] == log.read_text().split()


@sync_kinds
@pytest.mark.parametrize("fails", [0, 1])
def test_who_sends_for_too_long_is_not_waited_for(saver: SQLCheckpointer, clock: Clock, fails: int) -> None:
    ask(saver)
    told = Told(fails=fails)

    def tell(notification: Notification) -> None:
        clock.forward(hours=1)
        saver.outbox.deliver(told)

    assert saver.outbox.deliver(tell).sent == 1
    assert len(told) == 1
    assert shown(saver) == [("delivered", 2, None)]


def test_the_sending_may_take_its_time(saver: SQLCheckpointer, clock: Clock) -> None:
    ask(saver)
    told = Told()

    class Slow(Told):
        timeout = 3000

        def __call__(self, notification: Notification) -> None:
            clock.forward(seconds=self.timeout)
            saver.outbox.deliver(told)

    assert saver.outbox.deliver(Slow()).sent == 1
    assert not told


@sync_kinds
def test_it_belongs_to_the_thread_and_to_nobody_elses(saver: SQLCheckpointer) -> None:
    ask(saver)
    saver.copy_thread("t", "copy")
    saver.sessions.load(list(saver.sessions.export("t")), "loaded")
    assert len(saver.approvals.list().items) == 3
    assert [one.thread for one in saver.outbox.list(None).items] == ["t"]
    saver.sessions.delete("copy")
    assert len(shown(saver)) == 1
    saver.sessions.delete("t")
    assert shown(saver) == []


def test_the_pauses_of_other_savers_are_not_told_when_they_move_here(saver: SQLCheckpointer, tmp_path: Path) -> None:
    def node(state: MessagesState) -> Any:
        interrupt("May I?")

    with SqliteSaver.from_conn_string(str(tmp_path / "theirs.db")) as theirs:
        graph = StateGraph(MessagesState).add_node("a", node).add_edge(START, "a").compile(checkpointer=theirs)
        graph.invoke({"messages": []}, {"configurable": {"thread_id": "t"}})
    with neighbours.reading(f"sqlite:///{tmp_path}/theirs.db") as theirs:
        t = saver.database.tables
        saver.database.run(lambda conn: moving.move(conn, t, theirs, "t", saver.outbox._now(conn)), write=True)
    assert len(saver.approvals.list().items) == 1
    assert shown(saver) == []


def test_an_owner_sees_and_sends_what_is_theirs(saver: SQLCheckpointer) -> None:
    ask(saver)
    other, told = saver.for_owner("u2"), Told()
    assert not other.outbox.list(None).items
    assert other.outbox.deliver(told).sent == 0
    assert saver.for_owner("u1").outbox.deliver(told).sent == 1


def test_what_is_asked_with_other_words_is_told_anew(saver: SQLCheckpointer) -> None:
    words = ["May I?"]

    def node(state: MessagesState) -> Any:
        interrupt(words[0])

    graph = StateGraph(MessagesState).add_node("a", node).add_edge(START, "a").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    told = Told()
    graph.invoke({"messages": []}, config)
    graph.invoke(None, config)
    assert saver.outbox.deliver(told).sent == 1
    for word in ("Please?", "Please!"):
        words[0] = word
        graph.invoke(None, config)
    assert saver.outbox.deliver(told, include_args=True).sent == 1
    assert told[0].approval == told[1].approval
    assert told[1].description == "Please!"
    assert Counter(one.status for one in saver.outbox.list(None).items) == {"delivered": 2, "skipped": 1}


def test_pages(saver: SQLCheckpointer) -> None:
    ask(saver, 5)
    first = saver.outbox.list(limit=3)
    second = saver.outbox.list(limit=3, after=first.next)
    assert len({one.id for one in [*first.items, *second.items]}) == 5
    assert second.next is None
    plain = first.items[0].to_json()
    assert plain["created_at"] == "2026-01-01T00:00:00+00:00"
    assert isinstance(first.items[0], Delivery)


def test_what_is_sealed_is_told(database: str) -> None:
    with SQLCheckpointer(database, key=b"k" * 32, outbox=True) as saver:
        ask(saver)
        told = Told()
        assert saver.outbox.deliver(told, include_args=True).sent == 1
        assert told[0].args == {"order": 4711}


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"attempts": 0}, {"attempts": None}, {"to": "https://example.com"}])
def test_what_cannot_be_meant_is_refused(saver: SQLCheckpointer, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        saver.outbox.deliver(**{"to": Told(), **wrong})
    with pytest.raises(ConfigurationError, match="status"):
        saver.outbox.list("unknown")  # type: ignore[arg-type]
