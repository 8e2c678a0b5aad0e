"""A form made from a JSON schema and the value that it begins with.

What no field can show (a union, a value that does not fit its type, a schema within itself) is a field of JSON text,
and so is what lies too deep, where there would be too many fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal

from scallion.inspect.escape import printable

Kind = Literal["text", "integer", "number", "boolean", "choice", "date", "object", "array", "json"]
Within = tuple[str, ...]
"""The way to a field: an entry for each object and list, and the references that were followed."""

MOST = 500
"""Fields of a form."""
DEPTHS = (16, 8, 6, 5, 4, 3, 2, 1)
"""How deep the objects and lists of a form may lie: the first that does not make too many fields."""


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""In the place of a value that is not there."""

TYPES: Mapping[Any, tuple[Kind, type | tuple[type, ...]]] = {
    "string": ("text", str),
    "integer": ("integer", int),
    "number": ("number", (int, float)),
    "boolean": ("boolean", bool),
    "object": ("object", Mapping),
    "array": ("array", list),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `value`: what stands there, or ABSENT; `text`: how an input shows it, or what it would begin with.

    `fields`: those of an object; `items`: those of a list, `item`: one more of it.
    """

    kind: Kind
    label: str
    told: str = ""
    required: bool = True
    nullable: bool = False
    value: Any = ABSENT
    text: str = ""
    choices: Sequence[Any] = ()
    chosen: int | None = None
    fields: Mapping[str, Field] | None = None
    items: Sequence[Field] = ()
    item: Field | None = None

    @property
    def mode(self) -> str:
        """Whether there is a value, null, or nothing."""
        if self.value is ABSENT:
            return "value" if self.required else "absent"
        return "null" if self.value is None and self.nullable else "value"

    def to_json(self) -> dict[str, Any]:
        """What the browser needs: texts, and no value."""
        return {
            "kind": self.kind,
            "label": printable(self.label),
            "told": printable(self.told),
            "modes": ["value"] + ["null"] * self.nullable + ["absent"] * (not self.required),
            "mode": self.mode,
            "given": self.value is not ABSENT,
            "text": self.text,
            "choices": _told(self.choices),
            "chosen": self.chosen,
            "fields": [[name, one.to_json()] for name, one in (self.fields or {}).items()],
            "items": [one.to_json() for one in self.items],
            "item": self.item and self.item.to_json(),
        }


def form(schema: Mapping[str, Any] | None, value: Any = ABSENT) -> Field:
    """The form for a value of this schema, which begins with `value`; without a schema it is one field of JSON."""
    for deepest in DEPTHS:
        try:
            return _Maker(schema or {}, deepest).field(schema, value, "", True, ())
        except _TooMany:
            continue
        except Exception:  # whatever the schema of somebody else's tool is, no form can be made of it
            break
    return _Maker({}, 0).field({}, value, "", True, ())


def as_json(value: Any) -> str:
    """The value as JSON text, which the browser can be sent."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if is_text(text) else json.dumps(value, indent=2, default=str)


def is_text(text: str) -> bool:
    """Whether it can be sent: it holds no half of a character, which models give as an escape in JSON."""
    return not any("\ud800" <= one <= "\udfff" for one in text)


def _told(choices: Sequence[Any]) -> list[str]:
    """Choices as they are read; texts in quotes where something else would look the same."""
    told = [printable(one if isinstance(one, str) else as_json(one)) for one in choices]
    return told if len({*told}) == len(told) else [printable(as_json(one)) for one in choices]


class _TooMany(Exception):
    pass


@dataclass
class _Maker:
    whole: Mapping[str, Any]
    deepest: int
    left: int = MOST

    def field(self, schema: Any, value: Any, label: str, required: bool, within: Within) -> Field:
        self._count()
        plain, nullable, way = self._plain(schema, (*within, ""))
        begins = plain.get("default") if value is ABSENT else value
        is_stray = value is None and not nullable and _place(_choices(plain), None) is None
        kind = "json" if is_stray else _kind(plain, begins)
        if kind in ("object", "array") and len(way) > self.deepest:
            kind = "json"
        given: dict[str, Any] = {"label": label, "told": str(plain.get("description") or ""), "value": value}
        given |= {"required": required, "nullable": nullable and kind != "json"}
        match kind:
            case "choice":
                choices = _choices(plain)
                return Field(kind, choices=choices, chosen=_place(choices, begins), **given)
            case "object":
                return Field(kind, fields=dict(self._members(plain, begins or {}, way)), **given)
            case "array":
                items = [self.field(plain["items"], one, "", True, way) for one in begins or ()]
                return Field(kind, items=items, item=self.field(plain["items"], ABSENT, "", True, way), **given)
        if kind in ("text", "date"):
            return Field(kind, text=begins or "", **given)
        is_empty = begins is None and (value is ABSENT or kind != "json")
        return Field(kind, text="" if is_empty else as_json(begins), **given)

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooMany

    def _members(
        self, schema: Mapping[str, Any], held: Mapping[str, Any], within: Within
    ) -> Iterator[tuple[str, Field]]:
        known, required = schema["properties"], schema.get("required")
        required = required if isinstance(required, list) else ()  # it was a bool at each property once
        for name, part in known.items():
            yield name, self.field(part, held.get(name, ABSENT), name, name in required, within)
        for name in held:
            if name not in known:
                self._count()
                yield name, Field("json", name, required=False, value=held[name], text=as_json(held[name]))

    def _plain(self, schema: Any, within: Within) -> tuple[Mapping[str, Any], bool, Within]:
        """The schema without references and null, whether null is allowed, and the way with the references."""
        if not isinstance(schema, Mapping):
            return {}, False, within
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within:  # it would never end
                return {key: schema[key] for key in ("description",) if key in schema}, False, within
            return self._merged(schema, "$ref", self._target(reference), (*within, reference))
        if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
            return self._merged(schema, "allOf", schema["allOf"][0], within)
        for key in ("anyOf", "oneOf"):
            branches = schema.get(key)
            some = [one for one in branches if one != {"type": "null"}] if isinstance(branches, list) else []
            if isinstance(branches, list) and len(some) == 1:
                plain, nullable, way = self._merged(schema, key, some[0], within)
                return plain, nullable or len(branches) > 1, way
        kinds = schema.get("type")
        if isinstance(kinds, list) and len(left := [one for one in kinds if one != "null"]) == 1:
            return {**schema, "type": left[0]}, "null" in kinds, within
        return schema, False, within

    def _merged(
        self, outer: Mapping[str, Any], key: str, inner: Any, within: Within
    ) -> tuple[Mapping[str, Any], bool, Within]:
        plain, nullable, way = self._plain(inner, within)
        return {**plain, **{name: one for name, one in outer.items() if name != key}}, nullable, way

    def _target(self, reference: str) -> Any:
        found: Any = self.whole
        for step in reference.removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _kind(schema: Mapping[str, Any], begins: Any) -> Kind:
    """How a value of the schema is filled in; JSON where what stands there is no such value."""
    if choices := _choices(schema):
        return "choice" if begins is None or _place(choices, begins) is not None else "json"
    if any(key in schema for key in ("anyOf", "oneOf", "allOf", "not", "if", "$ref")):
        return "json"
    kind, of = TYPES.get(schema.get("type") if isinstance(schema.get("type"), str) else None, ("json", object))
    if begins is not None and (not isinstance(begins, of) or (isinstance(begins, bool) and kind != "boolean")):
        return "json"
    if kind == "object" and not _is_named(schema.get("properties"), begins):
        return "json"
    if isinstance(begins, str) and not (is_text(begins) and "\r" not in begins):  # a browser makes \n of \r\n
        return "json"
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        return "json"
    return "date" if kind == "text" and schema.get("format") == "date" and _is_date(begins) else kind


def _is_date(begins: Any) -> bool:
    """Whether a field for dates can show it: it shows nothing of what is none."""
    try:
        return not begins or date.fromisoformat(begins).isoformat() == begins
    except ValueError:
        return False


def _is_named(members: Any, begins: Any) -> bool:
    """Whether the members of an object are known, and each of them has a name that can be sent."""
    return isinstance(members, Mapping) and all(map(is_text, (*members, *(begins or ()))))


def _choices(schema: Mapping[str, Any]) -> Sequence[Any]:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return found if isinstance(found, list) else []


def _place(choices: Sequence[Any], value: Any) -> int | None:
    """Where the value stands; true and 1 are two."""
    same = (n for n, one in enumerate(choices) if one == value and isinstance(one, bool) == isinstance(value, bool))
    return next(same, None)
