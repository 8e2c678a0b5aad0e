"""What of SQLCheckpointer, approvals, effects and the lease holds for a `create_agent` agent: the table in the docs.

Each test is a row. Those of what does not hold are tests too: were it to hold one day, the page would be wrong.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.types import Command
from tests.langchain.sides import CONFIG, THREAD
from tests.scenes import asks, call, heard

from scallion import (
    AlreadyDecided,
    ConfigurationError,
    Inbox,
    InvalidDecision,
    SQLCheckpointer,
    ThreadBusy,
    approve,
    edit,
    filters,
    reject,
    respond,
)
from scallion.testing import ScriptedModel

SCRIPT = [asks(call("refund", order=1)), "Done."]
GO = {"messages": "refund 1"}


class Till:
    """A tool that writes down what it did, and may die or wait in the middle."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.meets: threading.Barrier | None = None
        self.dies = False

    def refund(self, order: int) -> str:
        """Give money back."""
        self.ran.append(order)
        if self.meets is not None:
            self.meets.wait(10)
        if self.dies:
            self.dies = False
            raise SystemExit
        return f"refunded {order}"


@pytest.fixture
def till() -> Till:
    return Till()


def agent(till: Till, saver: Any, *, mode: str | None = "batched", script: Any = SCRIPT) -> Any:
    """A `create_agent` agent, gated unless `mode` is None; made anew, as in another process."""
    gate = [] if mode is None else [HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)]  # type: ignore[arg-type,list-item]
    return create_agent(ScriptedModel(script), tools=[till.refund], middleware=gate, checkpointer=saver, name="desk")


def test_threads_are_kept_and_listed(till: Till, sql: SQLCheckpointer) -> None:
    agent(till, sql, mode=None).invoke(GO, CONFIG)
    (session,) = sql.sessions.list().items
    assert (session.thread, session.agent, session.status) == (THREAD, "desk", "idle")
    kept = agent(till, sql, mode=None).get_state(CONFIG).values["messages"]
    assert heard(kept)[-1] == ("ai", "Done.")


def test_questions_are_approvals_that_another_process_decides(till: Till, sql: SQLCheckpointer, tmp_path: Path) -> None:
    agent(till, sql).invoke(GO, CONFIG)
    with Inbox(f"sqlite:///{tmp_path}/agent.db") as inbox:
        (asked,) = inbox.approvals.list().items
        inbox.approvals.decide(asked.id, edit({"order": 2}), by="ana")
        with pytest.raises(AlreadyDecided, match="ana"):
            inbox.approvals.decide(asked.id, reject("no"), by="teun")
        command = inbox.command_for(THREAD)
    agent(till, sql, script=SCRIPT[1:]).invoke(command, CONFIG)
    assert till.ran == [2]
    assert [one.decided_by for one in sql.approvals.list(None).items] == ["ana"]


def test_a_decision_that_langchain_would_refuse_is_refused_before(till: Till, sql: SQLCheckpointer) -> None:
    agent(till, sql).invoke(GO, CONFIG)
    (asked,) = sql.approvals.list().items
    with pytest.raises(InvalidDecision):
        sql.approvals.decide(asked.id, respond({"no": "text"}))
    sql.approvals.decide(asked.id, approve())
    agent(till, sql, script=SCRIPT[1:]).invoke(sql.command_for(THREAD), CONFIG)
    assert till.ran == [1]


def test_policies_are_not_known_to_its_questions(till: Till, sql: SQLCheckpointer) -> None:
    """No deciders, no expiry, no second voice: whoever decides, decides."""
    agent(till, sql).invoke(GO, CONFIG)
    (asked,) = sql.approvals.list().items
    assert (asked.deciders, asked.expires_at, asked.quorum) == (None, None, 1)


def test_a_gate_that_is_gone_is_not_noticed(till: Till, sql: SQLCheckpointer) -> None:
    """A call that a person rejected runs, where the deploy between lost the middleware."""
    agent(till, sql, mode="per_call").invoke(GO, CONFIG)
    (asked,) = sql.approvals.list().items
    sql.approvals.decide(asked.id, reject("no"))
    agent(till, sql, mode=None, script=SCRIPT[1:]).invoke(sql.command_for(THREAD), CONFIG)
    assert till.ran == [1]


def test_an_effect_is_made_again_after_a_crash(till: Till, sql: SQLCheckpointer) -> None:
    till.dies = True
    with pytest.raises(SystemExit):
        agent(till, sql, mode=None).invoke(GO, CONFIG)
    agent(till, sql, mode=None, script=SCRIPT[1:]).invoke(None, CONFIG)
    assert till.ran == [1, 1]
    with pytest.raises(ConfigurationError, match="Agent"):
        filters.as_langchain(filters.once("refund"))


def together(till: Till, run: Any) -> list[BaseException]:
    """Run it twice at once; the tool waits until both are in it."""
    till.meets, failed = threading.Barrier(2), []

    def work() -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return failed


def test_two_resumes_at_once_both_run_the_tool(till: Till, sql: SQLCheckpointer) -> None:
    agent(till, sql).invoke(GO, CONFIG)
    (asked,) = sql.approvals.list().items
    sql.approvals.decide(asked.id, approve())
    command = sql.command_for(THREAD)
    together(till, lambda: agent(till, sql, script=SCRIPT[1:]).invoke(command, CONFIG))
    assert till.ran == [1, 1]


def test_under_a_lease_taken_by_hand_one_of_two_runs(till: Till, sql: SQLCheckpointer) -> None:
    agent(till, sql).invoke(GO, CONFIG)
    (asked,) = sql.approvals.list().items
    sql.approvals.decide(asked.id, approve())
    lease = sql.leases.take(THREAD, new=False)
    with pytest.raises(ThreadBusy):
        sql.leases.take(THREAD, new=False)
    held: Any = {"configurable": {"thread_id": THREAD, **lease.configurable}}
    agent(till, sql, script=SCRIPT[1:]).invoke(sql.command_for(THREAD), held)
    sql.leases.release(lease, failed=False)
    assert till.ran == [1]
    assert sql.status(THREAD) == "idle"


def test_what_is_kept_is_encrypted(till: Till, tmp_path: Path) -> None:
    with SQLCheckpointer(f"sqlite:///{tmp_path}/secret.db", key=b"k" * 32) as saver:
        agent(till, saver, script=[asks(call("refund", order=424242)), "canary"]).invoke({"messages": "canary"}, CONFIG)
        (asked,) = saver.approvals.list().items
        assert dict(asked.args or {}) == {"order": 424242}
    assert not any(b"canary" in one.read_bytes() or b"424242" in one.read_bytes() for one in tmp_path.iterdir())


def test_a_command_of_ones_own_uses_the_approval_up(till: Till, sql: SQLCheckpointer) -> None:
    agent(till, sql).invoke(GO, CONFIG)
    agent(till, sql, script=SCRIPT[1:]).invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert [one.status for one in sql.approvals.list(None).items] == ["used"]
