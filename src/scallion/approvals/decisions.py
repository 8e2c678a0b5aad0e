"""Reading and checking decisions: the one place where a decision is found valid or not.

Whoever decides (`resume`, the inbox, the command line, a node of the bare graph) asks before anything is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scallion.approvals import deciders, forms
from scallion.approvals.forms import EXPIRED, TYPES
from scallion.approvals.schemas import validator
from scallion.errors import AlreadyDecided, ApprovalExpired, InvalidDecision
from scallion.values import Approval, Decision

MISSING = " is missing: give all arguments"


def read(decision: Any) -> Decision:
    """The decision that a `Decision`, plain JSON or LangChain's form of it stands for.

    Raises InvalidDecision for anything else, and for what carries more than its kind has.
    """
    forms.check(decision)
    return decision if isinstance(decision, Decision) else stored(decision)


def stored(decision: Mapping[str, Any]) -> Decision:
    """The decision that was written down as this JSON. Raises InvalidDecision where that is none."""
    if decision["type"] not in (*TYPES, EXPIRED):
        raise InvalidDecision("what is stored is no decision of this program")
    edited = decision.get("edited_action")
    edited = edited if isinstance(edited, Mapping) else {}
    args = decision.get("args", edited.get("args"))
    if args is not None and not isinstance(args, Mapping):
        raise InvalidDecision(f"the arguments of an edit are a mapping, not {type(args).__name__}")
    return Decision(
        decision["type"], args=args, message=decision.get("message", decision.get("result")), tool=edited.get("name")
    )


def check(approval: Approval, decision: Decision, by: str | None) -> None:
    """Raise unless that person may decide so: InvalidDecision, AlreadyDecided or ApprovalExpired."""
    check_open(approval)
    deciders.check(approval, by)
    check_fit(approval, decision)


def check_open(approval: Approval) -> None:
    """Raise AlreadyDecided or ApprovalExpired unless it waits for a decision."""
    if approval.status == "expired":
        raise ApprovalExpired(approval.id, approval.expires_at)
    if approval.status != "pending":
        raise AlreadyDecided(
            approval.id,
            by=approval.decided_by,
            at=approval.decided_at,
            decision=approval.decision,
            status=approval.status,
        )


def check_fit(approval: Approval, decision: Decision) -> None:
    """Raise InvalidDecision unless the kind of decision is allowed and what it carries fits the frozen schemas."""
    if decision.type not in approval.allowed:
        allowed = ", ".join(approval.allowed)
        raise InvalidDecision(f"{decision.type!r} is not allowed here; allowed: {allowed}", approval)
    _check_data(approval, decision)
    if decision.tool not in (None, approval.tool):
        raise InvalidDecision(f"an edit keeps the tool: {approval.tool!r}, not {decision.tool!r}", approval)
    if decision.type == "edit":
        _check_args(approval, decision)
    if decision.type == "respond":
        _check_response(approval, decision)
    if decision.type == "reject" and not isinstance(decision.message, str | None):
        raise InvalidDecision("the reason of a rejection is a text", approval)


def _check_data(approval: Approval, decision: Decision) -> None:
    """What a decision carries is stored as JSON, so it has to be that."""
    try:
        given = decision.to_json()
        same = json.loads(json.dumps(given, allow_nan=False)) == given
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise InvalidDecision(f"what {decision.type!r} carries is not JSON data", approval)


def _check_args(approval: Approval, decision: Decision) -> None:
    if not isinstance(decision.args, Mapping):
        raise InvalidDecision("an edit needs the whole new arguments, as a mapping", approval)
    schema = approval.args_schema
    if schema is None:
        return
    known = schema.get("properties")
    if known is not None and not schema.get("additionalProperties"):
        unknown = sorted(set(decision.args) - set(known))
        if unknown:
            raise InvalidDecision(
                f"{approval.tool or 'the answer'} has no argument {', '.join(map(repr, unknown))}", approval
            )
    _check_schema(dict(decision.args), schema, "the edited arguments do not fit", approval)


def _check_response(approval: Approval, decision: Decision) -> None:
    if decision.message is None:
        raise InvalidDecision("a response needs a message", approval)
    if approval.schema is not None:
        _check_schema(decision.message, approval.schema, "the response does not fit", approval)


def faults(value: Any, schema: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Where a value does not fit the schema and which rule it breaks, without the value; empty where it fits.

    Raises whatever a schema brings about that is none.
    """
    errors = sorted(validator(schema).iter_errors(value), key=lambda e: list(map(str, e.path)))
    return [(tuple(error.absolute_path), _broken(error)) for error in errors]


def _check_schema(value: Any, schema: Mapping[str, Any], what: str, approval: Approval) -> None:
    try:
        found = faults(value, schema)
    except Exception as error:  # whatever the schema of another graph is, it is no JSON schema
        told = f"it cannot be checked, as the schema is not usable ({type(error).__name__})"
        raise InvalidDecision(told, approval) from None
    if found:
        told = "; ".join(_told(path, rule) for path, rule in found[:5])
        raise InvalidDecision(f"{what}: {told}", approval)


def _told(path: tuple[str | int, ...], rule: str) -> str:
    return rule if rule.endswith(MISSING) else f"{'/'.join(map(str, path)) or 'the whole'} {rule}"


def _broken(error: Any) -> str:
    """The rule that is broken, without the value: a message of jsonschema quotes what was given."""
    if error.validator == "required":
        missing = sorted(set(error.validator_value) - set(error.instance))
        return f"{', '.join(map(repr, missing))}{MISSING}"
    if error.validator in ("type", "enum", "const", "minimum", "maximum", "pattern", "format"):
        return f"is not of {error.validator} {error.validator_value!r}"
    return f"breaks the rule {error.validator!r}"
