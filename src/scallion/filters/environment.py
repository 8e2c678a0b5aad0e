"""`pause_on_environment_error`: where a tool needs somebody to mend something first, the turn waits for that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from scallion.approvals.forms import EXPIRED
from scallion.approvals.policy import check_span
from scallion.errors import Blocked
from scallion.filters.clearance import answer
from scallion.filters.effects import granted
from scallion.filters.filter import Filter
from scallion.filters.pausing import pause
from scallion.values import Decision, DecisionType, ToolReply, ToolRequest

ALLOWED: tuple[DecisionType, ...] = ("rerun", "approve", "respond", "reject", "stop")
AGAIN = ("rerun", "approve")
ASKED = " failed, and somebody has to mend something: "


def failure(description: str) -> str:
    """What a tool failed with, by what the question about it shows."""
    return description.partition(ASKED)[2] or description


class PauseOnEnvironmentError(Filter):
    """The pause. Only the failed call waits: what others of its batch gave is kept."""

    can_pause = True

    def __init__(self, name: str, expires_in: float | timedelta | None = None) -> None:
        super().__init__(name)
        check_span(expires_in, "pause_on_environment_error(expires_in=...)")
        self._expires_in = expires_in

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """Ask as long as the tool fails for that reason."""
        reply: ToolReply = next(request)
        while reply.error is not None and reply.error.kind == "environment":
            question = f"{request.call['name']}{ASKED}{reply.message.text}"
            decision = pause(question, kind="environment", allowed=ALLOWED, expires_in=self._expires_in)
            if decision.type not in AGAIN:
                return self._answered(decision, request, reply)
            with granted():
                reply = next(request)
        return reply

    def _answered(self, decision: Decision, request: ToolRequest, failed: ToolReply) -> ToolReply:
        if decision.type == "stop":
            raise Blocked(self.name, told=f"{failed.message.text} (a person stopped the turn)")
        if decision.type == EXPIRED:
            return _told(failed, "nobody mended it in time")
        if decision.type == "reject":
            reason = f": {decision.message}" if decision.message else ""
            return _told(failed, f"a person decided not to run it again{reason}")
        return answer(decision, request)


def _told(failed: ToolReply, what: str) -> ToolReply:
    """The failure, and why it stands."""
    content = f"{failed.message.text} ({what})"
    return failed.replace(message=failed.message.model_copy(update={"content": content}))


def pause_on_environment_error(
    *, expires_in: float | timedelta | None = None, name: str = "pause_on_environment_error"
) -> Filter:
    """Pause the turn where a tool fails for want of something that a person can mend: credentials, quota, a service.

    Decisions: `rerun()` (or `approve()`) runs the failed call again, `respond(message)` answers in its place,
    `reject(reason)` has the model read the error, `stop()` ends the turn with Blocked. After `expires_in` seconds
    nobody can decide any more, and a resume has the model read the error.
    """
    return PauseOnEnvironmentError(name, expires_in)
