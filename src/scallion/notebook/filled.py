"""What somebody filled into a form, read back as a value.

What nobody touched stays the very value that it was: no number and no text makes its way through the browser. A node is
`{"keep": true}`, `{"mode": "null" | "absent"}`, `{"text": ...}`, `{"on": bool}`, `{"choice": n}`,
`{"fields": {name: node}}`, or `{"items": [{"from": n | null, "node": node}]}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from scallion.notebook.form import ABSENT, Field

Path = tuple[str | int, ...]


def read(field: Field, node: Any) -> tuple[Any, dict[str, str]]:
    """The value that a filled form stands for, and what is wrong by JSON pointer; it is a value if nothing is."""
    reader = _Reader()
    return reader.read(field, node, ()), {pointer(path): told for path, told in reader.wrong.items()}


def pointer(path: Path) -> str:
    """The JSON pointer of a place; that of the whole is empty."""
    return "".join(f"/{str(one).replace('~', '~0').replace('/', '~1')}" for one in path)


class _Reader:
    def __init__(self) -> None:
        self.wrong: dict[Path, str] = {}

    def read(self, field: Field, node: Any, path: Path) -> Any:
        node = node if isinstance(node, Mapping) else {}
        mode = node.get("mode")
        if node.get("keep") and field.value is not ABSENT and field.mode == "value":  # where it was null, it is no more
            return field.value
        if mode == "null" and field.nullable:
            return None
        if mode == "absent" and not field.required:
            return ABSENT
        return self._value(field, node, path)

    def _value(self, field: Field, node: Mapping[str, Any], path: Path) -> Any:
        match field.kind:
            case "object":
                return self._object(field, node.get("fields"), path)
            case "array":
                return self._array(field, node.get("items"), path)
            case "boolean":
                return node.get("on") is True
            case "choice":
                place = node.get("choice")
                is_one = isinstance(place, int) and 0 <= place < len(field.choices)
                return field.choices[place] if is_one else self._wrong(path, "choose one")  # type: ignore[index]
        text = node.get("text")
        return self._parsed(field.kind, text if isinstance(text, str) else "", path)

    def _object(self, field: Field, nodes: Any, path: Path) -> dict[str, Any]:
        nodes = nodes if isinstance(nodes, Mapping) else {}
        read = {name: self.read(one, nodes.get(name), (*path, name)) for name, one in (field.fields or {}).items()}
        return {name: value for name, value in read.items() if value is not ABSENT}

    def _array(self, field: Field, nodes: Any, path: Path) -> list[Any]:
        found = []
        for n, entry in enumerate(nodes if isinstance(nodes, list) else []):
            entry = entry if isinstance(entry, Mapping) else {}
            place = entry.get("from")
            known = isinstance(place, int) and 0 <= place < len(field.items)
            one = field.items[place] if known else field.item  # type: ignore[index]
            assert one is not None
            found.append(self.read(one, entry.get("node"), (*path, n)))
        return found

    def _parsed(self, kind: str, text: str, path: Path) -> Any:
        match kind:
            case "integer" if re.fullmatch(r"-?[0-9]{1,4000}", text.strip()):
                return int(text)
            case "integer":
                return self._wrong(path, "a whole number is needed")
            case "number":
                number = _json(text)
                is_number = isinstance(number, int | float) and not isinstance(number, bool)
                return number if is_number else self._wrong(path, "a number is needed")
            case "json":
                value = _json(text)
                return self._wrong(path, "this is no JSON") if value is ABSENT else value
        return text

    def _wrong(self, path: Path, told: str) -> None:
        self.wrong[path] = told


def _json(text: str) -> Any:
    """The value of JSON text; ABSENT where it is none. NaN and infinity are none."""
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        return ABSENT


def _refused(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refused(text)
