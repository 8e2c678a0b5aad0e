"""What the tests of filters and approvals share: a desk of tools that record what they did, and short forms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from scallion import ChatReply, ChatRequest, Completed, Filter, ToolReply, ToolRequest, TurnRequest
from scallion.testing import asks as asks
from scallion.testing import call as call


class Desk:
    """Tools that write down each execution in `ran`."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def refund(self) -> BaseTool:
        """A synchronous tool."""

        def refund(order: int) -> str:
            """Give the money back."""
            self.ran.append(f"refund {order}")
            return f"refunded {order}"

        return StructuredTool.from_function(refund)

    def mail(self) -> BaseTool:
        """A tool written for asyncio only."""

        async def mail(to: str, body: str = "hello") -> str:
            """Send a letter."""
            await asyncio.sleep(0)
            self.ran.append(f"mail {to}")
            return f"sent {body} to {to}"

        return StructuredTool.from_function(coroutine=mail)

    def look(self) -> BaseTool:
        """A tool that has both colours."""

        def look(order: int) -> str:
            """Look an order up."""
            self.ran.append(f"look {order}")
            return f"order {order} is here"

        async def alook(order: int) -> str:
            await asyncio.sleep(0)
            return look(order)

        return StructuredTool.from_function(look, coroutine=alook)

    @property
    def tools(self) -> list[BaseTool]:
        """All of them."""
        return [self.refund(), self.mail(), self.look()]


def heard(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    """Kind and text of each message."""
    return [(one.type, str(one.text)) for one in messages]


def results(messages: Sequence[BaseMessage]) -> list[str]:
    """The texts of the tool results."""
    return [str(one.text) for one in messages if isinstance(one, ToolMessage)]


REQUESTS: dict[str, Any] = {
    "turn": TurnRequest([HumanMessage("hi", id="h")]),
    "chat": ChatRequest([HumanMessage("hi", id="h")]),
    "tool": ToolRequest(call("refund", order=1)),
}


def reply(chain: str, text: str = "done") -> Any:
    """A reply of that chain."""
    if chain == "turn":
        message = AIMessage(text, id="a")
        return Completed(message, [HumanMessage("hi", id="h"), message])
    if chain == "chat":
        return ChatReply(AIMessage(text, id="a"))
    return ToolReply(ToolMessage(text, tool_call_id="c1", name="refund"))


def text_of(reply: Any) -> str:
    """The text of a reply of any chain."""
    return str(reply.message.text)


def layer(name: str, chain: str, hook: Callable[..., Any], colour: str = "def", **options: Any) -> Filter:
    """A filter with one hook, which is a generator-like function of two colours.

    `hook(request, state)` is a generator: it yields requests for `next`, is sent the replies (or thrown the errors),
    and returns the reply. So a test says a hook once and runs it as `def` and as `async def`.
    """
    run = _as_async(hook) if colour == "async" else _as_def(hook)
    return Filter(name, **{"around_" + chain: run}, **options)


def _as_def(hook: Callable[..., Any]) -> Callable[..., Any]:
    def run(request: Any, state: Any, next: Any) -> Any:
        steps = hook(request, state)
        asked, error, sent = None, None, None
        while True:
            try:
                asked = steps.throw(error) if error is not None else steps.send(sent)
            except StopIteration as stop:
                return stop.value
            try:
                sent, error = next(asked), None
            except BaseException as raised:
                sent, error = None, raised

    return run


def _as_async(hook: Callable[..., Any]) -> Callable[..., Any]:
    async def run(request: Any, state: Any, next: Any) -> Any:
        steps = hook(request, state)
        asked, error, sent = None, None, None
        while True:
            await asyncio.sleep(0)
            try:
                asked = steps.throw(error) if error is not None else steps.send(sent)
            except StopIteration as stop:
                return stop.value
            try:
                sent, error = await next(asked), None
            except BaseException as raised:
                sent, error = None, raised

    return run


def whole(value: Any) -> str:
    """All fields of a value, and of those within it, as text: a `repr` of ours is cut where it is long."""
    if is_dataclass(value) and not isinstance(value, type):
        told = (f"{one.name}={whole(getattr(value, one.name))}" for one in fields(value) if one.repr)
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, Mapping):
        return repr({repr(key): whole(inner) for key, inner in value.items()}) + repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(whole, value))}]"
    return repr(value)
