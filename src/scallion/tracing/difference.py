"""What differs between two requests or replies, in shapes and names: how many messages, how long, which tools.

Never content. Names are those of the program: its tools and models, and the arguments that a tool's schema has. What a
model may have made up is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scallion.values import ChatReply, ChatRequest, Completed, ToolReply, ToolRequest, TurnRequest

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 8
"""How many differences are told."""
LONGEST = 100
"""How much of a name is kept."""


def difference(before: Any, after: Any) -> list[str]:
    """What `after` has that `before` has not, and the other way round; nothing where that cannot be said."""
    tell = _KINDS.get(type(after))
    if tell is None or type(before) is not type(after):
        return []
    told = [*tell(before, after), *_context(before, after)]
    return [cut(one) for one in told[:MOST]]


def differ(one: Any, other: Any) -> bool:
    """Whether two values differ; those that cannot be compared, as two arrays, do."""
    try:
        return bool(one != other)
    except Exception:
        return True


def cut(name: str) -> str:
    """The beginning of a name."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def model_name(model: Any) -> str:
    """The name that a client has for its model, or its kind."""
    names = (getattr(model, name, None) for name in ("model_name", "model", "_llm_type"))
    return next((name for name in names if isinstance(name, str) and name), "unknown")


def _turn_request(before: TurnRequest, after: TurnRequest) -> Iterator[str]:
    yield from _messages("messages", before.messages, after.messages)
    if before.load_history != after.load_history:
        yield "the whole sequence" if before.load_history else "the new messages only"
    if before.ended is not after.ended:
        yield "ended"


def _chat_request(before: ChatRequest, after: ChatRequest) -> Iterator[str]:
    yield from _messages("messages", before.messages, after.messages)
    yield from _names("tools", _tools(before.tools), _tools(after.tools))
    if before.model is not after.model:
        yield f"model: {cut(model_name(before.model))} → {cut(model_name(after.model))}"
    if differ(before.tool_choice, after.tool_choice):
        yield "tool choice changed"
    yield from _keys("settings", before.settings, after.settings)


def _tool_request(before: ToolRequest, after: ToolRequest) -> Iterator[str]:
    if before.tool is not after.tool:
        one, other = (getattr(tool, "name", None) or "unknown" for tool in (before.tool, after.tool))
        yield f"tool: {cut(one)} → {cut(other)}" if one != other else "another tool of that name"
    yield from _args(before.call["args"], after.call["args"], _parameters(after.tool))


def _completed(before: Completed, after: Completed) -> Iterator[str]:
    yield from _text("answer", before.message, after.message)
    yield from _messages("messages", before.messages, after.messages)
    if before.parsed is not after.parsed:
        yield "parsed"


def _chat_reply(before: ChatReply, after: ChatReply) -> Iterator[str]:
    yield from _text("text", before.message, after.message)
    if differ(before.message.tool_calls, after.message.tool_calls):
        one, other = len(before.message.tool_calls), len(after.message.tool_calls)
        yield f"tool calls {one} → {other}" if one != other else "tool calls changed"
    if before.stored is not after.stored:
        yield f"thread: {'as it was' if after.stored is None else _count(len(after.stored), 'message')}"
    if len(before.results) != len(after.results):
        yield f"results {len(before.results)} → {len(after.results)}"


def _tool_reply(before: ToolReply, after: ToolReply) -> Iterator[str]:
    yield from _text("text", before.message, after.message)
    if before.message.status != after.message.status:
        yield f"status: {before.message.status} → {after.message.status}"
    if before.writes is not after.writes and differ(before.writes, after.writes):
        yield f"writes {len(before.writes)} → {len(after.writes)}"


_KINDS: dict[type, Callable[[Any, Any], Iterator[str]]] = {
    TurnRequest: _turn_request,
    ChatRequest: _chat_request,
    ToolRequest: _tool_request,
    Completed: _completed,
    ChatReply: _chat_reply,
    ToolReply: _tool_reply,
}


def _context(before: Any, after: Any) -> Iterator[str]:
    context = getattr(after, "context", None)
    if context is not None and context is not before.context:
        yield "context"


def _messages(what: str, before: Sequence[Any], after: Sequence[Any]) -> Iterator[str]:
    """How many there are, and how long those are that are not in both: a conversation may be long."""
    if before is after:
        return
    first, last = _shared(before, after)
    gone, new = before[first : len(before) - last], after[first : len(after) - last]
    if len(before) != len(after):
        yield f"{what} {len(before)} → {len(after)}"
    one, other = sum(map(_length, gone)), sum(map(_length, new))
    if one != other:
        yield f"text {one} → {other} characters"
    elif len(before) == len(after) and (changed := sum(map(differ, gone, new))):
        yield f"{_count(changed, 'message')} changed"


def _shared(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, int]:
    """How many messages at the beginning and at the end are the very same."""
    shorter = min(len(before), len(after))
    first = next((n for n in range(shorter) if before[n] is not after[n]), shorter)
    rest = shorter - first
    last = next((n for n in range(rest) if before[-1 - n] is not after[-1 - n]), rest)
    return first, last


def _text(what: str, before: Any, after: Any) -> Iterator[str]:
    if before is after:
        return
    one, other = _length(before), _length(after)
    if one != other:
        yield f"{what} {one} → {other} characters"
    elif differ(before.content, after.content):
        yield f"{what} changed, {_count(one, 'character')}"


def _length(message: Any) -> int:
    content = message.content
    return len(content) if isinstance(content, str) else len(str(message.text))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _tools(tools: Sequence[Any]) -> list[str]:
    return [str(_tool(one)) for one in tools]


def _tool(tool: Any) -> Any:
    if isinstance(tool, Mapping):
        inner = tool.get("function")
        return (inner if isinstance(inner, Mapping) else tool).get("name") or tool.get("type")
    return getattr(tool, "name", None) or getattr(tool, "__name__", None)


def _names(what: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    old, present = set(before), set(after)
    gone = [f"-{cut(one)}" for one in before if one not in present]
    new = [f"+{cut(one)}" for one in after if one not in old]
    if told := [*gone, *new]:
        yield f"{what} {' '.join(told)}"


def _keys(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if before is after:
        return
    changed = sorted(name for name in {*before, *after} if differ(before.get(name), after.get(name)))
    if changed:
        yield f"{what}: {', '.join(map(cut, changed))} changed"


def _args(before: Mapping[str, Any], after: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    if before is after:
        return
    told: list[str] = []
    others = 0
    for name in sorted({*before, *after}):
        if name in before and name in after and not differ(before[name], after[name]):
            continue
        if name not in known:
            others += 1
        elif name not in after:
            told.append(f"-{name}")
        else:
            told.append(f"{name} changed" if name in before else f"+{name}")
    if others:
        told.append(f"{others} of other names")
    if told:
        yield f"args: {', '.join(told)}"


def _parameters(tool: Any) -> set[str]:
    """The names of the tool's arguments, as far as its schema has them."""
    schema = getattr(tool, "args_schema", None)
    if isinstance(schema, Mapping):
        return set(schema.get("properties") or ())
    return set(getattr(schema, "model_fields", None) or ())
