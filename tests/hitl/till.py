"""A till that pays out: its one effect is a line in a file, which outlives the process that wrote it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from tests.hitl.killing import die, dying
from tests.modes import Driver, Mode

from scallion import Agent, SQLCheckpointer, filters, rerun
from scallion.sql.effects import Effects
from scallion.testing import ScriptedModel
from scallion.tools import idempotency_key

POINTS = (
    "before the reservation",
    "after the reservation",
    "in the tool, after its effect",
    "before the record",
    "after the record",
    "before the checkpoint has the result",
    "before the next model call",
)
UNKNOWN = POINTS[1:4]
"""Where a crash leaves a call of which nobody knows what came."""


@dataclass
class Till:
    """A thread's till, on one database and in one mode."""

    url: str
    folder: Path
    thread: str
    mode: Mode
    saver: SQLCheckpointer | None = None
    point: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    calls: tuple[str, ...] = ("pay",)

    @property
    def paid(self) -> list[str]:
        """The idempotency key of every payment, in any process."""
        path = self.folder / f"{self.thread}.txt"
        return path.read_text().splitlines() if path.exists() else []

    def agent(self) -> Agent:
        """It pays, then says what came of it."""
        guard = filters.once("pay", **self.options)
        saver = self.saver or SQLCheckpointer(self.url)
        return Agent(ScriptedModel(self._say), tools=[self._pay(), look], filters=[guard], checkpointer=saver)

    def drive(self) -> Driver:
        """The agent in the till's mode."""
        return Driver(self.agent(), self.mode)

    def _say(self, messages: list[BaseMessage]) -> AIMessage:
        results = [one.text for one in messages if isinstance(one, ToolMessage)]
        if results and self.point == "before the next model call":
            die()
        if results:
            return AIMessage(" / ".join(results))
        calls = [{"name": name, "args": {"euros": 5}, "id": f"call-{name}"} for name in self.calls]
        return AIMessage("", tool_calls=calls)

    def _pay(self) -> Any:
        def pay(euros: int) -> str:
            """Pay out."""
            with (self.folder / f"{self.thread}.txt").open("a") as file:
                file.write(idempotency_key() + "\n")
                file.flush()
                os.fsync(file.fileno())
            if self.point == "in the tool, after its effect":
                die()
            return f"paid {euros}"

        return pay


def look(euros: int) -> str:
    """Look at the till."""
    return f"there are {euros}"


def _has_result(saver: Any, config: Any, writes: Any, *rest: Any) -> bool:
    return any(isinstance(one, ToolMessage) for channel, value in writes if channel == "messages" for one in value)


def at(point: str) -> AbstractContextManager[None]:
    """Within the block the process dies at that point."""
    chosen: dict[str, tuple[Any, ...]] = {
        "before the reservation": (Effects, "begin", False),
        "after the reservation": (Effects, "begin", True),
        "before the record": (Effects, "end", False),
        "after the record": (Effects, "end", True),
        "before the checkpoint has the result": (SQLCheckpointer, "put_writes", False),
    }
    if point not in chosen:
        return nullcontext()
    owner, verb, after = chosen[point]
    return dying(owner, verb, after=after, **({"only": _has_result} if verb == "put_writes" else {}))


def pays_and_dies(till: Till) -> None:
    """A turn that dies at the till's point."""
    with at(till.point):
        till.drive().start("pay", thread=till.thread)


def runs_again_and_dies(till: Till) -> None:
    """A person has the call run again, and that dies at the till's point."""
    with at(till.point):
        till.drive().resume(till.thread, rerun())
