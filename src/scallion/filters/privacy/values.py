"""Taking personal data out of whatever carries text: messages with all their parts, arguments, plain data, errors.

What holds none comes back as it is, the very same object.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from numbers import Number
from operator import is_not
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from scallion.errors import Blocked, FilterError, ScallionError
from scallion.filters.guarding import Place, tell
from scallion.filters.privacy.escapes import meant, readings
from scallion.filters.privacy.json_pieces import JsonPieces, without_fraction
from scallion.filters.privacy.objects import cleaned_object
from scallion.filters.texts import is_unread
from scallion.pii import Finding, Redaction

T = TypeVar("T")
Tokens = Callable[[str, str], str]
PLACES: Mapping[str, Place] = {"ai": "output", "tool": "tool_results"}
"""Where a message of that type came from; all others came in."""
CALLS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use", "input_json_delta", "tool_call_chunk"})
"""Types of blocks that hold what a tool is called with."""
JSON_TEXT = frozenset({"arguments", "args", "partial_json"})
"""Names under which arguments stand as JSON text."""
PARTS = frozenset(
    """
    content source file image_url input_audio audio image video document media inline_data annotations citations summary
    function tool_calls function_call reasoning reasoning_details tool_outputs extras
    """.split()
)
"""Names in a block under which other blocks stand; below any other all is read, whatever it is called."""
OURS = "pii: "
"""What errors begin with that name the detector, and hold nothing of the text."""
DOCUMENTS: frozenset[Place] = frozenset(["input", "tool_results"])
"""Where a text may be, or hold, JSON. What the model says is read as it comes, in pieces."""
KNOWN_CLEAN = 20_000
"""How many texts are remembered that hold nothing: a history is read before each call."""


class Walk:
    """One pass over a value: what is found is taken out, and counted by place."""

    def __init__(
        self, guard: str, redaction: Redaction, tokens: Tokens | None, places: frozenset[Place], clean: set[Any]
    ) -> None:
        self._guard = guard
        self._redaction = redaction
        self._tokens = tokens
        self._places = places
        self._clean = clean
        self.found: dict[Place, list[Finding]] = {}

    def covers(self, place: Place) -> bool:
        """Whether anything is taken out there."""
        return place in self._places

    def note(self, place: Place, findings: Sequence[Finding]) -> None:
        """Count what was found."""
        if findings:
            self.found.setdefault(place, []).extend(findings)

    def settle(self, *, quiet: bool = False) -> None:
        """Tell what was found; raises Blocked where one of it may not pass."""
        found, self.found = self.found, {}
        blocked = Counter(one.type for all_ in found.values() for one in all_ if one.strategy == "block")
        for place, findings in () if quiet else found.items():
            tell(self._guard, place, [one.strategy for one in findings], Counter(one.type for one in findings))
        if blocked:
            raise Blocked(self._guard, blocked)

    def text(self, text: str, place: Place) -> str:
        """The text without what is found in it."""
        if not text or not self.covers(place):
            return text
        mark = (hash(text), len(text), place in DOCUMENTS)
        if mark in self._clean:
            return text
        before = self._count()
        cleaned = self.json(text, place) if self._is_document(text, place) else self._loose(text, place)
        if self._count() == before:
            if len(self._clean) >= KNOWN_CLEAN:
                self._clean.clear()
            self._clean.add(mark)
        return cleaned

    def plain(self, text: str, place: Place) -> str:
        """The same of a text whose letters stand for themselves."""
        cleaned, findings = self._guarded(lambda: self._redaction.redact(text, self._tokens))
        self.note(place, findings)
        return cleaned

    def _loose(self, text: str, place: Place) -> str:
        """The same of a text that may have JSON or a program's values in it, where escapes stand before words."""
        for depth in readings(text) if place in DOCUMENTS else ():
            text = self._as_meant(text, depth, place)
        return self.plain(text, place)

    def _as_meant(self, text: str, depth: int, place: Place) -> str:
        whole, places = meant(text, depth)
        findings = self._guarded(lambda: self._redaction.find(whole))
        self.note(place, findings)
        made, since = [], 0
        for one in findings:
            new = self._guarded(partial(self._redaction.replace, whole, one.start, one.end, [one], self._tokens))
            made += [text[since : places[one.start]], new]
            since = places[one.end]
        return "".join([*made, text[since:]])

    def _is_document(self, text: str, place: Place) -> bool:
        return place in DOCUMENTS and text.lstrip()[:1] in ("{", "[") and is_json(text)

    def _count(self) -> int:
        return sum(map(len, self.found.values()))

    def _guarded(self, step: Callable[[], T]) -> T:
        """What the step gives. Where a detector fails nothing passes, and the error does not tell what it failed on."""
        try:
            return step()
        except ScallionError:
            raise
        except Exception as error:
            failed = failure(self._guard, error)
        raise failed

    def value(self, value: Any, place: Place) -> Any:
        """Plain data of any depth, numbers and names too; messages and models by their fields."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value, place)
        if isinstance(value, Number):  # numpy's too
            return self._number(value, place)
        if isinstance(value, BaseMessage):
            return self.message(value)
        if isinstance(value, Mapping):
            return self._mapping(value, place)
        if isinstance(value, list | tuple | set | frozenset):
            return self._many(value, place)
        if isinstance(value, bytes | bytearray):
            return self._bytes(value, place)
        return cleaned_object(value, lambda part: self.value(part, place))

    def _number(self, number: Number, place: Place) -> Any:
        text = without_fraction(f"{number:f}" if isinstance(number, Decimal) else str(number))
        cleaned = self.text(text, place)
        return number if cleaned == text else cleaned

    def _mapping(self, value: Mapping[Any, Any], place: Place, clean: Callable[[Any, Any], Any] | None = None) -> Any:
        made: dict[Any, Any] = {}
        for key, part in value.items():
            cleaned = self.value(part, place) if clean is None else clean(key, part)
            made[_free(self.value(key, place), made)] = cleaned
        changed = len(made) != len(value) or any(map(is_not, made, value))
        return made if changed or any(map(is_not, made.values(), value.values())) else value

    def _many(self, value: Any, place: Place) -> Any:
        made = [self.value(one, place) for one in value]
        if not any(map(is_not, made, value)):
            return value
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)

    def _bytes(self, value: bytes | bytearray, place: Place) -> Any:
        text = value.decode(errors="surrogateescape")
        cleaned = self.text(text, place)
        return value if cleaned == text else type(value)(cleaned.encode(errors="surrogateescape"))

    def json(self, text: str, place: Place) -> str:
        """JSON text: each of its strings is a text of its own, read as what it stands for; the structure stays.

        What is no JSON, as it is cut off, is read as a text too.
        """
        parts = _Parts(self, place)
        pieces = JsonPieces(parts.begin, parts.text)
        cleaned = pieces.push(text) + pieces.finish()
        cleaned = text if parts.are_same else cleaned
        return cleaned if is_json(text) else self.plain(cleaned, place)

    def message(self, message: BaseMessage) -> BaseMessage:
        """A message with all its parts; type and order of its blocks stay."""
        place = PLACES.get(message.type, "input")
        before = self._count()
        changed: dict[str, Any] = {
            "content": self.content(message.content, place),
            "name": self.value(message.name, place),
            "additional_kwargs": self._named(message.additional_kwargs, place),
        }
        if isinstance(message, AIMessage):
            changed["tool_calls"] = self._calls(message.tool_calls)
            changed["invalid_tool_calls"] = self._calls(message.invalid_tool_calls)
        if isinstance(message, ToolMessage):
            changed["artifact"] = self.value(message.artifact, place)
        changed["response_metadata"] = self._named(message.response_metadata, place)
        if self._count() > before:
            rest = {name: one for name, one in changed["response_metadata"].items() if name != "logprobs"}
            changed["response_metadata"] = rest  # the answer once more, in pieces
        changed = {name: new for name, new in changed.items() if new is not getattr(message, name)}
        return message.model_copy(update=changed) if changed else message

    def content(self, content: Any, place: Place) -> Any:
        """The content of a message. What several blocks hold together is found, as a reader joins them."""
        if isinstance(content, str):
            return self.text(content, place)
        if not isinstance(content, list):
            return self.value(content, place)
        made = list(content)
        for name in ("text", "reasoning", "thinking"):
            self._joined(made, name, place)
        made = [self._block(one, place) for one in made]
        return made if any(map(is_not, made, content)) else content

    def _joined(self, blocks: list[Any], name: str, place: Place) -> None:
        """Texts of that name that lie in several blocks, as one text."""
        texts = [(at, _own_text(one, name)) for at, one in enumerate(blocks)]
        held = [(at, text) for at, text in texts if text is not None and not self._is_document(text, place)]
        if len(held) < 2 or not self.covers(place):
            return
        for (at, text), new in zip(held, self._cut([text for _, text in held], place), strict=True):
            if new != text:
                blocks[at] = new if isinstance(blocks[at], str) else {**blocks[at], name: new}

    def _cut(self, texts: Sequence[str], place: Place) -> Sequence[str]:
        """The texts as one, with what was found taken out, cut where they were; a find lies where it begins."""
        whole = "".join(texts)
        findings = self._guarded(lambda: self._redaction.find(whole))
        self.note(place, findings)
        made, begin, behind = [], 0, 0
        for text in texts:
            end = begin + len(text)
            mine = [one for one in findings if begin <= one.start < end]
            start = min(max(begin, behind), end)
            made.append(self._guarded(partial(self._redaction.replace, whole, start, end, mine, self._tokens)))
            begin, behind = end, mine[-1].end if mine else behind
        return made

    def _block(self, block: Any, place: Place) -> Any:
        if isinstance(block, str):
            return self.text(block, place)
        if not isinstance(block, Mapping):
            return self.value(block, place)
        return self._named(block, "tool_args" if block.get("type") in CALLS else place)

    def _named(self, value: Any, place: Place) -> Any:
        """What stands under names: those that hold no text for anybody, as addresses of pictures, are left alone."""
        if isinstance(value, list):
            made = [self._named(one, place) for one in value]
            return made if any(map(is_not, made, value)) else value
        if not isinstance(value, Mapping):
            return self.value(value, place)
        return self._mapping(value, place, lambda name, part: self._part(name, part, value, place))

    def _part(self, name: Any, part: Any, block: Mapping[str, Any], place: Place) -> Any:
        if is_unread(name, block):
            return part
        if name in JSON_TEXT and isinstance(part, str):
            return self.json(part, "tool_args")
        if name in ("input", "args", "arguments") and isinstance(part, Mapping | list):
            return self.value(part, "tool_args")
        if name not in PARTS:
            return self.value(part, place)
        return self._named(part, "tool_args" if name in ("tool_calls", "function_call") else place)

    def _calls(self, calls: list[Any]) -> list[Any]:
        made = [self._call(one) for one in calls]
        return made if any(map(is_not, made, calls)) else calls

    def _call(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        args = call.get("args")
        changed = {
            "name": self.value(call.get("name"), "tool_args"),
            "args": self.json(args, "tool_args") if isinstance(args, str) else self.value(args, "tool_args"),
        }
        if call.get("error"):
            changed["error"] = self.value(call["error"], "tool_args")
        return {**call, **changed} if any(new is not call.get(name) for name, new in changed.items()) else call


class _Parts:
    """The strings, numbers and names of one JSON text, each read by the walk as soon as it is whole."""

    def __init__(self, walk: Walk, place: Place) -> None:
        self._walk = walk
        self._place = place
        self.are_same = True

    def text(self, text: str) -> str:
        """One of them."""
        cleaned = self._walk.text(text, self._place)
        self.are_same = self.are_same and cleaned == text
        return cleaned

    def begin(self) -> _String:
        """A string of which pieces will come."""
        return _String(self.text)


class _String:
    def __init__(self, whole: Callable[[str], str]) -> None:
        self._whole = whole
        self._pieces: list[str] = []

    def push(self, piece: str) -> str:
        self._pieces.append(piece)
        return ""

    def finish(self) -> str:
        return self._whole("".join(self._pieces))


def is_json(text: str) -> bool:
    """Whether the text is JSON that nests no deeper than anybody reads."""
    try:
        json.loads(text, parse_int=str)  # an int of Python has an end
    except (ValueError, RecursionError):
        return False
    return True


def failure(guard: str, error: Exception) -> FilterError:
    """The error of a guard whose detector failed; without its cause, whose text may hold what it failed on."""
    told = str(error)
    is_ours = type(error) is ValueError and told.startswith(OURS)
    return FilterError(guard, "detection", told.removeprefix(OURS) if is_ours else type(error).__name__)


def _own_text(block: Any, name: str) -> str | None:
    """The text of that name of a block; a block that is a text is one of the name "text"."""
    if isinstance(block, str):
        return block if name == "text" else None
    found = block.get(name) if isinstance(block, Mapping) and block.get("type") == name else None
    return found if isinstance(found, str) else None


def _free(key: Any, made: Mapping[Any, Any]) -> Any:
    """The key, or one like it that is free: two that held something would be one."""
    if key not in made:
        return key
    return next(one for one in (f"{key}_{number}" for number in range(2, len(made) + 3)) if one not in made)
