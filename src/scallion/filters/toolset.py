"""Tools as users give them: made into `BaseTool`s, named, and told apart."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool
from pydantic import BaseModel, create_model
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

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
    except (ValueError, NameError) as error:
        raise ConfigurationError(f"tools[{position}] cannot be made a tool: {error}") from error


class _Silent(GenerateJsonSchema):
    """Does not warn of a default that JSON does not have: it is left out."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Say nothing."""


def check_schema(tool: BaseTool) -> None:
    """Raise ConfigurationError where an argument has no JSON schema: no model can be told of the tool."""
    schema = tool.tool_call_schema
    if isinstance(schema, dict) or not issubclass(schema, BaseModel) or (why := _flaw(schema)) is None:
        return
    for name, field in schema.model_fields.items():
        alone: Any = {name: (field.annotation, field)}
        if (flaw := _flaw(create_model(name, __config__=schema.model_config, **alone))) is not None:
            raise ConfigurationError(
                f"tool {tool.name!r}: its argument {name!r} has a type without a JSON schema ({flaw}): give it one "
                "that a model can write (str, int, list[...], a pydantic model); what the program gives is in the "
                "context of a ToolRuntime"
            )
    raise ConfigurationError(f"tool {tool.name!r}: its arguments have no JSON schema ({why})")


def _flaw(schema: type[BaseModel]) -> str | None:
    """Why there is no JSON schema of it."""
    try:
        schema.model_json_schema(schema_generator=_Silent)
    except PydanticInvalidForJsonSchema as error:
        return error.message.removeprefix("Cannot generate a JsonSchema for ")
    return None


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
