"""What state a thread is in, and how a turn starts, goes on or is closed on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.graph import END, START
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from scallion.approvals.changed import again
from scallion.approvals.decisions import check_open
from scallion.approvals.forms import EXPIRED
from scallion.approvals.ledger import Ledger, addressed, open_approvals, record
from scallion.approvals.naming import check_owner
from scallion.approvals.payload import is_ours, placed
from scallion.approvals.questions import answers as question_answers
from scallion.approvals.questions import questions
from scallion.bridge import call
from scallion.course import LoopPause, Resumption
from scallion.elsewhere import refuse_message, refuse_resume
from scallion.errors import ConfigurationError, NotPaused, PauseChanged, ThreadPaused
from scallion.history import calls_of, changes, last_batch, left_of
from scallion.loop.invocation import Invocation, invocation
from scallion.loop.updating import enter, update
from scallion.settling import CANCELLED, LATE, STOPPED, SUPERSEDED, UNKNOWN_OUTCOME, answered
from scallion.stack import Stack
from scallion.values import Approval, Decision

CLOSED = ("cancelled", "superseded", "used")


@dataclass(frozen=True)
class Head:
    """Where a thread stands: the values of its newest checkpoint, whether more comes, who is waited for."""

    values: Mapping[str, Any]
    open: bool
    """Whether the loop has not come to its end; its last tasks may all have finished, and only not been applied."""
    interrupts: Sequence[Any]
    metadata: Mapping[str, Any]
    done: Sequence[Mapping[str, Any]] = ()
    """What tasks of the last step wrote that has not been applied; `values` shows it already."""
    id: str | None = None
    """The checkpoint."""
    enters: bool = False
    """Whether it is the input of a turn, of which `values` has nothing yet."""

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The history."""
        return self.values.get("messages") or []

    @property
    def turn(self) -> str | None:
        """The id of the turn that ran last, or is open."""
        turn: str | None = (self.marker or {}).get("id") or (self.values.get("loop") or {}).get("turn")
        return turn

    @property
    def marker(self) -> Mapping[str, Any] | None:
        """The marker of a turn that was not committed."""
        marker = self.values.get("turn")
        return marker if marker and marker.get("open") else None


class Judge(Protocol):
    """Raises Blocked where a filter stops messages, before anything is ended for them."""

    def __call__(self, messages: Sequence[BaseMessage], here: Invocation) -> None: ...


class Threads:
    """The threads of one agent in its saver."""

    def __init__(
        self,
        graph: Any,
        saver: Any,
        stack: Stack,
        on_message_while_paused: str,
        on_changed: Literal["refuse", "ask"],
        judge: Judge,
    ) -> None:
        self._graph = graph
        self._saver = saver
        self._stack = stack
        self._on_message = on_message_while_paused
        self._on_changed = on_changed
        self.judge = judge

    @property
    def ledger(self) -> Ledger | None:
        """Where the saver keeps decisions; what the running turn changes there, it changes while it has its lease."""
        ledger: Any = getattr(self._saver, "approvals", None)
        lease = invocation().lease
        return ledger if ledger is None or lease is None else cast("Ledger", ledger.under(lease))

    def head(self, config: Mapping[str, Any]) -> Head:
        """Where the thread stands."""
        snapshot = call(self._graph.get_state, self._graph.aget_state, config)
        done = [one.result for one in snapshot.tasks if isinstance(one.result, Mapping)]
        id = (snapshot.config.get("configurable") or {}).get("checkpoint_id")
        enters = not done and snapshot.next == (START,)
        metadata = snapshot.metadata or {}
        return Head(snapshot.values, bool(snapshot.tasks), snapshot.interrupts, metadata, done, id, enters)

    def whole(self, config: Mapping[str, Any]) -> Head:
        """As `head`, once the beginning of a turn is applied of which a fork or rewind left the input alone.

        And the end of one that was written by half: older releases could die there.
        """
        head = self.head(config)
        if head.enters:
            enter(self._graph, config)
            head = self.head(config)
        if not any("turn" in one for one in head.done):
            return head
        update(self._graph, config, None, as_node=END)
        return self.head(config)

    def ready(self, config: Mapping[str, Any], thread: str, given: Sequence[BaseMessage], *, full: bool) -> Head | None:
        """Make the thread ready for new messages: refuse or supersede a pause, close calls that a crash left open.

        Returns None where nothing needs to be known: a saver that keeps an index says so with one row, unless `full`.
        Raises ThreadPaused; Blocked where a guard stops what would supersede a pause.
        """
        if not full and hasattr(self._saver, "status"):
            lease = invocation().lease
            status = lease.status if lease else call(self._saver.status, self._saver.astatus, thread)
            if status in (None, "idle"):
                return None
        head = self.whole(config)
        if head.interrupts:
            self._expire(head, thread)
            approvals = self.approvals(head, thread)
            if given_up := why_closed(approvals):
                return self.close(config, thread, head, given_up, None)
            if all(one.status == "expired" for one in approvals):
                return self.close(config, thread, head, LATE, None)
            if self._on_message != "supersede":
                raise ThreadPaused(thread, approvals)
            self.judge(given, invocation())
            return self.close(config, thread, head, SUPERSEDED, None)
        refuse_message(self._saver, thread)
        return self.close(config, thread, head, UNKNOWN_OUTCOME, None) if head.open else head

    def check_owner(self, thread: str, owner: str | None) -> None:
        """Raise ThreadError where the thread is another owner's; a saver without an index does not know.

        Who gave the turn its lease has looked already.
        """
        sessions = getattr(self._saver, "sessions", None)
        if owner is None or sessions is None or invocation().lease is not None:
            return
        session = call(sessions.get, sessions.aget, thread)
        if session is not None:
            check_owner(thread, session.owner, owner)

    def without_removals(
        self, config: Mapping[str, Any], head: Head | None, messages: list[BaseMessage]
    ) -> tuple[Head | None, list[BaseMessage]]:
        """Carry out the RemoveMessages of an input; returns the head after that, and the messages that remain."""
        removals = [one for one in messages if one.type == "remove"]
        if not removals:
            return head, messages
        rest = [one for one in messages if one.type != "remove"]
        known = {one.id for one in head.messages} if head is not None else set()
        if not rest or any(one.id not in known and one.id != REMOVE_ALL_MESSAGES for one in removals):
            raise ConfigurationError("input removes messages that the thread does not have, or holds nothing else")
        update(self._graph, config, {"messages": removals})
        return self.head(config), rest

    def approvals(self, head: Head, thread: str) -> list[Approval]:
        """What the thread waits for, in the order of the calls."""
        return self._asked(head.interrupts, head.messages, thread)

    def paused(self, pause: LoopPause, config: Mapping[str, Any], thread: str) -> list[Approval]:
        """What the turn that has just paused waits for, in the order in which `approvals` has it from now on."""
        interrupts = pause.interrupts
        if len(interrupts) > 1 and not all(is_ours(one.value) for one in interrupts):
            interrupts = self.head(config).interrupts  # the graph gives them as they came, and not by their calls
        return self._asked(interrupts, pause.messages, thread)

    def _asked(self, interrupts: Sequence[Any], messages: Sequence[BaseMessage], thread: str) -> list[Approval]:
        """The approvals that interrupts ask for, in the order of the calls."""
        batch, _ = last_batch(list(messages))
        order = [one["id"] for one in calls_of(batch)] if batch else []

        def place(one: Approval) -> tuple[int, ...]:
            known = placed(one.bound)
            return known if known else (order.index(one.call_id) if one.call_id in order else len(order),)

        return sorted(open_approvals(interrupts, thread, self.ledger), key=place)

    def close(self, config: Mapping[str, Any], thread: str, head: Head, text: str, status: str | None) -> Head:
        """End the open turn: finished calls keep their results, each open call is answered with `text`.

        One checkpoint does that, so that a crash leaves the pause or a thread that takes a message. It supersedes the
        approvals; with a `status` they are given that one before.
        """
        if status is not None and self.ledger is not None:
            call(self.ledger.close, self.ledger.aclose, thread, status)
        written = self._closing(thread, head, text)
        if not written and not head.open:
            return head
        update(self._graph, config, written or None, as_node="chat" if written else END)
        return self.head(config)

    def drop(self, config: Mapping[str, Any], thread: str) -> None:
        """Take back the open turn, which a guard stopped: its request too, unless tools ran, which stays known.

        A thread that was not there before is gone.
        """
        lease = invocation().lease
        head = self.whole(config)
        if head.marker is None:
            return
        length = head.marker["base_length"]
        if any(isinstance(one, ToolMessage) for one in head.messages[length:]):
            self.close(config, thread, head, STOPPED, None)
        elif length == 0 and lease is not None and lease.status is None:
            call(self._saver.delete_thread, self._saver.adelete_thread, thread)
        else:
            base = head.values.get("base") or head.messages[:length]
            update(self._graph, config, {"messages": changes(head.messages, base), "turn": {}, "base": None})

    def _closing(self, thread: str, head: Head, text: str) -> dict[str, Any]:
        """What is written to end the open turn: also what its finished tasks wrote, which is applied with it."""
        written = _merged(head.done)
        lying = written.pop("messages", [])
        changed = changes(head.messages[: len(head.messages) - len(lying)], self.settled(thread, head, text))
        if changed is not None:
            written["messages"] = changed
        if head.marker is not None:
            written |= {"turn": {}, "base": None}
        return written

    def seed(self, config: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Have a new thread begin with these values."""
        update(self._graph, config, values)

    def settled(self, thread: str, head: Head, text: str) -> list[BaseMessage]:
        """The history as a provider takes it: finished calls with their results, each open one answered with `text`."""
        answers = answered(self._saver, thread, head.messages, head.interrupts, text)
        base = head.values.get("base")
        before = [*base, *head.messages] if base is not None else head.messages
        return [*left_of(before, head.marker), *answers]

    def decided(
        self, config: Mapping[str, Any], head: Head, thread: str, decisions: Any, by: str | None
    ) -> Resumption | list[Approval]:
        """What the thread goes on from; the open approvals where nothing is decided yet.

        Raises NotPaused, also where the turn was given up, which ends it; or a DecisionError before anything is stored.
        """
        if not head.interrupts:
            if not head.values and not head.open:
                raise NotPaused(thread, f"there is no thread {thread!r}")
            if not head.open and not head.marker:
                refuse_resume(self._saver, thread)
            if decisions is not None and self.ledger is not None:
                failed = call(self._saver.status, self._saver.astatus, thread) == "failed"
                addressed(decisions, [], self.ledger, thread, failed=failed)
            return Resumption(head.values, None, ended=not head.open)
        self._expire(head, thread)
        asked = self.approvals(head, thread)
        approvals = [one for one in asked if not has_moved_on(one)]
        given = {one.id: Decision(EXPIRED) for one in approvals if one.status == "expired"}
        given |= {one.id: one.decision for one in approvals if one.decision is not None}
        if decisions is not None:
            given |= addressed(decisions, approvals, self.ledger, thread)
        if given_up := why_closed(approvals):
            if decisions is not None:
                check_open(next(one for one in approvals if one.status in CLOSED))
            self.close(config, thread, head, given_up, None)
            what = "cancelled" if given_up == CANCELLED else "interrupted"
            raise NotPaused(thread, f"the turn of thread {thread!r} was {what}; it is closed now")
        changed = self._changed(approvals, given)
        if not given and not changed and approvals == asked:
            return approvals
        decided = record(given, approvals, self.ledger, by, self._stack.check_edit)
        crashed = Resumption(head.values, None) if approvals != asked else None
        return _resumption(head, decided, changed) or crashed or self.approvals(head, thread)

    def record(self, config: Mapping[str, Any], thread: str, decisions: Any, by: str | None) -> list[Approval]:
        """Store decisions and do not go on; gives the approvals that are decided now.

        Raises NotPaused, or a DecisionError before anything is stored; ConfigurationError where nothing is kept.
        """
        if self.ledger is None:
            raise ConfigurationError("this checkpointer keeps no decisions: give them to resume()")
        head = self.head(config)
        if not head.interrupts:
            raise NotPaused(thread)
        self._expire(head, thread)
        approvals = self.approvals(head, thread)
        given = addressed(decisions, approvals, self.ledger, thread)
        return list(record(given, approvals, self.ledger, by, self._stack.check_edit).values())

    def _expire(self, head: Head, thread: str) -> None:
        """Have the ledger write down what has expired meanwhile, so that nobody decides it any more."""
        has_end = any(is_ours(one.value) and one.value.get("expires_in") for one in head.interrupts)
        if has_end and self.ledger is not None:
            call(self.ledger.sweep, self.ledger.asweep, thread=thread)

    def _changed(self, approvals: Sequence[Approval], given: dict[str, Decision]) -> dict[str, str]:
        """What differs from what was shown, by approval; no decision is given for those any more.

        Raises PauseChanged where nobody is to be asked again, and where that would do something twice.
        """
        asks = self._on_changed == "ask"
        found: dict[str, str] = {}
        for one in approvals:
            if not asks and one.id not in given:
                continue
            difference = self._stack.difference(one, given.get(one.id))
            if difference is not None and asks and (bar := self._stack.bar(one, given.get(one.id))) is not None:
                raise PauseChanged(one.id, f"{difference}; it cannot be asked again, {bar}")
            if difference is not None and not asks:
                raise PauseChanged(one.id, difference)
            if difference is not None:
                found[one.id] = difference
                given.pop(one.id, None)
        return found


def has_moved_on(approval: Approval) -> bool:
    """Whether a graph in a task of the thread's graph has used it, and a crash came before the task asked anew."""
    return approval.status == "used" and bool(approval.bound.get("depth"))


def why_closed(approvals: Iterable[Approval]) -> str | None:
    """What the open calls of a turn are answered with that was given up without its graph; None where it was not.

    A part of a pause that nobody can decide any more is enough: it would never go on.
    """
    found = {one.status for one in approvals}.intersection(CLOSED)
    if not found:
        return None
    return UNKNOWN_OUTCOME if "used" in found else CANCELLED


def _merged(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The writes of several tasks as one."""
    merged: dict[str, Any] = {}
    for name in ("messages", "loop"):
        if found := [one[name] for one in done if name in one]:
            merged[name] = [part for one in found for part in (one if name == "messages" else [one])]
    if slots := [one["state"] for one in done if "state" in one]:
        merged["state"] = {name: value for one in slots for name, value in one.items()}
    return merged


def _resumption(head: Head, decided: Mapping[str, Approval], changed: Mapping[str, str]) -> Resumption | None:
    """What to go on with; None while an interrupt that asks several things waits for the rest."""
    pairs = [(question, decided[question.id]) for question in questions(head.interrupts) if question.id in decided]
    answers = question_answers(pairs, plain=Decision.to_json)
    answers |= {approval: again(difference) for approval, difference in changed.items()}
    if not answers:
        return None
    if head.marker and head.marker.get("hold"):
        held_id, held = next(iter(answers.items()))
        return Resumption(head.values, None, ended=True, held=held, held_id=held_id)
    return Resumption(head.values, answers)
