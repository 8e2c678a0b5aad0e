"""A conversation: each message under its speaker, calls of tools with what came of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scallion.inspect.bounds import Bounds, cut, ends, short
from scallion.inspect.calls import answers
from scallion.inspect.conversation import Block, blocks_of, message_data, text_of
from scallion.inspect.escape import one_line
from scallion.inspect.figures import count
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.pieces import badge, folded, json_of, left_out, more, said

PREVIEW = 80
"""Characters of a text that is folded away."""
SPOKEN = ("user", "assistant", "system", "tool")
Data = Mapping[str, Any]


def conversation(messages: Sequence[Any], bounds: Bounds) -> Markup:
    """The messages in order; of a long conversation its beginning and its end."""
    told = list(map(message_data, messages))
    found = answers(([call["id"] for call in one["tool_calls"]], one["tool_call_id"]) for one in told)
    results = {place: told[result] for place, result in found.items()}
    within = set(found.values())
    alone = [place for place in range(len(told)) if place not in within]
    first, missing, last = ends(alone, bounds.messages)
    note = left_out(f"… {count(missing, 'message')} left out, {len(messages):,} in all" if missing else "")
    shown = ([message(told[one], bounds, _of(one, told[one], results)) for one in part] for part in (first, last))
    return tag("div", next(shown), note, next(shown), cls="talk") if told else tag("p", "no messages", cls="note")


def _of(place: int, data: Data, results: Mapping[tuple[int, int], Data]) -> list[Data | None]:
    return [results.get((place, number)) for number in range(len(data["tool_calls"]))]


def folded_conversation(messages: Sequence[Any], bounds: Bounds, *, is_open: bool = False) -> Markup:
    """The conversation behind its number of messages."""
    return folded(count(len(messages), "message"), conversation(messages, bounds), is_open=is_open)


def message(
    data: Data,
    bounds: Bounds,
    results: Sequence[Data | None] = (),
    *,
    cls: str = "",
    body: Markup | None = None,
) -> Markup:
    """One message as `message_data` gives it.

    `results`: those of its calls, in their order; none where they stand elsewhere. `body`: its text, drawn already.
    """
    calls = data["tool_calls"]
    drawn = [tool_call(call, bounds, *results[at : at + 1]) for at, call in enumerate(calls[: bounds.items])]
    return tag(
        "article",
        tag("div", _speaker(data), cls="who"),
        body or _blocks(data["content"], bounds),
        drawn,
        more(len(calls) - len(drawn), "call"),
        cls=f"msg {'by-' + data['role'] if data['role'] in SPOKEN else ''} {cls}",
    )


def _speaker(data: Data) -> Iterator[Any]:
    yield tag("span", data["role"], cls="role")
    if data["name"]:
        yield tag("span", f" {data['name']}", cls="dim")
    if data["status"] == "error":
        yield badge("error")


def _blocks(content: Any, bounds: Bounds) -> Markup:
    found = blocks_of(content)
    shown = [_block(one, bounds) for one in found[: bounds.items]]
    return join(shown, more(len(found) - len(shown), "part"))


def _block(block: Block, bounds: Bounds) -> Markup:
    if block.kind == "text":
        return said(block.text, bounds)
    if block.kind == "reasoning":
        return folded("reasoning", said(block.text, bounds))
    return tag("p", tag("span", short(block.text, 120), cls="chip"))


def tool_call(call: Data, bounds: Bounds, *results: Data | None) -> Markup:
    """A call on one line; inside it the arguments in full, and its result, None where there is none yet, if given."""
    summary = [
        tag("code", call["name"] or "unknown", cls="call-name"),
        tag("span", _arguments(call["args"]), cls="args"),
    ]
    inside = [tag("p", "arguments", cls="caption"), json_of(call["args"], bounds)]
    if isinstance(call["args"], str):
        summary.append(badge("not valid", "bad"))
    for result in results:
        summary += _outcome(result)
        inside += _result(result, bounds)
    return folded(summary, inside, cls="call")


def _outcome(result: Data | None) -> Iterator[Markup]:
    """What came of a call, as far as it fits on its line."""
    yield badge("error" if result and result["status"] == "error" else "success" if result else "open")
    if result:
        words = one_line(text_of(result["content"])[: PREVIEW * 4])
        yield tag("span", short(words, PREVIEW), cls="dim", dir="auto")


def _result(result: Data | None, bounds: Bounds) -> Iterator[Markup]:
    yield tag("p", "result", cls="caption")
    if result is None:
        yield tag("p", "there is none yet", cls="note")
    else:
        yield _blocks(result["content"], bounds)


def _arguments(args: Any) -> str:
    if not isinstance(args, Mapping):
        return f"({short(_value(args), PREVIEW)})" if args is not None else ""
    told = ", ".join(f"{name}={cut(_value(value), 60)[0]}" for name, value in list(args.items())[:8])
    return f"({short(told, PREVIEW)})"


def _value(value: Any) -> str:
    return one_line(repr(value[:100]) if isinstance(value, str) else str(value)[:200])
