"""An approval as a card: all that a decision will be bound to, nothing left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

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
    if approval.expires_at:
        yield f"expires {approval.expires_at.isoformat(timespec='seconds')}"
    if approval.decision is not None:
        yield f"{approval.status}: {verdict(approval)}"
