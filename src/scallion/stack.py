"""The stack of an agent as pauses depend on it: what of its filters and tools differs from what was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from scallion.approvals import changed, deciders
from scallion.approvals.forms import EXPIRED
from scallion.errors import InvalidDecision
from scallion.filters.filter import Chain, Filter, layers
from scallion.filters.pausing import args_schema
from scallion.values import Approval, Decision, ToolRequest


class Stack:
    """Filters and tools of one agent."""

    def __init__(self, filters: Sequence[Filter], tools: Mapping[str, Any]) -> None:
        self._filters = filters
        self._names = [one.name for one in filters]
        self._tools = self.tools = tools

    def lacks(self, approval: Approval) -> bool:
        """Whether the tool that the approval is about is not there any more."""
        if (inner := self._inner(approval)) is not None:
            return inner[0].lacks(inner[1])
        return approval.tool is not None and approval.args_schema is not None and approval.tool not in self._tools

    def difference(self, approval: Approval, decision: Decision | None = None) -> str | None:
        """What differs from what the approval showed, in words; None where it can be resumed.

        A gate that allows less than before is a difference for what it does not allow any more; without a `decision`,
        for whatever may be decided. What an agent asks that is a tool depends on the stack of that one; what other
        graphs ask that a tool runs is of no stack.
        """
        if (inner := self._inner(approval)) is not None:
            return inner[0].difference(inner[1], decision)
        if approval.bound.get("agents"):
            name = approval.path[0]
            is_tool = name in self._tools
            return f"tool {name!r} is no agent any more" if is_tool else f"there is no tool named {name!r} any more"
        if not _is_own(approval):
            return None
        return self._of_layers(approval) or self._of_tool(approval) or self._of_gate(approval, decision)

    def bar(self, approval: Approval, decision: Decision | None) -> str | None:
        """Why what has changed is not asked again; None if it is.

        Its tool ran, or may have. Or nobody would ask again, and what was refused would be done: a gate's calls wait
        without the gate too, what any other filter asked does not; in the place of an agent another tool would run.
        """
        if (inner := self._inner(approval)) is not None:
            return inner[0].bar(inner[1], decision)
        is_gone = approval.bound.get("layer") not in ["", *self._names]  # "" is the tool itself
        may_have_run = approval.kind == "unknown_outcome" and (is_gone or self.lacks(approval))
        if approval.bound.get("ran") or may_have_run:
            return "as its tool ran before"
        if approval.bound.get("agents"):
            return "as what took the place of the agent would run" if approval.path[0] in self._tools else None
        is_refused = decision is not None and decision.type == "reject" and approval.kind != "tool_call"
        return "as nobody would ask, and it was rejected" if is_gone and is_refused else None

    def check_edit(self, approval: Approval, decision: Decision) -> None:
        """Raise InvalidDecision where the tool would refuse the edited arguments: it knows more than its schema."""
        if (inner := self._inner(approval)) is not None:
            inner[0].check_edit(inner[1], decision)
            return
        schema = getattr(self._tools.get(approval.tool or ""), "tool_call_schema", None)
        if decision.type != "edit" or not _is_own(approval) or not hasattr(schema, "model_validate"):
            return
        try:
            schema.model_validate(dict(decision.args or {}))  # type: ignore[union-attr]
        except ValueError as error:
            where = {".".join(map(str, one["loc"])) for one in getattr(error, "errors", list)()}
            raise InvalidDecision(f"{approval.tool} refuses the edited {', '.join(sorted(where))}", approval) from None

    def _inner(self, approval: Approval) -> tuple[Stack, Approval] | None:
        """The stack of the agent that asks, where that is a tool of this one, and the approval as it sees it."""
        deep = approval.bound.get("agents", 0)
        stack = getattr(self._tools.get(approval.path[0]), "stack", None) if deep else None
        if not isinstance(stack, Stack):
            return None
        own = {"agents": deep - 1} if deep > 1 else {"agents": 0, "depth": 0}
        return stack, approval.replace(path=approval.path[1:], bound={**approval.bound, **own})

    def _of_layers(self, approval: Approval) -> str | None:
        hook = approval.bound.get("hook")
        if hook is None:  # of a release that did not keep it
            return changed.of_layers(approval.path, self._names, self._names, "")
        around = approval.bound.get("around", ())
        return changed.of_layers(approval.path, self._with(hook), self._names, hook) or changed.of_layers(
            around, self._with("around_turn"), self._names, "around_turn"
        )

    def _with(self, hook: str) -> list[str]:
        return [one.name for one in layers(self._filters, cast("Chain", hook.removeprefix("around_")))]

    def _of_tool(self, approval: Approval) -> str | None:
        if approval.tool is None or approval.args_schema is None:
            return None
        tool = self._tools.get(approval.tool)
        if tool is None:
            return f"there is no tool named {approval.tool!r} any more"
        if approval.kind == "external_call" and not (tool.metadata or {}).get("external"):
            return f"tool {approval.tool!r} runs here now"
        of_schema = changed.of_schema(approval.args_schema, args_schema(tool))
        return f"tool {approval.tool!r}: {of_schema}" if of_schema else None

    def _of_gate(self, approval: Approval, decision: Decision | None) -> str | None:
        layer = approval.bound.get("layer")
        gate = next((one for one in self._filters if one.name == layer), None)
        is_asked = approval.kind == "tool_call" and (decision is None or decision.type != EXPIRED)
        if gate is None or not is_asked or not hasattr(gate, "policy"):
            return None
        call: Any = {"name": approval.tool, "args": dict(approval.args or {}), "id": approval.call_id}
        try:
            policy = gate.policy(ToolRequest(call, self._tools.get(approval.tool or "")))
        except Exception as error:
            return f"filter {layer!r} fails on this call: {type(error).__name__}"
        if policy is None:
            return None
        if deciders.is_stricter(policy.who, deciders.of(approval)):
            return f"filter {layer!r} is stricter now about who may decide"
        if not policy.is_stricter_than({"allowed": approval.allowed, "who": deciders.of(approval)}):
            return None
        if decision is not None and decision.type in policy.allowed:
            return None
        return f"filter {layer!r} allows only {', '.join(policy.allowed)} now"


def _is_own(approval: Approval) -> bool:
    """Whether the agent itself asks, and no graph that a tool of it runs, be that an agent too."""
    return "layer" in approval.bound and not approval.bound.get("depth")
