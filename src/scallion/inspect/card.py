"""An approval as a card: all that a decision will be bound to, nothing left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scallion.approvals.deciders import agreeing
from scallion.inspect.escape import one_line, printable
from scallion.values import Approval

if TYPE_CHECKING:
    from rich.panel import Panel


def card(approval: Approval) -> Panel:
    """The approval in a frame."""
    from rich.panel import Panel
    from rich.text import Text

    title = Text(one_line(heading(approval)))
    return Panel(Text("\n".join(_lines(approval))), title=title, title_align="left", border_style="yellow")


def heading(approval: Approval) -> str:
    """What it is about in a word or two: the tool, or the kind of question."""
    return approval.tool or approval.kind.replace("_", " ")


def arguments(args: Mapping[str, Any] | None) -> str:
    """Arguments as JSON; what is no JSON is shown as text."""
    return json.dumps(dict(args or {}), indent=2, ensure_ascii=False, default=str)


def verdict(approval: Approval) -> str:
    """What was decided and by whom, with the new arguments or the reason; empty where nothing is."""
    decision = approval.decision
    if decision is None:
        return ""
    told = f"{decision.type} by {approval.decided_by or 'somebody'}"
    if decision.type == "edit":
        return f"{one_line(told)}; the new arguments:\n{printable(arguments(decision.args))}"
    return one_line(f"{told}: {decision.message}" if decision.message else told)


def outcome(approval: Approval, by: str) -> str:
    """What came of a decision by this person: it holds, or it is a vote, and others have to agree."""
    if approval.decision is not None:
        return f"{approval.decision.type}, by {approval.decided_by}"
    mine = next((vote.decision.type for vote in approval.votes if vote.by == by), "decision")
    return f"{mine}, a vote of {by}; {approval.quorum} people have to decide the same"


def _lines(approval: Approval) -> Iterator[str]:
    if approval.description:
        yield printable(approval.description)
    if approval.args is not None:
        yield printable(arguments(approval.args))
    yield ""
    yield one_line(f"id {approval.id}")  # not in the title, which a narrow terminal cuts
    yield one_line(f"thread {approval.thread} · may be decided: {', '.join(approval.allowed)}")
    if approval.requested_by:
        yield one_line(f"asked for by {approval.requested_by}")
    yield from _people(approval)
    if approval.expires_at:
        yield one_line(_time(approval.expires_at, approval))
    if approval.decision is not None:
        yield f"{approval.status}: {verdict(approval)}"


def _people(approval: Approval) -> Iterator[str]:
    """Who may decide, and who has."""
    if approval.deciders is not None:
        yield one_line(f"by {' or '.join(dict.fromkeys(filter(None, (*approval.deciders, approval.escalated))))}")
    if approval.not_requester:
        yield "not by who asked for it"
    if approval.quorum > 1:
        said = f"{len(approval.votes)} voted so far, {agreeing(approval)} of them the same"
        yield f"{approval.quorum} people have to decide the same; {said}"
    for vote in approval.votes:
        yield f"vote: {verdict(approval.replace(decision=vote.decision, decided_by=vote.by))}"


def _time(moment: datetime, approval: Approval) -> str:
    if approval.status == "expired":
        return f"expired {moment.isoformat(timespec='seconds')}"
    told = f"expires {moment.isoformat(timespec='seconds')}"
    if approval.overdue:
        told = f"overdue since {moment.isoformat(timespec='seconds')}, and still to be decided"
    return told + (f"; escalated to {approval.escalated}" if approval.escalated else "")
