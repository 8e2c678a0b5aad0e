"""The chat node: state -> ChatRequest -> onion -> model -> state. It is also where the branches of a batch join."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.journal import Wire, load_error
from scallion.filters.state import StateRules
from scallion.loop.edge import Edge
from scallion.loop.failures import recall
from scallion.loop.invocation import Budget, Invocation, invocation
from scallion.loop.model import ModelCall, as_system
from scallion.loop.platform import runtime
from scallion.loop.state import Limits, Step, calls_of, last_batch, new_account, open_calls, turn_of
from scallion.values import ChatReply, ChatRequest

WIRE = Wire("chat", lambda reply: reply.message, ChatReply)


class ChatNode:
    """The body of the chat node."""

    def __init__(
        self,
        model: Any,
        tools: Sequence[Any],
        filters: Sequence[Filter],
        rules: StateRules,
        limits: Limits,
        system_prompt: Any,
    ) -> None:
        self._model = model
        self._tools = tools
        self._direct = frozenset(tool.name for tool in tools if getattr(tool, "return_direct", False))
        self._rules = rules
        self._limits = limits
        self._prompts = as_system(system_prompt)
        self._edge = Edge(filters, "chat", ModelCall(), WIRE, rules)

    def __call__(self, state: Mapping[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """One model call, unless calls of the batch are still open or the results are the answer already.

        A pause around the turn is an interrupt of this node too, so that one inbox and one resume serve all pauses.
        """
        if hold := (state.get("turn") or {}).get("hold"):
            interrupt(hold)
            return {}
        here = invocation()
        messages: list[BaseMessage] = state.get("messages") or []
        if not messages:
            raise ConfigurationError("the graph was given no messages")
        if open_calls(messages):
            return {}
        turn = turn_of(state, here.turn)
        account = state.get("loop")
        if not account or account["turn"] != turn:
            account = new_account(turn, self._rules, account)
        budget = Budget(self._limits, account["counts"], here, self._prompts + tuple(here.prompts))
        failure = account.get("failure")  # of a call in a batch: no sibling is in the middle of its effect now
        if failure and failure["key"] != here.raised:
            raise recall(failure["key"]) or load_error(failure)
        if "limit" in account:
            raise budget.exceeded(account["limit"])
        if (answer := self._direct_answer(messages)) is not None:
            return self._written(answer, [], turn, budget, here)
        return self._ask(state, config, messages, turn, account, budget, here)

    def _ask(
        self,
        state: Mapping[str, Any],
        config: RunnableConfig,
        messages: list[BaseMessage],
        turn: str,
        account: Mapping[str, Any],
        budget: Budget,
        here: Invocation,
    ) -> dict[str, Any]:
        around = runtime(config)
        context = here.context(state, turn, getattr(around, "context", None))
        request = ChatRequest(list(messages), list(self._tools), None, self._model, context=context)
        try:
            reply, updates = self._edge.run(request, account["filters"], budget, config, budget, budget.made)
        except GraphInterrupt:
            raise  # what was used so far is kept with the pause
        except BaseException:
            budget.lose()
            raise
        return self._written(normalised(reply.message, messages), updates, turn, budget, here)

    def _written(
        self, message: AIMessage, updates: list[Any], turn: str, budget: Budget, here: Invocation
    ) -> dict[str, Any]:
        if here.delivery is not None:
            here.delivery.settle(str(message.text))
            if calls_of(message):
                here.delivery.keep()
        return {"messages": [message], "loop": Step(turn, budget.counts(), updates).plain()}

    def _direct_answer(self, messages: Sequence[BaseMessage]) -> AIMessage | None:
        """The answer, where every tool of the batch returns directly and none failed."""
        if not self._direct or not isinstance(messages[-1], ToolMessage):
            return None
        _, results = last_batch(list(messages))
        if not all(result.name in self._direct and is_direct(result) for result in results):
            return None
        if len(results) == 1:
            return AIMessage(results[0].content, response_metadata={"return_direct": True})
        text = "\n\n".join(str(result.text) for result in results)
        return AIMessage(text, response_metadata={"return_direct": True})


def is_direct(result: ToolMessage) -> bool:
    """Whether the result of a tool that returns directly may be the answer: a filter may have said that it is not."""
    return result.status == "success" and result.additional_kwargs.get("return_direct") is not False


def normalised(message: AIMessage, history: Sequence[BaseMessage]) -> AIMessage:
    """The message as it is stored: an id of its own, and tool calls whose ids are there and differ.

    A model that repeats a message id would replace the earlier message, so such an id is made anew.
    """
    changes: dict[str, Any] = {}
    if message.id is None or any(known.id == message.id for known in reversed(history)):
        changes["id"] = uuid.uuid4().hex
    seen: set[str] = set()
    calls = [_with_own_id(dict(call), seen) for call in message.tool_calls]
    broken = [_with_own_id(dict(call), seen) for call in message.invalid_tool_calls]
    if calls != message.tool_calls:
        changes["tool_calls"] = calls
    if broken != message.invalid_tool_calls:
        changes["invalid_tool_calls"] = broken
    return message.model_copy(update=changes) if changes else message


def _with_own_id(call: dict[str, Any], seen: set[str]) -> dict[str, Any]:
    wanted = call.get("id") or uuid.uuid4().hex
    name, number = wanted, 1
    while name in seen:
        number += 1
        name = f"{wanted}_{number}"
    seen.add(name)
    return call if call.get("id") == name else {**call, "id": name}
