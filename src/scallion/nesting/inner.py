"""A turn of an agent in a task of another graph: its loop is a subgraph of that task, and so are its pauses.

The loop has a namespace below the task in the thread of the outermost graph, and uses the checkpointer of that graph.
What it asks, LangGraph raises there as interrupts; what is decided there, LangGraph hands down. A task that runs again
finds its namespace, and goes on from what is in it: the marker of the turn, with the journal of the filters around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.errors import GraphInterrupt

from scallion.approvals.naming import somebody
from scallion.approvals.payload import in_order
from scallion.bridge import call
from scallion.course import Resumption, Turn, new_turn_id
from scallion.filters.journal import current_frame
from scallion.filters.state import States
from scallion.history import parted, with_ids
from scallion.loop.invocation import Invocation, current_invocation, surrounding
from scallion.loop.platform import alone, has_checkpointer, is_in_task, is_resumed, place_in, runtime
from scallion.loop.state import Step
from scallion.threads import Head, Threads
from scallion.turn import TurnRunner
from scallion.values import EMPTY, Completed, TurnRequest

BOUNDS = ("recursion_limit", "max_concurrency")
"""What a graph's own config says in place of that of the graph around it."""


@dataclass(frozen=True)
class Beginning:
    """What a turn begins with: its new messages, and what was before."""

    messages: Sequence[BaseMessage]
    history: Sequence[BaseMessage] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    """The `state` and `loop` of the turns before."""
    leading: Sequence[SystemMessage] = ()
    """System prompts of this turn."""


@dataclass(frozen=True)
class Ended:
    """What a turn came to, for the graph around it."""

    result: Completed
    messages: Sequence[BaseMessage]
    """The conversation after the turn: what a thread of its own would keep."""
    state: Mapping[str, Any]
    """The shared state."""
    account: Mapping[str, Any]
    """What is written to the account of a thread: the counts, and the states of the filters."""


class Inner:
    """Runs turns of one agent in tasks of other graphs."""

    def __init__(
        self, name: str, graph: Any, turns: TurnRunner, threads: Threads, clean: Callable[..., Any] | None
    ) -> None:
        self.name = name
        self.clean = clean
        """Takes out of a value what no table may hold; None where nothing has to be."""
        self._graph = graph
        self._turns = turns
        self.threads = threads

    def run(
        self,
        begin: Callable[[], Beginning],
        config: Mapping[str, Any],
        *,
        agents: tuple[str, ...] = (),
        number: str | None = None,
        is_called: bool = False,
    ) -> Ended:
        """What the turn comes to: a new one, or the one that this task began before.

        `config`: that of the task. `agents`: what it is called in the path of what it asks. `number`: see `place_in`.
        `is_called`: an agent calls it as its tool. Raises LangGraph's interrupt where it pauses, and what
        `Agent.invoke` raises.
        """
        own = {name: bound for name, bound in self._graph.config.items() if name in BOUNDS}
        place = (place_in(config, number) if is_in_task(config) else alone(config)) | own
        here = _here(place, agents, is_called=is_called)
        token = current_invocation.set(here)
        try:
            head = self._head(place)
            turn = self._begun(begin(), here, place) if head is None else self._again(head, here, place)
            result = self._turns.run(turn)
        except GraphInterrupt as error:  # the calls of a batch ask as they come
            raise GraphInterrupt(in_order(error.args[0])) from None
        finally:
            current_invocation.reset(token)
        account = Step(turn.id, turn.counts, states=cast("States", result.filter_state))
        return Ended(result, turn.kept(result), turn.slots, account.plain())

    def _head(self, place: Mapping[str, Any]) -> Head | None:
        """Where the turn stands that the task began before; None where it did not."""
        if not is_resumed(place):
            return None
        head = self.threads.head(place)
        return head if head.values or head.open else None

    def _begun(self, begin: Beginning, here: Invocation, place: dict[str, Any]) -> Turn:
        here.prompts = here.leading = begin.leading
        base = with_ids(begin.history)
        request = TurnRequest(with_ids(begin.messages, taken=base), context=_context(here, begin.values, place))
        return Turn(
            str(here.turn), here, place, request, base, durable=has_checkpointer(place), inner=True,
            resumption=Resumption(begin.values, None), slots=begin.values.get("state") or EMPTY,
        )  # fmt: skip

    def _again(self, head: Head, here: Invocation, place: dict[str, Any]) -> Turn:
        marker, account, values = head.marker or {}, head.values.get("loop") or {}, head.values
        here.turn = marker.get("id") or account.get("turn") or here.turn
        here.raised = None if head.interrupts else account.get("failure", {}).get("key")
        here.spent_before = account.get("counts", {}).get("seconds", 0.0)
        if marker.get("hold") and head.open:  # the answer to a pause around the turn comes by the node that asked
            values = call(self._graph.invoke, self._graph.ainvoke, None, place)
        ended = bool(marker.get("hold")) or not head.open
        given = marker.get("request") or [] if marker else parted(head.messages)[1]
        request = TurnRequest(given, resume=True, context=_context(here, values, place))
        resumption = Resumption(values, None, ended=ended)
        slots = values.get("state") or EMPTY
        return Turn(str(here.turn), here, place, request, None, inner=True, resumption=resumption, slots=slots)


def _here(place: Mapping[str, Any], agents: tuple[str, ...], *, is_called: bool) -> Invocation:
    """Who is behind the turn: who is behind the turn around it, or whom the config of the graph names."""
    around = surrounding()
    thread = place["configurable"].get("thread_id")
    thread = None if thread is None else str(thread)
    if around is not None and around.turn is not None:
        who: Mapping[str, Any] = around.subject
    else:
        who = {name: somebody(place.get("metadata") or {}, name) for name in ("owner", "user")}
    lease = around.lease if around is not None and around.thread == thread else None
    env = around.env if around is not None else None
    frame = current_frame.get(None)
    return Invocation(
        new_turn_id(), thread, who.get("owner"), who.get("user"), env if env is not None else _env(place),
        filters_env=around.filters_env if around is not None else None, lease=lease, around=around,
        agents=(*around.agents, *agents) if around is not None else agents,
        place=tuple(frame.run.bound.get("place", ())) if frame is not None else (),
        traced=is_called and around is not None and (around.traced or not around.agents),
    )  # fmt: skip


def _env(place: Mapping[str, Any]) -> Any:
    return getattr(runtime(place), "context", None)


def _context(here: Invocation, values: Mapping[str, Any], place: Mapping[str, Any]) -> Any:
    return here.context(values, here.turn, _env(place))
