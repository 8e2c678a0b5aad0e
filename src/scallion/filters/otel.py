"""`otel`: spans of turns, model calls and tool calls by the GenAI conventions of OpenTelemetry, and what layers did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from scallion.errors import ConfigurationError
from scallion.events import FilterActed, GuardActed
from scallion.filters.filter import Filter
from scallion.filters.journal import current_frame
from scallion.filters.masking import shown, shown_args
from scallion.filters.onion import PauseSignal
from scallion.values import ChatReply, ChatRequest, Completed, ToolReply, ToolRequest, TurnRequest

Attributes = dict[str, Any]
ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
SETTINGS = ("temperature", "max_tokens", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")


def present(attributes: Mapping[str, Any]) -> Attributes:
    """The attributes that have a value."""
    return {key: value for key, value in attributes.items() if value is not None}


def about_turn(request: TurnRequest, agent: str) -> Attributes:
    """What is known of a turn before it runs."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": request.context.thread,
        "scallion.turn": request.context.turn,
    }


def about_model(request: ChatRequest) -> Attributes:
    """The model that is asked, and its settings."""
    told: Mapping[str, Any] = request.model._get_ls_params(**request.settings) if request.model is not None else {}
    asked = {name: request.settings.get(name, told.get(f"ls_{name}")) for name in SETTINGS}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": told.get("ls_provider"),
        "gen_ai.request.model": told.get("ls_model_name"),
        "gen_ai.conversation.id": request.context.thread,
        **{f"gen_ai.request.{name}": value for name, value in asked.items()},
    }


def about_answer(message: AIMessage) -> Attributes:
    """Which model answered, why it stopped, and what it used."""
    told = message.response_metadata
    used: Mapping[str, Any] = message.usage_metadata or {}
    details = used.get("input_token_details") or {}
    reason = told.get("finish_reason") or told.get("stop_reason")
    return {
        "gen_ai.response.model": told.get("model_name") or told.get("model"),
        "gen_ai.response.id": told.get("id"),
        "gen_ai.response.finish_reasons": [reason] if isinstance(reason, str) else None,
        "gen_ai.usage.input_tokens": used.get("input_tokens"),
        "gen_ai.usage.output_tokens": used.get("output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": details.get("cache_read"),
        "gen_ai.usage.cache_creation.input_tokens": details.get("cache_creation"),
        "scallion.cached": told.get("cached"),
    }


def about_tool(request: ToolRequest) -> Attributes:
    """The tool that is called."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": request.call["name"],
        "gen_ai.tool.call.id": request.call["id"],
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": request.context.thread,
    }


def written(messages: Sequence[BaseMessage]) -> str:
    """Messages in the form of the conventions, as JSON text."""
    return json.dumps([{"role": ROLES.get(one.type, one.type), "parts": _parts(one)} for one in messages], default=str)


def _parts(message: BaseMessage) -> list[Attributes]:
    if isinstance(message, ToolMessage):
        return [{"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}]
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    said: list[Attributes] = [{"type": "text", "content": str(message.text)}] if message.text else []
    return said + [
        {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["args"]} for call in calls
    ]


class Otel(Filter):
    """Telemetry guards nothing: a turn goes on where it fails."""

    on_error = "ignore"

    def __init__(self, name: str, tracer: Any, agent: str, content: bool) -> None:
        super().__init__(name)
        self._tracer = tracer
        self._agent = agent
        self._content = content

    def around_turn(self, request: TurnRequest, state: Any, next: Callable[[TurnRequest], Completed]) -> Completed:
        """The span of the turn, or of that part of it which goes on after a pause."""
        with self._span(f"invoke_agent {self._agent}", "INTERNAL", about_turn(request, self._agent)) as span:
            self._say(span, "gen_ai.input.messages", lambda: written(shown(request.messages)))
            result = next(request)
            used = {
                f"gen_ai.usage.{name}": result.usage.get(name) or None for name in ("input_tokens", "output_tokens")
            }
            span.set_attributes(present({**used, "scallion.attempts": result.attempts}))
            self._say(span, "gen_ai.output.messages", lambda: written([result.message]))
        return result

    def around_chat(self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]) -> ChatReply:
        """The span of a model call."""
        about = about_model(request)
        with self._span(f"chat {about['gen_ai.request.model'] or ''}".strip(), "CLIENT", about) as span:
            self._say(span, "gen_ai.input.messages", lambda: written(shown(request.messages)))
            reply = next(request)
            span.set_attributes(present(about_answer(reply.message)))
            self._say(span, "gen_ai.output.messages", lambda: written([reply.message]))
        return reply

    def around_tool(self, request: ToolRequest, state: Any, next: Callable[[ToolRequest], ToolReply]) -> ToolReply:
        """The span of a tool call."""
        with self._span(f"execute_tool {request.call['name']}", "INTERNAL", about_tool(request)) as span:
            self._say(span, "gen_ai.tool.call.arguments", lambda: json.dumps(shown_args(request), default=str))
            reply = next(request)
            if reply.error is not None or reply.message.status == "error":
                _failed(span, reply.error.kind if reply.error is not None else "refused")
            self._say(span, "gen_ai.tool.call.result", lambda: json.dumps(reply.message.content, default=str))
        return reply

    def _say(self, span: Any, key: str, content: Callable[[], str]) -> None:
        if self._content and span.is_recording():
            span.set_attribute(key, content())

    @contextmanager
    def _span(self, name: str, kind: str, attributes: Attributes) -> Iterator[Any]:
        """A span that is current meanwhile, and has an event for each thing that a layer inside did."""
        from opentelemetry import trace

        frame = current_frame.get()
        resumed = True if frame.record is not None else None
        attributes = present({**attributes, "scallion.resumed": resumed})
        span = self._tracer.start_span(name, kind=trace.SpanKind[kind], attributes=attributes)
        before, frame.run.watch = frame.run.watch, lambda acted: _note(span, acted)
        try:
            with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
                try:
                    yield span
                except PauseSignal:
                    span.set_attribute("scallion.paused", True)
                    raise
                except BaseException as error:
                    _failed(span, type(error).__name__)
                    raise
        finally:
            frame.run.watch = before


def _note(span: Any, acted: FilterActed | GuardActed) -> None:
    if isinstance(acted, GuardActed):
        found = {f"scallion.found.{kind}": count for kind, count in acted.found.items()}
        where = {"scallion.filter": acted.filter, "scallion.place": acted.place, "scallion.action": acted.action}
        span.add_event("scallion.guard", {**where, **found})
        return
    about = {"scallion.filter": acted.filter, "scallion.hook": acted.hook, "scallion.action": acted.action}
    span.add_event("scallion.layer", about)


def _failed(span: Any, kind: str) -> None:
    """An error by its kind: its text may hold what was said."""
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def otel(
    *, agent: str = "agent", capture_content: bool = False, tracer_provider: Any = None, name: str = "otel"
) -> Filter:
    """Trace turns, model calls and tool calls with OpenTelemetry, by its conventions for generative AI (`gen_ai.*`).

    A span holds the layers inside of this filter: what one of them did (short_circuit, retry, changed_request,
    changed_reply, a decision) is an event `scallion.layer` in it. `agent` names the agent in the spans. Texts of
    messages, arguments and results are left out unless `capture_content` is set. `tracer_provider`: by default the
    global one. Needs `scallion[otel]`; raises ConfigurationError without it, and for what is no provider.
    """
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        raise ConfigurationError(f"filter {name!r} needs opentelemetry-api: pip install 'scallion[otel]'") from None
    if tracer_provider is not None and not hasattr(tracer_provider, "get_tracer"):
        raise ConfigurationError(f"filter {name!r}: tracer_provider is a TracerProvider, not {tracer_provider!r}")
    return Otel(name, get_tracer("scallion", tracer_provider=tracer_provider), agent, capture_content)
