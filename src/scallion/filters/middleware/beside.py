"""One filter's chain inside of a graph that is not Scallion's: its hooks, its state in the graph's, no journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from scallion.bridge import in_thread, wait, waits_on_loop
from scallion.filters.filter import Chain, Filter
from scallion.filters.journal import Frame, Record, Wire, current_frame
from scallion.filters.middleware.hooks import config_here, runtime_here
from scallion.filters.onion import Innermost, Run, nest
from scallion.filters.retrying.deadline import apart, has_deadline
from scallion.filters.state import StateRules, States
from scallion.history import position
from scallion.values import Context

Account = Mapping[str, Any]
"""What the graph keeps of a filter: `{"turn": id, "filters": states, "journal": ...}`."""
FED = "scallion_turn"
"""The mark of what a turn hook entered the loop with again: the turn that it belongs to."""


class Place:
    """What a tool hook may ask of where its call stands."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.state = state

    def position(self, call_id: Any, tool: str | None = None) -> int:
        """How many open calls of the batch come before this one, of all tools or of the one of that name."""
        return position(self.state, call_id, tool)


class Beside:
    """Runs the hooks of one filter, and folds its state."""

    def __init__(self, one: Filter) -> None:
        self.filter = one
        self.key = f"scallion_{one.name}"
        """The channel that keeps the filter's state."""
        self._rules = StateRules([one])

    def fold(self, account: Account, step: Account) -> Account:
        """The reducer of that channel: the state starts from `init` with each turn."""
        states = self._rules.fold(self._states(account, step["turn"]), step["updates"])
        journal = step.get("journal", account.get("journal") if account.get("turn") == step["turn"] else None)
        return {"turn": step["turn"], "filters": states, "journal": journal}

    def _states(self, account: Account, turn: Any) -> States:
        kept: States = account.get("filters") or {}
        return kept if account.get("turn") == turn else self._rules.start(kept)

    def context(self, state: Mapping[str, Any]) -> Context:
        """What surrounds a request: the state of the graph, who runs it by the metadata of its config."""
        config = config_here()
        told, place = config.get("metadata") or {}, config.get("configurable") or {}
        shared = {key: value for key, value in state.items() if key not in ("messages", "jump_to", self.key)}
        user, owner, thread = told.get("user"), told.get("owner"), place.get("thread_id")
        return Context(
            env=runtime_here(None).context,
            state=shared,
            user=user if isinstance(user, str) else None,
            owner=owner if isinstance(owner, str) else None,
            thread=None if thread is None else str(thread),
            turn=turn_of(state["messages"]),
        )

    def run(self, state: Mapping[str, Any], turn: Any, wire: Wire, **more: Any) -> Run:
        """A run of a chain, from the state that the graph keeps."""
        states = self._states(state.get(self.key) or {}, turn)
        return Run(wire, self._rules.fold, states, path=(self.filter.name,), lasting=False, **more)

    def made(
        self, chain: Chain, innermost: Innermost, request: Any, run: Run, record: Record | None = None
    ) -> tuple[Any, Frame]:
        """The reply of the chain, None where it stopped on its way, and its frame; a pause further inside is raised."""
        root = Frame(run, record, request)
        token = current_frame.set(root)
        reply = None
        try:
            reply = nest([self.filter], chain, innermost)(request, root)
        except BaseException:
            if run.pausing is None:
                raise
        finally:
            current_frame.reset(token)
        run.settle()
        if run.pausing is not None and run.pausing.native is not None:
            raise run.pausing.native
        return (None if run.pausing else reply), root

    def step(self, turn: Any, frame: Frame, **more: Any) -> dict[str, Any]:
        """The write to the filter's channel that the updates in this chain make; empty where there is nothing."""
        updates = [[name, dict(update)] for name, update in frame.updates]
        return {self.key: {"turn": turn, "updates": updates, **more}} if updates or more else {}


def turn_of(messages: Sequence[BaseMessage]) -> str:
    """The id of the turn: that of the last message of a person."""
    last = next((one for one in reversed(messages) if isinstance(one, HumanMessage) and one.id), None)
    return "turn" if last is None else str(last.additional_kwargs.get(FED) or last.id)


def handled(handler: Callable[[Any], Any], request: Any, *, asynchronous: bool) -> Any:
    """What LangChain's handler gives, in its own colour; a loop that a hook waits on is not blocked by it."""
    if asynchronous:
        return wait(handler(request))
    if waits_on_loop():
        work = lambda: handler(request)  # noqa: E731
        return wait(apart(work) if has_deadline() else in_thread(work))
    return handler(request)
