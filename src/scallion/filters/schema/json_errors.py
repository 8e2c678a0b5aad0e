"""What is wrong with a value by its schema, in words that say what would fit.

Words that only say "does not match" leave a model to guess: beamai measured that three retries failed without the
values that would fit, and one was enough with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

LONGEST = 100
"""Characters of the value that does not fit; what would fit is told in full."""


def pointer(path: Iterable[Any]) -> str:
    """The JSON pointer of a place (RFC 6901); `#` is the root."""
    return "".join("/" + str(one).replace("~", "~0").replace("/", "~1") for one in path) or "#"


def told_of(error: ValidationError) -> Iterator[str]:
    """The lines that tell of an error: several where the value fits none of some alternatives."""
    if error.validator in ("anyOf", "oneOf") and error.context:
        yield from _nearest(error)
        return
    yield f"{pointer(error.absolute_path)}: {_told(error)}"


def _told(error: ValidationError) -> str:
    keyword: Any = error.validator
    if keyword is None:  # the schema is `false`
        return "must not be there"
    if keyword == "additionalProperties":
        return _no_others(error.schema, error.instance)
    words = _WORDS.get(keyword)
    told = words(error.validator_value, error.instance) if words else ""
    return told or f"must fit {keyword} {_full(error.validator_value)}"


def _no_others(schema: Any, value: Any) -> str:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    others = [name for name in value if name not in known and not any(re.search(p, name) for p in patterns)]
    allowed = f"; there are {_names(known)}" if known else ""
    return f"must not have {_names(others)}{allowed}"


def _nearest(error: ValidationError) -> Iterator[str]:
    """What would fit where all alternatives want the same thing else; or the errors of the one that is nearest."""
    branches = [list(group) for _, group in groupby(error.context or (), key=_branch)]
    for keywords, words in (({"type"}, _type), ({"const", "enum"}, _one_of)):
        marks = [next((one for one in branch if one.validator in keywords), None) for branch in branches]
        found = [one for one in marks if one is not None]
        places = {pointer(one.absolute_path) for one in found}
        if len(found) == len(branches) and len(places) == 1:
            wanted = [value for one in found for value in _wanted(one)]
            yield f"{places.pop()}: {words(wanted, found[0].instance)}"
            return
    for one in min(branches, key=_distance):
        yield from told_of(one)


def _branch(error: ValidationError) -> Any:
    """Which alternative the error is of; that of a schema that is `false` does not say."""
    return next(iter(error.relative_schema_path), None)


def _wanted(error: ValidationError) -> list[Any]:
    return [error.validator_value] if error.validator == "const" else _list(error.validator_value)


def _distance(branch: list[ValidationError]) -> tuple[int, int]:
    """Wrong kinds and constants near the top mark another alternative; then fewer errors are nearer."""
    marks = [one for one in branch if one.validator in ("type", "const", "enum") and len(one.relative_path) < 2]
    return sum(1 if one.relative_path else 2 for one in marks), len(branch)


def _full(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def short(value: Any) -> str:
    """The value in JSON, cut off where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def _type(kinds: Any, value: Any) -> str:
    return f"must be of type {' or '.join(dict.fromkeys(_list(kinds)))}, not {_KINDS.get(type(value), 'null')}"


def _required(names: Any, value: Any) -> str:
    if names is True:  # in draft 3 it stands at the property itself
        return "must be there"
    return f"must have {_names(name for name in names if name not in value)}"


def _one_of(allowed: list[Any], value: Any) -> str:
    return f"must be one of {_names(allowed)}; it is {short(value)}"


def _names(names: Iterable[Any]) -> str:
    return ", ".join(map(_full, names))


def _dependent(needs: Mapping[str, list[str]], value: Mapping[str, Any]) -> str:
    missing = [(name, other) for name, others in needs.items() if name in value for other in others]
    told = (f"must have {_full(other)}, as it has {_full(name)}" for name, other in missing if other not in value)
    return "; ".join(told)


def _bound(phrase: str) -> Callable[[Any, Any], str]:
    return lambda bound, value: f"must be {phrase} {_full(bound)}; it is {short(value)}"


def _count(phrase: str, what: str) -> Callable[[Any, Any], str]:
    return lambda bound, value: f"must have {phrase} {bound} {what}; it has {len(value)}"


_WORDS: dict[str, Callable[[Any, Any], str]] = {
    "type": _type,
    "enum": _one_of,
    "const": lambda only, value: f"must be {_full(only)}; it is {short(value)}",
    "required": _required,
    "dependentRequired": _dependent,
    "pattern": lambda pattern, value: f"must match the pattern {_full(pattern)}; it is {short(value)}",
    "format": lambda name, value: f"must be a valid {name}; it is {short(value)}",
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("more than"),
    "exclusiveMaximum": _bound("less than"),
    "multipleOf": _bound("a multiple of"),
    "minLength": _count("at least", "characters"),
    "maxLength": _count("at most", "characters"),
    "minItems": _count("at least", "items"),
    "maxItems": _count("at most", "items"),
    "minProperties": _count("at least", "properties"),
    "maxProperties": _count("at most", "properties"),
    "uniqueItems": lambda unique, value: "must not hold an item twice",
    "not": lambda schema, value: f"must not fit {_full(schema)}",
    "oneOf": lambda schemas, value: f"must fit only one of the {len(schemas)} alternatives, and fits several",
    "contains": lambda schema, value: f"must hold an item that fits {_full(schema)}",
}
