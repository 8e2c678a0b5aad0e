"""The edge between a node and its onion: signals become LangGraph's interrupts here, and journals are kept here.

A node restarts from its top on resume. The journal of a chain that paused is kept by LangGraph's `@task`, whose result
is stored with the pause; the normal path pays nothing for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.func import task
from langgraph.types import interrupt

from scallion.approvals.changed import asks_again
from scallion.approvals.naming import somebody
from scallion.bridge import wait, waits_on_loop
from scallion.errors import PauseChanged
from scallion.filters.clearance import CLEARANCE
from scallion.filters.filter import Chain, Filter, layers
from scallion.filters.journal import Frame, Wire, asked_at, current_frame, native_askers
from scallion.filters.masking import ALONE, Share, masks_of
from scallion.filters.onion import Innermost, PauseSignal, Run, nest, traced
from scallion.filters.pausing import is_of_gate
from scallion.filters.state import StateRules, States
from scallion.filters.verdicts import Verdicts
from scallion.loop.invocation import Budget, Invocation
from scallion.loop.platform import (
    asked_before,
    counting_interrupts,
    given_answers,
    has_checkpointer,
    restate_answers,
    restored,
    tasks_at_once,
)

Journal = dict[str, Any]


@task
def _keep(journal: Journal | None) -> Journal | None:
    return journal


def keep(journal: Journal | None) -> Journal:
    """Store `journal` for the running task; a task that runs again gets back what it kept at this place."""
    with tasks_at_once():
        future = _keep(journal)  # one task for both colours: a pause of one is resumed in the other
    kept: Any = wait(future) if waits_on_loop() else future.result()
    return kept  # type: ignore[no-any-return]


class Edge:
    """Runs the chain of one node."""

    def __init__(
        self,
        filters: Sequence[Filter],
        chain: Chain,
        innermost: Innermost,
        wire: Wire,
        rules: StateRules,
        masking: Sequence[Filter] = (),
    ) -> None:
        self._masking = masking
        self.path = tuple(one.name for one in layers(filters, chain))
        self._around = [one.name for one in layers(filters, "turn")]
        self._chain = nest(filters, chain, innermost)
        self._wire = wire
        self._fold = rules.fold

    def run(
        self,
        request: Any,
        states: States,
        extra: Any,
        config: RunnableConfig,
        budget: Budget,
        made: dict[str, Any],
        share: Share = ALONE,
    ) -> tuple[Any, list[Any]]:
        """The reply of the chain and the updates of state; raises LangGraph's interrupt where the chain paused.

        `made` is what the innermost calls note: those made before a pause count when their replies are replayed.
        `share` is the place of the call in its batch.
        """
        answers = given_answers(config)
        waits = _waits(config, len(answers))
        journal: Journal | None = None
        for _ in range(len(answers) + waits):
            journal = keep(None)
        changed = asks_again(answers) is not None
        if journal is not None:
            self._check_askers(journal)
        while True:
            made.clear()
            made.update(journal["made"] if journal else {})
            run = self._run(states, answers, extra, config, budget, share)
            run.masks = masks_of(self._masking, run, share)
            if run.masks and budget.invocation.turn is not None:  # else what came in was seen by no turn
                run.history = getattr(request, "stored", None) or ()
            if run.masks and budget.invocation.delivery is not None:
                budget.invocation.delivery.behind = run.masks.behind()
            run.verdicts = _verdicts(journal, len(answers), begins_anew=changed)
            root = Frame(run, journal["root"] if journal and not changed else None, request)
            reply = _attempt(self._chain, request, root, config)
            if run.pausing is None:
                if changed:
                    restate_answers(config, answers)  # who reads the writes sees that the question was superseded
                return reply, root.updates
            run.settle()
            if _is_nested(run.pausing, config, len(answers)):
                # That graph keeps its answers and where it stands: no journal of ours would be found by them.
                restate_answers(config, answers)
                raise _interrupt(run.pausing, config, len(answers))
            if waits and journal is not None and _asks_the_same(run.pausing, journal, len(answers)):
                restate_answers(config, answers)
                raise _interrupt(run.pausing, config, len(answers))
            mine = {
                "id": uuid.uuid4().hex,
                "root": root.dump(run.wire),
                "made": dict(made),
                "verdicts": run.verdicts.dump(),
            }
            kept = keep(mine)
            if kept["id"] == mine["id"]:
                restate_answers(config, answers)
                raise _interrupt(run.pausing, config, len(answers))
            journal, changed = kept, False  # a crash fell between keeping and asking: what was kept is what is shown

    def _check_askers(self, journal: Journal) -> None:
        """Raise PauseChanged where a layer that is gone asked by an `interrupt()`, whose payload names no layer."""
        gone = native_askers(journal["root"]) - {*self.path, "", CLEARANCE}
        if gone:
            raise PauseChanged("of an interrupt", f"there is no filter named {min(gone)!r} any more")

    def _run(
        self, states: States, answers: list[Any], extra: Any, config: RunnableConfig, budget: Budget, share: Share
    ) -> Run:
        here = budget.invocation
        return Run(
            self._wire,
            self._fold,
            states,
            answers,
            path=(*here.agents, *self.path),
            emit=cast("Callable[[Any], None] | None", here.emit),
            subject=_subject(config, here),
            lasting=has_checkpointer(config),
            extra=extra,
            bound={"around": self._around, "place": [*here.place, share[0]], **here.within, **_depth(config)},
            clock=budget,
            prompts=budget.prompts,
            leading=here.leading,
            means=here.means,
            asked=here.asked,
            trace=here.trace,
        )


def _subject(config: RunnableConfig, here: Invocation) -> Mapping[str, Any]:
    """Who is behind a question; a graph that is used without its agent says so in the metadata of its config."""
    if here.turn is not None:
        return here.subject
    told = config.get("metadata") or {}
    return {name: who for name in ("user", "owner") if (who := somebody(told, name)) is not None}


def _depth(config: RunnableConfig) -> dict[str, int]:
    """How many graphs run this one in a task of theirs: an agent in a tool of another asks there."""
    graphs = str(config["configurable"].get("checkpoint_ns") or "").count("|")
    return {"depth": graphs} if graphs else {}


def _verdicts(journal: Journal | None, answers: int, *, begins_anew: bool) -> Verdicts:
    """What was decided before the pause, and what was asked last: its answer holds even if no hook asks for it."""
    if journal is None:
        return Verdicts()
    kept = Verdicts(journal.get("verdicts"))
    verdicts = Verdicts() if begins_anew else kept
    before = [asked_at(journal["root"], number) for number in kept.numbers] if begins_anew else []
    asked = [one for one in (*before, asked_at(journal["root"], answers - 1)) if is_of_gate(one)]
    if asked and str(answers - 1) not in verdicts.given:
        verdicts.standing = asked[-1]
    return verdicts


def _attempt(chain: Innermost, request: Any, root: Frame, config: RunnableConfig) -> Any:
    """The reply of the chain; None where the run pauses, whatever a filter made of the signal."""
    token = current_frame.set(root)
    root.run.config, patched = counting_interrupts(config, lambda: current_frame.get().ordinal())
    try:
        return root.run.masks.outcome(traced(chain, request, root), root.run.history)
    except BaseException:
        if root.run.pausing is None:
            raise
        return None
    finally:
        restored(patched)
        current_frame.reset(token)


def _is_nested(signal: PauseSignal, config: RunnableConfig, answered: int) -> bool:
    """Whether it is a graph that asks which a tool or a hook runs, by the ids of its interrupts."""
    if signal.native is None:
        return False
    own = _own_interrupt(None, config, answered).args[0][0].id
    return all(one.id != own for one in signal.native.args[0])


def _waits(config: RunnableConfig, answered: int) -> bool:
    """Whether the task asked already what it has no answer to: others were decided, and it is run again with them."""
    asked = asked_before(config)
    return bool(asked) and _own_interrupt(None, config, answered).args[0][0].id in asked


def _asks_the_same(signal: PauseSignal, journal: Journal, answered: int) -> bool:
    """Whether what was kept with the question is what there is to be kept: nobody has answered, so nothing went on."""
    return bool(signal.payload == asked_at(journal["root"], answered))


def _interrupt(signal: PauseSignal, config: RunnableConfig, answered: int) -> BaseException:
    return signal.native or _own_interrupt(signal.payload, config, answered)


def _own_interrupt(payload: Any, config: RunnableConfig, answered: int) -> GraphInterrupt:
    _, patched = counting_interrupts(config, lambda: answered)
    try:
        interrupt(payload)
    except GraphInterrupt as error:
        return error
    finally:
        restored(patched)
    raise AssertionError("an interrupt without an answer raises")
