"""Graphs that are not ours: LangChain's agents with its gate, hand-written ones, and the four ways to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, AnyMessage
from modes import Mode

from scallion import SQLCheckpointer
from scallion.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t"}}
GATED = {"pay": True, "mail": {"allowed_decisions": ["approve", "reject"]}}


def run(graph: Any, given: Any, **options: Any) -> list[str]:
    """Run the graph until it stops; the ids of the interrupts that it stopped at."""
    graph.invoke(given, CONFIG, **options)
    return [one.id for one in graph.get_state(CONFIG).interrupts]


async def run_in(mode: Mode, graph: Any, given: Any) -> list[str]:
    """As `run`, in each of the four ways."""
    if mode == "ainvoke":
        await graph.ainvoke(given, CONFIG)
    elif mode == "astream":
        [part async for part in graph.astream(given, CONFIG)]
    elif mode == "stream":
        list(graph.stream(given, CONFIG))
    else:
        graph.invoke(given, CONFIG)
    return [one.id for one in (await graph.aget_state(CONFIG)).interrupts]


def statuses(saver: SQLCheckpointer, thread: str = "t") -> list[str]:
    """The statuses of all approvals of the thread, the oldest first."""
    return [one.status for one in saver.approvals.list(None, thread=thread, limit=500).items]


@dataclass
class Desk:
    """An agent of LangChain that makes some calls at once, pays or mails, and says what came of them."""

    calls: Sequence[tuple[str, Mapping[str, Any]]] = (("pay", {"euro": 1}), ("mail", {"to": "mira"}))
    gate: Literal["batched", "per_call"] = "batched"
    gated: Mapping[str, Any] = field(default_factory=lambda: GATED)
    done: list[Any] = field(default_factory=list)
    """What the tools really did."""

    def graph(self, saver: Any = None) -> Any:
        """The compiled agent."""
        gate = HumanInTheLoopMiddleware(dict(self.gated), interrupt_mode=self.gate)
        model = ScriptedModel(self._say)
        return create_agent(model, self._tools(), middleware=[gate], checkpointer=saver)

    def _tools(self) -> list[Callable[..., str]]:
        def pay(euro: int, to: str = "mira") -> str:
            """Pay."""
            self.done.append(("pay", euro))
            return f"paid {euro}"

        def mail(to: str) -> str:
            """Mail."""
            self.done.append(("mail", to))
            return f"mailed {to}"

        return [pay, mail]

    def _say(self, messages: Sequence[AnyMessage]) -> Any:
        results = [one.text for one in messages if one.type == "tool"]
        if results:
            return " / ".join(results)
        return AIMessage(
            "", tool_calls=[{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(self.calls)]
        )

    @staticmethod
    def answer(graph: Any) -> str:
        """What the agent said last."""
        return str(graph.get_state(CONFIG).values["messages"][-1].text)


START_WITH: Any = {"messages": [("user", "Pay her and tell her")]}
