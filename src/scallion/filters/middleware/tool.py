"""The tool call with a middleware's wrap_tool_call around it."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import ValidationError

from scallion.filters.journal import current_frame
from scallion.filters.middleware.chat import own, seen
from scallion.filters.middleware.hooks import Hook, tool_runtime
from scallion.filters.middleware.slots import Slots
from scallion.filters.tool_results import given_by_tool
from scallion.values import ToolReply, ToolRequest


class WrappedToolCall:
    """One tool call, with what the handler of the hook gave."""

    def __init__(
        self, slots: Slots, request: ToolRequest, state: Any, next: Callable[[ToolRequest], ToolReply]
    ) -> None:
        self._slots = slots
        self._state = state
        self._next = next
        self._given = request
        shared = {**request.context.state, **own(slots, state, request.context)}
        self._request = request.replace(context=request.context.replace(state=MappingProxyType(shared)))
        self._outcomes: list[tuple[Any, ToolReply]] = []

    def reply(self, hook: Hook) -> ToolReply:
        """The reply; what it writes into the middleware's own state is kept there."""
        reply = self._wrapped(hook) if hook else self._next(self._request)
        mine = {key: value for key, value in reply.writes.items() if key in self._slots}
        if not mine:
            return reply
        if reply.message.status != "error":
            self._state.update(self._slots.written(mine, self._state, self._given.context.turn))
        return reply.replace(writes={key: value for key, value in reply.writes.items() if key not in mine})

    def _wrapped(self, hook: Hook) -> ToolReply:
        context = self._given.context
        thread = getattr(current_frame.get().run.extra, "state", None) or {}
        state = seen(self._slots, self._state, context, list(thread.get("messages") or ()))
        given = ToolCallRequest(
            tool_call=self._given.call, tool=self._given.tool, state=state, runtime=tool_runtime(state, self._given)
        )
        try:
            out = hook.around(given, self._handler)
        except Exception as error:
            known = self._known(error)
            if known is None:
                raise
            return known
        return self._known(out) or given_by_tool(out, self._given.call)

    def _handler(self, given: ToolCallRequest) -> Any:
        """The result as LangChain's own node gives it: what the tool raised is raised, but for bad arguments."""
        reply = self._next(self._request.replace(call=given.tool_call, tool=given.tool))
        error = None if reply.error is None else reply.error.exception
        if isinstance(error, Exception) and not isinstance(error, ValidationError):
            self._outcomes.append((error, reply))
            raise error
        out: Any = reply.message
        if reply.writes:
            out = Command(update={**reply.writes, "messages": [reply.message]})
        self._outcomes.append((out, reply))
        return out

    def _known(self, out: Any) -> ToolReply | None:
        return next((reply for outcome, reply in self._outcomes if outcome is out), None)
