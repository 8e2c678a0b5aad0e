"""JSON Schemas: all of 2020-12 that jsonschema does, nothing fetched, and errors that say what would fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from scallion import ConfigurationError
from scallion.filters.schema.json_schema import Schema

SUITE = Path(__file__).parents[3] / "shared" / "data" / "json-schema-test-suite"


def told(schema: Any, value: Any, most: int | None = None, **options: Any) -> list[str]:
    """What is wrong with the value."""
    return Schema(schema, **options).read(value, most)[0]


ORDER = {
    "type": "object",
    "required": ["id", "state"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "state": {"enum": ["open", "sent"]},
        "unit": {"const": "EUR"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "name": {"type": ["string", "null"], "minLength": 2},
        "lines": {"type": "array", "maxItems": 1, "items": {"type": "object", "required": ["sku"]}},
    },
    "additionalProperties": False,
}

WRONG: dict[str, tuple[Any, Any, list[str]]] = {
    "a name is missing": (ORDER, {}, ['#: must have "id", "state"']),
    "a bound": (ORDER, {"id": 0, "state": "open"}, ["/id: must be at least 1; it is 0"]),
    "an enum": (ORDER, {"id": 1, "state": "gone"}, ['/state: must be one of "open", "sent"; it is "gone"']),
    "a constant": (ORDER, {"id": 1, "state": "open", "unit": "USD"}, ['/unit: must be "EUR"; it is "USD"']),
    "a pattern": (
        ORDER,
        {"id": 1, "state": "open", "code": "de"},
        ['/code: must match the pattern "^[A-Z]{2}$"; it is "de"'],
    ),
    "a kind": (ORDER, {"id": True, "state": "open"}, ["/id: must be of type integer, not boolean"]),
    "some kinds": (
        ORDER,
        {"id": 1, "state": "open", "name": 3},
        ["/name: must be of type string or null, not integer"],
    ),
    "a length": (ORDER, {"id": 1, "state": "open", "name": "x"}, ["/name: must have at least 2 characters; it has 1"]),
    "a deep place": (
        ORDER,
        {"id": 1, "state": "open", "lines": [{}, {"sku": 1}]},
        ["/lines: must have at most 1 items; it has 2", '/lines/0: must have "sku"'],
    ),
    "another name": (
        ORDER,
        {"id": 1, "state": "open", "Id": 1},
        ['#: must not have "Id"; there are "id", "state", "unit", "code", "name", "lines"'],
    ),
    "no value at all": (False, 1, ["#: must not be there"]),
    "escaped names": (
        {"properties": {"a/b~c": {"type": "null"}}},
        {"a/b~c": 1},
        ["/a~1b~0c: must be of type null, not integer"],
    ),
    "kinds of alternatives": (
        {"anyOf": [{"type": "string"}, {"type": "array"}]},
        1,
        ["#: must be of type string or array, not integer"],
    ),
    "the tag of alternatives": (
        {"oneOf": [{"properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in ("cat", "dog")]},
        {"kind": "cow"},
        ['/kind: must be one of "cat", "dog"; it is "cow"'],
    ),
    "the nearest alternative": (
        {"anyOf": [{"properties": {"kind": {"const": "cat"}, "lives": {"maximum": 9}}}, {"type": "string"}]},
        {"kind": "cat", "lives": 10},
        ["/lives: must be at most 9; it is 10"],
    ),
    "several alternatives": (
        {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
        3,
        ["#: must fit only one of the 2 alternatives, and fits several"],
    ),
    "no alternative is there": ({"anyOf": [False, False]}, 1, ["#: must not be there"]),
    "dependent names": (
        {"dependentRequired": {"card": ["name", "address"]}},
        {"card": 1, "name": "x"},
        ['#: must have "address", as it has "card"'],
    ),
    "an item twice": ({"uniqueItems": True}, [1, 1.0], ["#: must not hold an item twice"]),
    "not": ({"not": {"type": "string"}}, "x", ['#: must not fit {"type": "string"}']),
    "what there are no words for": (
        {"unevaluatedProperties": False},
        {"a": 1},
        ["#: must fit unevaluatedProperties false"],
    ),
    "other letters": ({"enum": ["größer", "好"]}, "é", ['#: must be one of "größer", "好"; it is "é"']),
}


@pytest.mark.parametrize(("schema", "value", "lines"), WRONG.values(), ids=WRONG)
def test_errors_say_what_would_fit(schema: Any, value: Any, lines: list[str]) -> None:
    """With the path; beamai measured that a model needs it."""
    assert told(schema, value) == lines


def test_what_would_fit_is_told_in_full_and_what_does_not_in_short() -> None:
    """A long answer is not sent back."""
    names = [f"name-{number}" for number in range(200)]
    (line,) = told({"enum": names}, "x" * 10_000)
    assert all(name in line for name in names)
    assert len(line) < len(json.dumps(names)) + 200


def test_as_many_errors_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more are looked for."""
    looked_at = []
    original = Draft202012Validator.iter_errors

    def counting(self: Any, value: Any) -> Iterator[ValidationError]:
        for error in original(self, value):
            looked_at.append(error)
            yield error

    monkeypatch.setattr(Draft202012Validator, "iter_errors", counting)
    assert len(told({"items": {"type": "string"}}, list(range(100)), most=2)) == 2
    assert len(looked_at) == 2


def test_one_error_is_told_once() -> None:
    """Two branches may complain of the same thing."""
    assert len(told({"allOf": [{"type": "string"}, {"type": "string"}]}, 1)) == 1


def test_formats_are_notes_unless_they_are_to_be_checked() -> None:
    """As the specification says."""
    assert told({"format": "date"}, "soon") == []
    assert told({"format": "date"}, "soon", check_formats=True) == ['#: must be a valid date; it is "soon"']


def test_another_draft_is_read_as_what_it_is() -> None:
    """In draft 7 `items` may be a list."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    assert told(schema, [1]) == ["/0: must be of type string, not integer"]
    schema = {"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"a": {"required": True}}}
    assert told(schema, {}) == ["/a: must be there"]


INVALID = {
    "a kind that there is not": {"type": "int"},
    "a pattern that is none": {"properties": {"a": {"pattern": "("}}},
    "a list": [{"type": "string"}],
    "a bound that is a text": {"minimum": "1"},
    "deep": json.loads('{"not":' * 300 + "{}" + "}" * 300),
}


@pytest.mark.parametrize("schema", INVALID.values(), ids=INVALID)
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    """Where it is given, and not at the first answer."""
    with pytest.raises(ConfigurationError, match=r"[sS]chema"):
        Schema(schema)


REMOTE = {
    "somewhere else": {"properties": {"a": {"$ref": "https://example.com/a.json"}}},
    "a name that is not there": {"$ref": "#/$defs/a"},
    "an anchor that is not there": {"$ref": "#a"},
    "a file": {"$ref": "file:///etc/passwd"},
    "by way of another": {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "b.json"}}}},
    "dynamic": {"$dynamicRef": "https://example.com/a.json#node"},
}


@pytest.mark.parametrize("schema", REMOTE.values(), ids=REMOTE)
def test_a_reference_that_leads_nowhere_is_refused_and_never_fetched(
    schema: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the way out."""
    monkeypatch.setattr("urllib.request.urlopen", lambda *given, **named: pytest.fail("it was fetched"))
    with pytest.raises(ConfigurationError, match=r"nothing is fetched: put it into \$defs, or give it in registry="):
        Schema(schema)


def test_schemas_that_are_given_are_found() -> None:
    """As a mapping by URI, or as a registry; what they refer to is looked for too."""
    schema = {"$ref": "https://example.com/a.json"}
    word = {"https://example.com/a.json": {"$ref": "b.json"}, "https://example.com/b.json": {"type": "string"}}
    resources = ((uri, Resource.from_contents(one, default_specification=DRAFT202012)) for uri, one in word.items())
    for registry in (word, Registry().with_resources(resources)):
        assert told(schema, 1, registry=registry) == ["#: must be of type string, not integer"]
    del word["https://example.com/b.json"]
    with pytest.raises(ConfigurationError, match=r"b\.json"):
        Schema(schema, registry=word)
    with pytest.raises(ConfigurationError, match="registry"):
        Schema(schema, registry=[word])


def test_what_looks_like_a_reference_in_a_value_is_none() -> None:
    """`const` and `enum` hold data."""
    assert told({"const": {"$ref": "nowhere.json"}}, {"$ref": "nowhere.json"}) == []


def cases(*folders: str) -> Iterator[tuple[Any, Any, bool, str]]:
    """Schema, value, whether it fits, and where it stands."""
    for file in (one for folder in folders for one in sorted((SUITE / "tests/draft2020-12" / folder).glob("*.json"))):
        for group in json.loads(file.read_text()):
            for case in group["tests"]:
                yield group["schema"], case["data"], case["valid"], f"{file.name}: {case['description']}"


@pytest.mark.shared
def test_the_json_schema_test_suite() -> None:
    """All that jsonschema passes itself, with errors in words; its remote schemas are given and none is fetched."""
    files = (SUITE / "remotes").rglob("*.json")
    remotes = {
        f"http://localhost:1234/{one.relative_to(SUITE / 'remotes').as_posix()}": json.loads(one.read_text())
        for one in files
    }
    registry = Schema(True, registry=remotes)._validator._registry
    passed, wrong = 0, []
    for schema, value, fits, name in cases(".", "optional"):
        try:
            theirs = Draft202012Validator(schema, registry=registry).is_valid(value)
        except Exception:  # what it cannot do itself, such as the patterns of other languages
            continue
        if theirs != fits:
            continue
        passed += 1
        lines = Schema(schema, registry=registry).read(value)[0]
        if (not lines) != fits or not all(": " in line for line in lines):
            wrong.append(name)
    assert wrong == []
    assert passed >= 1400  # of 1,407 with the newest jsonschema
