"""Patterns of standing rules: which JSON schemas may say what is denied, and which what is allowed.

To JSON Schema a keyword that it does not know, or that is about another kind of value, says nothing, and what says
nothing lets everything pass. So a pattern that allows is made of few keywords, and each of them has to be met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scallion.approvals.schemas import library
from scallion.errors import ConfigurationError

KINDS: Mapping[str, tuple[str, ...]] = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("items", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties"),
}
"""The keywords that are about one kind of value."""
BRANCHES = ("anyOf", "allOf")
WHOLE = ("properties", "const", "enum", *BRANCHES)
"""One of these says something about the arguments as a whole."""
LIMITS = (*(one for words in KINDS.values() for one in words), "type", "const", "enum", *BRANCHES)
NOTES = ("title", "description", "$comment")


def check(pattern: Mapping[str, Any], *, allows: bool) -> None:
    """Raise ConfigurationError, saying where, unless it is a JSON schema that a rule can go by."""
    jsonschema = library()
    draft = jsonschema.Draft202012Validator
    try:
        draft.check_schema(pattern, format_checker=draft.FORMAT_CHECKER)
    except jsonschema.SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "the whole"
        raise ConfigurationError(f"pattern= of a rule is no JSON schema: look at {where}") from None
    except RecursionError:
        raise ConfigurationError("pattern= of a rule is nested too deeply to be checked: say it with less") from None
    if any(not ref.startswith("#") for ref in _references(pattern)):
        raise ConfigurationError("pattern= of a rule refers to another document: nothing is fetched, so write it out")
    if allows:
        _check_allowing(pattern, ())


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        yield from (ref for one in schema for ref in _references(one))
    elif isinstance(schema, Mapping):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            yield from _references(value)


def _check_allowing(schema: Any, path: tuple[str, ...], *, is_whole: bool = True) -> None:
    """An argument that is left out fits every schema, and the tool then takes its default: so it is required."""
    words = schema.keys() if isinstance(schema, Mapping) else set()
    if unknown := sorted(words - {*LIMITS, *NOTES}):
        raise _refused(f"does not take {_told(unknown)}, only {', '.join(LIMITS)}", path)
    if not any(
        schema.get(one) not in (None, {}) or one == "const" for one in words & {*(WHOLE if is_whole else LIMITS)}
    ):
        raise _refused(f"has to limit something: say it with {', '.join(WHOLE if is_whole else LIMITS)}", path)
    if loose := sorted(set(schema.get("properties", ())) - set(schema.get("required", ()))):
        raise _refused(f"has to require what it limits: add {_told(loose)} to required", path)
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise _refused("says with additionalProperties true or false, and about what it names with properties", path)
    for key, part in _parts(schema):
        _check_allowing(part, (*path, *key), is_whole=is_whole and key[0] in BRANCHES)


def _refused(told: str, path: tuple[str, ...]) -> ConfigurationError:
    where = f" (look at {'/'.join(path)})" if path else ""
    return ConfigurationError(f"pattern= of a rule that allows {told}{where}")


def _told(words: list[str]) -> str:
    return ", ".join(map(repr, words))


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The schemas within one that allows, and where they stand."""
    yield from ((("properties", name), one) for name, one in schema.get("properties", {}).items())
    yield from (((key, str(n)), one) for key in BRANCHES for n, one in enumerate(schema.get(key, ())))
    if "items" in schema:
        yield ("items",), schema["items"]


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The pattern of a rule that allows, where "500" does not pass a maximum: a limit holds for its own kind alone."""
    kinds = [kind for kind, words in KINDS.items() if not schema.keys().isdisjoint(words)]
    made = dict(schema)
    if "properties" in schema:
        made["properties"] = {name: strict(one) for name, one in schema["properties"].items()}
    for key in BRANCHES:
        if key in schema:
            made[key] = [strict(one) for one in schema[key]]
    if "items" in schema:
        made["items"] = strict(schema["items"])
    return {"allOf": [{"type": kinds}, made]} if kinds else made


def speaks_of(pattern: Any, names: set[str]) -> bool:
    """Whether a pattern may be about one of these arguments."""
    return bool(names) and not (names | {*ABOUT_ANY}).isdisjoint(_words(pattern))


ABOUT_ANY = ("additionalProperties", "maxProperties", "minProperties", "patternProperties", "propertyNames",
             "unevaluatedProperties")  # fmt: skip
"""Keywords that may be about an argument without naming it."""


def _words(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        yield from schema
        yield from (word for one in schema.values() for word in _words(one))
    elif isinstance(schema, list):
        yield from (word for one in schema for word in _words(one))
    elif isinstance(schema, str):
        yield schema
