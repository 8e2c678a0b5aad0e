"""`once`: a tool runs at most once for a call, and where nobody knows whether it did, a person is asked.

An attempt is written down before the tool runs, and its result afterwards. Found again with a result, the result is
given; found without one, the process died in between, and the tool is not run blindly.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, get_args

from langchain_core.messages import ToolMessage

from scallion.approvals.effects import Attempt
from scallion.approvals.forms import EXPIRED
from scallion.approvals.policy import check_span
from scallion.bridge import awaited
from scallion.errors import Blocked, ConfigurationError
from scallion.filters.effects import Effect, effect, is_granted, is_running, loaded, running
from scallion.filters.filter import Filter
from scallion.filters.journal import current_frame
from scallion.filters.onion import PauseSignal
from scallion.filters.pausing import ask, was_asked
from scallion.values import Decision, DecisionType, ToolFailure, ToolReply, ToolRequest, happened, rerun

OnUnknown = Literal["ask", "fail", "rerun"]
ALLOWED: tuple[DecisionType, ...] = ("happened", "rerun", "stop")
NOT_KNOWN = "whether it took effect is not known: do not repeat it before somebody has looked"
log = logging.getLogger("scallion.filters")


class Once(Filter):
    """The guard. It always stands innermost: what it compares is what runs, and a retry around it meets the ledger."""

    can_pause = True
    needs_effects = True
    innermost = ("tool",)

    def __init__(
        self,
        tools: tuple[str, ...],
        on_unknown: OnUnknown,
        verify: Callable[[Any], Any] | None,
        expires_in: float | timedelta | None,
        name: str,
    ) -> None:
        super().__init__(name)
        self.expires_in = expires_in
        self._tools = frozenset(tools)
        self.on_unknown = on_unknown
        self._verify = verify

    def check_tools(self, names: frozenset[str]) -> None:
        """Raise ConfigurationError for a tool that is not there: a typing error would leave one unguarded."""
        if unknown := sorted(self._tools - names):
            there = ", ".join(sorted(names)) or "none"
            raise ConfigurationError(f"filter {self.name!r} guards {unknown[0]!r}, but the tools are {there}")

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """Run the tool, or give what came of it before."""
        guards = request.tool is not None and (not self._tools or request.call["name"] in self._tools)
        if not guards or is_running(one := effect(request)):
            reply: ToolReply = next(request)
            return reply
        return _Guarded(self, one, state, next).reply()

    def verified(self, one: Effect, attempt: Attempt) -> Decision | None:
        """What `verify` knows; None where it does not."""
        if self._verify is None:
            return None
        try:
            answer = self._verify(one.key(attempt))
            answer = awaited(answer)
        except Exception as error:
            log.warning("verify of filter %r failed, so it is not known: %s", self.name, type(error).__name__)
            return None
        if answer is None or isinstance(answer, Decision):
            return answer if answer is None or answer.type in ALLOWED else None
        if answer is False:
            return rerun()
        return happened("done" if answer is True else answer)


class _Guarded:
    """One call on its way through the guard."""

    def __init__(self, guard: Once, one: Effect, state: Any, next: Any) -> None:
        self._guard = guard
        self._one = one
        self._state = state
        self._next = next

    def reply(self, over: int = 0) -> ToolReply:
        """What the tool gives, or gave; an attempt of the number `over` is not in the way."""
        attempt = self._one.begin(over)
        if attempt.is_new:
            return self._run(attempt)
        if is_granted() and self._state.get(self._one.wanted.call) == attempt.number:
            return self.reply(attempt.number)
        if attempt.args != self._one.wanted.args:
            return self._settle(attempt, "was begun for this call before, with other arguments")
        if attempt.result is None:
            return self._settle(attempt, "was begun, and came to no end that is known")
        kept = loaded(attempt.result)
        if attempt.status == "stopped":
            raise self._stopped(kept.message)
        return self._failed(attempt, kept) if attempt.status == "failed" else kept

    def _run(self, attempt: Attempt) -> ToolReply:
        try:
            with running(self._one, attempt.key):
                reply: ToolReply = self._next(self._one.request)
        except PauseSignal:  # a tool that asks a person runs again from its top: that is what it is written for
            self._one.end(attempt.number, "open")
            raise
        if reply.error is None:
            self._one.end(attempt.number, "done", reply)
            return reply
        if reply.error.kind == "transient":
            return self._cut_off(attempt, reply)
        self._one.end(attempt.number, "failed", reply)
        return self._failed(attempt, reply)

    def _failed(self, attempt: Attempt, reply: ToolReply) -> ToolReply:
        """Note which attempt failed: a grant to run it again is for that one."""
        self._state.update({self._one.wanted.call: attempt.number})
        return reply

    def _cut_off(self, attempt: Attempt, reply: ToolReply) -> ToolReply:
        """The tool lost the other side in the middle: what came of it is as unknown as after a crash.

        Where it is known not to have happened, or may be run again, a retry around this may do so.
        """
        known = self._guard.verified(self._one, attempt)
        if known is None and self._guard.on_unknown == "rerun":
            known = rerun()
        if known is not None and known.type == "rerun":
            self._one.end(attempt.number, "open")
            return reply
        current_frame.get().forget()  # a replay would take this failure for what comes of the next attempt
        kind = type(reply.error.exception).__name__ if reply.error and reply.error.exception else "an error"
        return self._carry_out(known or self._asked(attempt, f"was cut off by {kind}"), attempt)

    def _settle(self, attempt: Attempt, told: str) -> ToolReply:
        known = None if was_asked(_about(attempt)) else self._guard.verified(self._one, attempt)
        return self._carry_out(known or self._asked(attempt, told), attempt)

    def _asked(self, attempt: Attempt, told: str) -> Decision | None:
        """What a person says in time, or who built the agent; None for an error."""
        if self._guard.on_unknown == "ask":
            question = f"{self._one.wanted.tool} {told}. Did it happen? Its idempotency key is {attempt.key}"
            span = self._guard.expires_in
            decision = ask(question, kind="unknown_outcome", allowed=ALLOWED, about=_about(attempt), expires_in=span)
            return None if decision.type == EXPIRED else decision
        return rerun() if self._guard.on_unknown == "rerun" else None

    def _carry_out(self, decision: Decision | None, attempt: Attempt) -> ToolReply:
        if decision is not None and decision.type == "rerun":
            return self.reply(attempt.number)
        if decision is not None and decision.type == "happened":
            reply = ToolReply(self._result(decision.message))
            self._end(attempt, "done", reply)
            return reply
        text = f"not run again: {NOT_KNOWN}" if decision is None else f"stopped by a person: {NOT_KNOWN}"
        message = self._one.message(text, "error")
        unknown = ToolReply(message, error=ToolFailure("environment"))
        self._end(attempt, "failed" if decision is None else "stopped", unknown)
        if decision is None:
            return self._failed(attempt, unknown)
        raise self._stopped(message)

    def _end(self, attempt: Attempt, status: Any, reply: ToolReply) -> None:
        if attempt.status == "begun":
            self._one.end(attempt.number, status, reply)

    def _stopped(self, message: ToolMessage) -> Blocked:
        return Blocked(self._guard.name, told=str(message.text))

    def _result(self, given: Any) -> ToolMessage:
        if isinstance(given, ToolMessage):
            return given.model_copy(update={"tool_call_id": self._one.request.call["id"], "id": None})
        is_content = isinstance(given, str) or (isinstance(given, list) and given and all(map(_is_block, given)))
        return self._one.message(given if is_content else json.dumps(given, ensure_ascii=False))


def _is_block(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str)


def _about(attempt: Attempt) -> str:
    """What tells the question about one attempt from that about the next."""
    return f"{attempt.key}:{attempt.number}"


def once(
    *tools: str,
    on_unknown: OnUnknown = "ask",
    verify: Callable[[Any], Any] | None = None,
    expires_in: float | timedelta | None = None,
    name: str = "once",
) -> Filter:
    """Run these tools, or all, at most once for a call, over retries, resumes and crashes.

    `on_unknown`, where a process died while a tool ran, or the tool lost the other side: "ask" a person, "fail" with an
    error for the model, or "rerun" the tool. `verify`: asked before; a function (`def` or `async def`) of the
    idempotency key, a text that also has `tool`, `args`, `thread` and `call_id`. It gives `happened(result)`, or just
    the result; `rerun()` or False if it did not happen; None if it does not know. `expires_in`: after how many seconds
    nobody can say any more, and a resume goes on as with "fail".
    Needs a SQLCheckpointer: raises ConfigurationError where the Agent is built.
    """
    if on_unknown not in get_args(OnUnknown):
        raise ConfigurationError(f'once(on_unknown=...) is "ask", "fail" or "rerun", not {on_unknown!r}')
    if wrong := [one for one in tools if not isinstance(one, str) or not one]:
        raise ConfigurationError(f"once(...) takes the names of tools, not {type(wrong[0]).__name__}")
    if verify is not None and not callable(verify):
        raise ConfigurationError(f"once(verify=...) is a function of the key, not {type(verify).__name__}")
    check_span(expires_in, "once(expires_in=...)")
    return Once(tools, on_unknown, verify, expires_in, name)
