"""The history of a thread: its turns, put together from the trail of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, BaseMessage

from scallion.errors import ConfigurationError, ThreadError
from scallion.history import is_transient
from scallion.inspect.calls import answers
from scallion.shown import Shown, brief
from scallion.values import Approval

TurnStatus = Literal["completed", "paused", "running", "failed", "closed"]
FIRST_STEP = -1
"""The step of the first message of a thread, as LangGraph counts."""


class Mark(Protocol):
    """One stored step, from a saver that keeps a trail."""

    id: str
    parent: str | None
    step: int
    source: str
    at: datetime
    user: str | None
    turn: str | None
    count: Any
    begins: bool
    ended: bool
    copy_of: str | None


class Trail(Protocol):
    """The steps of a thread, the oldest first, with the approvals that they asked for."""

    thread: str
    head: str | None
    status: str
    marks: Sequence[Any]
    asked: Sequence[tuple[str, Approval]]
    spans: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call of a turn; `result` is None while there is none, `status` "success", "error" or "open"."""

    id: str
    name: str
    args: Mapping[str, Any]
    result: Any = None
    status: str = "open"


@dataclass(frozen=True, slots=True, repr=False)
class Turn(Shown, drawn_as="turn"):
    """One turn of a thread. Times are UTC and aware.

    `sent`: what the turn was asked; `messages`: these, and all that came of them. `answer` is None where it came to
    none. `approvals`: what it asked people, with what was decided, by whom and when. `user`: who began it.
    `checkpoint`: the step that it ended with. `status`: "closed" is one that was given up before its answer.
    """

    id: str
    thread: str
    status: TurnStatus
    sent: Sequence[BaseMessage]
    messages: Sequence[BaseMessage]
    approvals: Sequence[Approval]
    user: str | None
    began_at: datetime
    ended_at: datetime
    checkpoint: str

    @property
    def message(self) -> AIMessage | None:
        """The answer as a message; none of a turn that has not come to its end."""
        return final(self.messages) if self.status == "completed" else None

    @property
    def answer(self) -> str | None:
        """The text of the answer."""
        return answer_of(self.messages) if self.status == "completed" else None

    @property
    def tool_calls(self) -> Sequence[ToolUse]:
        """The calls of tools in order, with their results."""
        found = answers((_ids(one), getattr(one, "tool_call_id", None)) for one in self.messages)
        calls = ((place, one.tool_calls) for place, one in enumerate(self.messages) if isinstance(one, AIMessage))
        asked = ((call, found.get((place, at))) for place, made in calls for at, call in enumerate(made))
        return [_use(call, None if result is None else self.messages[result]) for call, result in asked]

    def __repr__(self) -> str:
        counts = {"messages": len(self.messages), "approvals": len(self.approvals)}
        told = {"id": self.id, "thread": self.thread, "status": self.status, "user": self.user, "answer": self.answer}
        return brief(self, **told, **counts)


def final(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """The answer that these messages end with."""
    last = messages[-1] if messages else None
    return last if isinstance(last, AIMessage) and not last.tool_calls and not last.invalid_tool_calls else None


def answer_of(messages: Sequence[BaseMessage]) -> str | None:
    """The text of the answer that these messages end with."""
    message = final(messages)
    return None if message is None else str(message.text)


def _ids(message: BaseMessage) -> list[str | None]:
    return [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []


def _use(call: Any, result: Any) -> ToolUse:
    use = ToolUse(str(call["id"]), call["name"], call["args"])
    return use if result is None else replace(use, result=result.content, status=result.status)


@dataclass(frozen=True, slots=True)
class Step(Shown, drawn_as="step"):
    """One stored state of a thread. The time is UTC and aware.

    `step`: its number; `turn`: whose it is. `source`: "input", "loop", "update" or, of a copy that a rewind made,
    "fork". `current`: whether the thread as it is now came by it, or a rewind has left it behind.
    """

    id: str
    step: int
    turn: str
    source: str
    at: datetime
    parent: str | None
    current: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """The steps of one turn, and the one before them."""

    id: str
    marks: Sequence[Mark]
    base: Mark | None

    @property
    def end(self) -> Mark:
        """The step that it ended with."""
        return self.marks[-1]


class Past:
    """The turns of a trail: those that the thread came by, and those that rewinds have left behind."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._by_id: dict[str, Mark] = {one.id: one for one in trail.marks}
        self.line = self._line(trail.head)
        self.turns = _segments(self.line)
        self._here = {self._original(one.id) for one in self.line}
        self.left = list(self._left())

    def spans(self, segments: Sequence[Segment]) -> list[tuple[str | None, str]]:
        """Between which steps the messages of these turns came."""
        return [(one.base.id if one.base else None, one.end.id) for one in segments]

    def steps(self) -> list[Step]:
        """Every step, the oldest first."""
        turn_of = {mark.id: one.id for one in (*self.left, *self.turns) for mark in one.marks}
        here = {one.id for one in self.line}
        return [
            Step(one.id, one.step, turn_of.get(one.id, one.turn or ""), one.source, one.at, one.parent, one.id in here)
            for one in self._by_id.values()
        ]

    def place(self, given: Any) -> Mark:
        """The step that is meant: a Turn or its id (where it ended), a Step or its id, or a number of the present line.

        Raises ThreadError where the thread has no such step, ConfigurationError for what names none.
        """
        if isinstance(given, Turn | Step):
            given = given.checkpoint if isinstance(given, Turn) else given.id
        if isinstance(given, bool) or not isinstance(given, int | str):
            raise ConfigurationError(f"a place is a turn, a step, their id or a number, not {type(given).__name__}")
        if isinstance(given, int):
            found = next((one for one in self.line if one.step == given), None)
        else:
            found = self._by_id.get(given) or next((one.end for one in self._named(given)), None)
        if found is None:
            raise ThreadError(self._trail.thread, f"thread {self._trail.thread!r} has no turn or step {given!r}")
        return found

    def turn(self, given: Any) -> Segment:
        """The turn that is meant: a Turn or its id. Raises ThreadError where the thread has no such turn."""
        if not isinstance(given, Turn):
            return self._only(self._named(given), given)
        end = self._original(given.checkpoint)
        return self._only([one for one in (*self.turns, *self.left) if self._original(one.end.id) == end], given.id)

    def again(self, given: Any) -> tuple[Segment, Mark | None]:
        """The turn that is meant, and the step in it from which it is to go on: None where that is its beginning.

        Raises ThreadError where the thread has no such turn or step, or no turn is under way at it.
        """
        if isinstance(given, Turn) or (isinstance(given, str) and given not in self._by_id):
            return self.turn(given), None
        mark = self.place(given)
        of, thread = self._original(mark.id), self._trail.thread
        turns = (one for one in (*self.turns, *self.left) if any(self._original(each.id) == of for each in one.marks))
        found = next(turns, None)
        if found is None or mark.ended:
            raise ThreadError(thread, f"no turn is under way at step {mark.step} of thread {thread!r}: name the turn")
        return found, None if mark.begins and self._original(found.marks[0].id) == of else mark

    def _only(self, found: Sequence[Segment], id: Any) -> Segment:
        if not found:
            raise ThreadError(self._trail.thread, f"thread {self._trail.thread!r} has no turn {id!r}")
        return found[0]

    def before(self, given: Any) -> str | None:
        """The step that the turn began on; None where the thread began with it. Raises ThreadError as `turn`."""
        one = given if isinstance(given, Segment) else self.turn(given)
        if one.base is None and (not one.marks[0].begins or one.marks[0].step > FIRST_STEP):
            raise ThreadError(self._trail.thread, "what the thread was before that turn is not kept any more")
        return one.base.id if one.base else None

    def _named(self, id: Any) -> list[Segment]:
        """The turns of that id: of the present line first, then what was left behind last."""
        return [one for one in (*self.turns, *self.left) if one.id == id]

    def _line(self, id: str | None) -> list[Mark]:
        found: list[Mark] = []
        while id is not None and id in self._by_id and len(found) < len(self._by_id):
            found.append(self._by_id[id])
            id = self._by_id[id].parent
        return found[::-1]

    def _original(self, id: str) -> str:
        """The step that it is a copy of, or itself."""
        seen = {id}
        while id in self._by_id and (before := self._by_id[id].copy_of) and before not in seen:
            seen.add(before)
            id = before
        return id

    def _left(self) -> Iterator[Segment]:
        """The turns on which no step of the present line stands, the newest first."""
        passed = {one.parent for one in self._by_id.values()} | {one.id for one in self.line}
        seen = set(self._here)
        for tip in sorted(self._by_id.keys() - passed, reverse=True):
            for one in reversed(_segments(self._line(tip))):
                if (end := self._original(one.end.id)) not in seen:
                    seen.add(end)
                    yield one


def _segments(line: Sequence[Mark]) -> list[Segment]:
    groups: list[list[Mark]] = []
    for mark in line:
        if not groups or _begins(mark, groups[-1], groups[-2] if len(groups) > 1 else None):
            groups.append([])
        groups[-1].append(mark)
    found: list[Segment] = []
    taken: set[str] = set()
    for group, base in zip(groups, [None, *(one[-1] for one in groups)], strict=False):
        id = _name(group, base)
        found.append(Segment(_unnamed(group) if id in taken else id, group, base))
        taken.add(id)
    return found


def _begins(mark: Mark, group: Sequence[Mark], before: Sequence[Mark] | None) -> bool:
    """Whether a turn begins here: with its message, or with what is changed for it on a thread that rests."""
    if mark.begins:
        if before is None or group[0].begins or any(one.source != "update" for one in group):
            return True
        # One that a filter ended wrote its end alone; what is changed for a turn has the account of the one before.
        return group[-1].turn != before[-1].turn and _is_counted(group, before[-1])
    if mark.source == "update" and group[-1].ended:
        return True
    # Where only the ends of turns are stored, the account alone tells one from the next.
    return mark.turn != group[-1].turn and _is_counted(group, before[-1] if before else None)


def _is_counted(marks: Sequence[Mark], base: Mark | None) -> bool:
    """Whether the last step knows of the turn."""
    return marks[-1].turn is not None and (base is None or marks[-1].count != base.count)


def _name(marks: Sequence[Mark], base: Mark | None) -> str:
    """The id of the turn: another one than the agent's where it came to an end before anything of it was counted."""
    return str(marks[-1].turn) if _is_counted(marks, base) else _unnamed(marks)


def _unnamed(marks: Sequence[Mark]) -> str:
    return f"turn-{marks[0].id}"


def is_unnamed(id: str) -> bool:
    """Whether a turn has this id for its first step, as the thread does not know what the agent called it."""
    return id.startswith("turn-")


def turns(trail: Trail, segments: Sequence[Segment]) -> list[Turn]:
    """The turns with their messages, which the trail has in the same order; what has none is no turn."""
    asked: dict[str, list[Approval]] = {}
    for step, approval in trail.asked:
        asked.setdefault(step, []).append(approval)
    made = (_turn(trail, one, list(new), asked) for one, new in zip(segments, trail.spans, strict=True))
    return [one for one in made if one.messages]


def _turn(trail: Trail, one: Segment, new: list[Any], asked: Mapping[str, list[Approval]]) -> Turn:
    messages = [message for message in new if not is_transient(message)]
    made = next((place for place, message in enumerate(messages) if message.type in ("ai", "tool")), len(messages))
    turn = Turn(
        id=one.id,
        thread=trail.thread,
        status="completed",
        sent=messages[:made],
        messages=messages,
        approvals=[approval for mark in one.marks for approval in asked.get(mark.id, ())],
        user=one.marks[0].user,
        began_at=one.marks[0].at,
        ended_at=one.end.at,
        checkpoint=one.end.id,
    )
    return replace(turn, status=_status(trail, turn, one.end))


def _status(trail: Trail, turn: Turn, end: Mark) -> TurnStatus:
    if turn.checkpoint == trail.head and trail.status in ("paused", "running", "failed"):
        return trail.status  # type: ignore[return-value]
    return "completed" if end.ended and turn.message is not None else "closed"
