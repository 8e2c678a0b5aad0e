"""The parts that an agent is built from, as users give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, convert_to_messages
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from scallion.approvals.policy import check_span
from scallion.errors import ConfigurationError
from scallion.filters.filter import NEEDS_SAVER, Filter
from scallion.filters.toolset import as_tool, check_schema, is_same, tool_name
from scallion.loop.state import Limits

INHERIT = "inherit"
"""A checkpointer that is that of the graph in which the agent runs."""


def as_tools(tools: Sequence[Any], of_filters: Sequence[Any] = ()) -> list[Any]:
    """The tools as `BaseTool`s; dicts (tools that run at the provider) stay as they are. Names must differ.

    A tool that a filter brings counts once, if it is given too or another filter brings it. Raises ConfigurationError.
    """
    if not isinstance(tools, Sequence):
        raise ConfigurationError(f"tools is a list of tools, not {type(tools).__name__}: put it into brackets")
    made = [as_tool(one, position) for position, one in enumerate(tools)]
    given = {tool_name(one): one for one in made}
    for position, one in enumerate(of_filters, len(made)):
        brought = as_tool(one, position)
        if not is_same(brought, given.get(tool_name(brought))):
            made.append(brought)
            given.setdefault(tool_name(brought), brought)
    seen: set[str] = set()
    for one in made:
        if isinstance(one, BaseTool):
            if (metadata := one.metadata or {}).get("external"):
                check_span(metadata.get("expires_in"), f"'expires_in' in the metadata of tool {one.name!r}")
            if one.name in seen:
                raise ConfigurationError(f"two tools are named {one.name!r}")
            seen.add(one.name)
            check_schema(one)
    return made


def check_parts(filters: Sequence[Filter], tools: Mapping[str, BaseTool], saver: Any) -> None:
    """Raise ConfigurationError where filters or tools need what is not there; which saver comes may not be known."""
    for one in filters:
        one.check_tools(frozenset(tools))
        if saver != INHERIT:
            one.check_saver(saver)
    for name, tool in tools.items():
        if saver is None and not {"external", "pauses"}.isdisjoint(tool.metadata or {}):
            raise ConfigurationError(f"tool {name!r} pauses: {NEEDS_SAVER}")


def fits_without_saver(filters: Sequence[Filter], tools: Mapping[str, BaseTool]) -> bool:
    """Whether nothing of the stack is known to pause, or to keep anything."""
    try:
        check_parts(filters, tools, None)
    except ConfigurationError:
        return False
    return True


def check_choices(limits: Any, concurrency: int | None, on_changed: str, resolve: Any = None) -> None:
    """Raise ConfigurationError for a value that cannot be."""
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits is Limits(...), not {type(limits).__name__}")
    if concurrency is not None and concurrency < 1:
        raise ConfigurationError(f"tool_concurrency is at least 1, not {concurrency}")
    if on_changed not in ("refuse", "ask"):
        raise ConfigurationError(f'on_changed is "refuse" or "ask", not {on_changed!r}')
    if resolve is not None and not callable(resolve):
        raise ConfigurationError(f"resolve is a function of a class, not {type(resolve).__name__}")


def as_saver(checkpointer: Any) -> Any:
    """A saver; a URL becomes a SQLCheckpointer. What comes from the graph around is not there yet."""
    if checkpointer is None or isinstance(checkpointer, BaseCheckpointSaver):
        return checkpointer
    if checkpointer == INHERIT:
        return None
    if isinstance(checkpointer, str):
        import scallion  # only a URL needs SQL: the loop and the turn know none

        return scallion.SQLCheckpointer(checkpointer)
    raise ConfigurationError(f"checkpointer is a saver or a database URL, not {type(checkpointer).__name__}")


def as_messages(input: Any) -> list[BaseMessage]:
    """The messages of an input: a text, a message, or a list of messages or OpenAI dicts."""
    if isinstance(input, dict) and set(input) == {"messages"}:
        input = input["messages"]  # the input of a graph
    if isinstance(input, str) and not input.strip():
        raise ConfigurationError("input is an empty text")
    if isinstance(input, str):
        return [HumanMessage(input)]
    is_pair = isinstance(input, tuple) and [type(one) for one in input] == [str, str]  # who, and what
    if is_pair or isinstance(input, BaseMessage | dict):
        input = [input]
    if not isinstance(input, Sequence) or not input:
        raise ConfigurationError(f"input is a text, a message or a list of messages, not {type(input).__name__}")
    try:
        return convert_to_messages(input)
    except (KeyError, TypeError, ValueError, NotImplementedError) as error:
        told = f"input holds what is no message: {type(error).__name__}"
    raise ConfigurationError(told)  # without its cause, which quotes the input


def split_system(messages: Sequence[BaseMessage]) -> tuple[list[SystemMessage], list[BaseMessage]]:
    """The system messages that lead an input, which are for this call only, and the rest, which the thread keeps."""
    lead = 0
    while lead < len(messages) and isinstance(messages[lead], SystemMessage):
        lead += 1
    if lead == len(messages):
        raise ConfigurationError("input holds system messages only")
    return [one for one in messages[:lead] if isinstance(one, SystemMessage)], list(messages[lead:])
