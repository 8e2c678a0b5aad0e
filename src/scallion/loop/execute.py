"""The innermost tool call: one execution in the colour at hand, and a ToolReply of whatever comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from scallion.approvals.forms import EXPIRED
from scallion.bridge import wait, waits_on_loop
from scallion.errors import ConfigurationError, ScallionError
from scallion.events import ToolFinished, ToolStarted
from scallion.filters.clearance import CLEARANCE, cleared, with_notice
from scallion.filters.filter import Filter
from scallion.filters.journal import Frame
from scallion.filters.masking import Masks
from scallion.filters.onion import advance, nest
from scallion.filters.pausing import pause
from scallion.filters.retrying.deadline import apart, has_deadline
from scallion.filters.tool_results import failed_by, failed_call, given_by_tool
from scallion.loop.inject import Injection, injection, with_injected
from scallion.loop.invocation import set_aside
from scallion.loop.platform import asking, current_config, with_writer
from scallion.loop.reporting import hidden, tool_report, unheard
from scallion.loop.traced import ran
from scallion.values import Context, ToolReply, ToolRequest


class ToolCallRunner:
    """Runs the tool of a request. A failure is a value, `ToolReply.error`; an unknown tool is a semantic one.

    `guards` are the filters that stand right around the tool, inside of the last check of what was decided.
    """

    def __init__(self, guards: Sequence[Filter] = ()) -> None:
        self._injections: dict[int, tuple[BaseTool, Injection]] = {}
        self._guarded = nest(guards, "tool", self._inside) if guards else None

    def __call__(self, request: ToolRequest, frame: Frame) -> ToolReply:
        """One execution; raises nothing that the tool raised, but for pauses."""
        frame.enter(CLEARANCE if self._guarded else "")
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
        return with_notice(reply, frame.run.masks.value(clear.call["args"], "tool_args"), ran=True)

    def _inside(self, request: ToolRequest, frame: Frame) -> ToolReply:
        frame.enter("")
        return self._made(request, frame)

    def _made(self, request: ToolRequest, frame: Frame) -> ToolReply:
        return ran(self._ran, request, frame)

    def _ran(self, request: ToolRequest, frame: Frame) -> ToolReply:
        call, tool, place = request.call, request.tool, frame.run.extra
        if tool is None:
            return failed_call(call, "semantic", f"there is no tool named {call['name']!r}")
        if (tool.metadata or {}).get("external"):
            reply = _external(tool, call)
            place.made["ran"] = True  # wherever that was
            return reply
        emit, begun = frame.run.emit, time.monotonic()
        if emit is not None:
            emit(ToolStarted(str(call["id"]), call["name"]))
        masks = frame.run.masks
        place.made["args"] = masks.value(call["args"], "tool_args")
        run = self._masked if masks else self._run
        place.made["ran"] = True
        try:
            with set_aside():  # a graph that the tool runs is not of this turn
                reply = run(tool, call, place.state, frame.run.config or current_config(), request.context, masks)
        except asyncio.CancelledError:  # it timed out
            if emit is not None:
                emit(ToolFinished(str(call["id"]), "error", time.monotonic() - begun))
            raise
        if emit is not None:
            emit(ToolFinished(str(call["id"]), reply.message.status, time.monotonic() - begun))
        return reply

    def _masked(
        self, tool: BaseTool, call: Mapping[str, Any], state: Any, config: Any, context: Context, masks: Masks
    ) -> ToolReply:
        """The same where the tool may have real values: handlers are told of a run without them."""
        report = tool_report(tool, call["id"], masks.value(call["args"], "tool_args"), config)
        private = with_writer(unheard(config), lambda write: lambda value: write(masks.value(value)))
        try:
            reply = masks.result(self._run(tool, call, state, private, context, masks))
        except GraphInterrupt as error:
            failed: BaseException = GraphInterrupt(tuple(asking(one, masks.value(one.value)) for one in error.args[0]))
        except ScallionError as error:
            failed = masks.error(error)
        except BaseException as error:
            report.failed(masks.error(error))
            raise
        else:
            report.gave(reply.message)
            return reply
        report.failed(failed)
        raise failed from failed.__cause__

    def _run(
        self, tool: BaseTool, call: Mapping[str, Any], state: Any, config: Any, context: Context, masks: Masks
    ) -> ToolReply:
        try:
            out = _execute(tool, self._filled(tool, call, state, config, context), config, hides=bool(masks))
        except (GraphBubbleUp, ConfigurationError):
            raise
        except Exception as error:
            return failed_by(error, call)
        return given_by_tool(out, call)

    def _filled(
        self, tool: BaseTool, call: Mapping[str, Any], state: Any, config: Any, context: Context
    ) -> dict[str, Any]:
        known = self._injections.get(id(tool))
        if known is None:
            known = self._injections[id(tool)] = (tool, injection(tool))  # holding the tool keeps its id its own
        plain = {"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"}
        if not known[1]:
            return plain
        shared = {**(state.get("state") or {}), **context.state}  # with what a filter shows the tool besides
        return with_injected(plain, known[1], {**state, "state": shared}, config, context.env)


def _execute(tool: BaseTool, call: dict[str, Any], config: Any, *, hides: bool) -> Any:
    run: Callable[[], Any] = lambda: tool.invoke(call, config)  # noqa: E731
    arun: Callable[[], Awaitable[Any]] = lambda: tool.ainvoke(call, config)  # noqa: E731
    if hides:
        run, arun = hidden(run, arun)
    if waits_on_loop() and has_deadline() and not _is_async(tool):
        return wait(apart(run))
    if waits_on_loop() or (hasattr(tool, "func") and tool.func is None):
        return wait(arun())
    try:
        return run()
    except NotImplementedError:
        if type(tool)._arun is BaseTool._arun:
            raise
        return wait(arun())  # the tool is written for asyncio only


def _is_async(tool: BaseTool) -> bool:
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _external(tool: BaseTool, call: Mapping[str, Any]) -> ToolReply:
    """The result that a person or a client gives for a tool that never runs here."""
    question, span = f"{call['name']} runs elsewhere: give its result", (tool.metadata or {}).get("expires_in")
    decision = pause(question, kind="external_call", allowed=("respond",), expires_in=span)
    if decision.type == EXPIRED:
        told = "the request for the result of this call expired: nobody gave it in time"
        return failed_call(call, "environment", told)
    content = decision.message if isinstance(decision.message, str | list) else str(decision.message)
    return ToolReply(ToolMessage(content, tool_call_id=call["id"], name=call["name"]))
