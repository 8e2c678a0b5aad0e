"""The innermost model call: binding, system prompts, both colours, streaming, assembly of the pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from scallion.bridge import wait, waits_on_loop
from scallion.errors import ConfigurationError, ModelError, ScallionError
from scallion.filters.journal import Frame
from scallion.filters.masking import NONE, Masks
from scallion.filters.replies import with_system
from scallion.filters.retrying.failure_kinds import model_error
from scallion.loop.invocation import Budget, Invocation
from scallion.loop.pairing import paired
from scallion.loop.pieces import Stream
from scallion.loop.platform import current_config
from scallion.loop.reporting import hidden, model_report, unheard
from scallion.loop.traced import answered
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
        return self.answer(request, budget, frame.run.masks)

    def answer(self, request: ChatRequest, budget: Budget, masks: Masks = NONE) -> ChatReply:
        """The model's answer, for a call that the budget has counted; raises ModelError."""
        messages = paired(list(request.messages) if request.aside else with_system(request.messages, budget.prompts))
        call = self._masked if masks else self._plain
        message = answered(lambda: call(request, messages, budget.invocation, masks), request.model, budget.invocation)
        if not isinstance(message, AIMessage):
            raise ModelError("semantic", f"the model gave {type(message).__name__} instead of a message of its own")
        budget.add_usage(cast("Mapping[str, Any] | None", message.usage_metadata))
        return ChatReply(message, request.context)

    def _plain(self, request: ChatRequest, messages: list[BaseMessage], here: Invocation, masks: Masks) -> AIMessage:
        try:
            return self._call(self._bind(request), request, messages, here, masks)
        except (ScallionError, GraphBubbleUp):
            raise
        except Exception as error:
            raise model_error(error) from error

    def _masked(self, request: ChatRequest, messages: list[BaseMessage], here: Invocation, masks: Masks) -> AIMessage:
        """The same where handlers are told of a run without what the masks take out, and errors are without it too."""
        model, config = cast("BaseChatModel", request.model), current_config() or {}
        report = model_report(model, masks.value(messages), config, QUIET["tags"])
        try:
            message = self._call(self._bind(request), request, messages, here, masks)
        except GraphBubbleUp as error:
            report.failed(error)
            raise
        except ScallionError as error:
            failed: BaseException = masks.error(error)
            cause = failed.__cause__
        except Exception as error:
            failed, cause = model_error(error), masks.error(error)
        else:
            report.answered(message)
            return message
        report.failed(failed)
        raise failed from cause

    def _call(
        self,
        bound: Runnable[Any, Any],
        request: ChatRequest,
        messages: list[BaseMessage],
        here: Invocation,
        masks: Masks,
    ) -> AIMessage:
        config = unheard(QUIET) if masks else QUIET
        if (here.emit is None or request.aside) and not streams_itself(request.model, inherits=not masks):
            ask, aask = (lambda: bound.invoke(messages, config)), (lambda: bound.ainvoke(messages, config))
            message = self._either(request, ask, aask, hides=bool(masks))
            return masks.reply(message) if isinstance(message, AIMessage) else cast("AIMessage", message)
        stream = Stream(Invocation() if request.aside else here, masks)
        pump = lambda: stream.read(bound.stream(messages, config))  # noqa: E731
        apump = lambda: stream.aread(bound.astream(messages, config))  # noqa: E731
        self._either(request, pump, apump, hides=bool(masks))
        return stream.message()

    def _either(
        self, request: ChatRequest, sync: Callable[[], Any], asynchronous: Callable[[], Any], *, hides: bool
    ) -> Any:
        """Call in the colour at hand; a model that has only the other one is called in that."""
        if hides:
            sync, asynchronous = hidden(sync, asynchronous)
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


def streams_itself(model: Any, *, inherits: bool = True) -> bool:
    """Whether `invoke` would stream and merge the pieces itself, past the checks of `assembled`."""
    if "streaming" in type(model).model_fields and model.streaming is True:
        return True
    if not inherits:
        return False
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
