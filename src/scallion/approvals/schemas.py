"""JSON schemas: what checks data against one, without ever fetching another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def validator(schema: Mapping[str, Any] | bool) -> Any:
    """What checks data against the schema, by the draft of 2020-12; a reference to somewhere else is an error."""
    from jsonschema import Draft202012Validator  # 57 ms: only who checks something pays for it
    from referencing import Registry

    return Draft202012Validator(schema, registry=Registry(), format_checker=Draft202012Validator.FORMAT_CHECKER)
