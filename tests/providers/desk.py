"""An agent over a real client, with the tools that the streams call, and the four ways to run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from scallion import Agent
from scallion.events import Token
from scallion.testing import MODES, Driver
from scallion.testing.modes import Outcome

from .clients import client

__all__ = ["MODES", "STREAMED", "Ledger", "agent_over", "ask", "text_of"]
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


def ask(agent: Agent, mode: Any, message: str, thread: str = "t") -> Outcome:
    """One turn in that mode: its result, and the events before it (none where nothing is streamed)."""
    return Driver(agent, mode).start(message, thread=thread)


def text_of(events: Sequence[Event], kind: type = Token) -> str:
    """The texts of the events of that kind, joined."""
    return "".join(event.text for event in events if isinstance(event, kind))
