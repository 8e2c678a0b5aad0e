"""A JSON Schema that holds all that it refers to: no reference is ever fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from scallion.approvals.schemas import library
from scallion.errors import ConfigurationError
from scallion.filters.schema.json_errors import pointer, told_of

if TYPE_CHECKING:
    from referencing import Registry, Resource

JSONSchema = Mapping[str, Any] | bool
REFERENCES = ("$ref", "$dynamicRef")


class Schema:
    """A schema that was found to be one, with all its references at hand; raises ConfigurationError otherwise.

    Its dialect is what `$schema` says, or 2020-12. `registry`: a `referencing.Registry`, or schemas by their URI.
    """

    def __init__(self, schema: JSONSchema, *, registry: Any = None, check_formats: bool = False) -> None:
        jsonschema = library()
        self.json_schema = schema
        known = _registry(registry)
        _check_data(schema, "a JSON Schema")
        _check_dialect(schema, known)
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        _check_schema(kind, schema)
        _check_references(schema, known)
        checker = kind.FORMAT_CHECKER if check_formats else None
        self._validator = kind(schema, registry=known, format_checker=checker)

    def read(self, value: Any, most: int | None = None) -> tuple[list[str], Any]:
        """What is wrong with the value, at most so much of it, each as `path: what would fit`; and the value."""
        told = (line for error in self._validator.iter_errors(value) for line in told_of(error))
        return list(islice(_distinct(told), most)), value


def _distinct(lines: Iterator[str]) -> Iterator[str]:
    seen: set[str] = set()
    for line in lines:
        if line not in seen:
            seen.add(line)
            yield line


def _registry(given: Any) -> Registry[Any]:
    """What is given, and the schemas of the drafts themselves."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing import Registry

    known: Registry[Any] = REGISTRY
    if isinstance(given, Registry):
        return known.combine(given)
    if given is not None and not isinstance(given, Mapping):
        raise ConfigurationError(f"registry is a referencing.Registry or schemas by URI, not {type(given).__name__}")
    for uri, schema in (given or {}).items():
        _check_data(schema, f"the schema of {uri!r} in registry")
    return known.with_resources((uri, _resource(schema)) for uri, schema in (given or {}).items())


def _resource(schema: Any) -> Resource[Any]:
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    return Resource.from_contents(schema, default_specification=DRAFT202012)


def _check_data(schema: Any, what: str) -> None:
    if not isinstance(schema, Mapping | bool):
        raise ConfigurationError(f"{what} is a mapping or a bool, not {type(schema).__name__}")
    try:
        same = json.loads(json.dumps(schema)) == schema
    except RecursionError:
        raise ConfigurationError(f"{what} is nested too deeply") from None
    except (TypeError, ValueError):
        same = False
    if not same:
        raise ConfigurationError(f"{what} is JSON data: mappings by text, lists, texts, numbers, bools and None")


def _check_dialect(schema: JSONSchema, registry: Registry[Any]) -> None:
    dialect = schema.get("$schema", "") if isinstance(schema, Mapping) else ""
    if not isinstance(dialect, str) or (dialect and dialect not in registry):
        raise ConfigurationError(f"the schema is of a dialect that is not known: $schema is {dialect!r}")


def _check_schema(kind: Any, schema: Any) -> None:
    try:
        kind.check_schema(schema)
    except library().SchemaError as error:
        raise ConfigurationError(f"the schema is not valid at {pointer(error.path)}: {error.message}") from None
    except RecursionError:
        raise ConfigurationError("the schema is nested too deeply") from None


def _check_references(schema: Any, registry: Registry[Any]) -> None:
    """Follow every reference, also those in what is referred to; raises ConfigurationError where one leads nowhere."""
    from referencing.exceptions import Unresolvable

    root = _resource(schema)
    waiting = [(root, registry.resolver_with_root(root))]
    seen: set[int] = set()
    while waiting:
        resource, resolver = waiting.pop()
        if id(resource.contents) in seen or not isinstance(resource.contents, Mapping):
            continue
        seen.add(id(resource.contents))
        waiting += [(one, resolver.in_subresource(one)) for one in resource.subresources()]
        for reference in (resource.contents[name] for name in REFERENCES if name in resource.contents):
            try:
                found = resolver.lookup(reference)
            except Unresolvable:
                raise ConfigurationError(
                    f"the schema refers to {reference!r}, which it does not hold, and nothing is fetched: "
                    "put it into $defs, or give it in registry="
                ) from None
            waiting.append((_resource(found.contents), found.resolver))
