"""The events of a turn as they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click

from scallion.cli.interrupt import stoppable
from scallion.events import FilterActed, ModelStarted, Retracted, Token, ToolFinished, ToolStarted
from scallion.inspect.escape import one_line, printable
from scallion.values import Completed, Paused

DECIDED = {
    "reject": ("✗", "rejected by a person"),
    "deny_by_rule": ("✗", "denied by a standing rule"),
    "expired": ("✗", "expired: nobody decided in time"),
    "respond": ("✓", "answered by a person"),
}
"""What became of a call that does not run, by what was decided."""


class Screen:
    """Tool calls as lines on standard error, and the answer for whoever wants it at the end."""

    def __init__(self) -> None:
        self.answer = ""
        """The text that stands: that of the last model call, or what a filter put in its place."""
        self._call = ""
        self._tools: dict[str, str] = {}

    def show(self, event: Any) -> None:
        """Take one event."""
        match event:
            case Token():
                self._begin(event.call)
                self.answer += event.text
                self.text(event.text)
            case ModelStarted():
                self._begin(event.call)
            case Retracted():
                self._begin("")
                self.line("[retracted: the text above does not stand]")
            case ToolStarted():
                self._tools[event.call_id] = event.tool
                self.line(f"→ {event.tool}")
            case ToolFinished():
                mark, end = ("✓", "") if event.status == "success" else ("✗", " failed")
                self.line(f"{mark} {self._tools.get(event.call_id, 'tool')}{end} ({event.duration:.1f} s)")

            case FilterActed() if (told := DECIDED.get(event.action)) is not None:
                mark, end = told
                self.line(" ".join(filter(None, (mark, event.tool, end))))

    def _begin(self, call: str) -> None:
        if call != self._call:
            self._call, self.answer = call, ""
            self.end()

    def text(self, text: str) -> None:
        """A piece of the answer."""

    def end(self) -> None:
        """End a line that was begun."""

    def line(self, text: str) -> None:
        """A line about what happens."""
        click.echo(one_line(text), err=True)


class Live(Screen):
    """Everything on standard output, the answer as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._open_line = False

    def text(self, text: str) -> None:
        """A piece of the answer."""
        click.echo(printable(text), nl=False)
        self._open_line = not text.endswith("\n")

    def line(self, text: str) -> None:
        """A line of its own."""
        self.end()
        click.echo(one_line(text))

    def end(self) -> None:
        """End a line that was begun."""
        if self._open_line:
            click.echo()
        self._open_line = False


def watch(events: Iterator[Any], screen: Screen, way_on: str) -> Completed | Paused:
    """Show a turn and return its result. Ctrl-C stops the turn and is raised; a second one says the way on."""
    result: Any = None
    with stoppable(way_on), closing(events):  # type: ignore[type-var]
        for event in events:
            result = event
            screen.show(event)
    assert isinstance(result, Completed | Paused)
    return result
