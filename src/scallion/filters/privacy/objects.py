"""Models and dataclasses by their fields, and rebuilt without what is found in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from pydantic import BaseModel

Clean = Callable[[Any], Any]


def cleaned_object(value: Any, clean: Clean) -> Any:
    """A model or a dataclass with each of its fields cleaned; anything else as it is.

    Raises ValueError where what it makes of its fields holds something still.
    """
    if isinstance(value, BaseModel):
        return _model(value, clean)
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, clean)
    return value


def _changed(parts: Mapping[str, Any], clean: Clean) -> dict[str, Any]:
    return {name: new for name, part in parts.items() if (new := clean(part)) is not part}


def _model(value: BaseModel, clean: Clean) -> BaseModel:
    kind = type(value)
    parts = {name: getattr(value, name) for name in kind.model_fields} | (value.model_extra or {})
    changed = _changed(parts, clean)
    made = value.model_copy(update=changed) if changed else value
    if changed:
        for name in vars(made).keys() - parts.keys():  # remembered of the fields that they were
            del vars(made)[name]
    if _changed({name: getattr(made, name) for name in kind.model_computed_fields}, clean):
        raise ValueError("a computed field holds what no field does")
    return made


def _record(value: Any, clean: Clean) -> Any:
    """A dataclass is made anew, so that one which its own checks refuse passes nowhere, and no database holds it.

    What its `__post_init__` fills in then is as it was, and clean.
    """
    parts = _fields(value)
    changed = _changed(parts, clean)
    if not changed:
        return value
    given = {one.name for one in fields(value) if one.init}
    made = replace(value, **{name: part for name, part in changed.items() if name in given})
    for name, part in (parts | changed).items():
        if name not in given:
            object.__setattr__(made, name, part)
    for name, part in _changed(_fields(made), clean).items():
        object.__setattr__(made, name, part)
    return made


def _fields(value: Any) -> dict[str, Any]:
    """Those that are set."""
    return {one.name: getattr(value, one.name) for one in fields(value) if hasattr(value, one.name)}
