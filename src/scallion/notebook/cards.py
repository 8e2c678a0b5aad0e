"""An approval as a card that the browser draws: plain data, every text made harmless."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from scallion.approvals.decisions import check_fit, faults
from scallion.errors import InvalidDecision
from scallion.inspect.card import answer_of, arguments, facts, heading, verdict
from scallion.inspect.escape import one_line, printable
from scallion.notebook.filled import pointer, read
from scallion.notebook.form import Field, form, is_text
from scallion.values import Approval, Decision


def card(approval: Approval) -> dict[str, Any]:
    """What the browser shows of it; forms only where they may be used."""
    is_open = approval.status == "pending"
    allowed = list(approval.allowed) if is_open else []
    answer = answer_of(approval)
    return {
        "title": one_line(heading(approval)),
        "status": "overdue" if is_open and approval.overdue else approval.status,
        "asks": printable(approval.description),
        "args": None if approval.args is None or answer is not None else printable(arguments(approval.args)),
        "answer": None if answer is None else printable(answer),
        "facts": list(facts(approval)),
        "verdict": verdict(approval),
        "allowed": allowed,
        "forms": {one: made.to_json() for one in allowed if (made := form_of(approval, one)) is not None},
    }


def form_of(approval: Approval, kind: str) -> Field | None:
    """The form of an edit, or of a response that has a schema."""
    if kind == "edit":
        return form(approval.args_schema, dict(approval.args or {}))
    return form(approval.schema) if kind == "respond" and approval.schema is not None else None


def decision(approval: Approval, kind: Any, filled: Any, text: Any) -> tuple[Decision | None, dict[str, str]]:
    """What was decided with the card, or what is wrong with what was filled in, by JSON pointer.

    An edit that changes nothing approves: the model is told of an edit.
    """
    text = text if isinstance(text, str) else ""
    field = form_of(approval, kind)
    if field is not None:
        value, wrong = read(field, filled)
        if wrong:
            return None, wrong
        is_edit = kind == "edit"
        if is_edit and "approve" in approval.allowed and _same(value, approval.args):
            return Decision("approve"), {}
        return Decision(kind, args=value if is_edit else None, message=None if is_edit else value), {}
    if kind in ("respond", "happened"):
        return (Decision(kind, message=text), {}) if text.strip() else (None, {"": "write something"})
    return Decision(kind, message=(text.strip() or None) if kind == "reject" else None), {}


def _same(value: Any, args: Any) -> bool:
    """Whether these are the same JSON data: 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True) == json.dumps(dict(args or {}), sort_keys=True)


class Card:
    """One approval on a panel. `seen` counts what changed of it: a click is about what was shown."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        self.key = f"{approval.thread} {approval.id}"
        self.seen = 0
        self.told = ""
        self.problems: dict[str, str] = {}
        self.heard: Any = None
        self._shown = card(approval)

    def show(self, approval: Approval) -> None:
        """Show how it stands now."""
        self.approval = approval
        if (shown := card(approval)) != self._shown:
            self._shown = shown
            self.seen += 1

    def to_json(self) -> dict[str, Any]:
        """What the browser draws; `heard`: which click it is the answer to."""
        beside = {"told": self.told, "problems": self.problems, "heard": self.heard}
        return {"key": self.key, "seen": self.seen, "card": self._shown, **beside}


def problems(approval: Approval, made: Decision) -> dict[str, str]:
    """Why the decision does not fit, by JSON pointer; that of the whole where no field is to blame."""
    try:
        check_fit(approval, made)
    except InvalidDecision as error:
        return _faults(approval, made) or {"": error.reason}
    return {}


def _faults(approval: Approval, made: Decision) -> dict[str, str]:
    is_edit = made.type == "edit"
    schema, value = (approval.args_schema, made.args) if is_edit else (approval.schema, made.message)
    try:
        found = faults(value, schema or {}) if made.type in ("edit", "respond") else []
    except Exception:  # no usable schema, as the reason says
        return {}
    wrong = {pointer(path): rule for path, rule in reversed(found)}
    return {at if is_text(at) else printable(at): rule for at, rule in wrong.items()}


def told(error: Exception) -> str:
    """One line about an error."""
    at: datetime | None = getattr(error, "at", None)
    when = f", {at.isoformat(sep=' ', timespec='seconds')}" if at is not None else ""
    return one_line(f"{error}{when}")
