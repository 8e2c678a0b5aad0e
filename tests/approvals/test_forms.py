"""The forms of a decision: what is documented is taken, and nothing that somebody wrote is lost without a word."""

from __future__ import annotations

from typing import Any

import pytest
from scenes import Desk, asks, call

from scallion import Agent, InvalidDecision, Policy, SQLCheckpointer, approve, edit, filters, happened, reject, respond
from scallion.approvals.decisions import read
from scallion.testing import ScriptedModel
from scallion.values import Decision

TAKEN: list[tuple[Any, Decision]] = [
    ({"type": "approve"}, approve()),
    ({"type": "approve", "args": None, "message": None}, approve()),
    ({"type": "edit", "args": {"order": 2}}, edit({"order": 2})),
    (
        {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 2}}},
        Decision("edit", args={"order": 2}, tool="refund"),
    ),
    ({"type": "reject"}, reject()),
    ({"type": "reject", "message": "no"}, reject("no")),
    ({"type": "respond", "message": "x"}, respond("x")),
    ({"type": "happened", "message": "x"}, happened("x")),
    ({"type": "happened", "result": "x"}, happened("x")),
    ({"type": "rerun"}, Decision("rerun")),
    ({"type": "stop"}, Decision("stop")),
]

REFUSED: list[tuple[Any, str]] = [
    ({"type": "approve", "args": {"order": "S3CRET"}}, "'approve' takes nothing else, not 'args'"),
    ({"type": "approve", "message": "S3CRET"}, "not 'message'"),
    ({"type": "approve", "by": "S3CRET"}, "not 'by'"),
    ({"type": "approve", 7: "S3CRET"}, "not int"),
    ({"type": "approve", "reason": None}, "not 'reason'"),
    ({"type": "reject", "reason": "S3CRET"}, "'reject' takes 'message', not 'reason'; the reason is called 'message'"),
    ({"type": "reject", "args": {}}, "not 'args'"),
    ({"type": "respond", "message": "x", "args": {"order": "S3CRET"}}, "not 'args'"),
    ({"type": "respond", "answer": "S3CRET"}, "the answer is called 'message'"),
    ({"type": "edit", "args": {"order": 2}, "message": "S3CRET"}, "not 'message'"),
    ({"type": "edit", "args": {"order": 2}, "name": "mail"}, "the tool stands in 'edited_action'"),
    ({"type": "edit", "args": {"order": 2}, "edited_action": {"name": "refund", "args": {}}}, "either"),
    ({"type": "edit", "edited_action": {"name": "mail", "args": {"order": 2}}}, "an edit keeps the tool: 'refund'"),
    ({"type": "edit", "edited_action": {"args": {"order": "S3CRET"}}}, "an edited action is"),
    ({"type": "edit", "edited_action": {"name": "refund", "args": {}, "note": "S3CRET"}}, "an edited action is"),
    ({"type": "edit", "edited_action": ["S3CRET"]}, "an edited action is"),
    ({"type": "edit", "edited_action": {"name": "refund", "args": ["S3CRET"]}}, "are a mapping, not list"),
    ({"type": "rerun", "result": "S3CRET"}, "not 'result'"),
    (Decision("approve", args={"order": "S3CRET"}), "not 'args'"),
    (Decision("stop", message="S3CRET"), "not 'message'"),
    (Decision("nonsense"), "not Decision"),  # type: ignore[arg-type]
]


def test_what_is_documented_is_taken() -> None:
    assert [read(given) for given, _ in TAKEN] == [decision for _, decision in TAKEN]


def test_what_does_not_belong_is_refused_and_the_approval_stays_open(sql: SQLCheckpointer) -> None:
    kinds = ("approve", "edit", "reject", "respond", "rerun", "stop")
    gate = filters.approval(default=Policy(kinds))
    agent = Agent(
        ScriptedModel([asks(call("refund", order=1)), "end"]), tools=Desk().tools, filters=[gate], checkpointer=sql
    )
    agent.invoke("go", thread="t")
    (one,) = sql.approvals.list().items
    for bad, told in REFUSED:
        for decide in (
            lambda: sql.approvals.decide(one.id, bad),  # noqa: B023
            lambda: agent.resume("t", {one.id: bad}),  # noqa: B023
            lambda: agent.resume("t", {"decisions": [bad]}),  # noqa: B023
        ):
            with pytest.raises(InvalidDecision, match=told) as refused:
                decide()
            assert "S3CRET" not in str(refused.value)
    assert sql.approvals.get(one.id).status == "pending"
    assert (
        agent.resume("t", {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 2}}}).answer == "end"
    )  # type: ignore[union-attr]
