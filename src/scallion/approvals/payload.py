"""What an interrupt carries, and the approval that it becomes.

The payload of a tool call has the field names of LangChain's `ToolApprovalRequest` (`type`, `tool_call_id`, `name`,
`args`, `description`), so that a client written for those can show it. All that a decision is bound to is frozen in it.
Neither langchain nor langgraph is imported here: the inbox reads payloads without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from scallion.approvals import hitl
from scallion.values import Approval, ApprovalKind, DecisionType

MARK = "scallion"
"""The key that tells our payloads from those of other graphs; its value is the version of the format."""


def payload(
    kind: ApprovalKind,
    description: str,
    allowed: tuple[DecisionType, ...],
    *,
    call: Mapping[str, Any] | None = None,
    args_schema: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    path: tuple[str, ...] = (),
    layer: str = "",
    bound: Mapping[str, Any] | None = None,
    requested_by: str | None = None,
    owner: str | None = None,
    expires_in: float | None = None,
    problem: str | None = None,
    who: Mapping[str, Any] | None = None,
    on_expire: str = "reject",
) -> dict[str, Any]:
    """The interrupt's value for one approval: plain JSON data.

    `layer`: the filter that asks, empty for a tool. `bound`: what else must be the same at the resume. `problem`: why
    it is asked again. `expires_in`: seconds; a saver with a clock of its own counts them by that. `who`: what a policy
    says about people; it and `on_expire` are left out where they have their defaults.
    """
    said = ({"who": dict(who)} if who else {}) | ({"on_expire": on_expire} if on_expire != "reject" else {})
    call = call or {}
    now = datetime.now(UTC)
    return {
        MARK: 1,
        "type": "tool_approval" if kind == "tool_call" else kind,
        "kind": kind,
        "tool_call_id": call.get("id"),
        "name": call.get("name"),
        "args": deepcopy(call.get("args")),
        "args_schema": args_schema,
        "schema": schema,
        "description": description,
        "allowed": list(allowed),
        "path": list(path),
        "layer": layer,
        "bound": dict(bound or {}),
        "requested_by": requested_by,
        "owner": owner,
        "created_at": now.isoformat(),
        "expires_in": expires_in,
        "expires_at": (now + timedelta(seconds=expires_in)).isoformat() if expires_in is not None else None,
        "problem": problem,
        **said,
    }


def is_ours(value: Any) -> bool:
    """Whether a gate or a `pause` of Scallion asks."""
    return isinstance(value, Mapping) and MARK in value


def in_order(interrupts: Iterable[Any]) -> list[Any]:
    """Interrupts in the order of the calls that they are about; those of other graphs keep theirs, behind ours."""
    return sorted(interrupts, key=lambda one: (not is_ours(one.value), place(one.value)))


def place(value: Any) -> tuple[int, ...]:
    """The place of the call in its batch, behind that of each agent's call around it; empty where it is not known."""
    return placed(value.get("bound", {})) if is_ours(value) else ()


def placed(bound: Mapping[str, Any]) -> tuple[int, ...]:
    """The place among what an approval is bound to; empty where none is known, or what was imported is none."""
    place = bound.get("place")
    return tuple(place) if isinstance(place, list | tuple) and all(isinstance(one, int) for one in place) else ()


def approval(interrupt_id: str, value: Any, thread: str, response_schema: Any = None) -> Approval:
    """The pending approval that an interrupt asks for, be it ours or another graph's."""
    if is_ours(value):
        return _ours(interrupt_id, value, thread)
    if hitl.is_batched(value) and len(value["action_requests"]) == 1:
        return hitl.batched(interrupt_id, value, thread)
    if hitl.is_per_call(value):
        return hitl.per_call(interrupt_id, value, thread, response_schema)
    return _plain(interrupt_id, value, thread, response_schema)


def _ours(interrupt_id: str, value: Mapping[str, Any], thread: str) -> Approval:
    who = value.get("who") or {}
    names = who.get("deciders")
    return Approval(
        id=interrupt_id,
        thread=thread,
        kind=value["kind"],
        owner=value["owner"],
        tool=value["name"],
        call_id=value["tool_call_id"],
        args=value["args"],
        args_schema=value["args_schema"],
        schema=value["schema"],
        allowed=tuple(value["allowed"]),
        description=value["description"],
        path=tuple(value["path"]),
        bound={"layer": value.get("layer"), **value.get("bound", {})},
        requested_by=value["requested_by"],
        created_at=datetime.fromisoformat(value["created_at"]),
        expires_at=datetime.fromisoformat(value["expires_at"]) if value["expires_at"] else None,
        deciders=None if names is None else tuple(names),
        not_requester=bool(who.get("not_requester")),
        quorum=int(who.get("quorum", 1)),
        on_expire=str(value.get("on_expire", "reject")),
    )


def _plain(interrupt_id: str, value: Any, thread: str, response_schema: Any) -> Approval:
    """A question is answered with what it resumes with; one for a truth value may be approved or rejected too."""
    schema = response_schema if isinstance(response_schema, Mapping) else None
    is_yes_or_no = schema is not None and schema.get("type") == "boolean"
    return Approval(
        id=interrupt_id,
        thread=thread,
        kind="question",
        schema=schema,
        allowed=("approve", "reject", "respond") if is_yes_or_no else ("respond",),
        description=value if isinstance(value, str) else _text(value),
    )


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that JSON does not have, or a value within itself
        return repr(value)
