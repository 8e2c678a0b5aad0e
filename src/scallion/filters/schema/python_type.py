"""A Python type as the form of an answer: a pydantic model, a dataclass, a TypedDict, a list or a union of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, to_json

from scallion.errors import ConfigurationError
from scallion.filters.schema.json_errors import pointer, short
from scallion.values import Completed


class PythonType:
    """What makes a value of the type of JSON data; raises ConfigurationError for what pydantic makes no type of."""

    def __init__(self, kind: Any) -> None:
        if kind is None or isinstance(kind, str):
            raise ConfigurationError(f"the form of an answer is a JSON Schema or a type, not {kind!r}")
        try:
            self._adapter: TypeAdapter[Any] = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
        except Exception as error:  # pydantic raises what it finds: TypeError, NameError, errors of its own
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ConfigurationError(f"pydantic cannot make a type of {kind!r}: {reason}") from error
        self.json_schema = self._json_schema()

    def _json_schema(self) -> Mapping[str, Any] | None:
        """The schema of what is read, by alias; None for a type that has none (a custom validator alone knows it)."""
        try:
            return self._adapter.json_schema()
        except Exception:
            return None

    def load(self, text: str) -> Any:
        """The value of the type that the JSON tells; raises pydantic's ValidationError."""
        return self._adapter.validate_json(text)

    def read(self, data: Any, most: int | None = None) -> tuple[list[str], Any]:
        """What is wrong with the data, at most so much of it; and the value of the type, if nothing is."""
        try:
            return [], self.load(json.dumps(data))
        except ValidationError as error:
            return [_told(one) for one in islice(error.errors(include_url=False), most)], None


def written(result: Completed) -> str | None:
    """The JSON of what was parsed. That which was read, where it is known: pydantic may write another one."""
    if result.parsed is None:
        return None
    return result.parsed_json or to_json(result.parsed, round_trip=True).decode()


def _told(error: ErrorDetails) -> str:
    value = error["input"]
    shown = "" if isinstance(value, dict | list) else f"; it is {short(value)}"
    return f"{pointer(error['loc'])}: {error['msg']}{shown}"
