"""What a tool gave, or a hook in its place, as a ToolReply: a message, a `Command`, or any value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from scallion.filters.retrying import failure_signs as signs
from scallion.filters.retrying.failure_kinds import failure_kind
from scallion.values import FailureKind, ToolFailure, ToolReply


def given_by_tool(out: Any, call: Mapping[str, Any]) -> ToolReply:
    """The reply; a semantic failure where it is the result of another call, or a Command that jumps."""
    if isinstance(out, ToolMessage) and out.tool_call_id != call["id"]:
        return failed_call(call, "semantic", "the tool gave the result of another call")
    if isinstance(out, ToolMessage):
        return ToolReply(out, error=ToolFailure("semantic") if out.status == "error" else None)
    if isinstance(out, Command):
        return _from_command(out, call)
    if isinstance(out, list) and len(out) == 1:
        return given_by_tool(out[0], call)
    return ToolReply(ToolMessage(str(out), tool_call_id=call["id"], name=call["name"]))


def _from_command(command: Any, call: Mapping[str, Any]) -> ToolReply:
    """The result and the writes of a `Command(update=...)`; jumps are the loop's own business."""
    update = dict(command.update or {}) if isinstance(command.update, Mapping) else {}
    messages = update.pop("messages", [])
    messages = messages if isinstance(messages, list) else [messages]
    own = [m for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == call["id"]]
    if command.goto or command.graph or len(own) != len(messages) or len(own) > 1:
        return failed_call(
            call, "semantic", "a Command of a tool may hold state writes and the result of its own call only"
        )
    message = own[0] if own else ToolMessage("done", tool_call_id=call["id"], name=call["name"])
    return ToolReply(message, update)


def failed_call(
    call: Mapping[str, Any],
    kind: FailureKind,
    text: str,
    error: BaseException | None = None,
    retry_after: float | None = None,
) -> ToolReply:
    """The reply of a call that failed; `retry_after`: seconds that the other side asks for."""
    message = ToolMessage(f"error: {text}", tool_call_id=call["id"], name=call["name"], status="error")
    return ToolReply(message, error=ToolFailure(kind, error, retry_after))


def failed_by(error: Exception, call: Mapping[str, Any]) -> ToolReply:
    """The reply of a call whose tool raised this."""
    return failed_call(call, failure_kind(error), signs.described(error), error, signs.retry_after(error))
