"""The state of the loop graph, and how it is merged.

`loop` is the account of the current turn: `{"turn": id, "counts": {...}, "filters": {...}, "calls": [...]}`.
It starts anew with each turn by its reducer, so that the bare graph keeps budgets and filter states as an Agent does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Annotated, Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from scallion.filters.state import StateRules, States

COUNTS = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "total_tokens", "seconds")
"""What is counted of each turn."""
NOT_RUN = "not run: limit"
"""What a call is answered with that a limit cut off."""


@dataclass(frozen=True)
class Limits:
    """Budgets of one turn over all its re-entries and resumes; None is no limit. `seconds` does not count pauses.

    What a step used that failed counts for the rest of that call of the agent: it is not stored, so not on a resume.
    """

    model_calls: int | None = 50
    tool_calls: int | None = 100
    seconds: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        from scallion.errors import ConfigurationError

        for name, value in asdict(self).items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                raise ConfigurationError(f"Limits({name}=...) is a number above zero or None, not {value!r}")


def state_schema(rules: StateRules) -> type:
    """The channels of the graph; `turn` and `base` are written only where filters stand around the turn."""
    channels: dict[str, Any] = {
        "messages": Annotated[list[AnyMessage], add_messages],
        "loop": Annotated[dict[str, Any], account_reducer(rules)],
        "state": Annotated[dict[str, Any], _merge],
        "turn": dict[str, Any],
        "base": list[AnyMessage] | None,
    }
    return TypedDict("LoopState", channels, total=False)  # type: ignore[operator, no-any-return]


def _merge(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    return {**(old or {}), **(new or {})}


@dataclass(frozen=True, slots=True)
class Step:
    """What one node adds to the account of its turn."""

    turn: str
    counts: Mapping[str, float] = field(default_factory=dict)
    updates: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    limit: str | None = None
    states: States | None = None
    """The whole state of the filters, from a turn hook; replaces what is there."""

    def plain(self) -> dict[str, Any]:
        """Plain data for a channel write."""
        written: dict[str, Any] = {"turn": self.turn, "counts": dict(self.counts)}
        if self.updates:
            written["updates"] = [[name, dict(update)] for name, update in self.updates]
        if self.calls:
            written["calls"] = self.calls
        if self.limit:
            written["limit"] = self.limit
        if self.states is not None:
            written["states"] = self.states
        return written


def account_reducer(rules: StateRules) -> Callable[[Any, Any], dict[str, Any]]:
    """The reducer of the `loop` channel: folds what a node wrote, or several did, into the account of its turn."""

    def fold(account: dict[str, Any] | None, step: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any]:
        if isinstance(step, list):
            return reduce(fold, step, account or {})
        if not account or account.get("turn") != step["turn"]:
            account = new_account(step["turn"], rules, account)
        counts = dict(account["counts"])
        for name, value in step["counts"].items():
            counts[name] = max(counts.get(name, 0), value) if name == "seconds" else counts.get(name, 0) + value
        if "calls" not in step and "limit" not in step:  # not of a tool: what failed before has been raised
            account = {name: value for name, value in account.items() if name != "failure"}
        states = step.get("states") or account["filters"]
        folded = {
            "turn": step["turn"],
            "counts": counts,
            "filters": rules.fold(states, step.get("updates", ())),
            "calls": [*account["calls"], *step["calls"]] if "calls" in step else account["calls"],
        }
        marks = {name: mark for name in ("limit", "failure") if (mark := step.get(name) or account.get(name))}
        return {**folded, **marks}

    return fold


def new_account(turn: str, rules: StateRules, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The account of a turn that starts."""
    return {"turn": turn, "counts": {}, "filters": rules.start((before or {}).get("filters")), "calls": []}


def turn_of(state: Mapping[str, Any], given: str | None) -> str:
    """The id of the turn: the Agent's, or for the bare graph the id of the message that it answers."""
    if given is not None:
        return given
    return next((m.id for m in reversed(state["messages"]) if isinstance(m, HumanMessage) and m.id), "turn")
