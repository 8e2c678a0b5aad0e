"""`tool_search`: all tools are registered and can run, few are advertised; the model finds the others by searching."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypedDict, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter, is_async
from scallion.filters.given import is_whole
from scallion.filters.toolset import as_tool, tool_name
from scallion.search import Entry, HybridIndex, KeywordIndex, RegexIndex, ToolIndex, VectorIndex, entry
from scallion.search.words import spaced
from scallion.values import ChatReply, ChatRequest, ToolFailure, ToolReply, ToolRequest

Found = Mapping[str, Any]
"""`{"round": 3, "names": [...]}`: what was found, and in which round of the loop."""
MakeIndex = Callable[..., ToolIndex]
INDEXES: Mapping[str, MakeIndex] = {
    "keyword": KeywordIndex,
    "regex": RegexIndex,
    "vector": VectorIndex,
    "hybrid": HybridIndex,
}
EXPECTS = "What you want to do, in a few words."
_TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The names of tools that OpenAI and Anthropic take."""
_IDENTIFIER = re.compile(r"\w[\w.:/-]*")


def spellings(names: Sequence[str]) -> dict[str, str]:
    """The name that is meant by each spelling: the exact one, and the folded one where it is no other tool's name."""
    return {**{name.casefold(): name for name in reversed(names)}, **{name: name for name in names}}


def named_in(query: str, by_spelling: Mapping[str, str]) -> list[str]:
    """The names that the query says exactly, as a whole or as identifiers in it, whatever their case.

    An identifier has more parts than one: a tool named `search` is not meant by each query that says "search".
    """
    identifiers = (part.rstrip(".:/-") for part in _IDENTIFIER.findall(query))
    said = [query.strip("\"'` \n"), *(one for one in identifiers if " " in spaced(one))]
    found = [by_spelling.get(one) or by_spelling.get(one.casefold()) for one in said]
    return [name for name in dict.fromkeys(found) if name is not None]


def advertised(tools: Sequence[Any], hidden: frozenset[str], found: Sequence[str]) -> list[Any]:
    """The tools without the hidden ones, but with those that were found, in the order in which they were.

    What was advertised once stays in front in the same order, so that a provider's cache of the prompt holds.
    """
    by_name = {tool_name(tool): tool for tool in tools}
    shown = [tool for tool in tools if tool_name(tool) not in hidden]
    return [*shown, *(by_name[name] for name in found if name in hidden and name in by_name)]


def merged(old: Found, new: Found) -> Found:
    """What the searches of one round found, all of them; a new round begins anew."""
    if old["round"] != new["round"]:
        return new
    return {"round": new["round"], "names": list(dict.fromkeys([*old["names"], *new["names"]]))}


def names_in(message: ToolMessage) -> list[str]:
    """The names that a search gave, whatever a filter or a person made of its text."""
    given = message.artifact
    if given is None:
        try:
            given = json.loads(message.text)
        except ValueError:
            return []
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


class _State(TypedDict):
    round: int
    shown: list[str]
    found: Annotated[dict[str, Any], merged]


class ToolSearch(Filter):
    """The filter: what was found is in its state, which the thread keeps."""

    def __init__(
        self, name: str, tools: Sequence[Any], search: BaseTool, hidden: frozenset[str], accumulate: bool, strict: bool
    ) -> None:
        start = {"round": 0, "shown": [], "found": {"round": 0, "names": []}}
        super().__init__(name, tools=[*tools, search], init=start, state_schema=_State, scope="thread")
        self._position = {tool_name(tool): at for at, tool in enumerate(tools)}
        self._search_name = search.name
        self._hidden = hidden
        self._accumulate = accumulate
        self._strict = strict

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> tuple[ChatReply, dict[str, Any]]:
        """Show the model the search tool, all that is not hidden, what was found, and the tool that it has to call."""
        hidden = self._hidden - {request.tool_choice} if isinstance(request.tool_choice, str) else self._hidden
        tools = advertised(request.tools, hidden, state["found"]["names"])
        shown = [name for tool in tools if (name := tool_name(tool)) in self._hidden]
        return next(request.replace(tools=tools)), {"round": state["round"] + 1, "shown": shown}

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> Any:
        """Note what a search found; where it is strict, refuse a tool that the model was not shown."""
        name = request.call["name"]
        if self._strict and name in self._hidden and name not in state["shown"]:
            return self._refused(request)
        reply: ToolReply = next(request)
        if name != self._search_name or reply.error is not None:
            return reply
        # In the order of registration: two threads that found the same tools share a cached prompt.
        found = sorted(self._hidden.intersection(names_in(reply.message)), key=self._position.__getitem__)
        return reply, {"found": {"round": 0 if self._accumulate else state["round"], "names": found}}

    def _refused(self, request: ToolRequest) -> ToolReply:
        name, id = request.call["name"], request.call["id"]
        text = f"not run: {name} is not one of the tools listed; find it with {self._search_name} first"
        return ToolReply(ToolMessage(text, tool_call_id=id, name=name, status="error"), error=ToolFailure("semantic"))


class MakeToolSearch:
    """What `tool_search` is: a function with an attribute."""

    suggested_prompt = (
        "Not all of your tools are listed. If none of the listed ones does what you need, describe it to tool_search: "
        "the tools that it names can be called in your next message. "
        "If it names none that fits, say so; do not invent a tool."
    )
    """For the system prompt, if the description of the search tool is not enough; nothing puts it there by itself."""

    def __call__(
        self,
        tools: Sequence[Any],
        *,
        index: str | ToolIndex | MakeIndex = "keyword",
        index_options: Mapping[str, Any] | None = None,
        max_results: int = 5,
        accumulate: bool = True,
        tool_name: str = "tool_search",
        always_include: Iterable[str] = (),
        strict: bool = False,
        name: str = "tool_search",
    ) -> tuple[BaseTool, Filter]:
        """Register all tools and advertise few: a search tool, and a filter that shows the model what it found.

        `Agent(tools=[*tools, search_tool], filters=[search_filter])`; the filter brings the same tools along, so they
        may be left out.
        `index`: "keyword" (BM25), "regex", "vector" or "hybrid" (the last three need `scallion[search]`), a ToolIndex,
        or a function that makes one of a list of `Entry`s. `index_options`: what it is made with.
        `max_results`: names in one result. `accumulate`: whether what was found stays for the rest of the thread;
        otherwise only what the last round of searches found. `always_include`: tools that are never hidden.
        `strict`: whether a hidden tool that the model was not shown when it called it is refused; otherwise it runs.
        Raises ConfigurationError.
        """
        made = [as_tool(one, position) for position, one in enumerate(_listed(tools))]
        entries = [found for one in made if (found := entry(one)) is not None]
        names = [one.name for one in entries]
        always = _named(always_include)
        _check(names, max_results, tool_name, always)
        _check_flags(accumulate=accumulate, strict=strict)
        made_index = _checked(_index(index, _options(index_options), entries))
        search = _search_tool(tool_name, made_index, names, max_results)
        return search, ToolSearch(name, made, search, frozenset(names) - always, accumulate, strict)


tool_search = MakeToolSearch()


def _listed(tools: Any) -> Sequence[Any]:
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise ConfigurationError(f"tool_search(tools) is a list of tools, not {type(tools).__name__}")
    return tools


def _named(names: Any) -> frozenset[str]:
    if isinstance(names, str):
        raise ConfigurationError(f"tool_search(always_include=...) is a list of names: put {names!r} into brackets")
    named = list(names) if isinstance(names, Iterable) else [names]
    if not all(isinstance(name, str) for name in named):
        raise ConfigurationError(f"tool_search(always_include=...) is a list of names, not {names!r}")
    return frozenset(named)


def _options(options: Any) -> dict[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise ConfigurationError(f"tool_search(index_options=...) is a mapping, not {type(options).__name__}")
    return dict(options or {})


def _check_flags(**flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"tool_search({name}=...) is True or False, not {value!r}")


def _checked(index: Any) -> ToolIndex:
    search = getattr(index, "search", None)
    if not callable(search) or is_async(search):
        told = f"tool_search(index=...): {type(index).__name__} has no def search(query, limit)"
        raise ConfigurationError(told)
    return cast("ToolIndex", index)


def _check(names: Sequence[str], max_results: Any, search_name: Any, always: frozenset[str]) -> None:
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ConfigurationError(f"tool_search(tools): two tools are named {twice[0]!r}")
    if not is_whole(max_results):
        raise ConfigurationError(f"tool_search(max_results=...) is at least 1, not {max_results!r}")
    if not isinstance(search_name, str) or not search_name or search_name in names:
        raise ConfigurationError(f"tool_search(tool_name=...) is a name that no other tool has, not {search_name!r}")
    if not _TAKEN.fullmatch(search_name):
        told = "has 1 to 64 letters, digits, _ and -, as providers refuse other names"
        raise ConfigurationError(f"tool_search(tool_name=...) {told}: not {search_name!r}")
    if unknown := sorted(always.difference(names)):
        raise ConfigurationError(f"tool_search(always_include=...): no tool is named {unknown[0]!r}")


def _index(index: Any, options: dict[str, Any], entries: list[Entry]) -> ToolIndex:
    if hasattr(index, "search") and not isinstance(index, type):
        if options:
            raise ConfigurationError("tool_search(index_options=...) is for an index that is made here")
        return cast("ToolIndex", index)
    make = INDEXES.get(index) if isinstance(index, str) else index
    if not callable(make):
        there = ", ".join(map(repr, INDEXES))
        raise ConfigurationError(f"tool_search(index=...) is one of {there}, a ToolIndex or its class, not {index!r}")
    try:
        inspect.signature(make).bind(entries, **options)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"tool_search(index_options=...): {error}") from None
    return cast("ToolIndex", make(entries, **options))


def _search_tool(name: str, index: ToolIndex, names: Sequence[str], limit: int) -> BaseTool:
    by_spelling = spellings(names)
    known = frozenset(names)

    def search(query: Any = None, **ignored: Any) -> tuple[str, list[str]]:
        if not isinstance(query, str) or not query.strip():
            return "[]", []
        query = query.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a character is none
        hits = [*named_in(query, by_spelling), *(index.search(query, limit) or ())]
        found = [hit for hit in dict.fromkeys(hits) if hit in known][:limit]
        return json.dumps(found, ensure_ascii=False), found

    return StructuredTool(
        name=name,
        description=(
            "Find tools: most are not listed until they are found. Search once for each thing you need to do, several "
            "times in one message if need be. The result is a list of names, the best first; call those that fit in "
            "your next message. An empty list means that no tool fits."
        ),
        args_schema={
            "type": "object",
            "properties": {"query": {"type": "string", "description": getattr(index, "expects", EXPECTS)}},
            "required": ["query"],
        },
        func=search,
        response_format="content_and_artifact",
    )
