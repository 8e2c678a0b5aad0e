"""The chat node: state -> ChatRequest -> onion -> model -> state. It is also where the branches of a batch join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from scallion.approvals.changed import asks_again
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.journal import Wire, load_error
from scallion.filters.masking import masking
from scallion.filters.state import StateRules
from scallion.history import calls_of, last_batch, open_calls
from scallion.loop.edge import Edge
from scallion.loop.edits import written_by
from scallion.loop.failures import recall
from scallion.loop.invocation import Budget, Invocation, invocation
from scallion.loop.model import ModelCall, as_system
from scallion.loop.platform import runtime
from scallion.loop.state import Limits, Step, new_account, turn_of
from scallion.values import ChatReply, ChatRequest


def _dump(reply: ChatReply) -> Any:
    """The message alone, where nothing else is said; so it was kept by older releases too."""
    if reply.stored is None and not reply.results:
        return reply.message
    return {"message": reply.message, "stored": reply.stored, "results": list(reply.results)}


def _load(kept: Any) -> ChatReply:
    return ChatReply(**kept) if isinstance(kept, Mapping) else ChatReply(kept)


WIRE = Wire("chat", _dump, _load)


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
        self._edge = Edge(filters, "chat", ModelCall(), WIRE, rules, masking(filters))

    def __call__(self, state: Mapping[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """One model call, unless calls of the batch are still open or the results are the answer already.

        A pause around the turn is an interrupt of this node too, so that one inbox and one resume serve all pauses.
        """
        if hold := (state.get("turn") or {}).get("hold"):
            answer = interrupt(hold)
            return {} if asks_again([answer]) else {"turn": {**state["turn"], "held": answer}}
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
            return self._written(ChatReply(answer), [], state, turn, budget, here)
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
        request = ChatRequest(list(messages), list(self._tools), None, self._model, context=context, stored=messages)
        try:
            reply, updates = self._edge.run(request, account["filters"], budget, config, budget, budget.made)
        except GraphInterrupt:
            raise  # what was used so far is kept with the pause
        except BaseException:
            budget.lose()
            raise
        return self._written(reply, updates, state, turn, budget, here)

    def _written(
        self,
        reply: ChatReply,
        updates: list[Any],
        state: Mapping[str, Any],
        turn: str,
        budget: Budget,
        here: Invocation,
    ) -> dict[str, Any]:
        written = written_by(reply, state)
        if here.delivery is not None:
            here.delivery.settle(str(reply.message.text))
            if calls_of(reply.message):
                here.delivery.keep()
        return {**written, "loop": Step(turn, budget.counts(), updates).plain()}

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
