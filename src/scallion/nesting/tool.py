"""An agent as a tool of another one: a call is a turn of its own, and its answer is the result."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from zlib import crc32

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field

from scallion.bridge import spawn
from scallion.errors import ConfigurationError
from scallion.filters.journal import current_frame
from scallion.filters.pausing import verdicts_here
from scallion.loop.platform import CALLED
from scallion.nesting.inner import Beginning, Inner
from scallion.stack import Stack
from scallion.values import ToolRequest

ASKED = "What to do, with all that is needed for it: nothing else of the conversation is known."


class Request(BaseModel):
    """What the tool is asked."""

    request: str = Field(
        description="What to do, with all that is needed for it: nothing else of the conversation is known."
    )


class AgentTool(StructuredTool):
    """Runs an agent; `stack` says what its pauses depend on, `takes_out` what its guards make of what it is asked."""

    stack: Any = Field(default=None, exclude=True, repr=False)
    takes_out: Any = Field(default=None, exclude=True, repr=False)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """One turn of the agent."""
        return super().invoke(input, _called(input, config), **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As `invoke`."""
        return await super().ainvoke(input, _called(input, config), **kwargs)


def tool(inner: Inner, stack: Stack, name: str, description: str, *, pauses: bool) -> AgentTool:
    """The tool; raises ConfigurationError for a name or a description that is none."""
    for what, given in (("name", name), ("description", description)):
        if not isinstance(given, str) or not given.strip():
            raise ConfigurationError(f"as_tool({what}=...) is a text that is not empty, not {given!r}")

    def run(request: str, config: RunnableConfig) -> str:
        begin = partial(Beginning, [HumanMessage(request)])
        called = _is_called(stack)
        return inner.run(begin, config, agents=(name,), number=_number(config), is_called=called).result.answer

    async def arun(request: str, config: RunnableConfig) -> str:
        return await spawn(run, request, config)

    return AgentTool.from_function(  # type: ignore[return-value]
        run, arun, name=name, description=description, args_schema=Request, stack=stack,
        takes_out=inner.clean,
        metadata={"pauses": True} if pauses else None,
    )  # fmt: skip


def _called(input: Any, config: RunnableConfig | None) -> RunnableConfig | None:
    """The config, with the id of the call: several calls of one task have a place each."""
    id = input.get("id") if isinstance(input, Mapping) and input.get("type") == "tool_call" else None
    if config is None or not id:
        return config
    return {**config, "configurable": {**(config.get("configurable") or {}), CALLED: str(id)}}


def _number(config: RunnableConfig) -> str | None:
    """Which place below its task a call has; one that is made again, as a filter had it so, has another."""
    id = config.get("configurable", {}).get(CALLED)
    again = verdicts_here().runs
    return None if id is None else str(crc32(id.encode(errors="surrogatepass"))) + (f"|{again}" if again else "")


def _is_called(stack: Stack) -> bool:
    """Whether an agent of ours calls this very tool, and no graph that runs in another one of its tools."""
    frame = current_frame.get(None)
    request = frame.request if frame is not None else None
    return isinstance(request, ToolRequest) and getattr(request.tool, "stack", None) is stack
