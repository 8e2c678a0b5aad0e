"""What other graphs put into an interrupt: read as far as it is understood, and never a reason to lose a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from checkpoints.foreign_graphs import CONFIG, run, statuses
from checkpoints.shapes_that_ask import graph
from langgraph.types import interrupt
from pydantic import BaseModel, Field

from scallion import approve, edit, reject, respond
from scallion.approvals.questions import questions
from scallion.errors import InvalidDecision
from scallion.sql.saver import SQLCheckpointer
from scallion.values import Approval, Decision

PAY = {"name": "pay", "args": {"euro": 1}}
MAIL = {"name": "mail", "args": {"to": "mira"}}


def batch(*requests: Any, configs: Any = None) -> dict[str, Any]:
    """A batched request; by default everything is allowed."""
    every = ["approve", "edit", "reject", "respond"]
    known = (
        [{"action_name": one["name"], "allowed_decisions": every} for one in requests] if configs is None else configs
    )
    return {"action_requests": list(requests), "review_configs": known if configs is None else configs}


def asked(saver: SQLCheckpointer, value: Any, schema: Any = None) -> list[Approval]:
    """What an interrupt with this value makes of it."""
    run(graph(saver, {"n": lambda state: {"said": [interrupt(value, response_schema=schema)]}}), {"said": []})
    return list(saver.approvals.list().items)


def answered(saver: SQLCheckpointer, value: Any, decision: Decision, schema: Any = None) -> Any:
    """What the interrupt gives back."""
    got: list[Any] = []

    def node(state: Any) -> Any:
        got.append(interrupt(value, response_schema=schema))

    built = graph(saver, {"n": node})
    run(built, {"said": []})
    for one in saver.approvals.list().items:
        saver.approvals.decide(one.id, decision)
    run(built, saver.command_for("t"))
    assert set(statuses(saver)) == {"used"}
    return got[0]


def config(tool: str, *allowed: str) -> dict[str, Any]:
    return {"action_name": tool, "allowed_decisions": list(allowed)}


@pytest.mark.parametrize(
    "configs",
    [
        [config("mail", "reject"), config("pay", "approve")],
        [config("pay", "approve", "accept"), config("mail", "reject")],
    ],
    ids=["in another order", "with an unknown kind"],
)
def test_the_config_of_a_call_is_the_one_that_names_it(saver: SQLCheckpointer, configs: Any) -> None:
    pay, mail = asked(saver, batch(PAY, MAIL, configs=configs))
    assert (pay.tool, pay.allowed, mail.tool, mail.allowed) == ("pay", ("approve",), "mail", ("reject",))


@pytest.mark.parametrize(
    "value",
    [
        batch(),
        batch(PAY, configs=[]),
        batch(PAY, configs=[config("pay")]),
        batch(PAY, configs=[{"action_name": "pay", "allowed_decisions": "approve"}]),
        batch(PAY, MAIL, configs=[config("pay", "approve")]),
        {"action_requests": ["pay"], "review_configs": []},
        {"action_requests": [{"name": "pay", "args": "{}"}], "review_configs": []},
        {"action_requests": {}},
        {"type": "tool_approval", "name": None},
        {"type": "tool_approval"},
        {"scallion": 1},
        {"scallion": 1, "kind": "question", "name": "x"},
        {("a", 1): "keys that JSON does not have"},
        {"nan": float("nan"), "bytes": b"\xff", "set": {1}},
        "\ud800",
        None,
        [],
    ],
    ids=repr,
)
def test_what_is_not_understood_is_a_plain_question(saver: SQLCheckpointer, value: Any) -> None:
    (one,) = asked(saver, value)
    assert (one.kind, one.tool, one.allowed) == ("question", None, ("respond",))
    assert saver.status("t") == "paused"


def test_it_is_answered_with_what_the_graph_wants(saver: SQLCheckpointer) -> None:
    raw = {"decisions": [{"type": "ignore"}]}
    assert answered(saver, batch(PAY, configs=[]), respond(raw)) == raw


def test_parts_come_back_in_order(saver: SQLCheckpointer) -> None:
    many = [{"name": "pay", "args": {"euro": n}} for n in range(12)]
    decisions = answered(saver, batch(*many), approve())["decisions"]
    assert decisions == [{"type": "approve"}] * 12
    saver.delete_thread("t")
    built = graph(saver, {"n": lambda state: {"said": [interrupt(batch(*many))]}})
    run(built, {"said": []})
    for one in reversed(saver.approvals.list().items):
        saver.approvals.decide(one.id, edit({"euro": (one.args or {})["euro"] * 10}))
    run(built, saver.command_for("t"))
    given = built.get_state(CONFIG).values["said"][0]["decisions"]
    assert [one["edited_action"] for one in given] == [{"name": "pay", "args": {"euro": n * 10}} for n in range(12)]


class Colour(Enum):
    RED = "red"


class Guest(BaseModel):
    name: str
    age: int = Field(ge=0)
    partner: Guest | None = None


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (bool, True, "yes"),
        (int, 3, "3"),
        (Colour, "red", "blue"),
        (Guest, {"name": "Mira", "age": 3, "partner": {"name": "Bo", "age": 4}}, {"name": "Mira", "age": -1}),
        ({"type": "object", "required": ["a"]}, {"a": None}, {}),
        ({"enum": ["a", "b"]}, "a", "c"),
    ],
    ids=str,
)
def test_a_response_fits_the_schema(saver: SQLCheckpointer, schema: Any, good: Any, bad: Any) -> None:
    (one,) = asked(saver, "?", schema)
    with pytest.raises(InvalidDecision, match="the response does not fit"):
        saver.approvals.decide(one.id, respond(bad))
    saver.delete_thread("t")
    found = answered(saver, "?", respond(good), schema)
    assert found == (schema(good) if schema is Colour else Guest(**good) if schema is Guest else good)


@pytest.mark.parametrize(("decision", "given"), [(approve(), True), (reject("no"), False), (respond(False), False)])
@pytest.mark.parametrize("schema", [bool, {"type": "boolean"}])
def test_a_truth_value_may_be_approved(saver: SQLCheckpointer, decision: Decision, given: bool, schema: Any) -> None:
    assert answered(saver, "Sure?", decision, schema) is given


@pytest.mark.parametrize("schema", [{"type": "text"}, {"$ref": "#/$defs/gone"}, {"$ref": "https://example.com/x"}])
def test_a_schema_that_is_none(saver: SQLCheckpointer, schema: Mapping[str, Any]) -> None:
    """Is told instead of followed; an answer is still possible past the inbox."""
    (one,) = asked(saver, "?", schema)
    with pytest.raises(InvalidDecision, match="the schema is not usable"):
        saver.approvals.decide(one.id, respond("x"))
    assert statuses(saver) == ["pending"]


def test_a_schema_of_another_kind_of_decision(saver: SQLCheckpointer) -> None:
    """A request about one call whose schema names no decision allows all four; LangGraph checks the answer."""
    value = {"type": "tool_approval", "tool_call_id": "c", **PAY}
    (one,) = asked(saver, value, {"type": "object"})
    assert (one.kind, one.call_id, one.args_schema) == ("tool_call", "c", None)
    saver.delete_thread("t")
    assert answered(saver, value, edit({"euro": 2})) == {
        "type": "edit", "edited_action": {"name": "pay", "args": {"euro": 2}},
    }  # fmt: skip


def test_what_is_no_interrupt_asks_nothing() -> None:
    assert questions([None, "x", (1,), [object()]]) == []
