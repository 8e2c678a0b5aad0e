"""A filter's chat and tool hooks as the wraps of a middleware."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from scallion.errors import ConfigurationError, ModelError, ScallionError
from scallion.filters.journal import Frame, Wire
from scallion.filters.middleware.beside import Beside, Place, handled
from scallion.filters.middleware.package import middleware_types
from scallion.filters.replies import with_system
from scallion.filters.retrying.failure_kinds import model_error
from scallion.filters.tool_results import failed_by, given_by_tool
from scallion.values import ChatReply, ChatRequest, ToolReply, ToolRequest

Handler = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


class AroundModel:
    """One model call of `create_agent` with the filter's chat hook around it."""

    def __init__(self, beside: Beside, given: Any, handler: Handler, *, asynchronous: bool) -> None:
        self._types = middleware_types("as_langchain()")
        self._beside = beside
        self._given = given
        self._handler = handler
        self._asynchronous = asynchronous
        self._responses: list[tuple[ChatReply, Any]] = []

    def response(self) -> Any:
        """The response, with the filter's state as a command; raises what the model raised."""
        given, beside = self._given, self._beside
        context = beside.context(given.state)
        tools, settings = list(given.tools), dict(given.model_settings)
        request = ChatRequest(list(given.messages), tools, given.tool_choice, given.model, settings, context)
        run = beside.run(given.state, context.turn, Wire("chat", _same, _same))
        try:
            reply, frame = beside.made("chat", self._asked, request, run)
        except ModelError as error:
            if isinstance(error.__cause__, Exception):
                raise error.__cause__ from None
            raise
        step = beside.step(context.turn, frame)
        response = self._as_response(reply)
        return self._types.ExtendedModelResponse(response, Command(update=step)) if step else response

    def _asked(self, request: ChatRequest, frame: Frame) -> ChatReply:
        frame.enter("")
        try:
            response = handled(self._handler, self._model_request(request), asynchronous=self._asynchronous)
        except (ScallionError, GraphBubbleUp):
            raise
        except Exception as error:
            raise model_error(error) from error
        reply = ChatReply(response.result[0], request.context, results=list(response.result[1:]))
        self._responses.append((reply, response))
        return reply

    def _model_request(self, request: ChatRequest) -> Any:
        prompts = [] if request.aside else _lead(self._given)
        merged = with_system(request.messages, prompts)
        front = merged[:1] if merged and merged[0].type == "system" else []
        return self._given.override(
            messages=merged[len(front) :],
            system_message=front[0] if front else None,
            tools=list(request.tools),
            tool_choice=request.tool_choice,
            model=request.model or self._given.model,
            model_settings=dict(request.settings),
            response_format=None if request.aside else self._given.response_format,
        )

    def _as_response(self, reply: ChatReply) -> Any:
        known = next((response for own, response in self._responses if own is reply), None)
        if known is not None:
            return known
        structured = next(
            (one.structured_response for own, one in self._responses if own.message is reply.message), None
        )
        return self._types.ModelResponse([reply.message, *reply.results], structured)


def _lead(given: Any) -> list[Any]:
    return [given.system_message] if given.system_message is not None else []


class AroundTool:
    """One tool call of `create_agent` with the filter's tool hook around it."""

    def __init__(self, beside: Beside, given: Any, handler: Handler, *, asynchronous: bool) -> None:
        self._beside = beside
        self._given = given
        self._handler = handler
        self._asynchronous = asynchronous
        self._outcomes: list[tuple[ToolReply, Any]] = []

    def result(self) -> Any:
        """The result, with the filter's state in a command; raises what the tool raised, as it is."""
        given, beside = self._given, self._beside
        state = given.state if isinstance(given.state, Mapping) else {"messages": given.state}
        context = beside.context(state)
        request = ToolRequest(given.tool_call, given.tool, context)
        run = beside.run(state, context.turn, Wire("tool", _same, _same), extra=Place(state))
        reply, frame = beside.made("tool", self._ran, request, run)
        out = next((outcome for own, outcome in self._outcomes if own is reply), None)
        if isinstance(out, Exception):
            raise out
        return _with_step(_as_result(reply) if out is None else out, beside.step(context.turn, frame))

    def _ran(self, request: ToolRequest, frame: Frame) -> ToolReply:
        frame.enter("")
        call: Any = request.call
        try:
            given = self._given.override(tool_call=request.call, tool=request.tool)
            out = handled(self._handler, given, asynchronous=self._asynchronous)
        except (ScallionError, GraphBubbleUp):
            raise
        except Exception as error:
            out, reply = error, failed_by(error, call)
        else:
            reply = _jumping(out, call) or given_by_tool(out, call)
        self._outcomes.append((reply, out))
        return reply


def _jumping(out: Any, call: Mapping[str, Any]) -> ToolReply | None:
    """A Command that jumps is a result like any other here: the graph is LangGraph's."""
    if not isinstance(out, Command) or not (out.goto or out.graph):
        return None
    return ToolReply(ToolMessage("done", tool_call_id=call["id"], name=call["name"]))


def _as_result(reply: ToolReply) -> Any:
    if not reply.writes or reply.message.status == "error":
        return reply.message
    return Command(update={**reply.writes, "messages": [reply.message]})


def _with_step(out: Any, step: Mapping[str, Any]) -> Any:
    if not step:
        return out
    if isinstance(out, ToolMessage):
        return Command(update={"messages": [out], **step})
    if not isinstance(out.update, Mapping):
        raise ConfigurationError("a tool's Command whose update is no mapping has no place for the filter's state")
    return dataclasses.replace(out, update={**out.update, **step})
