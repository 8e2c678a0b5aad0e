"""What is asked of a session, an agent or a result before it is drawn, in whichever way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from scallion.errors import ConfigurationError
from scallion.inspect.figures import amount, count, duration, is_number, tokens

INNERMOST = {"turn": "loop", "chat": "model", "tool": "tool"}
"""What stands inside of the last layer of a chain."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A session, looked up once. `turns` is None where the checkpointer keeps no history."""

    thread: str
    row: Any
    turns: Sequence[Any] | None
    messages: Sequence[Any]
    pending: Sequence[Any]


def talk(session: Any) -> Talk:
    """What a session has now."""
    try:
        row, turns = session.row, session.history
    except ConfigurationError:  # the saver of somebody else
        return Talk(session.thread, None, None, session.messages, session.pending)
    return Talk(session.thread, row, turns, (), session.pending)


def usage(used: Mapping[str, Any]) -> list[str]:
    """The counts of a result: calls, tokens, cost, active time."""
    counts = {kind: used.get(f"{kind}_calls") for kind in ("model", "tool")}
    told = [count(made, f"{kind} call") for kind, made in counts.items() if made and is_number(made)]
    if spent := tokens({"input": used.get("input_tokens"), "output": used.get("output_tokens")}):
        told.append(f"tokens {spent}")
    if is_number(used.get("cost")):
        told.append(f"cost {amount(used['cost'])}")
    return told + ([duration(used["seconds"])] if is_number(used.get("seconds")) else [])


def limits(agent: Any) -> list[str]:
    """The limits of an agent that are set."""
    found = getattr(agent, "limits", None)
    if found is None or not is_dataclass(found):
        return []
    pairs = ((field.name, getattr(found, field.name)) for field in fields(found))
    return [f"{value:,} {name.replace('_', ' ')}" for name, value in pairs if value is not None]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of an agent: what the model is told of it, and its marks."""

    name: str
    description: str
    marks: Sequence[str]


def tools(agent: Any) -> Iterator[Tool]:
    """The tools of an agent in order; those that run at the provider too."""
    for one in agent.tools:
        if isinstance(one, Mapping):
            yield Tool(str(one.get("name") or one.get("type")), "runs at the provider", ())
            continue
        marks = [name for name, value in (one.metadata or {}).items() if value is True]
        yield Tool(one.name, str(one.description).strip().partition("\n")[0], marks)


def columns(items: Sequence[Any]) -> list[str]:
    """The fields of the items that are worth a column: short ones that any of them has."""
    if not items or not is_dataclass(items[0]):
        return []
    names = [field.name for field in fields(items[0]) if field.repr]
    return [name for name in names if any(getattr(one, name, None) not in (None, "", (), 0, False) for one in items)]
