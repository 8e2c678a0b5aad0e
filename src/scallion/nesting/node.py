"""An agent as a node of a graph that is not ours: it answers the conversation in the state of that graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig

from scallion.errors import ConfigurationError
from scallion.history import with_ids
from scallion.loop.node import Node
from scallion.nesting.inner import Beginning, Inner

Adds = Literal["turn", "answer"]


def node(inner: Inner, adds: Adds, key: str) -> Node:
    """The node; raises ConfigurationError for what it cannot add."""
    if adds not in get_args(Adds):
        raise ConfigurationError(f'as_node(adds=...) is "turn" or "answer", not {adds!r}')
    if not isinstance(key, str) or not key:
        raise ConfigurationError(f"as_node(key=...) is the name of the channel with the messages, not {key!r}")

    def body(state: Any, config: RunnableConfig) -> dict[str, Any]:
        before = with_ids(convert_to_messages(_messages(state, key)))
        ended = inner.run(lambda: unanswered(before), config, agents=(inner.name,))
        known = {one.id: one for one in before}
        turn = [one for one in ended.messages if known.get(one.id) != one]
        return {key: turn if adds == "turn" else [ended.result.message]}

    return Node(inner.name, body)


def unanswered(messages: Sequence[BaseMessage]) -> Beginning:
    """A turn on what came behind the last message of a model, or on the last message where nothing did."""
    if not messages:
        raise ConfigurationError("the graph was given no messages")
    said = [place for place, one in enumerate(messages, 1) if isinstance(one, AIMessage) or one.type == "tool"]
    split = min(said[-1] if said else 0, len(messages) - 1)
    return Beginning(messages[split:], messages[:split])


def _messages(state: Any, key: str) -> Sequence[Any]:
    found = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    return [found] if isinstance(found, str | BaseMessage) else found or []
