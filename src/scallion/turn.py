"""The turn: the onion around whole invocations of the loop graph, and the commit of what it finally returned.

While filters stand around the turn, the channel `turn` holds an open marker with their journal, so that a pause goes on
in another process, and a crash between the end of the loop and the commit is seen and finished on the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from scallion.bridge import call
from scallion.course import LoopPause, Resumption, Turn
from scallion.filters.filter import Filter, layers
from scallion.filters.journal import Frame, Record, current_frame
from scallion.filters.masking import entered_clean, masking, masks_of
from scallion.filters.onion import Run, nest, traced
from scallion.filters.state import StateRules, States
from scallion.history import changes, parted, shared_length, with_final, with_ids
from scallion.loop.aside import Lending
from scallion.loop.edits import base_after
from scallion.loop.platform import with_new_input
from scallion.loop.state import Step
from scallion.loop.updating import update
from scallion.recording import Tracing, attempted
from scallion.values import Completed, TurnRequest

EMPTY_RECORD: Record = {"layer": "", "done": {}, "open": {}, "pauses": []}


class TurnRunner:
    """Runs turns of one agent."""

    def __init__(
        self, graph: Any, filters: Sequence[Filter], rules: StateRules, lending: Lending, tracing: Tracing
    ) -> None:
        self._tracing = tracing
        self._graph = graph
        self._lending = lending
        self._rules = rules
        self._path = tuple(one.name for one in layers(filters, "turn"))
        self._masking = masking(filters)
        self._chain = nest(filters, "turn", entered_clean(filters, self._loop))
        self._load_parsed = next((one.load_parsed for one in filters if one.load_parsed is not None), None)

    @property
    def wraps_turns(self) -> bool:
        """Whether filters stand around the turn."""
        return bool(self._path)

    def run(self, turn: Turn) -> Completed:
        """The result of the turn; raises LoopPause where it waits for a person, in a task LangGraph's interrupt."""
        with self._tracing.part(turn):
            return self._run(turn)

    def _run(self, turn: Turn) -> Completed:
        saved = self._saved(turn)
        turn.states = states = saved["states"] if saved else self._start_states(turn)
        turn.here.means = self._lending.to(turn)
        run = Run(
            turn.wire(self._load_parsed),
            self._rules.fold,
            states,
            turn.answers,
            path=(*turn.here.agents, *self._path),
            emit=cast("Callable[[Any], None] | None", turn.here.emit),
            subject=turn.here.subject,
            lasting=turn.durable,
            extra=turn,
            bound={
                "around": list(self._path),
                "place": list(turn.here.place),
                **turn.here.within,
                **({"depth": 1} if turn.inner else {}),
            },
            means=turn.here.means,
            history=turn.base or (),
            added=turn.added,
            trace=turn.here.trace,
        )
        run.masks = masks_of(self._masking, run)
        run.rewritten = frozenset(saved.get("rewritten", ())) if saved else run.rewritten
        turn.root = Frame(run, _journal(turn, saved), turn.request)
        result = self._attempt(run, turn.root, turn)
        if run.pausing is not None:
            raise run.pausing.native or turn.paused or self._hold(turn, run)
        return self._finished(turn, run, result)

    def _attempt(self, run: Run, root: Frame, turn: Turn) -> Any:
        token = current_frame.set(root)
        try:
            return traced(self._chain, turn.request, root)
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
                turn.channel = turn.resumption.values.get("messages") or []
                turn.base, turn.kept_request = parted(turn.channel)
                turn.attempts = 1
            return None
        if turn.resumption.begins_anew:  # end the node that asks, which supersedes the question
            self._invoke(turn, Command(resume={str(turn.resumption.held_id): turn.resumption.held}))
        turn.attempts = marker["attempts"]
        turn.answers = [*marker["answers"]]
        held = marker.get("held") if turn.resumption.held is None else turn.resumption.held
        if held is not None:
            turn.answers.append(held)
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
        with attempted(turn, frame):
            return self._entered(turn, request, frame)

    def _entered(self, turn: Turn, request: TurnRequest, frame: Frame) -> Completed:
        resumption, turn.resumption = turn.resumption, None
        if resumption is not None and frame.record is not None:
            values = self._continued(turn, frame.run, resumption)
        else:
            values = self._invoke(turn, self._fresh_input(turn, request, frame.run))
        turn.channel = values["messages"]
        turn.base, turn.kept_request = base_after(values, turn.base, turn.kept_request)
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
        if not turn.durable and turn.account is not None:  # the graph forgets between two invocations
            counts = {name: lost.get(name, 0) + value for name, value in {**lost, **turn.account["counts"]}.items()}
            written["loop"] = Step(turn.id, counts, calls=turn.account["calls"], states=run.states).plain()
        else:  # the account begins with the input: a turn that stops in its first call is not taken for the one before
            changed = turn.attempts > 1 or run.states is not turn.states or turn.inner
            if changed or lost or turn.durable:
                written["loop"] = Step(turn.id, lost, states=run.states if changed else None).plain()
        if turn.durable and turn.base is not None:
            written["turn"] = turn.marker(run.wire)
        if turn.slots:
            written["state"] = dict(turn.slots)
        return {"messages": messages, **written}

    def _appended(self, turn: Turn, given: list[BaseMessage]) -> list[BaseMessage]:
        """The new messages behind the history; a second such attempt starts from the same history again."""
        if turn.attempts == 1 or turn.base is None:
            turn.channel = [*(turn.base or ()), *given]
            return turn.channel if turn.inner else given
        turn.channel = [*turn.base, *given]
        return [RemoveMessage(REMOVE_ALL_MESSAGES), *turn.channel]

    def _whole(self, turn: Turn, given: list[BaseMessage], written: dict[str, Any]) -> list[BaseMessage]:
        """The whole sequence: what the channel holds already is not written again."""
        if not turn.durable:  # the graph forgets between two invocations
            turn.channel = given
            return given
        known = shared_length(turn.channel, given)
        if known == len(turn.channel):
            turn.channel = given
            return given[known:]
        if turn.durable and turn.base is not None and not turn.replaced:
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
        turn.slots = values.get("state") or {} if turn.inner else turn.slots
        run.adopt(account["filters"])
        messages = values["messages"]
        turn.note_end(messages[-1], messages)
        return Completed(
            messages[-1], list(messages), account["calls"], turn.usage({}), max(turn.attempts, 1),
            filter_state=self._rules.shown(account["filters"]), thread=turn.here.thread, turn=turn.id,
        )  # fmt: skip

    def _hold(self, turn: Turn, run: Run) -> LoopPause:
        """Keep a pause around the turn in the thread, as an interrupt of the chat node."""
        assert run.pausing is not None
        written: dict[str, Any] = {"turn": turn.marker(run.wire, hold=run.pausing.payload)}
        if turn.here.lost:
            written["loop"] = Step(turn.id, turn.here.lost).plain()
        if turn.inner and not turn.channel:
            written["messages"] = list(turn.base or ())
        values = self._invoke(turn, written)
        return LoopPause(values["__interrupt__"], values.get("messages") or [])

    def _finished(self, turn: Turn, run: Run, result: Completed) -> Completed:
        if turn.here.delivery is not None:
            turn.here.delivery.behind = run.masks.behind()  # no loop ran where a resume goes on behind it
            turn.here.delivery.finish(result.answer)
        if turn.base is None:
            return result
        result = result.replace(messages=with_final(result.messages, result.message))
        if turn.durable and not turn.inner:
            self._commit(turn, run, turn.kept(result))
        # What graphs around keep is without the real values: the caller of an agent alone is given them.
        return (result if turn.inner else run.masks.restored(result)).replace(
            filter_state=self._rules.shown(run.states),
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
