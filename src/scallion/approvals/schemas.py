"""JSON schemas: what checks data against one, without ever fetching another."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

IRI = "rfc3987_syntax"
"""What checks the formats `iri` and `iri-reference`, where it is installed, as with JupyterLab."""
_alone = Lock()


def library() -> Any:
    """The package jsonschema, imported when it is first asked for: only who checks something pays for it.

    It would import the grammar of IRIs with it, which takes 2 s to build: that waits for the first IRI to be checked.
    """
    with _alone:
        later = None if IRI in sys.modules or "jsonschema" in sys.modules else _later()
        try:
            return import_module("jsonschema")
        finally:
            if later is not None and sys.modules.get(IRI) is later:
                del sys.modules[IRI]


def _later() -> ModuleType | None:
    """A module that stands for the grammar while jsonschema is imported, which takes one function of it."""
    if find_spec(IRI) is None:
        return None

    def is_valid_syntax(term: str, value: str) -> bool:
        with _alone:  # not while this module is there in its stead
            grammar = import_module(IRI)
        return bool(grammar.is_valid_syntax(term, value))

    made = sys.modules[IRI] = ModuleType(IRI)
    made.__dict__["is_valid_syntax"] = is_valid_syntax
    return made


def validator(schema: Mapping[str, Any] | bool) -> Any:
    """What checks data against the schema, by the draft of 2020-12; a reference to somewhere else is an error."""
    draft = library().Draft202012Validator
    from referencing import Registry

    return draft(schema, registry=Registry(), format_checker=draft.FORMAT_CHECKER)
