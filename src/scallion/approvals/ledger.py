"""Decisions on their way into a turn: who is addressed, whether each may be stored, and where it is stored.

The ledger is what a saver offers as `.approvals`; a saver without one keeps no decisions, and then they travel with the
resume alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from scallion.approvals.deciders import counts, is_same
from scallion.approvals.decisions import check, read
from scallion.approvals.forms import EXPIRED
from scallion.approvals.questions import questions
from scallion.bridge import call
from scallion.errors import AlreadyDecided, InvalidDecision, UnknownApproval
from scallion.values import Approval, Decision

REFUSING = ("reject", "stop")
"""The decisions with which a call does not run, and nothing is put in the place of its result."""
MANY = 10_000
"""More approvals than one thread has open."""
KNOWN = (
    *("status", "decision", "decided_by", "decided_at", "owner", "requested_by", "created_at", "expires_at"),
    *("votes", "escalated", "overdue"),
)
"""What the ledger knows better than the question itself."""


class Ledger(Protocol):
    """What the agent asks of a saver's `.approvals`; each verb has its async half, named with an `a` in front."""

    list: Callable[..., Any]
    """`(status, *, thread, limit)` gives a page of approvals."""
    alist: Callable[..., Any]
    get: Callable[..., Any]
    """`(id, *, thread)` gives one approval, or raises UnknownApproval."""
    aget: Callable[..., Any]
    decide_all: Callable[..., Any]
    """`({id: decision}, *, by, thread)` stores all decisions, or none when one may not be stored."""
    adecide_all: Callable[..., Any]
    close: Callable[..., Any]
    """`(thread, status)` gives the open approvals of a thread their last status."""
    aclose: Callable[..., Any]
    sweep: Callable[..., Any]
    """`(*, thread)` writes down which approvals of the thread have expired, and escalates those that are to be."""
    asweep: Callable[..., Any]


def open_approvals(interrupts: Sequence[Any], thread: str, ledger: Ledger | None) -> list[Approval]:
    """The approvals that the interrupts ask for, as far as the ledger knows them with what was decided already."""
    rows: dict[str, Approval] = {}
    if ledger is not None and interrupts:
        page = call(ledger.list, ledger.alist, None, thread=thread, limit=MANY)
        rows = {row.id: row for row in page.items}
    asked = [question.approval(thread) for question in questions(interrupts)]
    return list(map(_timed, asked)) if ledger is None else [_known(one, rows.get(one.id)) for one in asked]


def _timed(asked: Approval) -> Approval:
    """As it stands by the clock of this machine, where no ledger has another one."""
    if asked.expires_at is None or asked.expires_at > datetime.now(UTC):
        return asked
    return asked.replace(overdue=True) if asked.on_expire == "keep" else asked.replace(status="expired")


def _known(asked: Approval, row: Approval | None) -> Approval:
    if row is None:
        return asked
    return asked.replace(**{name: getattr(row, name) for name in KNOWN})


def addressed(
    decisions: Any, approvals: Sequence[Approval], ledger: Ledger | None, thread: str, *, failed: bool = False
) -> dict[str, Decision]:
    """The decision for each approval id: from a mapping by id, one decision for all, or LangChain's list by position.

    One decision for all is for those that nobody decided. Raises UnknownApproval for an id that is not there,
    AlreadyDecided for one that was used with another decision, or where a decision for all would have no effect and
    let run what it refuses, InvalidDecision for what is no decision.
    """
    if isinstance(decisions, Decision) or (isinstance(decisions, Mapping) and "type" in decisions):
        decision = read(decisions)
        _check_ignored(decision, approvals)
        return {one.id: decision for one in _in_time(approvals) if one.status != "decided"}
    if isinstance(decisions, Mapping) and set(decisions) == {"decisions"}:
        return _by_position(decisions["decisions"], _in_time(approvals))
    if not isinstance(decisions, Mapping):
        raise InvalidDecision(
            "decisions are {approval_id: approve()} or one decision for all, as approve(), not "
            f"{type(decisions).__name__}"
        )
    given = {approval_id: read(decision) for approval_id, decision in decisions.items()}
    known = {one.id for one in approvals}
    for approval_id in given.keys() - known:
        _check_repeated(approval_id, given.pop(approval_id), ledger, thread, failed)
    return given


def _check_ignored(decision: Decision, approvals: Sequence[Approval]) -> None:
    """Raise AlreadyDecided where somebody decided otherwise before, and nothing else waits, or a call would run.

    Nobody finds out later than here that a refusal of everything came too late for a part.
    """
    decided = [one for one in approvals if one.status == "decided" and one.decision is not None]
    waits = len(decided) < len(approvals)
    for one in decided:
        made = one.decision
        assert made is not None
        runs = made.type not in REFUSING and decision.type in REFUSING
        if not is_same(made, decision) and (runs or not waits):
            raise AlreadyDecided(one.id, by=one.decided_by, at=one.decided_at, decision=made)


def _in_time(approvals: Sequence[Approval]) -> Sequence[Approval]:
    """Those that have not expired, or all if there is no other."""
    return [one for one in approvals if one.status != "expired"] or approvals


def _check_repeated(approval_id: str, decision: Decision, ledger: Ledger | None, thread: str, failed: bool) -> None:
    """A decision that was used may be given again by a caller that repeats a failed resume; another one may not.

    While the turn has not failed, somebody may be running it: the repeat is refused, as any second decision.
    """
    if ledger is None:
        raise UnknownApproval(approval_id)
    row: Approval = call(ledger.get, ledger.aget, approval_id, thread=thread)
    if not failed or row.decision != decision:
        raise AlreadyDecided(row.id, by=row.decided_by, at=row.decided_at, decision=row.decision, status=row.status)


def _by_position(decisions: Sequence[Any], approvals: Sequence[Approval]) -> dict[str, Decision]:
    if len(decisions) != len(approvals):
        raise InvalidDecision(f"{len(decisions)} decisions for {len(approvals)} open approvals")
    return {one.id: read(decision) for one, decision in zip(approvals, decisions, strict=True)}


def record(
    given: Mapping[str, Decision],
    approvals: Sequence[Approval],
    ledger: Ledger | None,
    by: str | None,
    also: Callable[[Approval, Decision], None],
) -> dict[str, Approval]:
    """Check all decisions, by `also` too, then store all of them; raises before anything is stored.

    Gives the approvals that are decided now: one that several have to agree on may not be.
    """
    known = {one.id: one for one in approvals}
    settled = {one: known[one].replace(decision=made) for one, made in given.items() if _is_known(known[one], made)}
    new = {one: made for one, made in given.items() if one not in settled}
    for approval_id, decision in new.items():
        check(known[approval_id], decision, by)
        if ledger is None and counts(known[approval_id], decision):
            raise InvalidDecision(
                "this checkpointer keeps no votes: a quorum needs a SQLCheckpointer", known[approval_id]
            )
        also(known[approval_id], decision)
    if ledger is None:
        return settled | {one: known[one].replace(decision=made, decided_by=by) for one, made in new.items()}
    stored = call(ledger.decide_all, ledger.adecide_all, new, by=by, thread=approvals[0].thread) if new else []
    return settled | {one.id: one for one in stored if one.status == "decided"}


def _is_known(approval: Approval, decision: Decision) -> bool:
    return approval.decision is decision or decision.type == EXPIRED
