"""The turn: the onion around whole invocations of the loop graph, and the commit of what it finally returned.

While filters stand around the turn, the channel `turn` holds an open marker with their journal, so that a pause goes on
in another process, and a crash between the end of the loop and the commit is seen and finished on the next start.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from scallion.approvals.changed import asks_again
from scallion.bridge import call
from scallion.filters.filter import Filter, layers
from scallion.filters.journal import Frame, Record, Wire, current_frame
from scallion.filters.onion import Run, nest
from scallion.filters.python_type import written
from scallion.filters.state import StateRules, States
from scallion.history import changes, kept_messages, shared_length, with_final, with_ids
from scallion.loop.aside import Lending
from scallion.loop.invocation import Invocation
from scallion.loop.platform import with_new_input
from scallion.loop.state import COUNTS, Step
from scallion.loop.updating import update
from scallion.values import Completed, TurnRequest

EMPTY_RECORD: Record = {"layer": "", "done": {}, "open": {}, "pauses": []}


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


class TurnRunner:
    """Runs turns of one agent."""

    def __init__(
        self, graph: Any, filters: Sequence[Filter], rules: StateRules, lending: Lending, *, durable: bool
    ) -> None:
        self._graph = graph
        self._lending = lending
        self._rules = rules
        self._durable = durable
        self._path = tuple(one.name for one in layers(filters, "turn"))
        self._chain = nest(filters, "turn", self._loop)
        self._load_parsed = next((one.load_parsed for one in filters if one.load_parsed is not None), None)

    @property
    def wraps_turns(self) -> bool:
        """Whether filters stand around the turn."""
        return bool(self._path)

    def run(self, turn: Turn) -> Completed:
        """The result of the turn; raises LoopPause where it waits for a person."""
        saved = self._saved(turn)
        turn.states = states = saved["states"] if saved else self._start_states(turn)
        run = Run(
            turn.wire(self._load_parsed),
            self._rules.fold,
            states,
            turn.answers,
            path=self._path,
            emit=cast("Callable[[Any], None] | None", turn.here.emit),
            subject=turn.here.subject,
            lasting=self._durable,
            extra=turn,
            bound={"around": list(self._path)},
            means=self._lending.to(turn),
            history=turn.base or (),
            added=turn.added,
        )
        run.rewritten = frozenset(saved.get("rewritten", ())) if saved else run.rewritten
        turn.root = Frame(run, _journal(turn, saved), turn.request)
        result = self._attempt(run, turn.root, turn)
        if run.pausing is not None:
            raise turn.paused or self._hold(turn, run)
        return self._finished(turn, run, result)

    def _attempt(self, run: Run, root: Frame, turn: Turn) -> Any:
        token = current_frame.set(root)
        try:
            return self._chain(turn.request, root)
        except BaseException:
            if run.pausing is None:
                raise
            return None
        finally:
            current_frame.reset(token)

    def _saved(self, turn: Turn) -> dict[str, Any] | None:
        """The marker of an interrupted turn, taken over into `turn`."""
        marker = turn.resumption.values.get("turn") if turn.resumption else None
        if not marker or not marker.get("open") or turn.resumption is None:
            if self._path and turn.resumption and turn.base is None:  # nothing stood around the turn when it paused
                turn.base = turn.channel = turn.resumption.values.get("messages") or []
            return None
        if turn.resumption.begins_anew:  # end the node that asks, which supersedes the question
            self._invoke(turn, Command(resume={str(turn.resumption.held_id): turn.resumption.held}))
        turn.attempts = marker["attempts"]
        turn.answers = [*marker["answers"]]
        if turn.resumption.held is not None:
            turn.answers.append(turn.resumption.held)
        turn.kept_request, turn.fed, turn.replaced = marker["kept"], set(marker["fed"]), marker["replaced"]
        turn.standing = set(marker.get("standing", ()))
        turn.channel = turn.resumption.values.get("messages") or []
        account = turn.resumption.values.get("loop")
        turn.account = account if account and account["turn"] == turn.id else None
        stored = turn.resumption.values.get("base")
        turn.base = stored if turn.replaced and stored is not None else turn.channel[: marker["base_length"]]
        return cast("dict[str, Any]", marker)

    def _start_states(self, turn: Turn) -> States:
        account = (turn.resumption.values.get("loop") if turn.resumption else None) or {}
        if account.get("turn") == turn.id:
            return cast("States", account["filters"])
        return self._rules.start(account.get("filters"))

    def _loop(self, request: TurnRequest, frame: Frame) -> Completed:
        """The innermost call of the turn chain: one invocation of the graph, or the rest of an interrupted one."""
        frame.enter("")
        turn = cast("Turn", frame.run.extra)
        resumption, turn.resumption = turn.resumption, None
        if resumption is not None and frame.record is not None:
            values = self._continued(turn, frame.run, resumption)
        else:
            values = self._invoke(turn, self._fresh_input(turn, request, frame.run))
        turn.channel = values["messages"]
        if values.get("__interrupt__"):
            turn.paused = LoopPause(values["__interrupt__"], values["messages"])
            raise frame.run.pause(None)
        return self._completed(turn, frame.run, values)

    def _continued(self, turn: Turn, run: Run, resumption: Resumption) -> Mapping[str, Any]:
        if resumption.ended:
            return resumption.values
        return self._invoke(turn, Command(resume=dict(resumption.answers)) if resumption.answers else None)

    def _fresh_input(self, turn: Turn, request: TurnRequest, run: Run) -> dict[str, Any]:
        turn.attempts += 1
        if turn.attempts > 1 and turn.here.delivery is not None:
            turn.here.delivery.retract()
        given = with_ids(request.messages)
        written: dict[str, Any] = {}
        if request.load_history:
            turn.kept_request = given
            messages = self._appended(turn, given)
        else:
            turn.note_feedback({one.id for one in given}, keep=request.keep_attempts)
            messages = self._whole(turn, given, written)
        lost, turn.here.lost = turn.here.lost, {}
        if not self._durable and turn.account is not None:  # the graph forgets between two invocations
            counts = {name: lost.get(name, 0) + value for name, value in {**lost, **turn.account["counts"]}.items()}
            written["loop"] = Step(turn.id, counts, calls=turn.account["calls"], states=run.states).plain()
        elif turn.attempts > 1 or run.states is not turn.states or lost:
            written["loop"] = Step(turn.id, lost, states=run.states).plain()
        if self._durable and turn.base is not None:
            written["turn"] = turn.marker(run.wire)
        return {"messages": messages, **written}

    def _appended(self, turn: Turn, given: list[BaseMessage]) -> list[BaseMessage]:
        """The new messages behind the history; a second such attempt starts from the same history again."""
        if turn.attempts == 1 or turn.base is None:
            turn.channel = [*(turn.base or ()), *given]
            return given
        turn.channel = [*turn.base, *given]
        return [RemoveMessage(REMOVE_ALL_MESSAGES), *turn.channel]

    def _whole(self, turn: Turn, given: list[BaseMessage], written: dict[str, Any]) -> list[BaseMessage]:
        """The whole sequence: what the channel holds already is not written again."""
        if not self._durable:  # the graph forgets between two invocations
            turn.channel = given
            return given
        known = shared_length(turn.channel, given)
        if known == len(turn.channel):
            turn.channel = given
            return given[known:]
        if self._durable and turn.base is not None and not turn.replaced:
            turn.replaced = True
            written["base"] = list(turn.base)
        turn.channel = given
        return [RemoveMessage(REMOVE_ALL_MESSAGES), *given]

    def _invoke(self, turn: Turn, graph_input: Any) -> Mapping[str, Any]:
        turn.here.asked = {one.id for one in turn.kept_request}
        config = with_new_input(turn.config) if isinstance(graph_input, dict) else turn.config
        values = call(self._graph.invoke, self._graph.ainvoke, graph_input, config, **turn.options)
        return cast("Mapping[str, Any]", values)

    def _completed(self, turn: Turn, run: Run, values: Mapping[str, Any]) -> Completed:
        account = turn.account = values["loop"]
        run.adopt(account["filters"])
        messages = values["messages"]
        turn.note_end(messages[-1], messages)
        return Completed(
            messages[-1], list(messages), account["calls"], turn.usage({}), max(turn.attempts, 1),
            filter_state=account["filters"], thread=turn.here.thread, turn=turn.id,
        )  # fmt: skip

    def _hold(self, turn: Turn, run: Run) -> LoopPause:
        """Keep a pause around the turn in the thread, as an interrupt of the chat node."""
        assert run.pausing is not None
        written: dict[str, Any] = {"turn": turn.marker(run.wire, hold=run.pausing.payload)}
        if turn.here.lost:
            written["loop"] = Step(turn.id, turn.here.lost).plain()
        values = self._invoke(turn, written)
        return LoopPause(values["__interrupt__"], values.get("messages") or [])

    def _finished(self, turn: Turn, run: Run, result: Completed) -> Completed:
        if turn.here.delivery is not None:
            turn.here.delivery.finish(result.answer)
        if turn.base is None:
            return result
        result = result.replace(messages=with_final(result.messages, result.message))
        if self._durable:
            self._commit(turn, run, turn.kept(result))
        return result.replace(
            filter_state=run.states,
            attempts=max(turn.attempts, 1),
            usage=turn.usage(result.usage),
            thread=turn.here.thread,
            turn=turn.id,
        )

    def _commit(self, turn: Turn, run: Run, messages: list[BaseMessage]) -> None:
        written: dict[str, Any] = {"turn": {}, "loop": Step(turn.id, turn.here.lost, states=run.states).plain()}
        if (changed := changes(turn.channel, messages)) is not None:
            written["messages"] = changed
        if turn.replaced:
            written["base"] = None
        update(self._graph, turn.config, written)


def _journal(turn: Turn, saved: dict[str, Any] | None) -> Record | None:
    if saved is not None and turn.resumption is not None and turn.resumption.begins_anew:
        return EMPTY_RECORD if turn.attempts else None  # all is asked again; what the loop came to is not done again
    if saved is not None:
        return cast("Record", saved["journal"])
    return EMPTY_RECORD if turn.resumption is not None and turn.request.resume is not None else None


def new_turn_id() -> str:
    """A name for a turn."""
    return uuid.uuid4().hex
