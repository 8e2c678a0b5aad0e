"""What is wrong with one thread, judged from what was read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from scallion.sql import holders
from scallion.sql.clock import from_micros
from scallion.sql.doctor import outcomes
from scallion.sql.doctor.conversation import Flaw, mended
from scallion.sql.doctor.findings import Finding, Kind
from scallion.sql.doctor.heads import Head
from scallion.sql.doctor.outcomes import Begun
from scallion.sql.doctor.standing import Opened, Standing
from scallion.sql.serde import Unread

GO_ON = "`scallion resume GRAPH THREAD` goes on with it"
CANCEL = "`scallion cancel THREAD --graph GRAPH` ends it"
GIVE_UP = "`scallion resume GRAPH THREAD` ends it, as the next message does"
FLAWS: dict[Kind, tuple[str, str]] = {
    "dangling_call": ("call {0} of {1} has no result", "it is answered: whether it took effect is not known"),
    "misplaced_result": ("the result of call {0} of {1} does not stand behind it", "it is put there"),
    "orphan_result": ("a result of {1} is of no call, or of one that has a result: {0}", "it is removed"),
}


@dataclass(frozen=True)
class Examination:
    """What was found, and what is needed to mend it."""

    findings: Sequence[Finding] = ()
    stale: Sequence[str] = ()
    """The approvals that are open without a pause."""
    missing: Set[str] = frozenset()
    """The questions that wait without an approval."""
    messages: Sequence[Any] | None = None
    """The conversation without its flaws, if it has some and may be changed."""

    def kinds(self, *wanted: Kind) -> list[Finding]:
        """The findings of these kinds."""
        return [one for one in self.findings if one.kind in wanted]


def examine(
    row: Standing, head: Head | None, known: Set[str], waits: Callable[[Opened], bool], begun: Sequence[Begun] = ()
) -> Examination:
    """What is wrong. `known`: the questions of the head that have a row; `waits`: whether a task below asks it.

    `begun`: the attempts at open calls of which no more is known.
    """
    if row.is_held:
        return Examination([_running(row)])
    findings = expired(row)
    if row.is_empty:
        return Examination([*findings, _empty(row)])
    asked = [question for those in head.asked.values() for question in those] if head else []
    interrupts = {question.interrupt for question in asked}
    live = [one for one in row.open if one.root == row.head and (one.interrupt in interrupts or waits(one))]
    late = row.head or "" if _may_run(row, head) else None  # what is behind that may be about to come
    stale = [one for one in row.open if one.is_open and one not in live and (late is None or one.root <= late)]
    missing = {question.id for question in asked} - known
    findings += [_stale(row, one) for one in stale]
    findings += [_missing(row, question.id) for question in asked if question.id in missing]
    if row.is_miscounted and not missing and len(live) == len(row.open):
        findings.append(_miscounted(row))
    findings += [] if _may_run(row, head) else outcomes.findings(row, begun)
    found = Examination(findings, [one.id for one in stale], missing)
    return found if head is None else _of_turn(found, row, head, is_paused=bool(live or missing))


def _of_turn(found: Examination, row: Standing, head: Head, *, is_paused: bool) -> Examination:
    """With what is wrong with the turn, or with the conversation."""
    if any(isinstance(one, Unread) for one in head.messages):
        told = unread(row, "it holds messages of classes that are not allowed here")
        found = replace(found, findings=[*found.findings, told])
    if is_paused:
        flaws = [
            replace(one, by=None, remedy=f"{one.remedy} when nothing waits any more") for one in _flawed(row, head)
        ]
        return replace(found, findings=[*found.findings, *flaws])
    if head.work or head.is_uncommitted:
        halves = [] if _may_run(row, head) else [_half_written(row, head)]
        return replace(found, findings=[*found.findings, *halves])
    messages = head.messages if head.is_read else []
    sure = mended(messages, is_open=not head.is_ours)
    findings = [*found.findings, *(_flaw(row, flaw) for flaw in sure.flaws)]
    findings += [_unanswered(row, flaw) for flaw in mended(messages).flaws if flaw not in sure.flaws]
    return replace(found, findings=findings, messages=sure.messages if sure.flaws else None)


def _may_run(row: Standing, head: Head | None) -> bool:
    """Whether somebody may be running it who holds no lease: a graph of others, or an Agent whose saver gives none."""
    return row.is_fresh and (row.fence == 0 or head is None or not head.is_ours)


def _flawed(row: Standing, head: Head) -> Iterator[Finding]:
    return (_flaw(row, flaw) for flaw in mended(head.messages if head.is_read else [], is_open=True).flaws)


def _flaw(row: Standing, flaw: Flaw) -> Finding:
    what, remedy = FLAWS[flaw.kind]
    return Finding(row.thread, flaw.kind, what.format(flaw.subject, flaw.tool), remedy, flaw.subject)


def _unanswered(row: Standing, flaw: Flaw) -> Finding:
    """A call at the very end of a thread whose graph is not known: whoever calls it may be who runs the tool."""
    what, remedy = FLAWS[flaw.kind]
    told = f"if nobody sends it any more, --give-up mends it: {remedy}"
    return Finding(row.thread, flaw.kind, what.format(flaw.subject, flaw.tool), told, flaw.subject, by="give_up")


def _half_written(row: Standing, head: Head) -> Finding:
    if head.is_ours and head.asked:
        return Finding(row.thread, "half_written", _stopped(row, head), GIVE_UP, by=None)
    if head.is_ours:
        remedy = f"{GO_ON}; the next message, or {CANCEL.removesuffix(' ends it')}, ends it"
        return Finding(row.thread, "half_written", _stopped(row, head), remedy, by=None)
    if head.given_up is None:
        return Finding(row.thread, "half_written", _stopped(row, head), f"{GO_ON}; {CANCEL}", by=None)
    return Finding(row.thread, "half_written", _stopped(row, head), f"{GO_ON}; --give-up ends it", by="give_up")


def _stopped(row: Standing, head: Head) -> str:
    if head.asked:
        return "what it asked was closed, and its turn is still open"
    if row.progress == "failed":
        return "its turn failed"
    if not head.work:
        return "its turn came to its end and was not committed"
    return "its turn stopped in the middle, as its process ended" + ("" if head.is_ours else ", or at a breakpoint")


def _running(row: Standing) -> Finding:
    asked = f", and was asked to stop at {_time(row.asked_to_stop)}" if row.asked_to_stop is not None else ""
    what = f"{_holder(row)} runs a turn since {_time(row.held_since)}; it is held until {_time(row.held_until)}{asked}"
    return Finding(row.thread, "running", what, "`scallion cancel THREAD --graph GRAPH` asks it to stop", by=None)


def expired(row: Standing) -> list[Finding]:
    """The lease of a holder that is gone."""
    if not row.was_left:
        return []
    what = f"{_holder(row)} held it until {_time(row.held_until)} and did not release it"
    return [Finding(row.thread, "expired_lease", what, "it is free: any turn may begin")]


def unread(row: Standing, why: str) -> Finding:
    """That the conversation was not examined."""
    remedy = "examine it with the saver of its program: `saver.doctor`"
    return Finding(row.thread, "unread", f"its conversation was not examined: {why}", remedy, by=None)


def _holder(row: Standing) -> str:
    return holders.shown(row.holder or "")


def _time(micros: int | None) -> str:
    return from_micros(micros or 0).isoformat(timespec="seconds")


def _empty(row: Standing) -> Finding:
    return Finding(row.thread, "empty_thread", "nothing was ever stored in it", "it is deleted")


def _stale(row: Standing, one: Opened) -> Finding:
    about = f" about {one.tool}" if one.tool else ""
    what = f"approval {one.id}{about} is {one.status}, and nothing waits for it"
    return Finding(row.thread, "approval_without_pause", what, "it is closed as superseded", one.id)


def _missing(row: Standing, id: str) -> Finding:
    what = f"the graph waits for an answer to {id}, and there is no approval to decide"
    return Finding(row.thread, "pause_without_approval", what, "it is recorded, and can be decided", id)


def _miscounted(row: Standing) -> Finding:
    what = f"it is listed as {row.status}, and has {len(row.open)} open approval(s)"
    return Finding(row.thread, "wrong_count", what, "they are counted again")
