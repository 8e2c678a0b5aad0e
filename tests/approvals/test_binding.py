"""A decision is bound to what was shown, checked before it is stored, and not lost when something fails."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import MODES, Drive, Driver
from scenes import Desk, asks, call, results

from scallion import (
    Agent,
    AlreadyDecided,
    ApprovalExpired,
    Completed,
    DecisionError,
    Filter,
    FilterError,
    Inbox,
    InvalidDecision,
    ModelError,
    NotPaused,
    Paused,
    Policy,
    SQLCheckpointer,
    ThreadPaused,
    UnknownApproval,
    approve,
    edit,
    filters,
    reject,
    rerun,
    respond,
)
from scallion.testing import ScriptedModel

REFUND = call("refund", order=1)


def build(desk: Desk, saver: Any, *stack: Filter, replies: Any = None, calls: Any = (REFUND,), **options: Any) -> Agent:
    model = ScriptedModel([asks(*calls), "end"] if replies is None else replies)
    gate = stack or (filters.approval(default=True),)
    return Agent(model, tools=desk.tools, filters=gate, checkpointer=saver, **options)


def rows(saver: SQLCheckpointer) -> list[Any]:
    """All that the ledger and the thread hold."""
    checkpoint = saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert checkpoint is not None
    writes = [(task, channel) for task, channel, _ in checkpoint.pending_writes or []]
    return [saver.approvals.list(None).items, checkpoint.checkpoint["id"], writes]


BAD: dict[str, tuple[Any, type[Exception]]] = {
    "an unknown id": ({"0" * 32: approve()}, UnknownApproval),
    "a kind that is not allowed": (rerun(), InvalidDecision),
    "no kind": ({"type": "aprove"}, InvalidDecision),
    "a text": ("approve", InvalidDecision),
    "True": (True, InvalidDecision),
    "a list": ([approve()], InvalidDecision),
    "an edit without arguments": ({"type": "edit"}, InvalidDecision),
    "arguments of the wrong type": (edit({"order": "abc"}), InvalidDecision),
    "an argument that does not exist": (edit({"order": 1, "amount": 5}), InvalidDecision),
    "an argument too few": (edit({}), InvalidDecision),
    "arguments that are no mapping": ({"type": "edit", "args": [1]}, InvalidDecision),
    "a response without a message": ({"type": "respond"}, InvalidDecision),
    "an edit that names another tool": (
        {"decisions": [{"type": "edit", "edited_action": {"name": "mail", "args": {"order": 1}}}]},
        InvalidDecision,
    ),
}


class TestBadDecisions:
    """Refused before anything is stored; the approval stays decidable."""

    @pytest.mark.parametrize("bad", BAD)
    def test_it_is_refused_and_can_be_corrected(self, drive: Drive, sql: SQLCheckpointer, bad: str) -> None:
        desk = Desk()
        driver = drive(build(desk, sql))
        driver.start("go", thread="t")
        before = rows(sql)
        given, error = BAD[bad]
        with pytest.raises(error):
            driver.resume("t", given, by="ana")
        assert rows(sql) == before
        assert sql.status("t") == "paused"
        assert desk.ran == []
        result, _ = driver.resume("t", approve())
        assert (result.answer, desk.ran) == ("end", ["refund 1"])

    @pytest.mark.parametrize("bad", [one for one in BAD if one != "an unknown id"])
    def test_a_saver_without_a_ledger_refuses_it_too(self, memory: Any, bad: str) -> None:
        desk = Desk()
        driver = Driver(build(desk, memory), "ainvoke")
        driver.start("go", thread="t")
        with pytest.raises(BAD[bad][1]):
            driver.resume("t", BAD[bad][0])
        assert desk.ran == []
        assert driver.resume("t", approve())[0].answer == "end"

    def test_the_ledger_refuses_it_as_well(self, sql: SQLCheckpointer) -> None:
        """Decided in the inbox, not by `resume`."""
        build(Desk(), sql).invoke("go", thread="t")
        (one,) = sql.approvals.list().items
        for bad in (rerun(), edit({"order": "abc"}), {"type": "aprove"}, {"type": "respond"}):
            with pytest.raises(InvalidDecision):
                sql.approvals.decide(one.id, bad)
        assert sql.approvals.get(one.id).status == "pending"

    def test_one_bad_decision_among_good_ones_stores_none(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        driver = drive(build(desk, sql, calls=(call("refund", "c1", order=1), call("refund", "c2", order=2))))
        paused, _ = driver.start("go", thread="t")
        first, second = (one.id for one in paused.approvals)
        before = rows(sql)
        for bad in ({first: approve(), second: edit({"order": "x"})}, {first: approve(), "unknown": approve()}):
            with pytest.raises(DecisionError):
                driver.resume("t", bad)
            assert rows(sql) == before
        driver.resume("t", {first: approve(), second: reject()})
        assert desk.ran == ["refund 1"]

    def test_only_what_the_policy_allows(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        driver = drive(build(desk, sql, filters.approval({"refund": Policy(("approve", "reject"))})))
        driver.start("go", thread="t")
        for bad in (edit({"order": 2}), respond("x")):
            with pytest.raises(InvalidDecision, match="allowed: approve, reject") as caught:
                driver.resume("t", bad)
            assert caught.value.approval is not None
        assert driver.resume("t", reject())[0].answer == "end"
        assert desk.ran == []

    def test_the_message_of_a_refusal_holds_no_arguments(self, sql: SQLCheckpointer) -> None:
        agent = build(Desk(), sql)
        agent.invoke("go", thread="t")
        with pytest.raises(InvalidDecision) as caught:
            agent.resume("t", edit({"order": "my-secret-value"}))
        assert "my-secret-value" not in str(caught.value)
        assert "order" in str(caught.value)

    def test_a_thread_that_waits_for_nothing(self, drive: Drive, sql: SQLCheckpointer) -> None:
        driver = drive(build(Desk(), sql, replies=["hi"]))
        with pytest.raises(NotPaused):
            driver.resume("nobody", approve())
        driver.start("go", thread="t")
        for decisions in (approve(), None, {"x": approve()}):
            with pytest.raises(NotPaused):
                driver.resume("t", decisions)

    def test_an_answered_approval_is_not_answered_again(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """A second person comes late with the id of a call that ran, while its sibling still waits."""
        desk = Desk()
        driver = drive(build(desk, sql, calls=(call("refund", "c1", order=1), call("refund", "c2", order=2))))
        paused, _ = driver.start("go", thread="t")
        first, second = (one.id for one in paused.approvals)
        driver.resume("t", {first: approve()}, by="ana")
        with pytest.raises(DecisionError):
            driver.resume("t", {first: reject()}, by="bo")
        assert desk.ran == ["refund 1"]
        assert driver.resume("t", {second: approve()})[0].answer == "end"
        assert desk.ran == ["refund 1", "refund 2"]


class TestWhatWasShown:
    """Verdict, tool and arguments are frozen at the pause."""

    @pytest.mark.parametrize("flips_to", [False, None, True])
    def test_a_predicate_that_changes_its_mind_does_not_open_the_gate(
        self, drive: Drive, memory: Any, flips_to: Any
    ) -> None:
        for decision, ran in ((reject(), []), (approve(), ["refund 1"]), (edit({"order": 2}), ["refund 2"])):
            desk, verdict = Desk(), [True]
            driver = drive(build(desk, memory, filters.approval(when=lambda call: verdict[0])))  # noqa: B023
            paused, _ = driver.start("go", thread=decision.type)
            assert isinstance(paused, Paused)
            verdict[0] = flips_to
            assert isinstance(driver.resume(decision.type, decision)[0], Completed)
            assert desk.ran == ran

    def test_a_predicate_that_crashes_at_the_resume_runs_nothing(self, drive: Drive, memory: Any) -> None:
        desk, broken = Desk(), [False]

        def when(call: Any) -> bool:
            if broken[0]:
                raise KeyError("bug")
            return True

        driver = drive(build(desk, memory, filters.approval(when=when)))
        driver.start("go", thread="t")
        broken[0] = True
        try:
            driver.resume("t", reject())
        except Exception:
            assert desk.ran == []
        assert desk.ran == []

    def test_what_is_allowed_is_what_was_shown(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """A policy that allows more since then does not allow it for what was shown."""
        desk = Desk()
        drive(build(desk, sql, filters.approval(default=Policy(("approve", "reject"))))).start("go", thread="t")
        wider = drive(build(desk, sql, filters.approval(default=True), replies=["end"]))
        with pytest.raises(InvalidDecision):
            wider.resume("t", edit({"order": 99}))
        assert desk.ran == []
        wider.resume("t", approve())
        assert desk.ran == ["refund 1"]

    def test_a_gate_that_became_stricter_asks_again_or_refuses(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """A later check may only tighten: it must not run what it would no longer allow to be approved."""
        desk = Desk()
        drive(build(desk, sql, filters.approval(default=True))).start("go", thread="t")
        stricter = drive(build(desk, sql, filters.approval(default=Policy(("reject",))), replies=["end"]))
        try:
            outcome, _ = stricter.resume("t", approve())
        except DecisionError:
            outcome = None
        assert outcome is None or isinstance(outcome, Paused)
        assert desk.ran == []

    @pytest.mark.parametrize("decision", [approve(), edit({"order": 5})])
    def test_arguments_that_changed_since_are_asked_about_again(self, drive: Drive, memory: Any, decision: Any) -> None:
        """An outer filter rewrites the call differently at the resume: the old decision is not used for it."""
        desk, order = Desk(), [10]

        def rewrites(request: Any, state: Any, next: Any) -> Any:
            return next(request.replace(call={**request.call, "args": {"order": order[0]}}))

        stack = (Filter("rewrites", around_tool=rewrites), filters.approval(default=True))
        driver = drive(build(desk, memory, *stack))
        paused, _ = driver.start("go", thread="t")
        assert paused.approvals[0].args == {"order": 10}
        order[0] = 666
        again, _ = driver.resume("t", decision)
        assert isinstance(again, Paused)
        assert again.approvals[0].args == {"order": 666}
        assert desk.ran == []
        result, _ = driver.resume("t", approve())
        assert (result.answer, desk.ran) == ("end", ["refund 666"])

    def test_an_edit_passes_the_gate_again(self, drive: Drive, memory: Any) -> None:
        """Arguments that the gate lets through need no further question; those that it stops are asked about."""
        desk = Desk()
        gate = filters.approval(when=lambda call: call["args"]["order"] >= 100)
        driver = drive(build(desk, memory, gate, calls=(call("refund", order=100),)))
        driver.start("go", thread="t")
        outcome, _ = driver.resume("t", edit({"order": 5}))
        assert isinstance(outcome, Completed)
        assert desk.ran == ["refund 5"]


class TestRecordedDecisions:
    """Decided earlier and elsewhere, then resumed by the thread alone."""

    def test_decided_in_the_saver(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        paused, _ = drive(build(desk, sql)).start("go", thread="t")
        sql.approvals.decide(paused.approvals[0].id, edit({"order": 3}), by="ana")
        assert desk.ran == []
        result, _ = drive(build(desk, sql, replies=["end"])).resume("t")
        assert (result.answer, desk.ran) == ("end", ["refund 3"])
        row = sql.approvals.get(paused.approvals[0].id)
        assert (row.status, row.decided_by) == ("used", "ana")

    def test_decided_in_an_inbox_on_the_same_file(self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
        desk = Desk()
        paused, _ = drive(build(desk, sql)).start("go", thread="t")
        inbox = Inbox(f"sqlite:///{tmp_path / 'agent.db'}")
        try:
            inbox.approvals.decide(paused.approvals[0].id, {"type": "approve"}, by="ana")
        finally:
            inbox.close()
        assert drive(build(desk, sql, replies=["end"])).resume("t")[0].answer == "end"
        assert desk.ran == ["refund 1"]

    def test_nothing_is_decided_yet(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """The same pause again, nothing else."""
        desk = Desk()
        driver = drive(build(desk, sql))
        paused, _ = driver.start("go", thread="t")
        again, _ = driver.resume("t")
        assert isinstance(again, Paused)
        assert [one.id for one in again.approvals] == [one.id for one in paused.approvals]
        assert desk.ran == []

    def test_one_of_two_is_decided(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        driver = drive(build(desk, sql, calls=(call("refund", "c1", order=1), call("refund", "c2", order=2))))
        paused, _ = driver.start("go", thread="t")
        sql.approvals.decide(paused.approvals[1].id, approve())
        again, _ = driver.resume("t")
        assert [one.call_id for one in again.approvals] == ["c1"]
        assert desk.ran == ["refund 2"]

    def test_recorded_and_given_together(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """One decision for all that pend leaves the recorded one as it is."""
        desk = Desk()
        driver = drive(build(desk, sql, calls=(call("refund", "c1", order=1), call("refund", "c2", order=2))))
        paused, _ = driver.start("go", thread="t")
        sql.approvals.decide(paused.approvals[0].id, reject("no"), by="ana")
        result, _ = driver.resume("t", approve(), by="bo")
        assert result.answer == "end"
        assert desk.ran == ["refund 2"]

    def test_the_second_reviewer_is_told_who_was_first(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        driver = drive(build(desk, sql))
        paused, _ = driver.start("go", thread="t")
        (one,) = paused.approvals
        sql.approvals.decide(one.id, reject("no"), by="ana")
        with pytest.raises(AlreadyDecided, match="ana") as caught:
            driver.resume("t", {one.id: approve()}, by="bo")
        assert (caught.value.by, caught.value.decision) == ("ana", reject("no"))
        assert caught.value.at is not None
        with pytest.raises(AlreadyDecided):  # an equal one too: it may be the same click, and run elsewhere already
            driver.resume("t", {one.id: reject("no")})
        assert driver.resume("t")[0].answer == "end"
        assert desk.ran == []

    def test_in_another_process_by_the_thread_alone(self, sql: SQLCheckpointer, tmp_path: Path) -> None:
        """Paused in async here, decided here, resumed in sync there."""
        desk = Desk()
        paused, _ = Driver(build(desk, sql), "ainvoke").start("go", thread="t")
        assert isinstance(paused, Paused)
        sql.approvals.decide(paused.approvals[0].id, approve(), by="ana")
        code = f"""
            import json
            from scallion import Agent, filters
            from scallion.testing import ScriptedModel
            from scenes import Desk
            desk, model = Desk(), ScriptedModel(["end"])
            agent = Agent(model, tools=desk.tools, filters=[filters.approval(default=True)],
                          checkpointer="sqlite:///{tmp_path / "agent.db"}")
            result = agent.resume("t")
            print(json.dumps([result.answer, desk.ran, [one.text for one in model.calls[0]]]))
        """
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["end", ["refund 1"], ["go", "", "refunded 1"]]
        assert desk.ran == []


class TestExpiry:
    """An approval that was open for too long cannot be decided."""

    EXPIRED = Policy(expires_in=0.000_001)

    @pytest.mark.parametrize("decision", [approve(), reject(), edit({"order": 2})])
    def test_it_is_refused_and_nothing_runs(self, drive: Drive, any_saver: Any, decision: Any) -> None:
        desk = Desk()
        driver = drive(build(desk, any_saver, filters.approval(default=self.EXPIRED)))
        paused, _ = driver.start("go", thread="t")
        with pytest.raises(ApprovalExpired):
            driver.resume("t", decision)
        with pytest.raises(ApprovalExpired):
            driver.resume("t", {paused.approvals[0].id: decision})
        assert desk.ran == []

    def test_the_ledger_refuses_it_and_the_thread_can_be_closed(self, sql: SQLCheckpointer) -> None:
        desk = Desk()
        agent = build(desk, sql, filters.approval(default=self.EXPIRED), replies=[asks(REFUND), "later"])
        paused = agent.invoke("go", thread="t")
        with pytest.raises(ApprovalExpired):
            sql.approvals.decide(paused.approvals[0].id, approve())
        assert agent.cancel("t")
        assert agent.invoke("again", thread="t").answer == "later"
        assert desk.ran == []

    def test_a_decision_that_came_in_time_is_used_later(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """Expiry is about deciding, not about resuming."""
        desk = Desk()
        driver = drive(build(desk, sql, filters.approval(default=Policy(expires_in=3600))))
        paused, _ = driver.start("go", thread="t")
        sql.approvals.decide(paused.approvals[0].id, approve())
        assert driver.resume("t")[0].answer == "end"
        assert desk.ran == ["refund 1"]


class TestANewMessage:
    """A message comes while approvals are open."""

    CALLS = (call("refund", "c1", order=1), call("look", "c2", order=2))

    def test_it_is_refused_by_default(self, drive: Drive, any_saver: Any) -> None:
        desk = Desk()
        model_replies = [asks(*self.CALLS), "end"]
        driver = drive(build(desk, any_saver, filters.approval({"refund": True}), replies=model_replies))
        paused, _ = driver.start("go", thread="t")
        with pytest.raises(ThreadPaused) as caught:
            driver.start("forget it", thread="t")
        assert [one.id for one in caught.value.approvals] == [one.id for one in paused.approvals]
        result, _ = driver.resume("t", approve())
        assert [one.text for one in result.messages if one.type == "human"] == ["go"]

    def test_it_may_supersede(self, drive: Drive, any_saver: Any) -> None:
        """Each open call is answered, finished ones keep their result, and the old decision comes too late."""
        desk = Desk()
        replies = [asks(*self.CALLS), "as you like"]
        agent = build(
            desk, any_saver, filters.approval({"refund": True}), replies=replies, on_message_while_paused="supersede"
        )
        driver = drive(agent)
        paused, _ = driver.start("go", thread="t")
        result, _ = driver.start("forget it", thread="t")
        assert result.answer == "as you like"
        assert results(result.messages) == ["order 2 is here", "not run: the person went on with another message"]
        assert [one.type for one in result.messages] == ["human", "ai", "tool", "tool", "human", "ai"]
        assert desk.ran == ["look 2"]
        if isinstance(any_saver, SQLCheckpointer):
            assert any_saver.approvals.get(paused.approvals[0].id).status == "superseded"
            with pytest.raises(AlreadyDecided):
                any_saver.approvals.decide(paused.approvals[0].id, approve())
        with pytest.raises((NotPaused, DecisionError)):
            driver.resume("t", {paused.approvals[0].id: approve()})
        assert desk.ran == ["look 2"]

    def test_a_recorded_decision_is_superseded_too(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        replies = [asks(REFUND), "as you like"]
        driver = drive(build(desk, sql, replies=replies, on_message_while_paused="supersede"))
        paused, _ = driver.start("go", thread="t")
        sql.approvals.decide(paused.approvals[0].id, approve())
        result, _ = driver.start("forget it", thread="t")
        assert (result.answer, desk.ran) == ("as you like", [])
        assert sql.approvals.get(paused.approvals[0].id).status == "superseded"


class TestFailuresDuringResume:
    """An error of model or store leaves the pause as it was; the next resume goes on, and the tool runs once."""

    @pytest.mark.parametrize("next_time", ["alone", "with the same decision"])
    def test_the_model_fails_after_the_approved_tool(self, drive: Drive, any_saver: Any, next_time: str) -> None:
        desk = Desk()
        driver = drive(build(desk, any_saver, replies=[asks(REFUND), ConnectionError("reset"), "end"]))
        paused, _ = driver.start("go", thread="t")
        given = {paused.approvals[0].id: approve()}
        with pytest.raises(ModelError):
            driver.resume("t", given)
        assert desk.ran == ["refund 1"]
        result, _ = driver.resume("t", None if next_time == "alone" else given)
        assert (result.answer, desk.ran) == ("end", ["refund 1"])
        assert results(result.messages) == ["refunded 1"]

    def test_a_filter_fails_between_the_decision_and_the_tool(self, drive: Drive, any_saver: Any) -> None:
        """The gate stays closed, the call is answered "not run", and the turn goes on by the thread alone."""
        desk = Desk()

        def buggy(request: Any, state: Any, next: Any) -> Any:
            raise KeyError("bug")

        stack = (filters.approval(default=True), Filter("buggy", around_tool=buggy))
        driver = drive(build(desk, any_saver, *stack))
        driver.start("go", thread="t")
        with pytest.raises(FilterError, match="buggy"):
            driver.resume("t", approve())
        result, _ = driver.resume("t")
        assert (result.answer, desk.ran) == ("end", [])
        assert results(result.messages)[0].startswith("not run")

    @pytest.mark.parametrize("method", ["put", "put_writes"])
    @pytest.mark.parametrize("nth", [1, 2, 3])
    def test_the_store_fails(
        self, drive: Drive, sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch, method: str, nth: int
    ) -> None:
        """At any write of the resume: afterwards the thread has come, or comes, to the end of the turn."""
        desk = Desk()
        agent = build(desk, sql, replies=lambda messages: "end" if messages[-1].type == "tool" else asks(REFUND))
        driver = drive(agent)
        paused, _ = driver.start("go", thread="t")
        failed = self.break_at(sql, monkeypatch, method, nth)
        try:
            driver.resume("t", {paused.approvals[0].id: approve()}, durability="sync")
        except OSError:
            with contextlib.suppress(NotPaused):  # LangGraph tells of some failures when the turn has ended
                driver.resume("t")
        state = agent.graph.get_state({"configurable": {"thread_id": "t"}})
        assert (state.next, state.interrupts) == ((), ())
        assert [one.text for one in state.values["messages"]] == ["go", "", "refunded 1", "end"]
        assert sql.status("t") == "idle"
        if not failed or method == "put":
            assert desk.ran == ["refund 1"]

    @staticmethod
    def break_at(saver: Any, monkeypatch: pytest.MonkeyPatch, method: str, nth: int) -> list[int]:
        """The nth call of the method, in either colour, raises OSError; filled when it did."""
        count, failed = [0], []
        sync, asynchronous = getattr(saver, method), getattr(saver, "a" + method)

        def tick() -> None:
            count[0] += 1
            if count[0] == nth:
                failed.append(nth)
                raise OSError("disk full")

        def broken(*args: Any, **options: Any) -> Any:
            tick()
            return sync(*args, **options)

        async def abroken(*args: Any, **options: Any) -> Any:
            tick()
            return await asynchronous(*args, **options)

        monkeypatch.setattr(saver, method, broken)
        monkeypatch.setattr(saver, "a" + method, abroken)
        return failed

    def test_the_ledger_fails_while_it_stores_the_decision(
        self, drive: Drive, sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk = Desk()
        driver = drive(build(desk, sql))
        paused, _ = driver.start("go", thread="t")

        def broken(*args: Any, **options: Any) -> Any:
            raise OSError("disk full")

        async def abroken(*args: Any, **options: Any) -> Any:
            raise OSError("disk full")

        with monkeypatch.context() as patch:
            patch.setattr(type(sql.approvals), "decide_all", broken)
            patch.setattr(type(sql.approvals), "adecide_all", abroken)
            with pytest.raises(OSError, match="disk full"):
                driver.resume("t", approve())
        assert desk.ran == []
        assert sql.approvals.get(paused.approvals[0].id).status == "pending"
        assert driver.resume("t", approve())[0].answer == "end"
        assert desk.ran == ["refund 1"]


@pytest.mark.parametrize("first", MODES)
def test_two_agents_on_two_savers_do_not_share_a_pause(first: Any) -> None:
    """The same thread name in two stores."""
    desks = [Desk(), Desk()]
    drivers = [Driver(build(desk, InMemorySaver()), first) for desk in desks]
    for driver in drivers:
        assert isinstance(driver.start("go", thread="t")[0], Paused)
    assert drivers[0].resume("t", approve())[0].answer == "end"
    assert (desks[0].ran, desks[1].ran) == (["refund 1"], [])
    assert isinstance(drivers[1].resume("t", reject())[0].message, AIMessage)
