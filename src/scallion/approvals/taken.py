"""Arguments as the tool would take them: with its defaults, and whatever way they are written.

A denial goes by these: who leaves an argument out, or writes 50 for 50.0, still means the same call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, combinations
from math import isfinite
from typing import Any

from scallion.approvals.effects import digest

MANY = 10
"""Of how many arguments it is tried whether the default was left out or written down, each by itself."""


def completed(args: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The arguments with the defaults that the tool's schema shows, and the names of those that stay unknown."""
    unknown: set[str] = set()
    return _completed(dict(args), schema, schema, unknown), unknown


def _completed(value: Any, schema: Any, whole: Mapping[str, Any], unknown: set[str]) -> Any:
    schema = _resolved(schema, whole) if isinstance(schema, Mapping) else {}
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key, ()):
            value = _completed(value, part, whole, unknown)
    if isinstance(value, list):
        return [_completed(one, schema.get("items"), whole, unknown) for one in value]
    if not isinstance(value, Mapping):
        return value
    known = schema.get("properties") or {}
    made = {name: _completed(one, known.get(name), whole, unknown) for name, one in value.items()}
    for name in known.keys() - made.keys():
        if isinstance(known[name], Mapping) and "default" in known[name]:
            made[name] = known[name]["default"]
        else:
            unknown.add(name)
    return made


def _resolved(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Any = whole
    for step in schema["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return {**_resolved(found, whole), **{key: one for key, one in schema.items() if key != "$ref"}}


def plain(value: Any) -> Any:
    """The value in one way of writing it: 50.0, "50" and "5e1" are 50."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return _number(value) if isinstance(value, str | float) else value


def _number(given: str | float) -> Any:
    for kind in (int, float) if isinstance(given, str) else (float,):
        try:
            found = kind(given)
        except ValueError:
            continue
        if isfinite(found):
            return int(found) if found == int(found) else found
    return given


def digests(args: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    """Those of all ways to write the same call: each argument that has its default may stand there or not."""
    full = plain(completed(args, schema)[0])
    defaults = plain(completed({}, schema)[0])
    idle = [name for name, one in defaults.items() if name in full and digest(full[name]) == digest(one)]
    shorter = ({name: one for name, one in full.items() if name not in less} for less in _some(idle))
    return {digest(one) for one in (plain(args), *shorter)}


def _some(names: list[str]) -> Iterator[tuple[str, ...]]:
    sizes = range(len(names) + 1) if len(names) <= MANY else (0, len(names))
    return chain.from_iterable(combinations(names, size) for size in sizes)
