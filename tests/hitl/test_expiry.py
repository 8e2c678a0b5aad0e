"""Requests that nobody answered in time: what becomes of them, by the one clock, and what the model is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from click.testing import CliRunner
from modes import Drive
from scenes import Desk, asks, call, results
from sqlalchemy import select

from scallion import (
    Agent,
    AlreadyDecided,
    ApprovalExpired,
    Completed,
    ConfigurationError,
    Filter,
    Inbox,
    InvalidDecision,
    Paused,
    Policy,
    SQLCheckpointer,
    approve,
    filters,
    pause,
    reject,
    respond,
    stop,
)
from scallion.sql.expiring import BATCH, Swept
from scallion.testing import Clock, ScriptedModel

HOUR = 3600
TOLD = "The request to approve this call expired: nobody answered in time, and nobody refused it. The call did not run."


WHO: Any = {"on_expire": "escalate:boss", "deciders": ["ana"]}


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture
def timed(database: str, time: Clock) -> Any:
    """A saver whose clock the test moves."""
    with SQLCheckpointer(database, clock=time, auto_upgrade=True) as saver:
        yield saver


def build(desk: Desk, saver: Any, *stack: Filter, calls: Any = None, **policy: Any) -> Agent:
    def say(messages: list[Any]) -> Any:
        told = results(messages)
        return " / ".join(told) if told else asks(*(calls or [call("refund", order=1)]))

    gate = filters.approval({"refund": Policy(**{"expires_in": HOUR, **policy})})
    return Agent(ScriptedModel(say), tools=desk.tools, filters=stack or (gate,), checkpointer=saver)


def audited(saver: SQLCheckpointer) -> list[tuple[str, str | None, Any]]:
    a = saver.database.tables.audit
    rows = saver.database.run(lambda conn: list(conn.execute(select(a).order_by(a.c.no))))
    return [(row.event, row.by, json.loads(row.detail)) for row in rows]


def the_one(saver: SQLCheckpointer) -> Any:
    [one] = saver.approvals.list(None).items
    return one


class TestAnExpiredRequest:
    """`on_expire="reject"`: nobody decides it any more, and the turn goes on without the call."""

    def test_the_model_hears_that_it_expired(self, drive: Drive, timed: Any, time: Clock) -> None:
        desk = Desk()
        driver = drive(build(desk, timed))
        assert isinstance(driver.start("go", thread="t")[0], Paused)
        time.forward(hours=1)
        done, _ = driver.resume("t")
        assert isinstance(done, Completed)
        assert (done.answer, desk.ran) == (TOLD, [])
        assert "person" not in done.answer
        assert the_one(timed).status == "expired"
        assert audited(timed) == [("expired", None, {"was": "pending"})]
        assert timed.sessions.get("t").status == "idle"

    def test_not_a_moment_too_early(self, drive: Drive, timed: Any, time: Clock) -> None:
        desk = Desk()
        driver = drive(build(desk, timed))
        driver.start("go", thread="t")
        time.forward(hours=1 - 1e-9)
        waiting, _ = driver.resume("t")
        assert isinstance(waiting, Paused)
        assert driver.resume("t", approve())[0].answer == "refunded 1"

    @one_of_each
    def test_nobody_decides_it(self, timed: Any, time: Clock) -> None:
        agent = build(Desk(), timed)
        paused = agent.invoke("go", thread="t")
        [asked] = paused.approvals
        time.forward(hours=1)
        for _ in range(2):
            with pytest.raises(ApprovalExpired):
                timed.approvals.decide(asked.id, approve())
            with pytest.raises(ApprovalExpired):
                agent.resume("t", reject())
            with pytest.raises(ApprovalExpired):
                agent.resume("t", {asked.id: approve()})
            assert timed.approvals.list().items == []
            assert [one.id for one in timed.approvals.list("expired").items] == [asked.id]
            assert timed.approvals.sweep().expired == 0  # the resume has written it down
        assert agent.resume("t").answer == TOLD

    def test_a_decision_in_time_is_used_later(self, timed: Any, time: Clock) -> None:
        agent = build(Desk(), timed)
        paused = agent.invoke("go", thread="t")
        timed.approvals.decide(paused.approvals[0].id, approve())
        time.forward(hours=100)
        assert timed.approvals.sweep() == Swept()
        assert agent.resume("t").answer == "refunded 1"

    def test_some_have_expired(self, drive: Drive, timed: Any, time: Clock) -> None:
        """As with decisions: those go on, the others stay open, and one decision for all is for those."""
        desk = Desk()
        gate = filters.approval({"refund": Policy(expires_in=HOUR), "look": Policy(expires_in=10 * HOUR)})
        agent = build(desk, timed, gate, calls=(call("refund", "c1", order=1), call("look", "c2", order=2)))
        driver = drive(agent)
        driver.start("go", thread="t")
        time.forward(hours=2)
        waiting, _ = driver.resume("t")
        assert isinstance(waiting, Paused)
        assert [(one.tool, one.status) for one in waiting.approvals] == [("look", "pending")]
        done, _ = driver.resume("t", approve())
        assert done.answer == f"{TOLD} / order 2 is here"
        assert desk.ran == ["look 2"]

    def test_one_decision_for_all_is_for_those_that_have_not(self, drive: Drive, timed: Any, time: Clock) -> None:
        desk = Desk()
        gate = filters.approval({"refund": Policy(expires_in=HOUR), "look": True})
        agent = build(desk, timed, gate, calls=(call("refund", "c1", order=1), call("look", "c2", order=2)))
        driver = drive(agent)
        driver.start("go", thread="t")
        time.forward(hours=2)
        done, _ = driver.resume("t", {"decisions": [{"type": "approve"}]})
        assert done.answer == f"{TOLD} / order 2 is here"

    def test_by_the_clock_of_this_machine_where_there_is_no_ledger(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        driver = drive(build(desk, memory, expires_in=1e-6))
        assert isinstance(driver.start("go", thread="t")[0], Paused)
        with pytest.raises(ApprovalExpired):
            driver.resume("t", approve())
        assert driver.resume("t")[0].answer == TOLD
        assert desk.ran == []

    def test_no_retry_around_the_gate_asks_again(self, drive: Drive, timed: Any, time: Clock) -> None:
        def until_it_works(request: Any, state: Any, next: Any) -> Any:
            for _ in range(3):
                reply = next(request)
            return reply

        desk = Desk()
        gate = filters.approval(default=Policy(expires_in=HOUR))
        driver = drive(build(desk, timed, Filter("again", around_tool=until_it_works), gate))
        driver.start("go", thread="t")
        time.forward(hours=1)
        assert driver.resume("t")[0].answer == TOLD
        assert desk.ran == []

    def test_a_new_message_finds_the_thread_free(self, drive: Drive, timed: Any, time: Clock) -> None:
        desk = Desk()
        driver = drive(build(desk, timed))
        driver.start("go", thread="t")
        time.forward(hours=1)
        done, _ = driver.start("and now?", thread="t")
        assert done.answer == "the request to approve this call expired unanswered; it did not run"
        assert the_one(timed).status == "expired"

    def test_a_copy_and_an_export_expire_too(self, timed: Any, time: Clock) -> None:
        agent = build(Desk(), timed)
        agent.invoke("go", thread="t")
        time.forward(hours=1)
        timed.approvals.sweep()
        timed.copy_thread("t", "copy")
        timed.sessions.load(timed.sessions.export("t"), "moved")
        for thread in ("copy", "moved", "t"):
            assert agent.resume(thread).answer == TOLD


class TestWhoCannotSendIt:
    """That a request has expired is for time to say."""

    def test_no_decision_is_called_so(self, timed: Any) -> None:
        agent = build(Desk(), timed)
        paused = agent.invoke("go", thread="t")
        for given in ({"type": "expired"}, {paused.approvals[0].id: {"type": "expired"}}):
            with pytest.raises(InvalidDecision, match="not a mapping of type 'expired'"):
                agent.resume("t", given)
        with pytest.raises(InvalidDecision):
            timed.approvals.decide(paused.approvals[0].id, {"type": "expired"})
        with pytest.raises(ConfigurationError, match="expired"):
            Policy(allowed=("expired",))

    def test_a_graph_is_not_told_so_where_nothing_expires(self, timed: Any) -> None:
        from langgraph.types import Command

        agent = build(Desk(), timed, expires_in=None)
        paused = agent.invoke("go", thread="t")
        config = {"configurable": {"thread_id": "t"}}
        agent.graph.invoke(Command(resume={paused.approvals[0].id: {"type": "expired"}}), config)
        [again] = timed.approvals.list().items
        assert again.tool == "refund"


class TestKeep:
    """`on_expire="keep"`: only marked, and decided whenever somebody does."""

    @one_of_each
    def test_it_stays_open(self, timed: Any, time: Clock) -> None:
        agent = build(Desk(), timed, on_expire="keep")
        agent.invoke("go", thread="t")
        assert the_one(timed).overdue is False
        time.forward(hours=500)
        assert timed.approvals.sweep() == Swept(overdue=1)
        [one] = timed.approvals.list().items
        assert (one.status, one.overdue) == ("pending", True)
        assert timed.approvals.list("expired").items == []
        waiting = agent.resume("t")
        assert [one.overdue for one in waiting.approvals] == [True]
        assert agent.resume("t", approve()).answer == "refunded 1"
        assert timed.approvals.sweep() == Swept()

    def test_where_there_is_no_ledger(self, memory: Any) -> None:
        agent = build(Desk(), memory, on_expire="keep", expires_in=1e-6)
        agent.invoke("go", thread="t")
        assert agent.resume("t").approvals[0].overdue
        assert agent.resume("t", approve()).answer == "refunded 1"


class TestEscalation:
    """`on_expire="escalate:NAME"`: somebody else may decide too, for as long again, once."""

    @one_of_each
    @pytest.mark.parametrize("sweeps", [True, False])
    def test_the_other_one_decides(self, timed: Any, time: Clock, sweeps: bool) -> None:
        agent = build(Desk(), timed, **WHO)
        [asked] = agent.invoke("go", thread="t").approvals
        with pytest.raises(InvalidDecision, match="'boss' is not among those"):
            timed.approvals.decide(asked.id, approve(), by="boss")
        time.forward(hours=1.5)
        if sweeps:
            assert timed.approvals.sweep() == Swept(escalated=1)
            assert timed.approvals.sweep() == Swept()
        [one] = timed.approvals.list().items
        assert (one.status, one.escalated) == ("pending", "boss")
        with pytest.raises(InvalidDecision, match="'eve' is not among those"):
            timed.approvals.decide(asked.id, approve(), by="eve")
        decided = timed.approvals.decide(asked.id, approve(), by="boss")
        assert (decided.decided_by, decided.escalated, decided.expires_at) == (
            "boss",
            "boss",
            time.now + timedelta(hours=1),
        )
        assert [event for event, _, _ in audited(timed)] == ["escalated", "decided"]
        assert agent.resume("t").answer == "refunded 1"

    def test_who_could_decide_still_can(self, timed: Any, time: Clock) -> None:
        agent = build(Desk(), timed, **WHO)
        agent.invoke("go", thread="t")
        time.forward(hours=1.5)
        assert agent.resume("t", approve(), by="ana").answer == "refunded 1"

    def test_the_second_time_it_expires(self, drive: Drive, timed: Any, time: Clock) -> None:
        driver = drive(build(Desk(), timed, **WHO))
        driver.start("go", thread="t")
        time.forward(hours=1.5)
        assert isinstance(driver.resume("t")[0], Paused)
        assert the_one(timed).expires_at == time.now + timedelta(hours=1)
        time.forward(hours=1)
        assert driver.resume("t")[0].answer == TOLD
        assert audited(timed) == [("escalated", None, {"to": "boss"}), ("expired", None, {"was": "pending"})]

    def test_it_needs_a_ledger(self, memory: Any) -> None:
        with pytest.raises(ConfigurationError, match="SQLCheckpointer"):
            build(Desk(), memory, **WHO)


class TestSweeping:
    """The sweep of many threads."""

    @one_of_each
    def test_batch_by_batch(self, timed: Any, time: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scallion.sql.expiring.BATCH", 2)
        agents = [build(Desk(), timed, **policy) for policy in ({}, {"on_expire": "keep"}, WHO)]
        for number, agent in enumerate(agents * 3):
            agent.invoke("go", thread=f"t{number}")
        early = timed.approvals.sweep()
        time.forward(hours=1)
        assert early == Swept()
        assert timed.approvals.sweep(thread="t0") == Swept(expired=1)
        assert timed.approvals.sweep() == Swept(expired=2, escalated=3, overdue=3)
        assert timed.approvals.sweep() == Swept(overdue=3)
        assert timed.sessions.get("t0").pending_count == 0
        assert {timed.sessions.get(f"t{n}").status for n in range(9)} == {"paused"}
        assert BATCH == 200

    async def test_the_other_colour_and_one_owner(self, timed: Any, time: Clock) -> None:
        agent = build(Desk(), timed)
        for owner in ("ana", "bo"):
            await agent.ainvoke("go", thread=owner, owner=owner)
        time.forward(hours=1)
        assert await timed.for_owner("ana").approvals.asweep() == Swept(expired=1)
        assert await timed.approvals.asweep() == Swept(expired=1)

    def test_the_command(self, database: str, timed: Any, time: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        time.now = datetime.now(UTC) - timedelta(hours=3)  # the command has the database's clock
        monkeypatch.setenv("SCALLION_DB", database)
        from scallion.cli.verbs import scallion

        build(Desk(), timed).invoke("go", thread="t")
        build(Desk(), timed, on_expire="keep").invoke("go", thread="kept")
        shown = CliRunner(env={"COLUMNS": "150"}).invoke(scallion, ["pending"])
        assert "pending, overdue" in shown.output
        assert json.loads(CliRunner().invoke(scallion, ["sweep", "--json"]).output) == {
            "expired": 1, "escalated": 0, "overdue": 1
        }  # fmt: skip
        told = CliRunner().invoke(scallion, ["sweep", "--thread", "t"]).output
        assert told == "0 expired, 0 escalated, 0 overdue and still open\n"


class TestOtherKinds:
    """A question, a call that runs elsewhere: they expire too, and say so."""

    def told(self, drive: Drive, timed: Any, time: Clock, agent: Agent) -> Any:
        driver = drive(agent)
        assert isinstance(driver.start("go", thread="t")[0], Paused)
        time.forward(hours=1)
        late = stop() if "stop" in timed.approvals.list("expired").items[0].allowed else respond("too late")
        with pytest.raises(ApprovalExpired):
            driver.resume("t", late)
        return driver.resume("t")[0].answer

    @pytest.mark.parametrize("chain", ["turn", "chat", "tool"])
    def test_a_pause_returns_what_time_decided(self, drive: Drive, timed: Any, time: Clock, chain: str) -> None:
        found: list[str] = []

        def ask(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            found.append(pause("well?", expires_in=HOUR).type)
            return reply

        desk = Desk()
        driver = drive(build(desk, timed, Filter("asks", **{f"around_{chain}": ask})))
        result, _ = driver.start("go", thread="t")
        while isinstance(result, Paused):
            time.forward(hours=1)
            result, _ = driver.resume("t")
        assert result.answer == "refunded 1"
        assert set(found) == {"expired"}
        assert desk.ran == ["refund 1"]

    def test_a_call_that_runs_elsewhere(self, drive: Drive, timed: Any, time: Clock) -> None:
        from langchain_core.tools import tool

        @tool
        def refund(order: int) -> str:
            """Give the money back."""
            raise AssertionError

        refund.metadata = {"external": True, "expires_in": HOUR}
        desk = Desk()

        def say(messages: list[Any]) -> Any:
            return results(messages)[0] if results(messages) else asks(call("refund", order=1))

        agent = Agent(ScriptedModel(say), tools=[refund], checkpointer=timed)
        assert "expired: nobody gave it in time" in self.told(drive, timed, time, agent)
        assert desk.ran == []

    @pytest.mark.parametrize("guarded", [False, True])
    def test_an_error_that_nobody_mended(self, drive: Drive, timed: Any, time: Clock, guarded: bool) -> None:
        ran: list[int] = []

        def refund(order: int) -> str:
            """Give the money back."""
            ran.append(order)
            raise PermissionError("the token has expired")

        guard = [filters.once("refund")] if guarded else []
        told = self.told(
            drive, timed, time, self.of(timed, refund, filters.pause_on_environment_error(expires_in=HOUR), *guard)
        )
        assert told == "error: PermissionError: the token has expired (nobody mended it in time)"
        assert ran == [1]

    def test_an_outcome_that_nobody_knows(self, drive: Drive, timed: Any, time: Clock) -> None:
        ran: list[int] = []

        def refund(order: int) -> str:
            """Give the money back."""
            ran.append(order)
            raise ConnectionError("reset")

        told = self.told(drive, timed, time, self.of(timed, refund, filters.once("refund", expires_in=HOUR)))
        assert told.startswith("not run again: whether it took effect is not known")
        assert ran == [1]

    def test_a_question_of_a_tool(self, drive: Drive, timed: Any, time: Clock) -> None:
        def refund(order: int) -> str:
            """Give the money back."""
            return pause("which account?", expires_in=HOUR).type

        assert self.told(drive, timed, time, self.of(timed, refund)) == "expired"

    def of(self, timed: Any, tool: Any, *stack: Filter) -> Agent:
        def say(messages: list[Any]) -> Any:
            return results(messages)[0] if results(messages) else asks(call("refund", order=1))

        return Agent(ScriptedModel(say), tools=[tool], filters=stack, checkpointer=timed)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"on_expire": "approve", "expires_in": 5}, '"reject", "keep" or "escalate:NAME"'),
        ({"on_expire": "escalate:", "expires_in": 5}, '"reject", "keep" or "escalate:NAME"'),
        ({"on_expire": "escalate: boss ", "expires_in": 5}, '"reject", "keep" or "escalate:NAME"'),
        ({"on_expire": None, "expires_in": 5}, '"reject", "keep" or "escalate:NAME"'),
        ({"on_expire": "keep"}, "says nothing without expires_in"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Policy(**wrong)


@pytest.mark.parametrize("span", [-1, 0, "1h"])
def test_a_span_that_is_none_is_refused(memory: Any, span: Any) -> None:
    from langchain_core.tools import tool

    @tool
    def away(order: int) -> str:
        """Run elsewhere."""

    away.metadata = {"external": True, "expires_in": span}
    makers: Any = (
        lambda: Policy(expires_in=span),
        lambda: filters.once(expires_in=span),
        lambda: filters.pause_on_environment_error(expires_in=span),
        lambda: Agent(ScriptedModel(["hi"]), tools=[away], checkpointer=memory),
    )
    for make in makers:
        with pytest.raises(ConfigurationError, match="expires_in"):
            make()


def test_a_pause_that_cannot_expire_so(memory: Any) -> None:
    stack = Filter("asks", around_tool=lambda request, state, next: pause("well?", expires_in=-1))
    with pytest.raises(ConfigurationError, match="expires_in"):
        build(Desk(), memory, stack).invoke("go", thread="t")


@one_of_each
def test_the_bare_graph_goes_on_with_what_time_decided(timed: Any, time: Clock) -> None:
    agent = build(Desk(), timed)
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.graph.invoke({"messages": [{"role": "user", "content": "go"}]}, config)
    time.forward(hours=1)
    done = agent.graph.invoke(timed.command_for("t"), config)
    assert done["messages"][-1].text == TOLD


@one_of_each
def test_a_race_between_the_sweep_and_a_decision_has_one_end(timed: Any, time: Clock, database: str) -> None:
    """Whoever comes first: decided and used, or expired; the other one hears of it."""
    from concurrent.futures import ThreadPoolExecutor

    agent = build(Desk(), timed)
    ids = [agent.invoke("go", thread=f"t{n}").approvals[0].id for n in range(8)]
    late = Clock()
    late.now = time.now + timedelta(hours=1)
    with Inbox(database, clock=time) as early, Inbox(database, clock=late) as sweeper:

        def decide(id: str) -> str:
            try:
                return early.approvals.decide(id, approve()).status
            except (ApprovalExpired, AlreadyDecided):
                return "expired"

        with ThreadPoolExecutor(9) as threads:
            swept = threads.submit(sweeper.approvals.sweep)
            outcomes = list(threads.map(decide, ids))
    assert swept.result().expired == outcomes.count("expired")
    assert [timed.approvals.get(id).status for id in ids] == outcomes
