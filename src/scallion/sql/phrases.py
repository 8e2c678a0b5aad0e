"""What nearly every stored message says of itself, in two bytes instead of about 130.

LangGraph's serializer writes the class and the names of all fields with each message. Where such a phrase stands in the
bytes of a value, a byte that no text has (0xC1) and the number of the phrase stand instead. Everything else stays as it
is, so that whoever looks for a text in the database still finds it. A phrase keeps its number for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MSGPACK, SHORTENED = "msgpack", "m"
"""The types of values as they are, and with their phrases shortened."""
LEAST, MOST = 64, 65_536
"""Shorter values have nothing to save, in longer ones a message says little of itself."""
MARK = b"\xc1"
ITSELF = b"\xc1\x00"
"""What stands for a byte that is the mark."""
FIRST = 0x10
"""The number of the first phrase; no phrase begins with a byte that is a number."""

NONE, EMPTY_MAP, EMPTY_LIST, ONE = b"\xc0", b"\x80", b"\x90", b"\x91"


def _name(text: str) -> bytes:
    """A text of at most 31 bytes as msgpack has it."""
    return bytes([0xA0 + len(text)]) + text.encode()


def _class(module: str, name: str) -> bytes:
    """How a message begins: an extension of five parts."""
    return b"\x05\x95" + _name(f"langchain_core.messages.{module}") + _name(name)


_content, _kind, _its_name, _id, _args = map(_name, ("content", "type", "name", "id", "args"))
_kwargs, _metadata = _name("additional_kwargs") + EMPTY_MAP, _name("response_metadata")
_calls, _invalid, _usage = map(_name, ("tool_calls", "invalid_tool_calls", "usage_metadata"))
_a_call = _kind + _name("tool_call")


def _speaks(name: str) -> bytes:
    """What stands between the content of a message and its name."""
    return _kwargs + _metadata + EMPTY_MAP + _kind + _name(name) + _its_name


PHRASES = (
    _class("human", "HumanMessage") + b"\x86" + _content,
    _class("ai", "AIMessage") + b"\x89" + _content,
    _class("tool", "ToolMessage") + b"\x89" + _content,
    _class("system", "SystemMessage") + b"\x86" + _content,
    _speaks("human"),
    _speaks("ai"),
    _speaks("tool"),
    _speaks("system"),
    _kwargs + _metadata,
    NONE + _id,
    _name("model_validate_json") + NONE,
    _calls + EMPTY_LIST + _invalid + EMPTY_LIST + _usage,
    _a_call + _invalid + EMPTY_LIST + _usage,
    _calls + ONE + b"\x84" + _its_name,
    _name("tool_call_id"),
    _name("artifact") + NONE + _name("status") + _name("success"),
    _args,
    _a_call,
    _kind + _name("ai") + _its_name,
    _name("langgraph.types") + _name("Send") + b"\x92",
    *map(_name, ("input_tokens", "output_tokens", "total_tokens", "input_token_details", "output_token_details")),
    *map(_name, ("cache_read", "token_usage", "prompt_tokens", "completion_tokens", "finish_reason", "model_name")),
    *map(_name, ("model_provider", "reasoning")),
)
"""By number; of two that begin alike the longer one comes first."""
HUMAN, AI, TOOL, SYSTEM, SEND, TOKENS, FINISHED = 0, 1, 2, 3, 19, 20, 29
WITH: Mapping[int, Sequence[int]] = {
    HUMAN: (4, 8, 9, 10),
    AI: (5, *range(8, 14), *range(16, 19)),
    TOOL: (6, 8, 9, 10, 14, 15),
    SYSTEM: (7, 8, 9, 10),
    SEND: (16, 17),
    TOKENS: (*range(21, 26), 32),
    FINISHED: (22, *range(26, 29), 30, 31),
}
"""The phrases that are looked for, and what else is where they are found."""


def sign(number: int) -> bytes:
    """What stands for the phrase of that number."""
    return MARK + bytes([FIRST + number])


SEARCHED = [
    (sign(first), PHRASES[first], [(sign(number), PHRASES[number]) for number in others])
    for first, others in WITH.items()
]
WHOLE = {0: MARK} | dict(enumerate(PHRASES, FIRST))


def shortened(type: str, data: bytes) -> tuple[str, bytes]:
    """A value as it is stored: type and bytes."""
    if type != MSGPACK or not LEAST <= len(data) <= MOST:
        return type, data
    short = data.replace(MARK, ITSELF)
    for first, phrase, others in SEARCHED:
        before, short = short, short.replace(phrase, first)
        if len(short) < len(before):
            for other, rest in others:
                short = short.replace(rest, other)
    return (SHORTENED, short) if len(short) < len(data) else (type, data)


def lengthened(type: str, data: bytes) -> tuple[str, bytes]:
    """A stored value as it was. Raises ValueError for damaged ones."""
    if type != SHORTENED:
        return type, data
    head, *parts = data.split(MARK)
    try:
        return MSGPACK, b"".join([head, *(WHOLE[part[0]] + part[1:] for part in parts)])
    except LookupError:
        raise ValueError("a stored value is damaged") from None
