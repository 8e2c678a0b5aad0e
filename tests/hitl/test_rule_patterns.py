"""What a standing rule says of arguments: no pattern opens the gate by mistake, no way of writing evades a denial."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from modes import Drive
from pydantic import BaseModel, Field
from scenes import asks, call

from scallion import Agent, Completed, ConfigurationError, Paused, SQLCheckpointer, filters
from scallion.testing import ScriptedModel

TAGS: Any = Field(default_factory=list)
TWENTY = {"properties": {"euros": {"maximum": 20}}}
SMALL = {**TWENTY, "required": ["euros"]}
LARGE = {"properties": {"euros": {"type": "number", "minimum": 1000}}, "required": ["euros"]}


class Money(BaseModel):
    """What goes back."""

    euros: float = 1000.0


class Desk:
    """Two tools that take more than they are given, and what they did."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    @property
    def tools(self) -> list[Any]:
        return [StructuredTool.from_function(one) for one in (self.refund, self.pay)]

    def refund(self, order: int, euros: float = 1000.0, tags: list[str] = TAGS) -> str:
        """Refund an order."""
        self.ran.append(euros)
        return "refunded"

    def pay(self, euros: Decimal = Decimal(1000), money: Money = Money()) -> str:  # noqa: B008
        """Pay."""
        self.ran.append((euros, money.euros))
        return "paid"


def build(saver: SQLCheckpointer, desk: Desk, tool: str, args: Mapping[str, Any]) -> Agent:
    """An agent that makes this call, behind a gate."""
    model = ScriptedModel([asks(call(tool, **args)), "end"])
    return Agent(model, tools=desk.tools, filters=[filters.approval(default=True)], checkpointer=saver)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ({}, "has to limit something"),
        ({"type": "object"}, "has to limit something"),
        ({"required": ["euros"]}, "has to limit something"),
        ({"maximum": 20}, "has to limit something"),
        ({"properties": {}}, "has to limit something"),
        ({"euros": {"maximum": 20}}, "does not take 'euros'"),
        ({"properties": {"euros": {"max": 20}}, "required": ["euros"]}, "does not take 'max'.*properties/euros"),
        ({"properties": {"euros": {}}, "required": ["euros"]}, "has to limit something.*properties/euros"),
        ({"properties": {"euros": True}, "required": ["euros"]}, "has to limit something"),
        ({"properties": {"euros": {"title": "20"}}, "required": ["euros"]}, "has to limit something"),
        ({"properties": {"euros": {"format": "twenty"}}, "required": ["euros"]}, "does not take 'format'"),
        (TWENTY, "add 'euros' to required"),
        ({"allOf": [TWENTY]}, "add 'euros' to required.*allOf/0"),
        ({"anyOf": [SMALL, TWENTY]}, "add 'euros' to required.*anyOf/1"),
        ({"anyOf": [SMALL, {"type": "object"}]}, "has to limit something"),
        ({"properties": {"money": TWENTY}, "required": ["money"]}, "add 'euros' to required.*properties/money"),
        ({"properties": {"all": {"items": TWENTY}}, "required": ["all"]}, "add 'euros' to required.*all/items"),
        ({**SMALL, "additionalProperties": {"maximum": 20}}, "true or false"),
        ({"$ref": "#/$defs/s", "$defs": {"s": TWENTY}}, "does not take"),
        ({"if": TWENTY}, "does not take 'if'"),
        ({"oneOf": [SMALL]}, "does not take 'oneOf'"),
        ({"not": {"properties": {"euros": {"minimum": 20}}}}, "does not take 'not'"),
        ({"patternProperties": {"^euros$": {"maximum": 20}}}, "does not take 'patternProperties'"),
        (reduce(lambda one, _: {"properties": {"a": one}, "required": ["a"]}, range(100), SMALL), "too deeply"),
        ({"dependentSchemas": {"order": TWENTY}}, "does not take 'dependentSchemas'"),
    ],
)
def test_a_pattern_that_allows_has_to_limit_all_that_it_names(sql: SQLCheckpointer, pattern: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        sql.rules.add("refund", pattern=pattern, by="ana")
    assert not sql.rules.list(ended=True).items


@pytest.mark.parametrize(
    ("pattern", "tool", "args", "runs"),
    [
        (SMALL, "refund", {"order": 1, "euros": 20}, True),
        (SMALL, "refund", {"order": 1, "euros": 21}, False),
        (SMALL, "refund", {"order": 1}, False),
        (SMALL, "refund", {"order": "1", "euros": 20}, False),
        (SMALL, "pay", {"euros": 20}, True),
        (SMALL, "pay", {"euros": "900"}, False),  # a text is no less than 20
        ({"anyOf": [SMALL, {"const": {"euros": "7"}}]}, "pay", {"euros": "7"}, True),
        (
            {"allOf": [SMALL, {"properties": {"euros": {"minimum": 9}}, "required": ["euros"]}]},
            "pay",
            {"euros": 8},
            False,
        ),
        ({"properties": {"money": SMALL}, "required": ["money"]}, "pay", {"money": {"euros": 9}}, True),
        ({"properties": {"money": SMALL}, "required": ["money"]}, "pay", {"money": {}}, False),
        ({"properties": {"euro": {"maximum": 20}}, "required": ["euro"]}, "pay", {"euro": 1, "euros": 900}, False),
        ({"const": {"order": 1, "euros": 5}}, "refund", {"order": 1, "euros": 5}, True),
        ({"enum": [{"order": 1, "euros": 5}]}, "refund", {"order": 1}, False),
    ],
)
def test_what_a_pattern_allows(sql: SQLCheckpointer, pattern: Any, tool: str, args: Any, runs: bool) -> None:
    desk = Desk()
    sql.rules.add(tool, pattern=pattern, by="ana")
    result = build(sql, desk, tool, args).invoke("go", thread="t")
    assert (type(result), len(desk.ran)) == ((Completed, 1) if runs else (Paused, 0))


@pytest.mark.parametrize(
    ("denied", "tool", "args", "runs"),
    [
        ({"args": {"order": 1, "euros": 50.0}}, "refund", {"order": 1, "euros": 50}, False),
        ({"args": {"order": 1, "euros": 50}}, "refund", {"order": 1, "euros": 50.0}, False),
        ({"args": {"order": 1, "euros": 50}}, "refund", {"order": 1, "euros": "50"}, False),
        ({"args": {"order": 1, "euros": 50}}, "refund", {"order": 1, "euros": 51}, True),
        ({"args": {"order": 1, "euros": 1000}}, "refund", {"order": 1}, False),
        ({"args": {"order": 1}}, "refund", {"order": 1, "euros": 1000}, False),
        ({"args": {"order": 1}}, "refund", {"order": 2}, True),
        ({"args": {"euros": 7}}, "pay", {"euros": "7.0"}, False),
        ({"args": {"euros": 7}}, "pay", {"euros": 7, "money": {}}, False),
        ({"pattern": LARGE}, "refund", {"order": 1, "euros": 999}, True),
        ({"pattern": LARGE}, "refund", {"order": 1, "euros": 5000}, False),
        ({"pattern": LARGE}, "refund", {"order": 1, "euros": "5000"}, False),
        ({"pattern": LARGE}, "refund", {"order": 1}, False),
        ({"pattern": LARGE}, "pay", {"euros": "5000"}, False),
        ({"pattern": LARGE}, "pay", {"euros": "50"}, True),
        ({"pattern": LARGE}, "pay", {}, False),
        ({"pattern": {"properties": {"money": LARGE}, "required": ["money"]}}, "pay", {"money": {}}, False),
        ({"pattern": {"properties": {"money": LARGE}, "required": ["money"]}}, "pay", {"money": {"euros": 1}}, True),
        ({"pattern": {"properties": {"tags": {"const": []}}, "required": ["tags"]}}, "refund", {"order": 1}, False),
        ({"pattern": {"minProperties": 3}}, "refund", {"order": 1}, False),
        ({"pattern": {"$ref": "#/$defs/s", "$defs": {"s": LARGE}}}, "refund", {"order": 1}, False),
    ],
)
def test_what_a_denial_denies(sql: SQLCheckpointer, denied: Any, tool: str, args: Any, runs: bool) -> None:
    """Beside a rule that allows every call."""
    desk = Desk()
    sql.rules.add(tool, by="ana")
    sql.rules.add(tool, "deny", by="bo", **denied)
    assert isinstance(build(sql, desk, tool, args).invoke("go", thread="t"), Completed)
    assert len(desk.ran) == runs


def test_a_call_without_the_argument_is_asked_about_or_denied(sql: SQLCheckpointer, drive: Drive) -> None:
    """In every mode."""
    desk = Desk()
    sql.rules.add("refund", pattern=SMALL, by="ana")
    driver = drive(build(sql, desk, "refund", {"order": 1}))
    assert isinstance(driver.start("go", thread="t1")[0], Paused)
    sql.rules.add("refund", "deny", pattern=LARGE, by="bo")
    driver = drive(build(sql, desk, "refund", {"order": 1}))
    assert isinstance(driver.start("go", thread="t2")[0], Completed)
    assert not desk.ran
