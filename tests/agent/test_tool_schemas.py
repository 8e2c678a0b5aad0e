"""A tool that no model can be told of is refused where the agent is built, and not by the first call of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.tools import InjectedToolArg, tool
from pydantic import BaseModel, ConfigDict, WithJsonSchema

from scallion import Agent, ConfigurationError, Filter
from scallion.testing import ScriptedModel, asks, call


class Connection:
    """What no model can give."""


class Holds(BaseModel):
    """It has one inside."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    within: Connection


def plain(order: int, conn: Connection) -> str:
    """Look."""
    return ""


def deep(order: int, conn: list[dict[str, Connection]]) -> str:
    """Look."""
    return ""


def held(order: int, conn: Holds) -> str:
    """Look."""
    return ""


def function(order: int, conn: Callable[[int], int]) -> str:
    """Look."""
    return ""


async def optional(order: int, conn: Connection | None = None) -> str:
    """Look."""
    return ""


@pytest.mark.parametrize("made", [lambda one: one, tool], ids=["function", "tool"])
@pytest.mark.parametrize("look", [plain, deep, held, function, optional])
def test_an_argument_without_a_json_schema_is_named(look: Any, made: Any) -> None:
    told = rf"tool '{look.__name__}': its argument 'conn' has a type without a JSON schema \(.+\): .*ToolRuntime"
    with pytest.raises(ConfigurationError, match=told):
        Agent(ScriptedModel(["ok"]), tools=[made(look)])
    with pytest.raises(ConfigurationError, match=told):
        Agent(ScriptedModel(["ok"]), filters=[Filter("brings", tools=[made(look)])])


def test_a_type_that_is_not_known_is_told() -> None:
    def look(order: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
        """Look."""
        return ""

    with pytest.raises(ConfigurationError, match=r"tools\[0\] cannot be made a tool: name 'Nowhere' is not defined"):
        Agent(ScriptedModel(["ok"]), tools=[look])


def test_what_a_model_does_not_give_may_have_any_type() -> None:
    """And so may what says its schema."""

    @tool
    def look(
        order: int,
        runtime: ToolRuntime,
        conn: Annotated[Connection | None, InjectedToolArg] = None,
        told: Annotated[Any, WithJsonSchema({"type": "string"})] = "",
    ) -> str:
        """Look."""
        return f"order {order}"

    agent = Agent(ScriptedModel([asks(call("look", order=1)), "Done."]), tools=[look])
    assert agent.invoke("Look").tool_calls[0]["args"] == {"order": 1}


def test_a_default_that_json_does_not_have_is_left_out() -> None:
    """Without a warning: a model can be told of the argument."""

    @tool
    def look(order: int, odd: Any = Connection) -> str:
        """Look."""
        return ""

    assert Agent(ScriptedModel(["ok"]), tools=[look]).tools == [look]
