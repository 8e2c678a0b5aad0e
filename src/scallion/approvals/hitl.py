"""What LangChain's HumanInTheLoopMiddleware asks, and how it wants to be answered; langchain is not imported.

batched    one interrupt for all calls: {"action_requests": [...], "review_configs": [...]}, answered by a list
per call   an interrupt for each call: {"type": "tool_approval", ...}, whose response schema says what is allowed
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from scallion.values import Approval, Decision, DecisionType

ANY: tuple[DecisionType, ...] = ("approve", "edit", "reject", "respond")
TEXT = {"type": "string"}
"""What stands in for the result of a tool is a text."""

Schema = Mapping[str, Any]


def split(value: Any) -> list[Any]:
    """A batched request as one request for each call, in order; anything else as it is."""
    if not is_batched(value) or len(value["action_requests"]) == 1:
        return [value]
    return [
        {"action_requests": [request], "review_configs": [_config(value, n)]}
        for n, request in enumerate(value["action_requests"])
    ]


def is_batched(value: Any) -> bool:
    """Whether it is a batched request of which every call can be decided."""
    requests = value.get("action_requests") if isinstance(value, Mapping) else None
    if not isinstance(requests, list | tuple) or not requests:
        return False
    return all(_is_call(request) and _allowed(_config(value, n)) for n, request in enumerate(requests))


def is_per_call(value: Any) -> bool:
    """Whether it is the request about one call."""
    return isinstance(value, Mapping) and value.get("type") == "tool_approval" and _is_call(value)


def _is_call(request: Any) -> bool:
    return (
        isinstance(request, Mapping)
        and isinstance(request.get("name"), str)
        and isinstance(request.get("args"), Mapping)
    )


def _config(value: Schema, n: int) -> Any:
    """The review config of the n-th call: the one at its place, or else the first that names its tool."""
    configs = value.get("review_configs")
    known = configs if isinstance(configs, list | tuple) else ()
    tool = value["action_requests"][n]["name"]
    fit = [one for one in (*known[n : n + 1], *known) if isinstance(one, Mapping) and one.get("action_name") == tool]
    return fit[0] if fit else None


def _allowed(config: Any) -> tuple[DecisionType, ...]:
    listed = config.get("allowed_decisions") if isinstance(config, Mapping) else None
    return _known(listed if isinstance(listed, list | tuple) else ())


def _known(kinds: Sequence[Any]) -> tuple[DecisionType, ...]:
    return tuple(one for one in ANY if one in kinds)


def batched(id: str, value: Schema, thread: str) -> Approval:
    """The approval that a batched request about one call asks for."""
    return _approval(id, value["action_requests"][0], thread, _allowed(_config(value, 0)))


def per_call(id: str, value: Schema, thread: str, schema: Any) -> Approval:
    """The approval of one call; allowed is what the response schema has a branch for."""
    branches = _branches(schema)
    asked = _approval(id, value, thread, _known(list(branches)) or ANY)
    return asked.replace(call_id=value.get("tool_call_id"), args_schema=_args_schema(branches.get("edit"), schema))


def _approval(id: str, request: Schema, thread: str, allowed: tuple[DecisionType, ...]) -> Approval:
    return Approval(
        id=id,
        thread=thread,
        kind="tool_call",
        tool=request["name"],
        args=request["args"],
        schema=TEXT,
        allowed=allowed,
        description=str(request.get("description") or ""),
    )


def _branches(schema: Any) -> dict[Any, Schema]:
    """What a decision has to look like, by its type."""
    if not isinstance(schema, Mapping):
        return {}
    union = schema.get("oneOf") or schema.get("anyOf")
    listed = union if isinstance(union, list) else [schema]
    resolved = [_inner(branch, schema) for branch in listed]
    kinds = [_inner(branch, schema, "properties", "type").get("const") for branch in resolved]
    return {kind: branch for kind, branch in zip(kinds, resolved, strict=True) if kind in get_args(DecisionType)}


def _args_schema(edit: Schema | None, whole: Any) -> dict[str, Any] | None:
    found = _inner(edit, whole, "properties", "edited_action", "properties", "args")
    if not found:
        return None
    refers = "$ref" in json.dumps(found, default=repr)
    return {"$defs": whole.get("$defs", {}), **found} if refers else dict(found)


def _inner(node: Any, whole: Schema, *path: str) -> Schema:
    """The part of a schema at `path`, references to its own definitions followed; empty where there is none."""
    for key in (None, *path):
        node = node.get(key) if key is not None and isinstance(node, Mapping) else node
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if isinstance(reference, str):
            node = (whole.get("$defs") or {}).get(reference.removeprefix("#/$defs/"))
    return node if isinstance(node, Mapping) else {}


def decision(decided: Decision, request: Schema) -> dict[str, Any]:
    """What was decided about the call of `request`, in LangChain's form."""
    if decided.type == "edit":
        return {"type": "edit", "edited_action": {"name": request["name"], "args": dict(decided.args or {})}}
    if decided.message is None:
        return {"type": decided.type}
    return {"type": decided.type, "message": decided.message}
