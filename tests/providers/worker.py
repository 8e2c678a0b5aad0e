"""What the processes do that are killed: one step of a thread over a real client, told to the parent by a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool

from scallion import Agent, Paused, approve, filters

from .clients import client


@dataclass(frozen=True)
class Desk:
    """Where the provider, the database and the list of effects are."""

    protocol: str
    url: str
    folder: Path

    @property
    def effects(self) -> list[str]:
        """The tool calls that ran, in any process."""
        path = self.folder / "effects.txt"
        return path.read_text().splitlines() if path.exists() else []

    def agent(self) -> Agent:
        return Agent(
            client(self.protocol, self.url),
            tools=self._tools(),
            filters=[filters.approval({"refund": True})],
            system_prompt="You serve a shop.",
            checkpointer=f"sqlite:///{self.folder / 'threads.db'}",
        )

    def _tools(self) -> list[BaseTool]:
        def look_up(order: int) -> str:
            """Look an order up."""
            return self._effect(f"look_up {order}")

        def refund(order: int, amount: float, reason: str) -> str:
            """Refund an order."""
            return self._effect(f"refund {order} {amount} {reason}")

        return [StructuredTool.from_function(look_up), StructuredTool.from_function(refund)]

    def _effect(self, line: str) -> str:
        with (self.folder / "effects.txt").open("a") as file:
            file.write(line + "\n")
        return "done"


def ask_and_hang(desk: Desk, message: str, parent: Connection) -> None:
    """Run a turn to its pause, tell it, and stay: the parent kills this process."""
    *_, paused = desk.agent().stream(message, thread="t")
    assert isinstance(paused, Paused)
    parent.send([approval.to_json() for approval in paused.approvals])
    parent.recv()


def resume(desk: Desk, parent: Connection) -> None:
    """Approve all that the thread waits for."""
    *_, result = desk.agent().stream_resume("t", approve())
    parent.send(result.answer)


def go_on(desk: Desk, parent: Connection) -> None:
    """Finish the turn that a crash left open."""
    *_, result = desk.agent().stream_resume("t")
    parent.send(result.answer)


def ask(desk: Desk, message: str, parent: Connection) -> None:
    """Run a whole turn."""
    *_, result = desk.agent().stream(message, thread="t")
    parent.send(result.answer)
