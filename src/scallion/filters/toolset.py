"""Tools as users give them: made into `BaseTool`s, named, and told apart."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool

from scallion.errors import ConfigurationError


def as_tool(one: Any, position: int) -> Any:
    """The tool as a `BaseTool`; a dict stays one. Raises ConfigurationError for what stands for no tool."""
    if isinstance(one, BaseTool | dict):
        return one
    if not callable(one):
        instead = ": give what its as_tool(name, description) makes" if hasattr(one, "as_tool") else ""
        raise ConfigurationError(f"tools[{position}] is not a tool but {type(one).__name__}{instead}")
    try:
        return make_tool(one)
    except ValueError as error:
        raise ConfigurationError(f"tools[{position}] cannot be made a tool: {error}") from error


def tool_name(tool: Any) -> str | None:
    """The name by which a model calls the tool; None for a dict that tells none."""
    if not isinstance(tool, dict):
        return str(tool.name)
    function = tool.get("function")
    name = (function if isinstance(function, dict) else tool).get("name")
    return name if isinstance(name, str) else None


def is_same(one: Any, other: Any) -> bool:
    """Whether both are one tool: the same object, or made of the same function."""
    if one is other:
        return True
    function = _function(one)
    return function is not None and function == _function(other)


def _function(tool: Any) -> Any:
    return getattr(tool, "func", None) or getattr(tool, "coroutine", None)
