"""Standing rules as the gates see them: what was said beforehand holds like a decision about the call at hand."""

from __future__ import annotations

from scallion.approvals.policy import Policy
from scallion.approvals.rules import Ruling, leaves_to_rules
from scallion.filters.journal import current_frame
from scallion.filters.verdicts import Record
from scallion.values import Decision, ToolRequest


def ruled_before(request: ToolRequest) -> Record | None:
    """What a rule said when this call of the gate's hook began, before a pause behind it; None where none did."""
    frame = current_frame.get(None)
    entry = frame.asked() if frame is not None else None
    if frame is None or entry is None or "rule" not in entry:
        return None
    record = frame.run.verdicts.given.get(entry["rule"])
    if record is None or (record["name"], record["shown"]) != (request.call["name"], request.call["args"]):
        return None
    frame.ask(dict(entry))
    return record


def remember(record: Record) -> None:
    """Have `ruled_before` give this where the hook runs again."""
    frame = current_frame.get()
    key = next(key for key, one in frame.run.verdicts.given.items() if one is record)
    frame.ask({"n": None, "payload": None, "rule": key})


def ruled(request: ToolRequest, policy: Policy | None, layer: str) -> Record | None:
    """What a rule says about a call that the gate named `layer` would ask a person about now; None where none does.

    A rule is for one run of a call, and does not answer what a person was asked already.
    """
    frame = current_frame.get(None)
    place = getattr(frame.run.extra, "ruling", None) if frame is not None else None
    if frame is None or place is None or policy is None:
        return None
    verdicts = frame.run.verdicts
    if verdicts.has_run:
        return None
    deny_only = verdicts.standing is not None or not leaves_to_rules(policy)
    found: Ruling | None = place(request, deny_only=deny_only)
    if found is None or (found.verdict == "allow" and verdicts.has_run):  # another `next` was faster meanwhile
        return None
    frame.run.acted(layer, f"{found.verdict}_by_rule")
    decision = Decision("approve" if found.verdict == "allow" else "reject")
    return verdicts.rule(found.rule, request.call, layer, decision, policy.allowed)
