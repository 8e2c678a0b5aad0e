"""What an index knows of a tool, read from whatever form the tool comes in, and what an index is."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scallion.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as texts. `parameters`: names and descriptions of its parameters."""

    name: str
    description: str = ""
    parameters: tuple[str, ...] = ()


class ToolIndex(Protocol):
    """Anything that finds tools. It is asked from several threads at once, and built only once."""

    def search(self, query: str, limit: int) -> Sequence[str]:
        """Names of tools for the query, the best first, at most `limit`; none where nothing fits."""


def entry(tool: Any) -> Entry | None:
    """The entry of a `BaseTool`, or of a dict in OpenAI's, Anthropic's or MCP's form; None for what has no name.

    A schema that is missing, or is none, makes an entry without parameters.
    """
    if isinstance(tool, Mapping):
        said = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
        name, description = said.get("name"), said.get("description")
        schema = next((said[key] for key in ("parameters", "input_schema", "inputSchema") if said.get(key)), None)
    else:
        name, description, schema = tool.name, tool.description, _schema(tool)
    if not isinstance(name, str) or not name:
        return None
    return Entry(name, description if isinstance(description, str) else "", tuple(_texts(schema)))


def best(scores: Mapping[str, float], limit: int) -> list[str]:
    """The names with the highest scores; those with the same score in the order of the alphabet."""
    return heapq.nsmallest(limit, scores, key=lambda name: (-scores[name], name))


def check_score(name: str, value: Any) -> float:
    """The minimum score; raises ConfigurationError for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f"{name} of a tool index is a number, not {value!r}")
    return float(value)


def _schema(tool: Any) -> Any:
    schema = tool.tool_call_schema
    if isinstance(schema, Mapping):
        return schema
    try:
        return schema.model_json_schema()
    except Exception:  # pydantic's errors, and those of a type's own schema: it may still be found by its description
        return None


def _texts(schema: Any) -> Iterator[str]:
    """Names and descriptions of the parameters; what is deeper inside is about values, not about the tool."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, said in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name)
        description = said.get("description") if isinstance(said, Mapping) else None
        if isinstance(description, str):
            yield description
