"""A request to a model, and a message of it, as plain data: what a cassette is keyed by and what it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import SecretStr

Redact = Callable[[str], str]
SECRET = re.compile(
    r"(api|access|private|secret)?keys?|tokens?|secrets?|pass(word|wd|phrase)s?|pwd|pem|authorization|auth|bearer|jwt|pat|sig"
    r"|cookies?|cred(ential)?s?|headers?",
    re.IGNORECASE,
)
"""Names of what no cassette holds, as a whole or as the last word of a name: `api_key`, `extra_headers`."""
COUNTED = re.compile(r"(tokens|keys)$", re.IGNORECASE)
"""What numbers under such a name are: `max_tokens` is no secret."""
SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Where a JSON schema has names of the program's own, each with a schema: an argument `key` is no secret."""
ARGUMENTS = frozenset({"input", "args", "arguments"})
"""What the model wrote in a block that is a call: names of the program's own too."""
LEAST = 6
"""A secret of fewer characters would be found in texts that have nothing to do with it."""


def request_of(messages: Sequence[BaseMessage], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked, without what differs from run to run: ids of messages, and those of calls, which are numbered."""
    numbers: dict[str, str] = {}
    rendered = [_message(one, numbers) for one in messages]
    return {"messages": rendered, "settings": _json(dict(sorted(plain(settings).items())))}


def reply_of(message: AIMessage) -> dict[str, Any]:
    """The message as a cassette holds it; an id that LangChain made is left out."""
    held: dict[str, Any] = message.model_dump(mode="json", exclude_defaults=True, fallback=str)
    for name in ("response_metadata", "additional_kwargs"):
        if name in held:
            held[name] = plain(held[name])
    if isinstance(held.get("content"), list):
        held["content"] = [_block(one) for one in held["content"]]
    if str(held.get("id", "")).startswith(("lc_", "run-")):
        del held["id"]
    return {name: value for name, value in held.items() if name != "type"}


def is_secret(name: str, value: Any = None) -> bool:
    """Whether what has this name is a secret, or may hold one."""
    if SECRET.fullmatch(re.split(r"[_\W]|(?<=[a-z])(?=[A-Z])", name)[-1]) is None:
        return False
    return not (COUNTED.search(name) and _is_count(value))


def plain(value: Any) -> Any:
    """The value without what is a secret by its name, at any depth; names that a JSON schema describes stay."""
    if isinstance(value, Mapping):
        return {str(name): _named(str(name), one) for name, one in value.items() if not is_secret(str(name), one)}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def secrets_of(model: Any) -> list[str]:
    """The secrets that a client of a provider was given, the longest first: its keys, and what its headers hold."""
    values = [getattr(model, name, None) for name in type(model).model_fields]
    found = [one.get_secret_value() for one in values if isinstance(one, SecretStr)]
    headers = [getattr(model, name, None) for name in type(model).model_fields if is_secret(name)]
    found += [text for one in headers if not isinstance(one, SecretStr) for text in _texts(one)]
    return sorted((one for one in found if len(one) >= LEAST), key=len, reverse=True)


def edited(value: Any, edit: Redact) -> Any:
    """The data with `edit` made of each text in it; names stay."""
    if isinstance(value, str):
        return edit(value)
    if isinstance(value, Mapping):
        return {name: edited(one, edit) for name, one in value.items()}
    return [edited(one, edit) for one in value] if isinstance(value, list) else value


def _named(name: str, value: Any) -> Any:
    if name not in SCHEMAS or not isinstance(value, Mapping):
        return plain(value)
    kept = {
        str(each): one for each, one in value.items() if isinstance(one, Mapping | bool) or not is_secret(str(each))
    }
    return {each: plain(one) for each, one in kept.items()}


def _is_count(value: Any) -> bool:
    if isinstance(value, Mapping | list | tuple):
        return all(_is_count(one) for one in (value.values() if isinstance(value, Mapping) else value))
    return value is None or isinstance(value, int | float)


def _message(message: BaseMessage, numbers: dict[str, str]) -> dict[str, Any]:
    held: dict[str, Any] = {"type": message.type, "name": message.name, "content": _content(message.content)}
    if isinstance(message, AIMessage):
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        held["tool_calls"] = [{"name": one["name"], "args": one["args"], "id": one["id"]} for one in calls]
    if isinstance(message, ToolMessage):
        held |= {"tool_call_id": message.tool_call_id, "status": message.status}
    for call in held.get("tool_calls", ()):
        call["id"] = _number(call["id"], numbers)
    if "tool_call_id" in held:
        held["tool_call_id"] = _number(held["tool_call_id"], numbers)
    return {name: _json(value) for name, value in held.items() if value not in (None, [], "success")}


def _content(content: str | list[Any]) -> str | list[Any]:
    """The content without what the merging of a stream leaves in it: the same in each mode."""
    if isinstance(content, str):
        return content
    return [
        {k: v for k, v in block.items() if k != "index"} if isinstance(block, dict) else block
        for block in map(_block, content)
        if block != ""
    ]


def _block(block: Any) -> Any:
    """A block of a content without what is a secret by its name; what a call was given stays."""
    if not isinstance(block, Mapping):
        return block
    return plain(block) | {name: block[name] for name in ARGUMENTS & block.keys()}


def _number(id: Any, numbers: dict[str, str]) -> str:
    return numbers.setdefault(str(id), f"call {len(numbers) + 1}")


def _json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda one: f"<{type(one).__name__}>"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
