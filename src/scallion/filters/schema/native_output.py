"""The provider's own structured output: where a model offers it, and how the clients of LangChain are asked for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

KEYWORDS = frozenset(
    """
    $defs $ref $schema title description default examples deprecated discriminator type enum const anyOf oneOf
    properties required additionalProperties items minimum maximum exclusiveMinimum exclusiveMaximum multipleOf
    minLength maxLength pattern format minItems maxItems uniqueItems
    """.split()
)
"""What OpenAI and Anthropic take; of what they do not enforce, the answer is checked here."""
SCALARS = ("string", "number", "integer", "boolean", "null")


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The setting of a model call that asks for the schema: OpenAI's form, which the other clients translate."""
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(schema.get("title", "")))[:64] or "answer"
    return {"response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}}


def is_portable(schema: Any) -> bool:
    """Whether every provider takes the schema, and none makes it mean less: an object, closed or with named properties.

    Anthropic closes each object, so that one with free names could only be empty.
    """
    return isinstance(schema, Mapping) and schema.get("type") == "object" and _is_simple(schema)


def is_offered(model: BaseChatModel, tools: Sequence[Any]) -> bool:
    """Whether the model's profile says that it has structured output, and it can call these tools beside it."""
    if not (model.profile or {}).get("structured_output"):
        return False
    name = str(getattr(model, "model_name", None) or getattr(model, "model", "")).lower()
    if tools and "gemini" in name and "gemini-3" not in name:  # the older ones do one or the other
        return False
    return not _makes_tools_strict(model) or all(map(_is_strict, tools))


def _makes_tools_strict(model: BaseChatModel) -> bool:
    """OpenAI's client of Chat Completions takes only tools beside it whose every argument is required."""
    kinds = {kind.__name__ for kind in type(model).__mro__}
    return "BaseChatOpenAI" in kinds and getattr(model, "use_responses_api", None) is not True


def _is_strict(tool: Any) -> bool:
    if not isinstance(tool, BaseTool):
        return False
    parameters = convert_to_openai_tool(tool)["function"].get("parameters") or {}
    return not parameters.get("properties") or _is_simple(parameters, whole=True)


def _is_simple(schema: Any, *, whole: bool = False) -> bool:
    """Whether the schema is of plain parts, with their types; `whole`: and requires all properties that it names."""
    if not isinstance(schema, Mapping) or not schema.keys() <= KEYWORDS:
        return False
    parts = [*schema.get("$defs", {}).values(), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if not all(_is_simple(one, whole=whole) for one in parts):
        return False
    if "$ref" in schema:
        return str(schema["$ref"]).startswith("#/$defs/")
    if "anyOf" in schema or "oneOf" in schema:
        return True
    kind = schema.get("type")
    if kind == "array":
        return _is_simple(schema.get("items"), whole=whole)
    return _is_closed(schema, whole=whole) if kind == "object" else kind in SCALARS


def _is_closed(schema: Mapping[str, Any], *, whole: bool) -> bool:
    properties = schema.get("properties", {})
    return (
        bool(properties)
        and schema.get("additionalProperties", False) is False
        and (not whole or set(schema.get("required", ())) == set(properties))
        and all(_is_simple(one, whole=whole) for one in properties.values())
    )
