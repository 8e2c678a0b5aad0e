"""An agent over a real client, with the tools that the streams call, and the four ways to run it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from scallion import Agent, Completed, Paused
from scallion.events import Token

from .clients import client

MODES = ("invoke", "ainvoke", "stream", "astream")
STREAMED = ("stream", "astream")

Event = Any


@dataclass
class Ledger:
    """What the tools did, in order."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def tools(self) -> list[BaseTool]:
        def look_up(order: int) -> str:
            """Look an order up."""
            self.calls.append(("look_up", {"order": order}))
            return f"order {order}: delivered"

        def refund(order: int, amount: float, reason: str) -> str:
            """Refund an order."""
            self.calls.append(("refund", {"order": order, "amount": amount, "reason": reason}))
            return f"refunded {amount} for order {order}"

        return [StructuredTool.from_function(look_up), StructuredTool.from_function(refund)]


def agent_over(protocol: str, url: str, ledger: Ledger | None = None, **options: Any) -> Agent:
    """An agent over the client of that protocol, kept in memory unless told otherwise."""
    model = client(protocol, url, **options.pop("settings", {}))
    defaults = {
        "tools": (ledger or Ledger()).tools(),
        "system_prompt": "You serve a shop.",
        "checkpointer": "sqlite://",
    }
    return Agent(model, **defaults | options)


def ask(agent: Agent, mode: str, message: str, thread: str = "t") -> tuple[Completed | Paused, list[Event]]:
    """One turn in that mode: its result, and the events before it (none where nothing is streamed)."""
    match mode:
        case "invoke":
            return agent.invoke(message, thread=thread), []
        case "ainvoke":
            return asyncio.run(agent.ainvoke(message, thread=thread)), []
        case "stream":
            *events, result = agent.stream(message, thread=thread)
            return result, events
    *events, result = asyncio.run(_collected(agent, message, thread))
    return result, events


async def _collected(agent: Agent, message: str, thread: str) -> list[Event]:
    return [event async for event in agent.astream(message, thread=thread)]


def text_of(events: Sequence[Event], kind: type = Token) -> str:
    """The texts of the events of that kind, joined."""
    return "".join(event.text for event in events if isinstance(event, kind))
