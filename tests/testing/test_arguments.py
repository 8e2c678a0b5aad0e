"""What the tools for tests were given by mistake is told in words, where it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scallion import Agent, ConfigurationError, approve, filters
from scallion.testing import (
    BreaksOff,
    Chunks,
    Driver,
    ReplayModel,
    ScriptedModel,
    approve_with,
    asks,
    call,
    check_chunking,
    check_filter,
    crash_at,
)

STARS = filters.redact_tokens("a", "*")
GONE = ConnectionError("gone")
ODD: Any = None


def same(text: str) -> str:
    return text


def paying(decide: Any) -> Any:
    """A turn that pauses, and what it is decided with."""

    def pay() -> str:
        """Pay."""
        return "paid"

    gate = filters.approval({"pay": True})
    agent = Agent(ScriptedModel([asks(call("pay"))]), tools=[pay], filters=[gate], checkpointer="sqlite://")
    return approve_with(agent, "go", decide)


MISTAKES: list[tuple[str, Callable[[], Any]]] = [
    ("Chunks takes one piece", lambda: Chunks()),
    ("Chunks takes one piece", lambda: Chunks("a", b"b")),  # type: ignore[arg-type]
    ("chunk_size is", lambda: ScriptedModel(["a"], chunk_size=-1)),
    ("chunk_size is", lambda: ScriptedModel(["a"], chunk_size=0)),
    ("chunk_size is", lambda: ScriptedModel(["a"], chunk_size=True)),
    ("chunk_size is", lambda: ScriptedModel(["a"], chunk_size="line")),
    ("delay is", lambda: ScriptedModel(["a"], delay=-1)),
    ("delay is", lambda: ScriptedModel(["a"], delay="long")),
    ("not bytes", lambda: ScriptedModel([b"a"]).invoke("x")),  # type: ignore[list-item]
    ("not bytes", lambda: ScriptedModel(lambda messages: b"a").invoke("x")),  # type: ignore[arg-type, return-value]
    ("not bytes", lambda: [*ScriptedModel([BreaksOff(b"a", GONE)]).stream("x")]),  # type: ignore[arg-type]
    ("a script is a list .* not str", lambda: ScriptedModel("hello")),  # type: ignore[arg-type]
    ("a script is a list .* not int", lambda: ScriptedModel(5)),  # type: ignore[arg-type]
    ("a script is a list .* not NoneType", lambda: ScriptedModel(ODD)),
    ("after 0 chunks or more, not after -1", lambda: BreaksOff("a", GONE, chunks=-1)),
    ("in an exception, not in str", lambda: BreaksOff("a", "gone")),  # type: ignore[arg-type]
    ("asks takes calls", lambda: asks("pay")),  # type: ignore[arg-type]
    ("asks takes calls", lambda: asks({"args": {}})),
    ("transforms are one or more", lambda: check_chunking(ODD, same, ["a"])),
    ("transforms are one or more", lambda: check_chunking([], same, ["a"])),
    ("has no token transform", lambda: check_chunking([ODD], same, ["a"])),
    ("whole is a function", lambda: check_chunking(STARS, ODD, ["a"])),
    ("pieces are texts", lambda: check_chunking(STARS, same, ODD)),
    ("pieces are texts", lambda: check_chunking(STARS, same, "ab")),
    ("pieces are texts", lambda: check_chunking(STARS, same, 5)),  # type: ignore[arg-type]
    ("examples is a number from 1", lambda: check_chunking(STARS, same, ["a"], examples=0)),
    ("the saver is a checkpointer", lambda: crash_at("before model", saver=5)),
    ("an Agent, not NoneType", lambda: Driver(ODD)),
    ("an Agent, not NoneType", lambda: approve_with(ODD, "x", approve())),
    ("what is decided is a decision", lambda: paying(5)),
    ("what is decided is a decision", lambda: paying({"pay": "yes"})),
    ("gives a new filter, not NoneType", lambda: check_filter(ODD)),
    ("the path of a cassette", lambda: ReplayModel(ODD)),
]


@pytest.mark.parametrize(("told", "mistake"), MISTAKES)
def test_a_mistake_is_told(told: str, mistake: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match=told):
        mistake()
