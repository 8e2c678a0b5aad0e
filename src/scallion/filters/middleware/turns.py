"""A filter's turn hook as before_agent and after_agent: the loop in the middle is the graph's.

The hook runs as it does over a pause. In front of the loop it runs up to its `next`; behind it, it runs again from
its top with its journal, and `next` gives what the loop came to. Where it calls `next` once more, the graph goes back
to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from scallion.filters.journal import Frame, Record, Wire
from scallion.filters.middleware.beside import FED, Beside
from scallion.filters.replies import BadReply
from scallion.history import changes, is_transient, with_final, with_ids
from scallion.values import Completed, TurnRequest

WIRE = Wire(
    "turn",
    lambda result: {"message": result.message, "messages": list(result.messages), "attempts": result.attempts},
    lambda kept: Completed(**kept),
)
Written = dict[str, Any]


class Loop:
    """The innermost call of the chain: it gives what the graph's loop came to, or stops the chain in front of it."""

    def __init__(self, completed: Completed | None = None) -> None:
        self._completed = completed
        self.request: TurnRequest | None = None
        """What the loop is to be entered with."""

    def __call__(self, request: TurnRequest, frame: Frame) -> Completed:
        frame.enter("")
        completed, self._completed = self._completed, None
        if completed is not None and frame.record is not None:
            return completed
        self.request = request
        raise frame.run.pause(None)


def before(beside: Beside, state: Mapping[str, Any]) -> Written | None:
    """What before_agent writes: the messages as the hook makes them, and how far it came."""
    messages = list(state["messages"])
    context = beside.context(state)
    start = next((n for n in range(len(messages), 0, -1) if isinstance(messages[n - 1], AIMessage | ToolMessage)), 0)
    history, new, loop = messages[:start], messages[start:], Loop()
    run = beside.run(state, context.turn, WIRE, history=history)
    result, root = beside.made("turn", loop, TurnRequest(new, context=context), run)
    if result is not None:
        known = {one.id: one for one in messages}
        added = [one for one in with_final(result.messages, result.message) if known.get(one.id) is not one]
        return {"messages": added, "jump_to": "end", **beside.step(context.turn, root, journal=None)}
    assert loop.request is not None
    entered = with_ids(loop.request.messages)
    wanted = [*history, *entered] if loop.request.load_history else entered
    journal = {
        "record": root.dump(WIRE),
        "request": list(new if run.given is None else run.given),
        "rewritten": sorted(run.rewritten),
        "attempts": 1,
        "dropped": [],
    }
    return _writes(messages, wanted) | beside.step(context.turn, root, journal=journal)


def after(beside: Beside, state: Mapping[str, Any]) -> Written | None:
    """What after_agent writes: the messages as the hook leaves them, or what the loop is entered with again."""
    account = state.get(beside.key) or {}
    journal = account.get("journal")
    if not journal:  # the hook ended the turn itself
        return None
    messages: list[BaseMessage] = list(state["messages"])
    answer = messages[-1]
    if not isinstance(answer, AIMessage):
        raise BadReply(f"the turn ended with a {type(answer).__name__}, which is no answer")
    turn = account["turn"]
    context = beside.context(state).replace(turn=turn)
    request = TurnRequest(journal["request"], resume=True, context=context)
    loop = Loop(Completed(answer, messages, attempts=journal["attempts"], thread=context.thread, turn=turn))
    run = beside.run(state, turn, WIRE)
    run.rewritten = frozenset(journal["rewritten"])
    result, root = beside.made("turn", loop, request, run, journal["record"])
    if result is None:
        return _again(beside, loop.request, messages, journal, root, turn)
    dropped = set(journal["dropped"]) - {result.message.id}
    kept = [one for one in with_final(result.messages, result.message) if one.id not in dropped]
    kept = [one for one in kept if not is_transient(one)]
    return _writes(messages, kept) | beside.step(turn, root, journal=None)


def _again(
    beside: Beside, request: TurnRequest | None, messages: list[BaseMessage], journal: Record, root: Frame, turn: Any
) -> Written:
    """Back to the model; what it was told, and the answer before that, are dropped at the end."""
    assert request is not None
    known = {one.id for one in messages}
    given = with_ids(request.messages)
    fed = [one.id for one in given if one.id not in known]
    marked = [_fed(one, turn) if one.id in fed else one for one in given]
    dropped = [] if request.keep_attempts else [messages[-1].id, *fed]
    journal = {
        **journal,
        "record": root.dump(WIRE),
        "attempts": journal["attempts"] + 1,
        "dropped": [*journal["dropped"], *dropped],
    }
    written = _writes(messages, marked if not request.load_history else [*messages, *marked])
    return written | {"jump_to": "model"} | beside.step(turn, root, journal=journal)


def _fed(message: BaseMessage, turn: Any) -> BaseMessage:
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, FED: turn}})


def _writes(messages: Sequence[BaseMessage], wanted: Sequence[BaseMessage]) -> Written:
    """The update that makes the wanted messages of those that are there, in this order."""
    front = [one.id for one in messages] == [one.id for one in wanted[: len(messages)]]
    changed = changes(messages, wanted) if front else [RemoveMessage(REMOVE_ALL_MESSAGES), *wanted]
    return {} if changed is None else {"messages": changed}
