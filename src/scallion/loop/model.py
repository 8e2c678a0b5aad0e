"""The innermost model call: binding, system prompts, both colours, streaming, assembly of the pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    message_chunk_to_message,
)
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from scallion.bridge import spawn, wait, waits_on_loop
from scallion.errors import ConfigurationError, ModelError, ScallionError
from scallion.events import ModelFinished, ModelStarted, Reasoning, ToolCallDelta
from scallion.filters.journal import Frame
from scallion.loop.failures import model_error
from scallion.loop.invocation import Budget, Invocation
from scallion.loop.platform import current_config
from scallion.values import EMPTY, ChatReply, ChatRequest

QUIET: RunnableConfig = {"tags": ["nostream"]}
"""Without this tag LangGraph's `messages` mode would deliver the raw tokens past any transform."""


class ModelCall:
    """Calls the model of a request and makes a ChatReply of its answer."""

    def __init__(self) -> None:
        self._bound: dict[Any, tuple[Any, Runnable[Any, Any]]] = {}
        self._async_only: set[type] = set()

    def __call__(self, request: ChatRequest, frame: Frame) -> ChatReply:
        """One model call within its budget; raises ModelError for what the model raised, LimitExceeded before it."""
        frame.enter("")
        budget = cast("Budget", frame.run.extra)
        budget.begin_model_call()
        return self.answer(request, budget)

    def answer(self, request: ChatRequest, budget: Budget) -> ChatReply:
        """The model's answer, for a call that the budget has counted; raises ModelError."""
        here = budget.invocation
        messages = list(request.messages) if request.aside else with_system(request.messages, budget.prompts)
        try:
            message = self._call(self._bind(request), request, messages, here)
        except (ScallionError, GraphBubbleUp):
            raise
        except Exception as error:
            raise model_error(error) from error
        if not isinstance(message, AIMessage):
            raise ModelError("semantic", f"the model gave {type(message).__name__} instead of a message of its own")
        budget.add_usage(cast("Mapping[str, Any] | None", message.usage_metadata))
        return ChatReply(message, request.context)

    def _call(
        self, bound: Runnable[Any, Any], request: ChatRequest, messages: list[BaseMessage], here: Invocation
    ) -> AIMessage:
        if (here.emit is None or request.aside) and not streams_itself(request.model):
            ask, aask = (lambda: bound.invoke(messages, QUIET)), (lambda: bound.ainvoke(messages, QUIET))
            return cast("AIMessage", self._either(request, ask, aask))
        stream = _Stream(Invocation() if request.aside else here)
        pump = lambda: stream.read(bound.stream(messages, QUIET))  # noqa: E731
        apump = lambda: stream.aread(bound.astream(messages, QUIET))  # noqa: E731
        self._either(request, pump, apump)
        return stream.message()

    def _either(self, request: ChatRequest, sync: Callable[[], Any], asynchronous: Callable[[], Any]) -> Any:
        """Call in the colour at hand; a model that has only the other one is called in that."""
        kind: type[BaseChatModel] = type(cast("BaseChatModel", request.model))
        if waits_on_loop() or kind in self._async_only:
            return wait(asynchronous())
        try:
            return sync()
        except NotImplementedError:
            if kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream:
                raise
            self._async_only.add(kind)
            return wait(asynchronous())

    def _bind(self, request: ChatRequest) -> Runnable[Any, Any]:
        model = cast("BaseChatModel", request.model)
        settings = request.settings
        named = tuple((name, id(value)) for name, value in settings.items())
        key = (id(model), tuple(map(id, request.tools)), str(request.tool_choice), named)
        found = self._bound.get(key)
        if found is None:
            # The cached entry holds what its key names by id, so that no id is used again.
            held = (model, tuple(request.tools), tuple(settings.values()))
            found = (held, bind_tools(model, request.tools, request.tool_choice, settings))
            if len(self._bound) >= 64:
                self._bound.clear()
            self._bound[key] = found
        return found[1]


def streams_itself(model: Any) -> bool:
    """Whether `invoke` would stream and merge the pieces itself, past the checks of `assembled`."""
    if "streaming" in type(model).model_fields and model.streaming is True:
        return True
    callbacks: Any = (current_config() or {}).get("callbacks")
    handlers = getattr(callbacks, "handlers", callbacks) or ()
    return any("_StreamingCallbackHandler" in (kind.__name__ for kind in type(one).__mro__) for one in handlers)


def bind_tools(
    model: BaseChatModel, tools: Sequence[Any], choice: Any, settings: Mapping[str, Any] = EMPTY
) -> Runnable[Any, Any]:
    """The model with its settings and tools; a model that cannot be given tools (a scripted one) has none.

    The client sees both at once: what some settings ask for changes the form of the tools.
    """
    if not tools or type(model).bind_tools is BaseChatModel.bind_tools:
        return model.bind(**settings) if settings else model
    return model.bind_tools(tools, **({} if choice is None else {"tool_choice": choice}), **settings)


def as_system(prompt: Any) -> tuple[SystemMessage, ...]:
    """A system prompt, a text or a message, as messages: one or none. Raises ConfigurationError for anything else."""
    if not prompt:
        return ()
    if isinstance(prompt, SystemMessage):
        return (prompt,)
    if isinstance(prompt, str):
        return (SystemMessage(prompt),)
    raise ConfigurationError(f"system_prompt is a text or a SystemMessage, not {type(prompt).__name__}")


def with_system(messages: Sequence[BaseMessage], given: Sequence[SystemMessage]) -> list[BaseMessage]:
    """The messages with one system message in front: the given ones, then what led the messages."""
    lead = 0
    while lead < len(messages) and isinstance(messages[lead], SystemMessage):
        lead += 1
    prompts = [*given, *messages[:lead]]
    if len(prompts) < 2:
        return [*prompts, *messages[lead:]]
    return [_merged(prompts), *messages[lead:]]


def _merged(prompts: Sequence[BaseMessage]) -> SystemMessage:
    if all(isinstance(prompt.content, str) for prompt in prompts):
        return SystemMessage("\n\n".join(str(prompt.content) for prompt in prompts))
    blocks: list[Any] = []
    for prompt in prompts:
        content = prompt.content
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return SystemMessage(blocks)


class _Stream:
    """Reads the pieces of one answer: passes them on as events and puts them together at the end."""

    def __init__(self, here: Invocation) -> None:
        self._emit = here.emit or (lambda event: None)
        self._delivery = here.delivery
        self._add = here.delivery.add if here.delivery is not None else self._emit
        self._chunks: list[AIMessageChunk] = []
        self._whole: AIMessage | None = None
        self._call = ""

    def read(self, chunks: Any) -> None:
        self._begin()
        for chunk in chunks:
            self._take(chunk)

    async def aread(self, chunks: Any) -> None:
        self._begin()
        may_wait = self._delivery is not None and self._delivery.may_wait
        async for chunk in chunks:
            if may_wait:
                await spawn(self._take, chunk)
            else:
                self._take(chunk)

    def message(self) -> AIMessage:
        """The whole message; raises ModelError where the stream ended before its end."""
        if not self._chunks and self._whole is None:
            raise ModelError("transient", "the model failed: its stream was empty")
        whole = self._whole or assembled(self._chunks)
        if self._delivery is not None:
            self._delivery.end()
        self._emit(ModelFinished(whole, cast("Mapping[str, Any]", whole.usage_metadata or {})))
        return whole

    def _begin(self) -> None:
        self._chunks.clear()
        self._whole = None
        if self._delivery is not None:
            self._call = self._delivery.begin()
        self._emit(ModelStarted(self._call))

    def _take(self, chunk: AIMessage) -> None:
        if not isinstance(chunk, AIMessageChunk):
            self._take_whole(chunk)
            return
        self._chunks.append(chunk)
        if thought := reasoning(chunk):
            self._add(Reasoning(thought, {}, self._call))
        if self._delivery is not None and (text := str(chunk.text)):
            self._delivery.push(text)
        for delta in chunk.tool_call_chunks:
            self._add(ToolCallDelta(self._call, delta.get("index"), delta["id"], delta["name"], delta["args"]))

    def _take_whole(self, message: AIMessage) -> None:
        """A model that cannot stream gives its message in one piece."""
        self._whole = message
        if self._delivery is not None and (text := str(message.text)):
            self._delivery.push(text)
        for index, call in enumerate(message.tool_calls):
            self._add(ToolCallDelta(self._call, index, call["id"], call["name"], json.dumps(call["args"])))


def reasoning(chunk: AIMessageChunk) -> str:
    """The piece of reasoning in a chunk, in any of the forms that clients of providers use."""
    if isinstance(chunk.content, str):
        return str(chunk.additional_kwargs.get("reasoning_content") or "") if chunk.additional_kwargs else ""
    blocks: list[Any] = list(chunk.content_blocks) if chunk.content else []
    return "".join(block.get("reasoning") or "" for block in blocks if block.get("type") == "reasoning")


def assembled(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """The message that the chunks make. Arguments that are not whole JSON make a malformed call, never a guessed one.

    Merging repairs half JSON (`{"order": 10` of 1042), and a connection that is closed early looks like a normal end:
    only the provider's own end mark tells.
    """
    merged = chunks[0] + list(chunks[1:])
    meta = merged.response_metadata
    if meta.get("model_provider") in ("openai", "anthropic") and not any(
        meta.get(mark) for mark in ("finish_reason", "stop_reason", "status")
    ):
        raise ModelError("transient", "the model failed: its stream ended early")
    indices = [part.get("index") for part in merged.tool_call_chunks if part.get("index") is not None]
    if len(indices) != len(set(indices)):
        raise ModelError("transient", "the model failed: its stream started twice")
    message = _without_empty_texts(cast("AIMessage", message_chunk_to_message(merged)))
    parsed = [(part, _json_object(part["args"])) for part in merged.tool_call_chunks]
    if all(args is not None for _, args in parsed):
        return message
    good = [
        ToolCall(name=p["name"] or "", args=args, id=p["id"], type="tool_call")
        for p, args in parsed
        if args is not None
    ]
    bad = [
        InvalidToolCall(name=p["name"], args=p["args"], id=p["id"], error=None, type="invalid_tool_call")
        for p, args in parsed
        if args is None
    ]
    return message.model_copy(update={"tool_calls": good, "invalid_tool_calls": bad})


def _without_empty_texts(message: AIMessage) -> AIMessage:
    """Merging leaves empty texts between blocks, which providers refuse when they are sent back."""
    if not isinstance(message.content, list) or "" not in message.content:
        return message
    return message.model_copy(update={"content": [block for block in message.content if block != ""]})


def _json_object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
