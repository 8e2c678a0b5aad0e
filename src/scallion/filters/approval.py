"""`approval`: a person approves, edits, rejects or answers tool calls before they run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from scallion.approvals.policy import Policy
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.pausing import pause, was_asked
from scallion.values import Decision, ToolReply, ToolRequest

Verdict = bool | Policy | None
Predicate = Callable[[Mapping[str, Any]], Verdict]


class Approval(Filter):
    """The gate. What it showed is what runs: a verdict is not judged again once a person was asked."""

    can_pause = True

    def __init__(
        self, policies: Mapping[str, Verdict] | None, when: Predicate | None, default: Verdict, name: str
    ) -> None:
        super().__init__(name)
        self._policies = {tool: _verdict(verdict, tool) for tool, verdict in (policies or {}).items()}
        self._when = when
        self._default = _verdict(default, "default")
        self._by_mark = policies is None and when is None and default is None

    def check_tools(self, names: frozenset[str]) -> None:
        """Raise ConfigurationError for a policy whose tool is not there: a typing error would open the gate."""
        unknown = sorted(set(self._policies) - names)
        if unknown:
            there = ", ".join(sorted(names)) or "none"
            raise ConfigurationError(f"filter {self.name!r} has a policy for {unknown[0]!r}, but the tools are {there}")

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """Ask where the policy says so, and do what was decided."""
        asked = was_asked()
        policy = self._policy(request)
        if policy is None and not asked:
            reply: ToolReply = next(request)
            return reply
        policy = policy or Policy()
        decision = pause(
            policy.description(request.call),
            kind="tool_call",
            allowed=tuple(policy.allowed),
            expires_in=policy.expires_in,
        )
        return _carry_out(decision, request, next)

    def _policy(self, request: ToolRequest) -> Policy | None:
        name = request.call["name"]
        if name in self._policies:
            return self._policies[name]
        if self._when is not None and (verdict := self._when(request.call)) is not None:
            return _verdict(verdict, name)
        if self._by_mark:
            marked = request.tool is not None and (request.tool.metadata or {}).get("sensitive")
            return Policy() if marked else None
        return self._default


def approval(
    policies: Mapping[str, Verdict] | None = None,
    when: Predicate | None = None,
    default: Verdict = None,
    *,
    name: str = "approval",
) -> Filter:
    """Let a person decide tool calls before they run.

    `policies`: by tool name True, False or a Policy; naming a tool that the agent does not have is an error. `when`: a
    predicate on the call `{"name", "args", "id"}` for tools that have no policy; it gives True, False, a Policy, or
    None for what `default` says. `default`: for all other tools (True gates them all). With none of the three, tools
    marked `sensitive` are gated.
    """
    return Approval(policies, when, default, name)


human_approval = approval


def _verdict(verdict: Any, where: str) -> Policy | None:
    if isinstance(verdict, Policy):
        return verdict
    if verdict is True:
        return Policy()
    if verdict is False or verdict is None:
        return None
    raise ConfigurationError(f"approval of {where}: True, False or a Policy, not {verdict!r}")


def _carry_out(decision: Decision, request: ToolRequest, next: Any) -> ToolReply:
    if decision.type == "approve":
        reply: ToolReply = next(request)
        return reply
    if decision.type == "edit":
        return _run_edited(dict(decision.args or {}), request, next)
    if decision.type == "respond":
        content = decision.message if isinstance(decision.message, str) else json.dumps(decision.message)
        return ToolReply(ToolMessage(content, tool_call_id=request.call["id"], name=request.call["name"]))
    reason = f": {decision.message}" if decision.message else "."
    return _refused(request, f"A person rejected this call; it did not run{reason}")


def _run_edited(args: dict[str, Any], request: ToolRequest, next: Any) -> ToolReply:
    reply: ToolReply = next(request.replace(call={**request.call, "args": args}))
    notice = f"A person changed this call before it ran. It ran with these arguments: {json.dumps(args, default=str)}"
    content = reply.message.content
    told: Any = f"{notice}\n\n{content}" if isinstance(content, str) else [{"type": "text", "text": notice}, *content]
    return reply.replace(message=reply.message.model_copy(update={"content": told}))


def _refused(request: ToolRequest, text: str) -> ToolReply:
    message = ToolMessage(text, tool_call_id=request.call["id"], name=request.call["name"], status="error")
    return ToolReply(message)
