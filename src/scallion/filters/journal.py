"""The journal of one execution of a chain: what each layer's `next` calls came to, so that a resume can replay them.

A frame is one call into a layer. Its record, once a pause is stored, is plain data:
`{"layer": name, "done": {n: outcome}, "open": {n: record}, "pauses": [{"n": ordinal, "payload": ...}],
"notes": {n: [decision, updates, questions]}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from scallion.errors import Blocked, FilterError, LimitExceeded, ModelError, ScallionError, ValidationFailed

if TYPE_CHECKING:
    from scallion.filters.onion import Run
    from scallion.tracing.recorder import Trail

Record = dict[str, Any]

current_frame: ContextVar[Frame] = ContextVar("scallion_frame")


class Frame:
    """One call into a layer: which of its `next` calls ended, which is open, which questions it asked."""

    __slots__ = (
        *("asides", "changed", "done", "failed", "layer", "nexts", "notes", "open"),
        *("paused", "pauses", "reached", "record", "request", "run", "trail", "updates"),
    )

    def __init__(self, run: Run, record: Record | None, request: Any) -> None:
        self.run = run
        self.record = record
        self.request = request
        self.layer = ""
        self.failed: BaseException | None = None
        self.nexts = 0
        self.asides = 0
        """How many of its `next` calls it made for itself."""
        self.changed = False
        """Whether it gave another request to `next` than it was given."""
        self.paused = False
        """Whether a pause came up in this call: then it came to no end, whatever a filter made of the signal."""
        self.reached: Any = None
        """The request that its last `next` call came to inside of all layers; None where a layer answered itself."""
        self.updates: list[Any] = []
        """The updates of state in this call and in those inside it that came to an end."""
        self.done: dict[int, Any] | None = None
        self.open: dict[int, Frame] | None = None
        self.pauses: list[dict[str, Any]] | None = None
        self.notes: dict[str, list[Any]] = {}
        self.trail: Trail | None = None
        """What is recorded of this call for the trace of the turn."""

    def enter(self, layer: str) -> None:
        """Say whose frame this is; a filter that was added since the pause stands around the record that is there."""
        self.layer = layer
        record = self.record
        if record is not None and record["layer"] != layer:
            self.record = {"layer": layer, "done": {}, "open": {"0": record}, "pauses": []}

    def count(self, request: Any) -> None:
        """Note a `next` call with another request than this call was given."""
        if self.asks_itself(request):
            self.asides += 1
        else:
            self.changed = True

    def asks_itself(self, request: Any) -> bool:
        """Whether the filter makes this `next` call for itself."""
        return getattr(request, "aside", False) and not self.request.aside

    def asked(self, about: str | None = None) -> Mapping[str, Any] | None:
        """The recorded question that this frame asks next, or the one `about` this, if it asked before the pause."""
        recorded = self.record["pauses"] if self.record else ()
        if about is not None:
            return next((one for one in recorded if (one["payload"] or {}).get("about") == about), None)
        position = len(self.pauses or ())
        return recorded[position] if position < len(recorded) else None

    @property
    def went_on(self) -> bool:
        """Whether its next `next` call had begun before the pause: what decided on it is not decided again."""
        record, number = self.record, str(self.nexts)
        return record is not None and (number in record["done"] or number in record["open"])

    def note(self, value: Any, since: int, about: str | None = None) -> None:
        """Keep what was decided on the last `next` call, plain data, with the updates of state made `since` then.

        `about`: another name for it than the number of that call.
        """
        self.notes[about or str(self.nexts)] = [value, self.updates[since:], len(self.pauses or ())]

    def noted(self, about: str | None = None) -> Any:
        """What was noted on the last `next` call before the pause, or None; it is not decided again.

        The updates of state that came with it are made again, and what was asked for it counts as asked.
        """
        key = about or str(self.nexts)
        note = self.record.get("notes", {}).get(key) if self.record is not None else None
        if note is None:
            return None
        value, updates, questions = self.notes[key] = note
        self.run.replay(updates)
        self.pauses = list(self.record["pauses"][:questions])  # type: ignore[index]
        return value

    def forget(self) -> None:
        """Do not keep what the `next` calls of this frame came to: somebody else knows, and has the last word."""
        self.nexts, self.done = 0, None
        if self.record is not None:
            self.record = {**self.record, "done": {}, "open": {}}

    def passed_on(self, reply: Any) -> bool:
        """Whether it is, as it was, what one of its `next` calls gave."""
        return self.done is not None and any(reply is one for one, _, _ in self.done.values())

    def ask(self, entry: dict[str, Any]) -> None:
        """Record a question."""
        if self.pauses is None:
            self.pauses = []
        self.pauses.append(entry)

    def ordinal(self) -> int:
        """The place of the next answer that this frame takes: LangGraph's own `interrupt()` counts by it."""
        entry = self.asked()
        number = self.fresh() if entry is None else int(entry["n"])
        self.ask({"n": number, "payload": None})
        return number

    def fresh(self) -> int:
        """The place of the answer to a question that was not asked before."""
        number = self.run.free
        self.run.free = min(number + 1, len(self.run.answers))
        return number

    def dump(self, wire: Wire) -> Record:
        """The record of this frame and of those that are open inside it.

        What was recorded of `next` calls that it has not come to again is kept: it may have paused before them.
        """
        done = {str(number): outcome_record(outcome, wire) for number, outcome in (self.done or {}).items()}
        inner = {str(number): frame.dump(wire) for number, frame in (self.open or {}).items()}
        notes = {**(self.record.get("notes", {}) if self.record is not None else {}), **self.notes}
        return {
            "layer": self.layer,
            "done": {**self._later("done"), **done},
            "open": {**self._later("open"), **inner},
            "pauses": list(self.pauses or ()),
            **({"notes": notes} if notes else {}),
        }

    def _later(self, part: str) -> Record:
        recorded: Record = self.record[part] if self.record is not None else {}
        return {number: one for number, one in recorded.items() if int(number) >= self.nexts}


def asked_at(record: Record, number: int) -> Mapping[str, Any] | None:
    """The question whose answer has this place, if a frame that is open asked it."""
    for entry in record["pauses"]:
        if entry["n"] == number:
            payload: Mapping[str, Any] | None = entry["payload"]
            return payload
    found = (asked_at(inner, number) for inner in record["open"].values())
    return next((one for one in found if one is not None), None)


def native_askers(record: Record) -> set[str]:
    """The layers whose open calls asked by LangGraph's own `interrupt()`."""
    own = {record["layer"]} if any(entry["payload"] is None for entry in record["pauses"]) else set()
    return own.union(*map(native_askers, record["open"].values()))


def has_begun(record: Record | None) -> bool:
    """Whether the innermost call of a chain was begun before the pause: its request is not used again."""
    if record is None:
        return False
    return not record["layer"] or bool(record["done"]) or any(map(has_begun, record["open"].values()))


class Wire:
    """How the replies of one chain are stored in a journal and read back."""

    def __init__(self, chain: str, dump: Callable[[Any], Any], load: Callable[[Any], Any]) -> None:
        self.hook = "around_" + chain
        self.dump = dump
        self.load = load


def outcome_record(outcome: tuple[Any, BaseException | None, Sequence[Any]], wire: Wire) -> Record:
    """Plain data for what a `next` call came to: its reply or error, and the updates of state made inside."""
    reply, error, updates = outcome
    record: Record = {"updates": [[name, update] for name, update in updates]}
    if error is not None:
        record["error"] = dump_error(error)
    else:
        record["reply"] = wire.dump(reply)
    return record


def dump_error(error: BaseException) -> Record:
    """Plain data from which `load_error` makes an error of the same class."""
    kind = type(error).__name__
    if isinstance(error, ModelError):
        return {"type": kind, "args": [error.kind, error.message, error.retry_after]}
    if isinstance(error, FilterError):
        return {"type": kind, "args": [error.filter, error.hook, type(error.__cause__).__name__]}
    if isinstance(error, LimitExceeded):
        return {"type": kind, "args": [error.limit, error.used, error.allowed, error.per]}
    if isinstance(error, ValidationFailed):
        return {"type": kind, "args": [error.errors]}
    if isinstance(error, Blocked):
        return {"type": kind, "args": [error.guard, error.findings, error.told]}
    return {"type": "ScallionError", "args": [f"{kind} before the pause"]}


_ERRORS: dict[str, type[ScallionError]] = {
    kind.__name__: kind for kind in (ModelError, FilterError, LimitExceeded, ValidationFailed, Blocked, ScallionError)
}


def load_error(record: Record) -> ScallionError:
    """The error that `dump_error` stored."""
    return _ERRORS[record["type"]](*record["args"])
