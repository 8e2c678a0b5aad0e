"""What LangChain's handlers are told of calls whose raw values they may not see: a run of its own, with clean values.

The call itself runs unseen: no handler is inherited, no tracer of the environment or of the context is asked.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from langchain_core.callbacks import CallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from scallion.loop.platform import as_current, current_config


def unheard(config: Any) -> RunnableConfig:
    """The config with no handler to inherit; an empty list of them would be taken for none that is given."""
    return cast("RunnableConfig", {**config, "callbacks": CallbackManager(handlers=[])})


@contextmanager
def unseen() -> Iterator[None]:
    """Within the block no tracer or handler of the context is told of what LangChain runs."""
    from langchain_core.tracers import context as tracers  # slow to import, and few stacks redact
    from langsmith.run_helpers import tracing_context

    with ExitStack() as stack:
        for variable, *_ in tracers._configure_hooks:
            if variable.get() is not None:
                stack.callback(variable.reset, variable.set(None))
        if (config := current_config()) is not None:  # a binding would inherit from it whatever it is given
            stack.enter_context(as_current(unheard(config)))
        stack.enter_context(tracing_context(enabled=False))
        yield


def hidden(
    sync: Callable[[], Any], asynchronous: Callable[[], Awaitable[Any]]
) -> tuple[Callable[[], Any], Callable[[], Awaitable[Any]]]:
    """Both calls, unseen. A context that synchronous code sets does not reach what a running loop awaits."""

    def call() -> Any:
        with unseen():
            return sync()

    async def acall() -> Any:
        with unseen():
            return await asynchronous()

    return call, acall


class Report:
    """One run that handlers are told of; nothing is told where there are none."""

    def __init__(self, runs: Any) -> None:
        self._runs = runs

    def failed(self, error: BaseException) -> None:
        """It ended with this error."""
        for run in self._runs:
            told = run.on_llm_error if hasattr(run, "on_llm_error") else run.on_tool_error
            told(error)

    def answered(self, message: AIMessage) -> None:
        """The model answered this."""
        for run in self._runs:
            run.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]))

    def gave(self, message: ToolMessage) -> None:
        """The tool gave this."""
        for run in self._runs:
            run.on_tool_end(message)


def _handlers(config: RunnableConfig, tags: Sequence[str], about: dict[str, Any]) -> CallbackManager:
    """The handlers that a call in this place would inherit."""
    return CallbackManager.configure(
        inheritable_callbacks=config.get("callbacks"),
        inheritable_tags=[*(config.get("tags") or ()), *tags],
        inheritable_metadata={**(config.get("metadata") or {}), **about},
    )


def model_report(
    model: BaseChatModel, messages: Sequence[BaseMessage], config: RunnableConfig, tags: Sequence[str]
) -> Report:
    """Tell that a model is called with these messages."""
    told: Any = model._get_ls_params()
    handlers = _handlers(config, tags, dict(told))
    if not handlers.handlers:
        return Report(())
    serialized = {"name": type(model).__name__, "kwargs": {}, "id": [type(model).__module__, type(model).__name__]}
    return Report(handlers.on_chat_model_start(serialized, [list(messages)], name=type(model).__name__))


def tool_report(tool: BaseTool, call_id: Any, args: Any, config: RunnableConfig) -> Report:
    """Tell that a tool is called with these arguments."""
    handlers = _handlers(config, (), {})
    if not handlers.handlers:
        return Report(())
    text = json.dumps(args, default=str, ensure_ascii=False)
    about = {"name": tool.name, "description": tool.description}
    return Report([handlers.on_tool_start(about, text, inputs=args, name=tool.name, tool_call_id=call_id)])
