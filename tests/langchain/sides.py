"""One middleware on both sides: in `create_agent`, and in an Agent by `from_langchain`, with the same script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive, Driver, Mode

from scallion import Agent, Completed, filters
from scallion.testing import ScriptedModel

Given = dict[str, Any]
THREAD = "t"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}


def told(messages: Sequence[BaseMessage]) -> list[tuple[Any, ...]]:
    """What a reader sees of each message: its kind, content, calls and status."""
    return [
        (one.type, one.content, [(c["name"], c["args"], c["id"]) for c in getattr(one, "tool_calls", ())], status(one))
        for one in messages
    ]


def status(message: BaseMessage) -> str | None:
    """That of a tool's result."""
    return getattr(message, "status", None)


class Sides:
    """The same turns on both sides. `make(model)` makes the middleware anew for each side."""

    def __init__(
        self,
        drive: Drive,
        mode: Mode,
        make: Callable[[], Any],
        script: Any,
        tools: Sequence[Any] = (),
        *,
        saver: Any = None,
    ) -> None:
        self.mode = mode
        self.models = ScriptedModel(script), ScriptedModel(script)
        middleware = make()
        self.theirs = create_agent(
            self.models[0], tools=list(tools), middleware=[middleware], checkpointer=InMemorySaver()
        )
        self.filter = filters.from_langchain(make())
        saver = InMemorySaver() if saver is None else saver
        self.agent = Agent(self.models[1], tools=list(tools), filters=[self.filter], checkpointer=saver)
        self.ours: Driver = drive(self.agent)

    def their_turn(self, given: Any, config: Any = CONFIG) -> Any:
        """One run of create_agent, in the colour of the mode."""
        given = {"messages": given} if isinstance(given, str) else given
        if self.mode.startswith("a"):
            return asyncio.run(self.theirs.ainvoke(given, config))
        return self.theirs.invoke(given, config)

    def same(self, *inputs: str) -> tuple[Any, Completed]:
        """Run the turns on both sides, and see that messages and model requests are the same; the last results."""
        for text in inputs:
            their, (our, _) = self.their_turn(text), self.ours.start(text, thread=THREAD)
        assert isinstance(our, Completed)
        self.check(their, our)
        return their, our

    def check(self, their: Any, our: Completed) -> None:
        """The same final messages, the same requests to the model, and a thread that keeps these messages."""
        assert told(our.messages) == told(their["messages"])
        assert list(map(told, self.models[1].calls)) == list(map(told, self.models[0].calls))
        kept = self.agent.graph.get_state(CONFIG).values["messages"]
        assert told(kept) == told(their["messages"])
