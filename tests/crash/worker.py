"""What the processes do that are killed: a turn of a small desk that ends itself with SIGKILL at a named point."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

import scallion.threads
import scallion.turn
from scallion import Agent, SQLCheckpointer, approve, around_turn, filters
from scallion.testing import ScriptedModel
from scallion.testing.crash import die

POINTS = (
    "before the first write",
    "inside the tool, before its effect",
    "inside the tool, after its effect",
    "before the result is stored",
    "before the next model call",
    "inside the second attempt",
    "before the commit of the turn",
    "before the decision is recorded",
    "after the decision is recorded",
)


@around_turn
def plain(request: Any, state: Any, next: Any) -> Any:
    """Stand around the turn, and do nothing."""
    return next(request)


@around_turn
def again(request: Any, state: Any, next: Any) -> Any:
    """Reject the first answer."""
    result = next(request)
    return next(request.replace(messages=[*result.messages, HumanMessage("wrong")], load_history=False))


TURN_FILTERS = {"": [], "plain": [plain], "again": [again]}


@dataclass(frozen=True)
class Desk:
    """Where the database and the list of effects are, and how the turns run."""

    folder: Path
    colour: str

    @property
    def effects(self) -> list[str]:
        """Every call of a model or tool that happened, in any process, in order."""
        path = self.folder / "effects.txt"
        return path.read_text().splitlines() if path.exists() else []

    def note(self, line: str) -> None:
        """Add to a file that outlives the process."""
        with (self.folder / "effects.txt").open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def agent(self, *, gate: bool = False, turn_filter: str = "", point: str = "") -> Agent:
        """The desk: it looks up, then mails, then answers."""
        gates = [filters.approval({"mail": True})] if gate else []
        return Agent(
            ScriptedModel(lambda messages: self._say(messages, point)),
            tools=self._tools(point),
            filters=[*gates, *TURN_FILTERS[turn_filter]],
            checkpointer=SQLCheckpointer(f"sqlite:///{self.folder / 'threads.db'}"),
        )

    def run(self, agent: Agent, verb: str, *args: Any, **options: Any) -> Any:
        """Call that verb of the agent in the colour of the desk."""
        options = {"durability": "sync", **options}
        if self.colour == "sync":
            return getattr(agent, verb)(*args, **options)
        return asyncio.run(getattr(agent, f"a{verb}")(*args, **options))

    def _say(self, messages: list[BaseMessage], point: str) -> AIMessage:
        last = messages[-1]
        if isinstance(last, ToolMessage) and point == "before the next model call":
            die()
        if last.text == "wrong":
            if point == "inside the second attempt":
                die()
            return AIMessage("all done")
        start = max(place for place, one in enumerate(messages) if isinstance(one, HumanMessage))
        self.note(f"model {len(messages[start:])}")
        if not isinstance(last, HumanMessage):
            return AIMessage("all done")
        names = last.text.split()
        return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": f"{last.id}-{name}"} for name in names])

    def _tools(self, point: str) -> list[BaseTool]:
        def look() -> str:
            self.note("look")
            return "looked"

        def mail() -> str:
            if point == "inside the tool, before its effect":
                stored.wait(20)
                die()
            self.note("mail")
            if point == "inside the tool, after its effect":
                stored.wait(20)
                die()
            return "mailed"

        return [
            StructuredTool.from_function(look, name="look", description="Look."),
            StructuredTool.from_function(mail, name="mail", description="Mail."),
        ]


stored = threading.Event()
"""Set once the result of `look` is in the database, or where there is none to wait for."""


def dying_turn(desk: Desk, point: str, message: str, gate: bool, turn_filter: str) -> None:
    """Run a turn that dies at that point; when it pauses it is approved, when it ends the process ends well."""
    assert point in POINTS
    if "look" not in message:
        stored.set()
    for patch in _patches(point):
        patch.start()
    agent = desk.agent(gate=gate, turn_filter=turn_filter, point=point)
    desk.run(agent, "invoke", message, thread="t")
    if gate:
        desk.run(agent, "resume", "t", approve(), by="ana")


def pausing_turn(desk: Desk, message: str) -> None:
    """Run a turn to its pause and die there."""
    desk.run(desk.agent(gate=True), "invoke", message, thread="t")
    die()


def deciding(desk: Desk) -> None:
    """Record the decision as an inbox does, and die."""
    saver = SQLCheckpointer(f"sqlite:///{desk.folder / 'threads.db'}")
    [pending] = saver.approvals.list(thread="t").items
    saver.approvals.decide(pending.id, approve(), by="ana")
    die()


def _patches(point: str) -> list[Any]:
    if point == "before the first write":
        return [mock.patch.object(SQLCheckpointer, one, _dies) for one in ("put", "aput", "put_writes", "aput_writes")]
    if point == "before the commit of the turn":
        return [mock.patch.object(scallion.turn.TurnRunner, "_commit", _dies)]
    if point == "before the decision is recorded":
        return [mock.patch.object(scallion.threads, "record", _dies)]
    if point == "after the decision is recorded":
        return [mock.patch.object(scallion.threads, "record", _then_dies(scallion.threads.record))]
    kills = point == "before the result is stored"
    put, aput = SQLCheckpointer.put_writes, SQLCheckpointer.aput_writes

    def put_writes(self: Any, config: Any, writes: Any, *args: Any, **more: Any) -> None:
        if kills and "mailed" in _results(writes):
            die()
        put(self, config, writes, *args, **more)
        _tell(writes)

    async def aput_writes(self: Any, config: Any, writes: Any, *args: Any, **more: Any) -> None:
        if kills and "mailed" in _results(writes):
            die()
        await aput(self, config, writes, *args, **more)
        _tell(writes)

    return [
        mock.patch.object(SQLCheckpointer, "put_writes", put_writes),
        mock.patch.object(SQLCheckpointer, "aput_writes", aput_writes),
    ]


def _results(writes: Any) -> list[str]:
    lists = [value for channel, value in writes if channel == "messages"]
    return [str(one.text) for messages in lists for one in messages if isinstance(one, ToolMessage)]


def _tell(writes: Any) -> None:
    if "looked" in _results(writes):
        stored.set()


def _dies(*args: Any, **more: Any) -> None:
    die()


def _then_dies(function: Callable[..., Any]) -> Callable[..., Any]:
    def then_dies(*args: Any, **more: Any) -> None:
        function(*args, **more)
        die()

    return then_dies
