"""An approval as a card: all that a decision will be bound to, nothing left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scallion.approvals.deciders import agreeing
from scallion.inspect.bounds import as_json
from scallion.inspect.escape import one_line, printable
from scallion.values import Approval

if TYPE_CHECKING:
    from rich.panel import Panel


def card(approval: Approval) -> Panel:
    """The approval in a frame."""
    from rich.panel import Panel
    from rich.text import Text

    title = Text(one_line(heading(approval)))
    return Panel(Text("\n".join(card_lines(approval))), title=title, title_align="left", border_style="yellow")


def heading(approval: Approval) -> str:
    """What it is about in a word or two: the tool, or the kind of question."""
    return approval.tool or approval.kind.replace("_", " ")


def offered(approvals: Iterable[Approval]) -> str:
    """The verbs by which any of them may be decided."""
    return "|".join(dict.fromkeys(verb for one in approvals for verb in one.allowed))


def answer_of(approval: Approval) -> str | None:
    """The answer that is to be released, where it is about one."""
    answer = (approval.args or {}).get("answer") if approval.kind == "answer" else None
    return answer if isinstance(answer, str) else None


def arguments(args: Mapping[str, Any] | None) -> str:
    """Arguments as JSON; what is no JSON is shown as text."""
    return as_json(dict(args or {}))


def verdict(approval: Approval) -> str:
    """What was decided and by whom, with the new arguments or the reason; empty where nothing is."""
    decision = approval.decision
    if decision is None:
        return ""
    told = f"{decision.type} by {approval.decided_by or 'somebody'}"
    if decision.type == "edit":
        return f"{one_line(told)}; the new arguments:\n{printable(arguments(decision.args))}"
    return one_line(f"{told}: {decision.message}" if decision.message else told)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call: as it was asked, and as an edit left it, on one line each; None where it is not there."""

    name: str
    before: str | None
    after: str | None

    @property
    def differs(self) -> bool:
        """Whether the edit changed it."""
        return self.before != self.after


def changes(approval: Approval) -> list[Argument]:
    """The arguments, before and after the decision: the same unless it was an edit."""
    asked = dict(approval.args or {})
    decision = approval.decision
    is_edit = decision is not None and decision.type == "edit" and isinstance(decision.args, Mapping)
    left = dict(decision.args or {}) if is_edit and decision is not None else asked
    names = [*asked, *(name for name in left if name not in asked)]
    return [Argument(str(name), _in(asked, name), _in(left, name)) for name in names]


def _in(args: Mapping[str, Any], name: str) -> str | None:
    return as_json(args[name], indent=None) if name in args else None


def outcome_line(approval: Approval) -> str:
    """What was decided, by whom and why, on one line; the arguments of an edit are told by `changes`."""
    decision = approval.decision
    if decision is None:
        return ""
    told = decider(approval)
    return one_line(told if decision.message is None else f"{told}: {decision.message}")


def decider(approval: Approval) -> str:
    """What was decided and by whom, without the reason; empty where nothing is."""
    decision = approval.decision
    if decision is None or decision.type == "expired":
        return decision.type if decision else ""
    return one_line(f"{decision.type} by {approval.decided_by or 'somebody'}")


def outcome(approval: Approval, by: str) -> str:
    """What came of a decision by this person: it holds, or it is a vote, and others have to agree."""
    if approval.decision is not None:
        return f"{approval.decision.type}, by {approval.decided_by}"
    mine = next((vote.decision.type for vote in approval.votes if vote.by == by), "decision")
    return f"{mine}, a vote of {by}; {approval.quorum} people have to decide the same"


def card_lines(approval: Approval) -> Iterator[str]:
    """The card as lines: the question, what is known of it, what was decided."""
    if approval.description:
        yield printable(approval.description)
    if (answer := answer_of(approval)) is not None:
        yield from (f"> {line}" for line in printable(answer).split("\n"))  # none looks like a line of the card
    elif approval.args is not None:
        yield printable(arguments(approval.args))
    yield ""
    yield from facts(approval)
    if approval.decision is not None:
        yield f"{approval.status}: {verdict(approval)}"


def facts(approval: Approval) -> Iterator[str]:
    """What is known of it besides the question, a line each: ids, who has voted, and while it pends who may decide."""
    yield one_line(f"id {approval.id}")  # not in the title, which a narrow terminal cuts
    verbs = f" · may be decided: {', '.join(approval.allowed)}" if approval.status == "pending" else ""
    yield one_line(f"thread {approval.thread}{verbs}")
    yield from _place(approval)
    if approval.requested_by:
        yield one_line(f"asked for by {approval.requested_by}")
    yield from _people(approval)
    if approval.expires_at and approval.status in ("pending", "expired"):
        yield one_line(_time(approval.expires_at, approval))


def _place(approval: Approval) -> Iterator[str]:
    """Where it was asked: the agents, but for the outermost one, and all filters there, where there are several."""
    deep = approval.bound.get("agents", 0)
    if approval.bound.get("depth") and not deep:  # in a node of a graph: how many of the names are agents is not kept
        yield one_line(f"asked within {' › '.join(approval.path)}")
        return
    agents, names = approval.path[:deep], approval.path[deep:]
    if agents:
        yield one_line(f"asked in the agent {' › '.join(agents)}")
    if len(names) > 1:
        yield one_line(f"filters there, the outermost first: {' › '.join(names)}")


def _people(approval: Approval) -> Iterator[str]:
    """Who may decide while it pends, and who has."""
    if approval.status == "pending":
        yield from _deciders(approval)
    for vote in approval.votes:
        yield f"vote: {verdict(approval.replace(decision=vote.decision, decided_by=vote.by))}"


def _deciders(approval: Approval) -> Iterator[str]:
    if approval.deciders is not None:
        yield one_line(f"by {' or '.join(dict.fromkeys(filter(None, (*approval.deciders, approval.escalated))))}")
    if approval.not_requester:
        yield "not by who asked for it"
    if approval.quorum > 1:
        said = f"{len(approval.votes)} voted so far, {agreeing(approval)} of them the same"
        yield f"{approval.quorum} people have to decide the same; {said}"


def _time(moment: datetime, approval: Approval) -> str:
    if approval.status == "expired":
        return f"expired {moment.isoformat(timespec='seconds')}"
    told = f"expires {moment.isoformat(timespec='seconds')}"
    if approval.overdue:
        told = f"overdue since {moment.isoformat(timespec='seconds')}, and still to be decided"
    return told + (f"; escalated to {approval.escalated}" if approval.escalated else "")
