"""Forms: every schema that a tool has can be filled in, and what is read back is what was there, or was typed."""

import json
from datetime import date
from functools import reduce
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from scallion.notebook.filled import read
from scallion.notebook.form import ABSENT, Field, form


class Line(BaseModel):
    """A line of an order."""

    article: str
    count: int = 1


class Order(BaseModel):
    """All kinds of fields."""

    to: str
    lines: list[Line]
    urgency: Literal["low", "high"] = "low"
    gift: bool = False
    due: date | None = None
    weight: float | int | None = None
    note: str | None = None
    tags: dict[str, str] = {}


class Tree(BaseModel):
    """A schema within itself."""

    name: str
    children: list["Tree"] = []


SCHEMA = Order.model_json_schema()
ARGS = {"to": "Ana", "lines": [{"article": "tea", "count": 2}], "due": "2026-12-01", "urgency": "high"}


def untouched(field: Field) -> dict[str, Any]:
    """What the browser sends of a form that nobody touched."""
    if field.mode != "value":
        return {"mode": field.mode}
    match field.kind:
        case "object":
            return {"fields": {name: untouched(one) for name, one in (field.fields or {}).items()}}
        case "array":
            return {"items": [{"from": n, "node": untouched(one)} for n, one in enumerate(field.items)]}
    return {"keep": True} if field.value is not ABSENT else {"text": field.text}


def test_every_kind_of_field() -> None:
    """What pydantic makes of the types of Python."""
    fields = form(SCHEMA, ARGS).fields or {}
    kinds = {name: one.kind for name, one in fields.items()}
    assert kinds == {
        "to": "text",
        "lines": "array",
        "urgency": "choice",
        "gift": "boolean",
        "due": "date",
        "weight": "json",
        "note": "text",
        "tags": "json",
    }
    assert {name for name, one in fields.items() if one.required} == {"to", "lines"}
    assert fields["due"].nullable
    assert fields["lines"].items[0].fields is not None
    assert fields["lines"].item is not None


def test_a_form_is_plain_data() -> None:
    """It goes to the browser as JSON, and holds texts only."""
    plain = form(SCHEMA, ARGS).to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert [name for name, _ in plain["fields"]][:2] == ["to", "lines"]
    lines = dict(plain["fields"])["lines"]
    assert lines["item"]["fields"][1][1]["text"] == "1"


def test_untouched_it_is_what_it_was() -> None:
    """With left out what was left out."""
    field = form(SCHEMA, ARGS)
    assert read(field, untouched(field)) == (ARGS, {})


plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(st.dictionaries(st.sampled_from([*Order.model_fields, "unknown"]), plain_json))
def test_untouched_whatever_a_model_wrote_stays(args: dict[str, Any]) -> None:
    """Arguments that fit nothing are shown as JSON, and kept to the bit."""
    lines = args.get("lines")
    assume(not isinstance(lines, list) or not any(isinstance(one, dict) for one in lines))  # they lack an article
    args = {"to": "Ana", "lines": [], **args}
    field = form(SCHEMA, args)
    kept, wrong = read(field, untouched(field))
    assert not wrong
    assert repr(sorted(kept.items())) == repr(sorted(args.items()))


def test_what_was_typed() -> None:
    """Each kind of field, an item more, one that is gone, one that was left out before."""
    node = {
        "fields": {
            "to": {"text": "Eve\nand Ana"},
            "lines": {
                "items": [
                    {"from": None, "node": {"fields": {"article": {"text": "milk"}, "count": {"text": " 3 "}}}},
                    {"from": 0, "node": {"fields": {"article": {"keep": True}, "count": {"mode": "absent"}}}},
                ]
            },
            "urgency": {"choice": 0},
            "gift": {"on": True},
            "due": {"mode": "null"},
            "weight": {"text": "2.50"},
            "note": {"mode": "absent"},
            "tags": {"text": '{"a": "b"}'},
        }
    }
    assert read(form(SCHEMA, ARGS), node) == (
        {
            "to": "Eve\nand Ana",
            "lines": [{"article": "milk", "count": 3}, {"article": "tea"}],
            "urgency": "low",
            "gift": True,
            "due": None,
            "weight": 2.5,
            "tags": {"a": "b"},
        },
        {},
    )


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "ten"),
        ({"type": "integer"}, "9" * 5000),
        ({"type": "number"}, "1,5"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "true"),
        ({}, "{"),
        ({}, "[" * 100_000),
        ({}, "Infinity"),
    ],
)
def test_what_cannot_be_read_is_told_at_its_field(schema: dict[str, Any], text: str) -> None:
    """By the pointer of the field; there is no value."""
    whole = {"type": "object", "properties": {"a/b": schema}, "required": ["a/b"]}
    _, wrong = read(form(whole, {}), {"fields": {"a/b": {"text": text}}})
    assert list(wrong) == ["/a~1b"]


def test_numbers_are_not_read_by_the_browser() -> None:
    """More digits than a double has come through, typed or kept."""
    large = 2**63 + 1
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert read(form(schema, {"n": large}), {"fields": {"n": {"keep": True}}})[0] == {"n": large}
    assert read(form(schema, {"n": 0}), {"fields": {"n": {"text": str(large)}}})[0] == {"n": large}


def test_a_schema_within_itself_ends() -> None:
    """Where it begins anew it is JSON."""
    args = {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "children": []}]}]}
    field = form(Tree.model_json_schema(), args)
    assert read(field, untouched(field)) == (args, {})


@pytest.mark.parametrize("node", [None, 1, "x", [], {}, {"fields": 1}, {"fields": {"lines": {"items": [1]}}}])
def test_what_is_no_form_is_no_crash(node: Any) -> None:
    """Whatever is sent."""
    read(form(SCHEMA, ARGS), node)


def test_null_is_kept_only_while_it_is_null() -> None:
    """Who chose a value gives what the field shows."""
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    field = form(schema, {"a": None})
    assert (field.fields or {})["a"].text == ""
    assert read(field, {"fields": {"a": {"mode": "null"}}}) == ({"a": None}, {})
    assert read(field, {"fields": {"a": {"keep": True}}})[1] == {"/a": "a whole number is needed"}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": True},
        {"type": "object", "properties": {"city": {"type": "string", "required": True}}},
        {"type": "object", "properties": {"city": 5}, "required": {"city": 1}},
        {"type": ["object", 5, {}], "properties": []},
        reduce(lambda inner, _: {"allOf": [inner]}, range(3000), {"type": "object"}),
        {"enum": {}, "$ref": "#/properties/nowhere"},
    ],
)
def test_what_is_no_schema_is_no_crash(part: dict[str, Any]) -> None:
    """As servers of tools may send it: the call can be decided, and what was there stays."""
    args = {"to": {"city": "Ulm"}}
    field = form({"type": "object", "properties": {"to": part}}, args)
    field.to_json()
    assert read(field, untouched(field)) == (args, {})


def family(count: int) -> dict[str, Any]:
    """So many schemas, each of which refers to all."""
    names = [f"M{n}" for n in range(count)]
    part = {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    return {"type": "object", "properties": {"plan": {"$ref": "#/$defs/M0"}}, "$defs": dict.fromkeys(names, part)}


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        (family(8), {"plan": {"M1": {"M2": {}}}}),
        ({"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}, {"n": [7] * 20_000}),
        ({"type": "object", "properties": {str(n): {"type": "integer"} for n in range(2000)}}, {"5": 1}),
    ],
    ids=["each in each", "a long list", "many arguments"],
)
def test_a_form_is_never_large(schema: dict[str, Any], args: dict[str, Any]) -> None:
    """Few fields; what lies deeper is JSON, and stays to the bit."""
    field = form(schema, args)
    assert len(json.dumps(field.to_json())) < 200_000
    assert json.dumps(field.to_json()).count('"kind"') <= 500
    assert read(field, untouched(field)) == (args, {})


def test_half_a_character_is_an_escape() -> None:
    """A model gives it in JSON; it cannot be sent as it is, in a text or in a name."""
    schema = {"type": "object", "properties": {"to": {"type": "string"}, "note": {"type": "string"}}}
    for args in ({"to": "a\ud800b", "note": "ü"}, {"to": "a", "b\udfff": 1}, {"to": {"x": ["\ud800"]}}):
        field = form(schema, args)
        json.dumps(field.to_json(), ensure_ascii=False).encode()
        assert read(field, untouched(field)) == (args, {})
    shown = (form(schema, {"to": "a\ud800b"}).fields or {})["to"]
    assert (shown.kind, shown.text) == ("json", '"a\\ud800b"')
    assert read(shown, {"text": '"a\\ud800c"'}) == ("a\ud800c", {})


def test_what_a_field_would_not_show_is_json_or_text() -> None:
    """A date that is none, and line breaks that a browser makes others of."""
    assert form({"type": "string", "format": "date"}, "2026-12-31").kind == "date"
    for text in ("12/31/2026", "2026-12-31T10:00:00Z", "2026-02-30", "20261231"):
        assert form({"type": "string", "format": "date"}, text).kind == "text"
    assert form({"type": "string"}, "a\r\nb").text == '"a\\r\\nb"'


def test_choices_that_look_the_same_are_told_apart() -> None:
    """By quotes."""
    assert form({"enum": [1, "1", "x"]}, 1).to_json()["choices"] == ["1", '"1"', '"x"']
    assert form({"enum": [1, "x"]}, 1).to_json()["choices"] == ["1", "x"]


def test_true_and_one_are_two_choices() -> None:
    """As in JSON."""
    assert form({"enum": [1, True]}, True).chosen == 1
    assert form({"enum": [1, True]}, 1).chosen == 0
    assert form({"enum": [1]}, True).kind == "json"
