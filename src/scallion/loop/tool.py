"""The tool node: one call -> ToolRequest -> onion -> tool -> result. Each call of a batch is a task of its own.

Whatever the filters do, each call gets exactly one result, and a call that was answered, refused or cut off never runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from scallion.approvals.changed import asks_again
from scallion.errors import FilterError, PauseChanged, StorageError, ThreadError
from scallion.filters.filter import Filter, layers
from scallion.filters.journal import Frame, Wire, dump_error
from scallion.filters.masking import ALONE, Share, masking
from scallion.filters.state import StateRules
from scallion.history import open_calls, position
from scallion.loop.edge import Edge
from scallion.loop.effects import ToolPlace
from scallion.loop.execute import ToolCallRunner
from scallion.loop.failures import remember
from scallion.loop.invocation import Budget, invocation
from scallion.loop.platform import given_answers, read_state, restate_answers, runtime
from scallion.loop.state import NOT_RUN, Limits, Step, new_account, turn_of
from scallion.values import ToolFailure, ToolReply, ToolRequest


def _dump(reply: ToolReply) -> dict[str, Any]:
    return {"message": reply.message, "writes": dict(reply.writes), "error": reply.error.kind if reply.error else None}


def _load(record: Mapping[str, Any]) -> ToolReply:
    error = ToolFailure(record["error"]) if record["error"] else None
    return ToolReply(record["message"], record["writes"], error=error)


WIRE = Wire("tool", _dump, _load)


class ToolNode:
    """The body of the tool node."""

    def __init__(self, tools: Sequence[Any], filters: Sequence[Filter], rules: StateRules, limits: Limits) -> None:
        self._tools = {tool.name: tool for tool in tools if isinstance(tool, BaseTool)}
        self._rules = rules
        self._limits = limits
        guards = [one for one in layers(filters, "tool") if "tool" in one.innermost]
        outer = [one for one in filters if one not in guards]
        self._masking = masking(filters)
        self._edge = Edge(outer, "tool", ToolCallRunner(guards), WIRE, rules, self._masking)
        self._edge.path += tuple(one.name for one in guards)
        self._malformed = Edge(
            [one for one in outer if one.sees_malformed], "tool", _malformed, WIRE, rules, self._masking
        )

    def __call__(self, call: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """The one result of the call."""
        here = invocation()
        state = read_state(config)
        turn = turn_of(state, here.turn)
        account = state.get("loop") or new_account(turn, self._rules, None)
        budget = Budget(self._limits, account["counts"], here)
        made: dict[str, Any] = {}
        limit = budget.limit_on_tool(position(state, call["id"]))
        if limit is not None:
            return self._written(call, _refused(call, NOT_RUN), turn, budget, limit=limit)
        try:
            reply, updates, args = self._run(call, state, config, turn, account, budget, made)
        except (GraphBubbleUp, StorageError, ThreadError, PauseChanged):
            raise  # that the ledger cannot be asked is no result of the call, nor that a deploy changed its gate
        except Exception as error:  # raised when the batch is done: a sibling may be in the middle of its effect
            return self._failed(call, error, turn, budget, ran=bool(made.get("ran")))
        return self._written({**call, "args": args}, reply, turn, budget, updates)

    def _run(
        self,
        call: dict[str, Any],
        state: Mapping[str, Any],
        config: RunnableConfig,
        turn: str,
        account: Mapping[str, Any],
        budget: Budget,
        made: dict[str, Any],
    ) -> tuple[ToolReply, list[Any], Any]:
        """The reply, updates of state, and the arguments that it ran with: a person or a filter may have changed them.

        `made` is told these, and whether the tool was begun.
        """
        here, around = budget.invocation, runtime(config)
        context = here.context(state, turn, getattr(around, "context", None))
        mine = {**call, "args": deepcopy(call["args"])}  # a filter that changes them in place changes no history
        if mine["name"] not in self._tools and asks_again(answers := given_answers(config)) is not None:
            restate_answers(config, answers)
            return _refused(call, f"not run: there is no tool named {call['name']!r} any more"), [], call["args"]
        request = ToolRequest(cast("Any", mine), self._tools.get(call["name"]), context)
        place = ToolPlace(state, made, config, here.lease)
        edge = self._malformed if call.get("invalid") else self._edge
        share = _share(state, call["id"])
        reply, updates = edge.run(request, account["filters"], place, config, budget, made, share)
        if reply.message.tool_call_id != call["id"]:
            raise FilterError(edge.path[0], "around_tool", "the reply answers another call")
        return reply, updates, made.get("args", call["args"])

    def _failed(
        self, call: dict[str, Any], error: Exception, turn: str, budget: Budget, *, ran: bool
    ) -> dict[str, Any]:
        """A model that reads of a call that ran must not take it for one to make again."""
        told = getattr(error, "told", None) or (RAN if ran else NO) + str(error)
        written = self._written(call, _refused(call, told), turn, budget)
        written["loop"]["failure"] = {**dump_error(error), "key": remember(error)}
        return written

    def _written(
        self,
        call: dict[str, Any],
        reply: ToolReply,
        turn: str,
        budget: Budget,
        updates: Sequence[Any] = (),
        limit: str | None = None,
    ) -> dict[str, Any]:
        counts = budget.counts() if limit else {**budget.counts(), "tool_calls": 1}
        record = {"id": call["id"], "name": call["name"], "args": call["args"], "status": reply.message.status}
        step = Step(turn, counts, list(updates), [] if limit else [record], limit)
        written: dict[str, Any] = {"messages": [_named(reply.message, call)], "loop": step.plain()}
        if reply.writes and reply.message.status != "error":
            written["state"] = dict(reply.writes)
        return written


def _share(state: Mapping[str, Any], call_id: Any) -> Share:
    """The place of the call in its batch."""
    ids = [one["id"] for one in open_calls(state["messages"])]
    return (ids.index(call_id), len(ids)) if call_id in ids else ALONE


NO = "not run: "
RAN = "it ran; its result was withheld: "
MALFORMED = "not run: the arguments are not a JSON object; call the tool again with valid JSON"


def _malformed(request: ToolRequest, frame: Frame) -> ToolReply:
    frame.enter("")
    return _refused(request.call, MALFORMED)


def _named(message: ToolMessage, call: Mapping[str, Any]) -> ToolMessage:
    """The result with its tool's name; an id that a tool gave could be that of an earlier result, and replace it."""
    changes = {"id": None} if message.id is not None else {}
    if not message.name:
        changes["name"] = call["name"]
    return message.model_copy(update=changes) if changes else message


def _refused(call: Mapping[str, Any], text: str) -> ToolReply:
    return ToolReply(ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error"))
