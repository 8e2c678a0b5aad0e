"""`to_json()` of what is compared is JSON, whatever the states hold."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from scallion import Agent, Filter, ModelError, SQLCheckpointer
from scallion.session.as_data import as_data
from scallion.session.comparing import Compared, Difference, compare
from scallion.session.runs import Rerun, Runs
from scallion.testing import ScriptedModel


class Colour(Enum):
    """A value with a value."""

    RED = (1, "red")


@dataclass
class Point:
    """A value of somebody's class."""

    x: int = 1


class Rude:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("S3CRET")


def itself() -> list[Any]:
    """A list that contains itself."""
    found: list[Any] = []
    found.append(found)
    return found


ODD: list[tuple[Any, Any]] = [
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (b"\xff\x00", "/wA="),
    ((1, (2,)), [1, [2]]),
    ({"b", "a", 3}, ["a", "b", 3]),
    (frozenset([(1, 2)]), [[1, 2]]),
    ({1: "a", (2, 3): "b", None: "c", b"k": "d"}, {"1": "a", "[2, 3]": "b", "null": "c", "aw==": "d"}),
    ({1: "a", "1": "b"}, [[1, "a"], ["1", "b"]]),
    ({"\ud83d": "half \ud83d"}, {"?": "half ?"}),
    (Colour.RED, [1, "red"]),
    (Point(), "Point(x=1)"),
    (Rude(), "(Rude)"),
    (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
    (Decimal("1.50"), "1.50"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (10**5_000, hex(10**5_000)),
    (True, True),
    (1.5, 1.5),
]


def strict(value: Any) -> Any:
    """What another program reads of it."""
    text = json.dumps(value, allow_nan=False)
    json.dumps(value, ensure_ascii=False).encode()
    return json.loads(text)


@pytest.mark.parametrize(
    ("value", "told"), ODD, ids=[type(value).__name__ + str(n) for n, (value, _) in enumerate(ODD)]
)
def test_a_difference_of_any_states(value: Any, told: Any) -> None:
    """In the shared state, the states of filters and messages alike."""
    said = HumanMessage([{"type": "text", "text": "x", "more": value}])
    asked = AIMessage("", tool_calls=[{"name": "pay", "args": {"of": value}, "id": "1"}])
    sides = [Compared([said], "a\ud83d", {"one": value}, {"f": {"k": value}}), Compared([asked], None, {}, {})]
    found = compare(*sides).to_json()
    assert found["state"] == {"one": [told, None]}
    assert found["filter_state"] == {"f": {"k": [told, None]}}
    assert found["answers"] == ["a?", None]
    assert [one["in"] for one in found["messages"]] == ["a", "b"]
    assert strict(found) == found


def test_what_contains_itself_or_lies_deep_ends() -> None:
    """It is told by its class."""
    deep: Any = "end"
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    for value in (itself(), deep):
        assert "(list)" in json.dumps(strict(as_data(value)))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.just(Point()),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.booleans() | st.tuples(st.integers()), inner)
        | st.sets(st.integers() | st.text() | st.booleans())
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(anything)
def test_it_is_json_and_stays_what_it_is(value: Any) -> None:
    """Whatever the value is; what was told already is told alike."""
    told = as_data(value)
    assert strict(told) == told
    assert as_data(told) == told


def test_runs_of_states_that_are_no_json(sql: SQLCheckpointer) -> None:
    """As a rerun, and as runs under names of any kind."""
    odd = Filter("odd", around_turn=lambda request, state, next: next(request))
    agent = Agent(ScriptedModel(["half \ud83d", "again"]), filters=[odd], checkpointer=sql)
    session = agent.session("t")
    session.send("?")
    turn = session.history[0]
    run = session.rerun(turn)
    state = Difference([], (float("nan"), None), {"x": (b"\xff", {1})})  # type: ignore[arg-type]
    harmed = Rerun(run.original, run.session, run.result, run.turn, state, ModelError("semantic", "no"))
    found = Runs(turn, {"one": harmed, 2: run}).to_json()  # type: ignore[dict-item]
    assert strict(found) == found
    assert found["runs"]["one"]["difference"]["state"] == {"x": ["/w==", [1]]}
    assert found["original"]["answer"] == "half ?"
    assert set(found["runs"]) == {"one", "2"}
