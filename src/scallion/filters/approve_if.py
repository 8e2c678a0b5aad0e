"""`approve_if`: a predicate decides, without a person, whether a call of a sensitive tool runs."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable
from typing import Any

from langchain_core.messages import ToolMessage

from scallion.bridge import awaited, is_cancelled
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter, check_takes
from scallion.values import ToolReply, ToolRequest

Predicate = Callable[[dict[str, Any]], Any]
log = logging.getLogger("scallion.filters")


def is_sensitive(request: ToolRequest) -> bool:
    """Whether the tool of the call is marked `metadata={"sensitive": True}`."""
    return request.tool is not None and bool((request.tool.metadata or {}).get("sensitive"))


def not_approved(request: ToolRequest) -> ToolReply:
    """What the model reads in place of a result."""
    told = {"type": "not_approved", "message": "This call was not approved; it did not run."}
    return ToolReply(ToolMessage(json.dumps(told), tool_call_id=request.call["id"], name=request.call["name"]))


class ApproveIf(Filter):
    """The gate. Only True opens it: what the predicate raises or gives by mistake does not."""

    def __init__(self, predicate: Predicate, name: str) -> None:
        super().__init__(name)
        self._predicate = predicate

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """Ask the predicate about a sensitive call."""
        if is_sensitive(request) and not self._approves(request):
            return not_approved(request)
        reply: ToolReply = next(request)
        return reply

    def _approves(self, request: ToolRequest) -> bool:
        call = {part: copy.deepcopy(request.call[part]) for part in ("name", "args", "id")}
        try:
            verdict = self._predicate(call)
            verdict = awaited(verdict)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.warning("the predicate of filter %r failed, so the call is denied: %s", self.name, type(error).__name__)
            return False
        if not isinstance(verdict, bool):
            log.warning("the predicate of filter %r gave no bool, so the call is denied", self.name)
        return verdict is True


def approve_if(predicate: Predicate, *, name: str = "approve_if") -> Filter:
    """Let calls of tools marked `sensitive` run only where `predicate` says so; nobody is asked.

    `predicate(call) -> bool`, `def` or `async def`, of a copy of the call `{"name", "args", "id"}`. Where it gives
    anything but True, or raises, the tool does not run, nothing is written, and the model reads that the call was not
    approved. Raises ConfigurationError for what cannot be called.
    """
    if not callable(predicate):
        raise ConfigurationError(
            f"filter {name!r}: predicate is a function of the call, not {type(predicate).__name__}"
        )
    check_takes(name, "predicate", predicate, "call")
    return ApproveIf(predicate, name)
