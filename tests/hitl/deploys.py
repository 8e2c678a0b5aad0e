"""Two releases of one agent, each in a process of its own: the second has more filters and tools behind the first's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from processes import processes
from scenes import asks, call
from tests.modes import MODES, Driver, Mode

from scallion import Agent, Filter, Paused, SQLCheckpointer, approve, filters
from scallion.testing import ScriptedModel

YEAR = timedelta(days=365)


def passes(request: Any, state: Any, next: Any) -> Any:
    return next(request)


class Release:
    """The agent as one process has it; what it did is a line each in a file."""

    def __init__(self, url: str, folder: str, later: bool) -> None:
        self._file = Path(folder) / "done.txt"
        clock = (lambda: datetime.now(UTC) + YEAR) if later else None
        self.saver = SQLCheckpointer(url, clock=clock)
        self._later = later

    def note(self, line: str) -> None:
        with self._file.open("a") as file:
            file.write(line + "\n")

    def drive(self, mode: Mode) -> Driver:
        old = [Filter("turn", around_turn=passes), filters.approval({"refund": True})]
        more = [Filter("more", around_turn=passes, around_chat=passes, around_tool=self._notes)] if self._later else []
        tools = [self._refund(), *([audit] if self._later else [])]
        agent = Agent(ScriptedModel(self._say), tools=tools, filters=[*old, *more], checkpointer=self.saver)
        return Driver(agent, mode)

    def _notes(self, request: Any, state: Any, next: Any) -> Any:
        self.note(f"more saw {request.call['name']}")
        return next(request)

    def _refund(self) -> Any:
        def refund(order: int) -> str:
            """Give the money back."""
            self.note(f"refund {order}")
            return f"refunded {order}"

        return refund

    def _say(self, messages: list[Any]) -> Any:
        """The later release knows of the new tool, and calls it too."""
        last = messages[-1].text
        if last.startswith("order"):
            return asks(call("refund", "c1", order=int(last.split()[1])))
        return asks(call("audit", "c2", of=last)) if last.startswith("refunded") else f"done: {last}"


def audit(of: str) -> str:
    """Look at what was done."""
    return f"audited {of}"


def asks_a_person(url: str, folder: str) -> None:
    """The first release pauses a thread for each mode."""
    release = Release(url, folder, later=False)
    for number, mode in enumerate(MODES):
        assert isinstance(release.drive(mode).start(f"order {number}", thread=mode)[0], Paused)
    release.saver.close()


def goes_on(url: str, folder: str) -> None:
    """The later release finds what was asked a year ago, has it decided and goes on."""
    release = Release(url, folder, later=True)
    answers = {}
    for asked in release.saver.approvals.list().items:
        release.saver.approvals.decide(asked.id, approve(), by="ana")
        mode: Any = asked.thread
        answers[mode] = release.drive(mode).resume(mode)[0].answer
    (Path(folder) / "answers.json").write_text(json.dumps(answers))
    release.saver.close()


def run(step: Any, *args: str) -> None:
    """Run a step in a process of its own, to its end."""
    process = processes.Process(target=step, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0
