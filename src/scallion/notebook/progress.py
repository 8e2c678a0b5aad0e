"""A turn while it streams, as what a reader has seen of it so far: text that stands, tools, what the layers did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from scallion.events import (
    FilterActed,
    GuardActed,
    ModelFinished,
    ModelStarted,
    Reasoning,
    Retracted,
    Token,
    ToolFinished,
    ToolStarted,
)
from scallion.inspect.escape import one_line, printable
from scallion.values import Completed, Paused

SECONDS = 0.1
"""Between two drawings of a text that comes."""
SHORT = 10_000
"""Characters that are drawn so often; twice as many are drawn half as often, as each drawing sends all of them."""

Kind = Literal["text", "thought", "tool", "note"]
MARKS = {"running": "→", "success": "✓", "error": "✗"}
PIECES = (Token, Reasoning)


@dataclass(slots=True)
class Entry:
    """One thing that was seen; `of`: the call that it belongs to."""

    kind: Kind
    of: str
    text: str
    state: str = ""

    def line(self) -> str:
        """It as plain text."""
        match self.kind:
            case "tool":
                return f"{MARKS.get(self.state, '✗')} {self.text}"
            case "note":
                return f"· {self.text}"
        return self.text


class Progress:
    """What was seen of one turn. `take` gives whether it should be drawn at once."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.result: Completed | Paused | None = None

    def take(self, event: Any) -> bool:
        """Take one event, or the result."""
        match event:
            case Token():
                self._piece("text", event.call, event.text)
            case Reasoning():
                self._piece("thought", event.call, event.text)
            case Retracted():
                self._retract(event.call)
            case ToolStarted():
                self.entries.append(Entry("tool", event.call_id, one_line(event.tool), "running"))
            case ToolFinished():
                self._finished(event)
            case FilterActed():
                about = f", {event.tool}" if event.tool else ""
                self._note(f"{event.filter}: {event.action.replace('_', ' ')}{about}")
            case GuardActed():
                found = ", ".join(f"{count} {name}" for name, count in event.found.items())
                self._note(f"{event.filter}: {event.action} {found} in {event.place.replace('_', ' ')}")
            case ModelStarted() | ModelFinished():
                return False
            case Completed() | Paused():
                self._end(event)
        return not isinstance(event, PIECES)

    @property
    def size(self) -> int:
        """Characters of what is shown."""
        return sum(len(one.text) for one in self.entries)

    def to_json(self) -> list[dict[str, str]]:
        """The entries as plain data."""
        return [{"kind": one.kind, "text": one.text, "state": one.state} for one in self.entries if one.text]

    def lines(self) -> Iterator[str]:
        """The entries as plain text."""
        yield from (one.line() for one in self.entries if one.text)

    def _piece(self, kind: Kind, call: str, text: str) -> None:
        last = next((one for one in reversed(self.entries) if (one.kind, one.of) == (kind, call)), None)
        if last is None:
            last = Entry(kind, call, "")
            self.entries.append(last)
        last.text += printable(text)

    def _retract(self, call: str) -> None:
        kept = [one for one in self.entries if one.kind not in ("text", "thought") or one.of != call]
        if len(kept) < len(self.entries):
            self.entries = kept
            self._note("taken back: a text that does not stand")

    def _finished(self, event: ToolFinished) -> None:
        for one in self.entries:
            if one.kind == "tool" and one.of == event.call_id and one.state == "running":
                one.state = event.status
                one.text += f" ({event.duration:.1f} s)"

    def _note(self, text: str) -> None:
        self.entries.append(Entry("note", "", one_line(text)))

    def _end(self, result: Completed | Paused) -> None:
        """The answer is what stands, whatever was streamed."""
        self.result = result
        if not isinstance(result, Completed):
            return
        answer = printable(result.answer)
        texts = [one for one in self.entries if one.kind == "text"]
        if texts and self.entries[-1] is texts[-1]:
            texts[-1].text = answer
        elif not texts or texts[-1].text != answer:
            self.entries.append(Entry("text", "", answer))


class Throttled:
    """Draws when asked to, but not more often than every `SECONDS`, or longer where there is much, if it may wait."""

    def __init__(self, draw: Callable[[], None], progress: Progress) -> None:
        self._draw = draw
        self._progress = progress
        self._last = 0.0

    def __call__(self, at_once: bool) -> None:
        """Draw, unless it may wait and was done just now."""
        wait = SECONDS * max(1.0, self._progress.size / SHORT)
        if at_once or time.monotonic() - self._last >= wait:
            self._draw()
            self._last = time.monotonic()
