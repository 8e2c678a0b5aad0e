"""The innermost tool call: one execution in the colour at hand, and a ToolReply of whatever comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from scallion.approvals.forms import EXPIRED
from scallion.bridge import wait, waits_on_loop
from scallion.errors import ConfigurationError
from scallion.events import ToolFinished, ToolStarted
from scallion.filters.clearance import cleared, with_notice
from scallion.filters.deadline import apart, has_deadline
from scallion.filters.filter import Filter
from scallion.filters.journal import Frame
from scallion.filters.onion import advance, nest
from scallion.filters.pausing import pause
from scallion.loop.failures import failure_kind, retry_after
from scallion.loop.inject import Injection, injection, with_injected
from scallion.loop.invocation import current_invocation
from scallion.loop.platform import current_config
from scallion.values import ToolFailure, ToolReply, ToolRequest


class ToolCallRunner:
    """Runs the tool of a request. A failure is a value, `ToolReply.error`; an unknown tool is a semantic one.

    `guards` are the filters that stand right around the tool, inside of the last check of what was decided.
    """

    def __init__(self, guards: Sequence[Filter] = ()) -> None:
        self._injections: dict[int, tuple[BaseTool, Injection]] = {}
        self._guarded = nest(guards, "tool", self._inside) if guards else None

    def __call__(self, request: ToolRequest, frame: Frame) -> ToolReply:
        """One execution; raises nothing that the tool raised, but for pauses."""
        frame.enter("clearance" if self._guarded else "")
        clear = cleared(request, frame)
        if isinstance(clear, ToolReply):
            return clear
        verdicts = frame.run.verdicts
        spent = verdicts.spend()
        reply: ToolReply | None = None
        try:
            reply = advance(frame, self._guarded, clear) if self._guarded else self._made(clear, frame)
        finally:
            if reply is None or reply.error is not None:
                verdicts.give_back(spent)
        verdicts.runs += 1
        if not verdicts.has_edit:
            return reply
        verdicts.told = True
        return with_notice(reply, clear.call["args"], ran=True)

    def _inside(self, request: ToolRequest, frame: Frame) -> ToolReply:
        frame.enter("")
        return self._made(request, frame)

    def _made(self, request: ToolRequest, frame: Frame) -> ToolReply:
        call, tool = request.call, request.tool
        if tool is None:
            return _failed(call, "semantic", f"there is no tool named {call['name']!r}")
        if (tool.metadata or {}).get("external"):
            return _external(tool, call)
        emit, begun = frame.run.emit, time.monotonic()
        if emit is not None:
            emit(ToolStarted(str(call["id"]), call["name"]))
        place = frame.run.extra
        place.made["args"] = call["args"]
        token = current_invocation.set(None)  # a graph that the tool runs is not of this turn
        try:
            reply = self._run(tool, call, place.state, frame.run.config or current_config(), request.context.env)
        except asyncio.CancelledError:  # it timed out
            if emit is not None:
                emit(ToolFinished(str(call["id"]), "error", time.monotonic() - begun))
            raise
        finally:
            current_invocation.reset(token)
        if emit is not None:
            emit(ToolFinished(str(call["id"]), reply.message.status, time.monotonic() - begun))
        return reply

    def _run(self, tool: BaseTool, call: Mapping[str, Any], state: Any, config: Any, env: Any) -> ToolReply:
        try:
            out = _execute(tool, self._filled(tool, call, state, config, env), config)
        except (GraphBubbleUp, ConfigurationError):
            raise
        except Exception as error:
            return _failed(call, failure_kind(error), f"{type(error).__name__}: {error}", error)
        return _reply(out, call)

    def _filled(self, tool: BaseTool, call: Mapping[str, Any], state: Any, config: Any, env: Any) -> dict[str, Any]:
        known = self._injections.get(id(tool))
        if known is None:
            known = self._injections[id(tool)] = (tool, injection(tool))  # holding the tool keeps its id its own
        plain = {"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"}
        return with_injected(plain, known[1], state, config, env) if known[1] else plain


def _execute(tool: BaseTool, call: dict[str, Any], config: Any) -> Any:
    if waits_on_loop() and has_deadline() and not _is_async(tool):
        return wait(apart(lambda: tool.invoke(call, config)))
    if waits_on_loop() or (hasattr(tool, "func") and tool.func is None):
        return wait(tool.ainvoke(call, config))
    try:
        return tool.invoke(call, config)
    except NotImplementedError:
        if type(tool)._arun is BaseTool._arun:
            raise
        return wait(tool.ainvoke(call, config))  # the tool is written for asyncio only


def _is_async(tool: BaseTool) -> bool:
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _reply(out: Any, call: Mapping[str, Any]) -> ToolReply:
    if isinstance(out, ToolMessage) and out.tool_call_id != call["id"]:
        return _failed(call, "semantic", "the tool gave the result of another call")
    if isinstance(out, ToolMessage):
        return ToolReply(out, error=ToolFailure("semantic") if out.status == "error" else None)
    if isinstance(out, Command):
        return _from_command(out, call)
    if isinstance(out, list) and len(out) == 1:
        return _reply(out[0], call)
    return ToolReply(ToolMessage(str(out), tool_call_id=call["id"], name=call["name"]))


def _from_command(command: Any, call: Mapping[str, Any]) -> ToolReply:
    """The result and the writes of a `Command(update=...)`; jumps are the loop's own business."""
    update = dict(command.update or {}) if isinstance(command.update, Mapping) else {}
    messages = update.pop("messages", [])
    messages = messages if isinstance(messages, list) else [messages]
    own = [m for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == call["id"]]
    if command.goto or command.graph or len(own) != len(messages) or len(own) > 1:
        return _failed(
            call, "semantic", "a Command of a tool may hold state writes and the result of its own call only"
        )
    message = own[0] if own else ToolMessage("done", tool_call_id=call["id"], name=call["name"])
    return ToolReply(message, update)


def _external(tool: BaseTool, call: Mapping[str, Any]) -> ToolReply:
    """The result that a person or a client gives for a tool that never runs here."""
    question, span = f"{call['name']} runs elsewhere: give its result", (tool.metadata or {}).get("expires_in")
    decision = pause(question, kind="external_call", allowed=("respond",), expires_in=span)
    if decision.type == EXPIRED:
        return _failed(call, "environment", "the request for the result of this call expired: nobody gave it in time")
    content = decision.message if isinstance(decision.message, str | list) else str(decision.message)
    return ToolReply(ToolMessage(content, tool_call_id=call["id"], name=call["name"]))


def _failed(call: Mapping[str, Any], kind: Any, text: str, error: BaseException | None = None) -> ToolReply:
    message = ToolMessage(f"error: {text}", tool_call_id=call["id"], name=call["name"], status="error")
    return ToolReply(message, error=ToolFailure(kind, error, None if error is None else retry_after(error)))
