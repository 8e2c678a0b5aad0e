"""What one turn knows while it runs: what it started from, how far it came, and what the thread keeps of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from scallion.approvals.changed import asks_again
from scallion.filters.journal import Frame, Record, Wire
from scallion.filters.schema.python_type import written
from scallion.filters.state import States
from scallion.history import kept_messages, shared_length, with_final, with_ids
from scallion.loop.invocation import Invocation
from scallion.loop.state import COUNTS
from scallion.values import Completed, TurnRequest


@dataclass(eq=False)
class LoopPause(BaseException):
    """The loop waits for a person: LangGraph's interrupts, and the messages so far."""

    interrupts: Sequence[Any]
    messages: Sequence[BaseMessage]


@dataclass
class Resumption:
    """What an interrupted turn goes on from: the graph's values, and the answers by interrupt id (None: just go on)."""

    values: Mapping[str, Any]
    answers: Mapping[str, Any] | None
    ended: bool = False
    """Whether the loop had come to its end, so that only the rest of the turn is missing."""
    held: Any = None
    """The answer to a pause around the turn."""
    held_id: str | None = None

    @property
    def begins_anew(self) -> bool:
        """Whether the pause around the turn is not answered, as all has to be asked again."""
        return asks_again([self.held]) is not None


@dataclass
class Turn:
    """One execution of the turn chain: what it started from and how far it came."""

    id: str
    here: Invocation
    config: dict[str, Any]
    request: TurnRequest
    base: Sequence[BaseMessage] | None
    """The history before the turn; None where it is not needed, as nothing stands around the turn."""
    options: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = True
    """Whether a checkpointer keeps what the loop comes to."""
    inner: bool = False
    """Whether it runs in a task of another graph, which keeps what comes of it: its loop has a place there."""
    slots: Mapping[str, Any] = field(default_factory=dict)
    """The shared state, of a turn in a task of another graph: that it starts with, and that its loop ended with."""
    resumption: Resumption | None = None
    attempts: int = 0
    answers: list[Any] = field(default_factory=list)
    channel: Sequence[BaseMessage] = ()
    """What the `messages` channel holds, as far as this turn knows."""
    replaced: bool = False
    kept_request: Sequence[BaseMessage] = ()
    """The new messages of the turn as the loop was given them: what the input filters made of them."""
    finals: list[str | None] = field(default_factory=list)
    fed: set[str | None] = field(default_factory=set)
    standing: set[str | None] = field(default_factory=set)
    """The answers that stay in the thread although the loop was entered again."""
    pairs: dict[str | None, BaseMessage] = field(default_factory=dict)
    """Executed calls and their results of all attempts: they stay in the thread, whatever became of the answers."""
    paused: LoopPause | None = None
    root: Frame | None = None
    states: States = field(default_factory=dict)
    """The filters' states that the chain started from: a resume makes the updates again."""
    account: Mapping[str, Any] | None = None
    """The account of the turn after its last loop."""

    def wire(self, load_parsed: Callable[[Any], Any] | None = None) -> Wire:
        """Results are stored with the messages that the channel holds anyway left out, and what was parsed as JSON."""

        def dump(result: Completed) -> Record:
            head = shared_length(self.channel, result.messages)
            return {
                "message": result.message,
                "usage": dict(result.usage),
                "attempts": result.attempts,
                "parsed": written(result) if load_parsed else result.parsed,
                "calls": [dict(one) for one in result.tool_calls],
                "head": head,
                "rest": list(result.messages)[head:],
            }

        def load(record: Record) -> Completed:
            messages = [*self.channel[: record["head"]], *record["rest"]]
            kept = record["parsed"]
            parsed, text = (kept, None) if load_parsed is None or kept is None else (load_parsed(kept), kept)
            self.note_end(record["message"], messages)
            return Completed(
                record["message"], messages, record["calls"], record["usage"], record["attempts"], parsed,
                thread=self.here.thread, turn=self.id, parsed_json=text,
            )  # fmt: skip

        return Wire("turn", dump, load)

    @property
    def given(self) -> Sequence[BaseMessage]:
        """The messages of the turn; those that input filters made of them, as soon as they have."""
        given = self.root.run.given if self.root else None
        return self.request.messages if given is None else given

    def note_end(self, message: BaseMessage, messages: Sequence[BaseMessage]) -> None:
        """Remember what an attempt came to, for the commit."""
        self.finals.append(message.id)
        for one in messages[len(self.base or ()) :]:
            if one.type == "tool" or (isinstance(one, AIMessage) and one.tool_calls):
                self.pairs[one.id] = one

    def note_feedback(self, given: set[str | None], *, keep: bool) -> None:
        """Remember which of the messages that the loop is entered with again are kept, for the commit."""
        if keep:
            self.standing |= given.intersection(self.finals)
        else:
            self.fed |= given - {one.id for one in self.channel}

    @property
    def counts(self) -> Mapping[str, float]:
        """What its last loop has it come to."""
        counts: Mapping[str, float] = self.account["counts"] if self.account else {}
        return counts

    def usage(self, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the turn used, with what filters asked beside the loop since its end."""
        lost, known = self.here.lost, {**dict.fromkeys(COUNTS, 0), **told, **self.counts}
        return {**known, **{name: self.counts.get(name, 0) + value for name, value in lost.items()}}

    def kept(self, result: Completed) -> list[BaseMessage]:
        """The thread after the turn, if it came to this result. An answer without an id has that of the turn."""
        final = result.message if result.message.id else result.message.model_copy(update={"id": self.id})
        self.kept_request = self.kept_request or with_ids(self.given)
        returned, rejected = with_final(result.messages, final), set(self.finals) - self.standing - {final.id}
        return kept_messages(
            self.base or (), self.kept_request, returned, final, rejected=rejected, fed=self.fed, pairs=self.pairs
        )

    def added(self, result: Completed) -> list[BaseMessage]:
        """What the thread has more after the turn."""
        before = {one.id for one in self.base or ()}
        return [one for one in self.kept(result) if one.id not in before]

    def marker(self, wire: Wire, hold: Any = None) -> dict[str, Any]:
        """The open-turn marker: all that a resume in another process needs."""
        assert self.root is not None
        marker = {
            "open": True,
            "id": self.id,
            "journal": self.root.dump(wire),
            "request": list(self.given),
            "rewritten": sorted(self.root.run.rewritten),
            "kept": list(self.kept_request),
            "answers": self.answers,
            "attempts": self.attempts,
            "states": self.states,
            "replaced": self.replaced,
            "base_length": len(self.base or ()),
            "fed": sorted(one for one in self.fed if one),
            "standing": sorted(one for one in self.standing if one),
        }
        return {**marker, "hold": hold} if hold is not None else marker


def new_turn_id() -> str:
    """A name for a turn."""
    return uuid.uuid4().hex
