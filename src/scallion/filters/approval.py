"""`approval`: a person approves, edits, rejects or answers tool calls before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scallion.approvals.policy import Policy
from scallion.errors import ConfigurationError
from scallion.filters.clearance import RAN, decided, refusal, refused, with_notice
from scallion.filters.filter import Filter, check_takes
from scallion.filters.pausing import ask_about, verdicts_here, was_asked
from scallion.filters.standing import remember, ruled, ruled_before
from scallion.filters.verdicts import RUNS, Verdicts
from scallion.values import ToolReply, ToolRequest

Verdict = bool | Policy | None
Predicate = Callable[[Mapping[str, Any]], Verdict]


class Approval(Filter):
    """The gate. What it showed is what runs: a verdict is not judged again once a person was asked.

    A standing rule is asked before a person is.
    """

    can_pause = True

    def __init__(
        self, policies: Mapping[str, Verdict] | None, when: Predicate | None, default: Verdict, name: str
    ) -> None:
        super().__init__(name)
        _check(policies, when, name)
        self._policies = {tool: _of(verdict, tool) for tool, verdict in (policies or {}).items()}
        self._when = when
        self._default = _of(default, "default")
        self._by_mark = policies is None and when is None and default is None

    def check_tools(self, names: frozenset[str]) -> None:
        """Raise ConfigurationError for a policy whose tool is not there: a typing error would open the gate."""
        unknown = sorted(set(self._policies) - names)
        if unknown:
            there = ", ".join(sorted(names)) or "none"
            raise ConfigurationError(f"filter {self.name!r} has a policy for {unknown[0]!r}, but the tools are {there}")

    def check_saver(self, saver: Any) -> None:
        """Raise ConfigurationError for a policy with votes or escalation, where nobody keeps them."""
        super().check_saver(saver)
        check_kept(self.name, (*self._policies.values(), self._default), saver)

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """Ask where the policy says so, and do what was decided."""
        verdicts = verdicts_here()
        if (said := ruled_before(request)) is not None:
            return _as_known(said, request, next, verdicts)
        asked = was_asked()
        if not asked and (known := verdicts.about(self.name, request)) is not None:
            return _as_known(known, request, next, verdicts)
        policy = verdicts.judge(self, request)
        if policy is None and not asked:
            reply: ToolReply = next(request)
            return reply
        if not asked and (said := ruled(request, policy, self.name)) is not None:
            remember(said)
            return _as_known(said, request, next, verdicts)
        decision = ask_about(request, policy or Policy(), self.name, RAN if verdicts.was_spent else "")
        if decision.type not in RUNS:
            return refusal(decision, request, ran=bool(verdicts.runs))
        return _run(decided(decision, request), request, next, verdicts)

    def policy(self, request: ToolRequest) -> Policy | None:
        """How the call is approved; None where nobody is asked."""
        name = request.call["name"]
        if name in self._policies:
            return self._policies[name]
        if self._when is not None and (verdict := self._when(request.call)) is not None:
            return _of(verdict, name)
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
    if policies is not None and not isinstance(policies, Mapping):
        raise ConfigurationError(f"filter {name!r}: policies is a mapping by tool name, not {type(policies).__name__}")
    if when is not None and not callable(when):
        raise ConfigurationError(f"filter {name!r}: when is a function of the call, not {type(when).__name__}")
    if when is not None:
        check_takes(name, "when", when, "call")
    return Approval(policies, when, default, name)


human_approval = approval
"""Another name of `approval`."""


def _check(policies: Any, when: Any, name: str) -> None:
    if policies is not None and not isinstance(policies, Mapping):
        told = "policies are True, False or a Policy by the name of the tool"
        raise ConfigurationError(f"filter {name!r}: {told}, not {policies!r}")
    if when is not None and not callable(when):
        raise ConfigurationError(f"filter {name!r}: when is a function of a call, not {when!r}")


def _of(verdict: Any, tool: str) -> Policy | None:
    return as_policy(verdict, f"approval of {tool}")


def as_policy(verdict: Any, where: str) -> Policy | None:
    """The policy that a verdict stands for, None for nobody is asked; raises ConfigurationError for what is none."""
    if isinstance(verdict, Policy):
        return verdict
    if verdict is True:
        return Policy()
    if verdict is False or verdict is None:
        return None
    raise ConfigurationError(f"{where}: True, False or a Policy, not {verdict!r}")


def check_kept(name: str, policies: Iterable[Policy | None], saver: Any) -> None:
    """Raise ConfigurationError where the filter of that name has a policy whose votes or escalation nobody keeps."""
    if any(one is not None and one.needs_ledger for one in policies) and not hasattr(saver, "approvals"):
        told = f"filter {name!r} has a policy with a quorum or an escalation"
        raise ConfigurationError(f"{told}: give a SQLCheckpointer as checkpointer=")


def _as_known(known: Mapping[str, Any], request: ToolRequest, next: Any, verdicts: Verdicts) -> ToolReply:
    """A filter around the gate calls again, or a rule said it beforehand: nobody is asked about this call any more."""
    if known["granted"] is None:
        return refused(known, request, ran=bool(verdicts.runs))
    return _run(request.replace(call={**request.call, "args": dict(known["granted"])}), request, next, verdicts)


def _run(granted: ToolRequest, request: ToolRequest, next: Any, verdicts: Verdicts) -> ToolReply:
    reply: ToolReply = next(granted)
    if granted.call["args"] == request.call["args"] or verdicts.told or verdicts.refusal() is not None:
        return reply
    return with_notice(reply, granted.call["args"], ran=False)
