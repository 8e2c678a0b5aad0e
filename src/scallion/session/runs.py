"""What came of a turn that was run again, by one agent or by several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scallion.errors import ScallionError
from scallion.inspect.conversation import call_line
from scallion.session.as_data import as_data
from scallion.session.beside import table
from scallion.session.comparing import Difference
from scallion.session.turns import Turn
from scallion.shown import Shown
from scallion.values import Completed, Paused

if TYPE_CHECKING:
    from scallion.session.session import Session


@dataclass(frozen=True, slots=True, repr=False)
class Rerun(Shown, drawn_as="rerun"):
    """A turn that was run again; `repr` shows it beside the turn that it was.

    `original`: the turn as it was. `session`: the new thread, held by the agent that ran it: where the result is
    Paused, `session.resume(...)` goes on. `turn`: what the new thread has of it; None where a guard left nothing.
    `difference`: from `original` to `turn`. `result` is None where the turn failed, which only `compare_runs` tells as
    a value: then `error` says why.
    """

    original: Turn
    session: Session
    result: Completed | Paused | None
    turn: Turn | None
    difference: Difference
    error: ScallionError | None = None

    @property
    def answer(self) -> str | None:
        """The answer, as the thread has it; None where the turn paused or failed."""
        return self.turn.answer if self.turn is not None else None

    @property
    def status(self) -> str:
        """ "completed", "paused" or "failed"."""
        return type(self.result).__name__.lower() if self.result is not None else "failed"

    def __repr__(self) -> str:
        heads = self.original.thread, self.session.thread
        return self.difference.side_by_side(names=(f"{heads[0]} (original)", f"{heads[1]} ({self.status})"))

    def to_json(self) -> dict[str, Any]:
        """Data that JSON can hold, whatever the states hold; of an error its class alone."""
        return {
            "thread": self.session.thread,
            "status": self.status,
            "answer": as_data(self.answer),
            "error": type(self.error).__name__ if self.error is not None else None,
            "difference": self.difference.to_json(),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Runs(Shown, Mapping[str, Rerun], drawn_as="runs"):
    """A turn as several agents ran it, by name; `repr` shows them side by side, the turn as it was in front."""

    original: Turn
    runs: Mapping[str, Rerun] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Rerun:
        return self.runs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def answers(self) -> dict[str, str | None]:
        """The answers by name."""
        return {name: run.answer for name, run in self.runs.items()}

    def __repr__(self) -> str:
        turns = [self.original, *(run.turn for run in self.runs.values())]
        rows = {
            "status": [self.original.status, *map(_status, self.runs.values())],
            "answer": [(turn and turn.answer) or "" for turn in turns],
            "calls": [_calls(turn) for turn in turns],
            "asks": [_asks(turn) for turn in turns],
            "tokens": [_tokens(turn) for turn in turns],
        }
        told = ((label, texts) for label, texts in rows.items() if any(texts))
        return table([f"{self.original.thread} (original)", *self.runs], told)

    def to_json(self) -> dict[str, Any]:
        """Data that JSON can hold, whatever the states hold."""
        one = self.original
        return {
            "original": {"turn": one.id, "thread": one.thread, "answer": as_data(one.answer)},
            "runs": as_data({name: run.to_json() for name, run in self.runs.items()}),
        }


def _status(run: Rerun) -> str:
    return run.status if run.error is None else f"{run.status}: {type(run.error).__name__}"


def _calls(turn: Turn | None) -> str:
    used = turn.tool_calls if turn is not None else ()
    return "\n".join(call_line({"name": one.name, "args": one.args}) for one in used)


def _asks(turn: Turn | None) -> str:
    waiting = [one for one in turn.approvals if one.status == "pending"] if turn is not None else []
    return "\n".join(one.tool or one.kind for one in waiting)


def _tokens(turn: Turn | None) -> str:
    used = [getattr(one, "usage_metadata", None) for one in turn.messages] if turn is not None else []
    total = sum(one["total_tokens"] for one in used if one)
    return str(total) if total else ""
