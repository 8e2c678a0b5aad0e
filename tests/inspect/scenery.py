"""What is looked at in the tests of pictures: traces made by hand, agents, messages that want to be markup."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scallion import Approval, approve, edit
from scallion.tracing import Part, Span, Trace

BEGAN = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def asked(id: str = "a1", **changes: object) -> Approval:
    """An approval that pends."""
    pending = Approval(
        id,
        "t-1",
        "tool_call",
        tool="refund",
        args={"order": 1042, "amount": 189.0},
        allowed=("approve", "edit", "reject"),
        description="The agent wants to call refund.",
        path=("approval",),
        created_at=BEGAN,
    )
    return pending.replace(**changes)


def decided(id: str = "a1", decision: object = None, **changes: object) -> Approval:
    """One that somebody decided, after two minutes."""
    told = {"decision": decision or approve(), "decided_by": "ana", "decided_at": BEGAN + timedelta(minutes=2)}
    return asked(id, status="used", **{**told, **changes})


def refund_trace() -> Trace:
    """A turn with a pause, an edit, a guard, a retry: most of what a timeline shows."""
    model = Span(
        "layer", "retry_model", 0.01, 0.4, hook="around_chat", actions=["retry"], calls=3,
        inside=[
            Span("model", "gpt-5", 0.01, 0.1, "error", "ConnectionError"),
            Span("model", "gpt-5", 0.15, 0.1, "error", "ConnectionError"),
            Span("model", "gpt-5", 0.26, 0.15, tokens={"input": 812, "output": 31}, cost=0.0012),
        ],
    )  # fmt: skip
    guard = Span(
        "layer", "pii", 0.0, 0.41, hook="around_chat", actions=["redact"], change=["messages[2]"], inside=[model]
    )
    tool = Span("tool", "refund", 0.42, 0.0, "paused", call_id="c1")
    gate = Span("layer", "approval", 0.42, 0.01, "paused", hook="around_tool", actions=["paused"], inside=[tool])
    first = Part(BEGAN, 0.43, "paused", [Span("attempt", "1", 0.0, 0.43, "paused", inside=[guard, gate])], asked=["a1"])
    ran = Span("tool", "refund", 0.01, 0.02, call_id="c1")
    gate = Span("layer", "approval", 0.0, 0.03, hook="around_tool", actions=["edit"], change=["args"], inside=[ran])
    model = Span("model", "gpt-5", 0.04, 0.2, tokens={"input": 850, "output": 12}, cost=0.0011)
    second = Part(
        BEGAN + timedelta(minutes=2, seconds=5),
        0.25,
        "completed",
        [Span("attempt", "1", 0.0, 0.25, inside=[gate, model])],
        omitted=3,
    )
    approval = decided(decision=edit({"order": 1042, "amount": 20.0}))
    return Trace("t-1", "turn-1", [first, second], [approval])
