"""`tool_search`: which tools a model is shown, which run, and what a thread remembers of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from modes import Drive
from scenes import asks, call, results

from scallion import (
    Agent,
    ChatReply,
    ChatRequest,
    Completed,
    ConfigurationError,
    Filter,
    Paused,
    ToolReply,
    ToolRequest,
    compose,
    filters,
    respond,
)
from scallion.filters.tool_search import advertised, merged, named_in
from scallion.search import Entry, KeywordIndex
from scallion.testing import ScriptedModel
from scallion.tools import ask_human, tool_search

ran: list[str] = []


def refund_order(order: int) -> str:
    """Give the money of an order back."""
    ran.append("refund_order")
    return f"refunded {order}"


@tool
def send_email(to: str) -> str:
    """Write a letter to a customer."""
    ran.append("send_email")
    return f"sent to {to}"


@tool
async def get_weather(city: str) -> str:
    """Tell the forecast."""
    ran.append("get_weather")
    return f"sun in {city}"


TOOLS = [refund_order, send_email, get_weather]


class SlowIndex:
    """An index that would have to be awaited."""

    async def search(self, query: str, limit: int) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def find(query: Any, id: str = "s") -> dict[str, Any]:
    """A call of the search tool."""
    return call("tool_search", id, query=query)


def shown(model: ScriptedModel) -> list[list[str]]:
    """The names of the tools in every call of the model."""
    return [[one["function"]["name"] for one in given.get("tools", ())] for given in model.settings]


def searching(
    *replies: Any, tools: Sequence[Any] = TOOLS, saver: Any = None, **options: Any
) -> tuple[Agent, ScriptedModel]:
    """An agent with tool search, and its model."""
    search_tool, search_filter = tool_search(tools, **options)
    model = ScriptedModel(replies)
    return Agent(model, tools=[*tools, search_tool], filters=[search_filter], checkpointer=saver), model


def test_found_tools_are_shown_and_run(drive: Drive) -> None:
    """At first there is only the search tool; what it names can be called in the next message, in every mode."""
    agent, model = searching(
        asks(find("forecast")), asks(call("get_weather", "w", city="Rome")), asks(find("give money back")), "done"
    )
    result, _ = drive(agent).start("go")
    assert shown(model) == [
        ["tool_search"],
        ["tool_search", "get_weather"],
        ["tool_search", "get_weather"],
        ["tool_search", "get_weather", "refund_order"],
    ]
    assert results(result.messages) == ['["get_weather"]', "sun in Rome", '["refund_order"]']
    assert result.filter_state["tool_search"]["found"]["names"] == ["get_weather", "refund_order"]


def test_a_hidden_tool_runs_all_the_same(drive: Drive) -> None:
    """A model may remember it from a conversation."""
    agent, _ = searching(asks(call("refund_order", order=1)), "done")
    assert results(drive(agent).start("go")[0].messages) == ["refunded 1"]


def test_strict_refuses_what_was_not_found(drive: Drive) -> None:
    """With a result that says so; a search in the same message comes too late."""
    agent, _ = searching(
        asks(call("refund_order", "a", order=1), find("refund order")),
        asks(call("refund_order", "b", order=2), call("send_email", "c", to="bo")),
        "done",
        strict=True,
        always_include=["send_email"],
    )
    result, _ = drive(agent).start("go")
    refused, _, second, mail = results(result.messages)
    assert refused == "not run: refund_order is not one of the tools listed; find it with tool_search first"
    assert (second, mail) == ("refunded 2", "sent to bo")
    assert sorted(ran) == ["refund_order", "send_email"]
    assert [one["status"] for one in result.tool_calls] == ["error", "success", "success", "success"]


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("accumulate", [True, False])
def test_strict_goes_by_what_the_model_was_shown_and_not_by_the_batch(
    drive: Drive, serial: bool, accumulate: bool
) -> None:
    """Where the calls of a message run one after the other too."""
    made = StructuredTool.from_function(refund_order, metadata={"serial": serial})
    agent, _ = searching(
        asks(find("refund order", "a"), call("refund_order", "b", order=1)),
        asks(find("forecast", "c"), call("refund_order", "d", order=2)),
        "done",
        tools=[made, get_weather],
        strict=True,
        accumulate=accumulate,
    )
    _, refused, _, second = results(drive(agent).start("go")[0].messages)
    assert refused.startswith("not run: refund_order is not one of the tools listed")
    assert (second, ran) == ("refunded 2", ["refund_order"])


@pytest.mark.parametrize("accumulate", [True, False])
def test_two_searches_in_one_message_both_count(accumulate: bool, drive: Drive) -> None:
    """Defect 25 of the seeds: without accumulating only the last of them did."""
    agent, model = searching(
        asks(find("refund", "a"), find("letter", "b")), asks(find("forecast")), "done", accumulate=accumulate
    )
    drive(agent).start("go")
    both = ["tool_search", "refund_order", "send_email"]
    assert shown(model)[1:] == [both, [*both, "get_weather"] if accumulate else ["tool_search", "get_weather"]]


def test_what_was_found_last_stays_while_nothing_is_searched() -> None:
    """Also without accumulating, and over other calls."""
    agent, model = searching(asks(find("letter")), asks(call("send_email", to="x")), "done", accumulate=False)
    agent.invoke("go")
    assert shown(model)[1:] == [["tool_search", "send_email"]] * 2


def test_other_tools_are_not_touched() -> None:
    """What was not indexed is shown, provider's tools too, as is what is always included."""
    provider = {"type": "web_search"}
    search_tool, search_filter = tool_search(TOOLS, always_include=["get_weather"])
    model = ScriptedModel(["done"])
    Agent(model, tools=[provider, *TOOLS, search_tool, ask_other()], filters=[search_filter]).invoke("go")
    assert [one if isinstance(one, dict) else one.name for one in model.bound[0]] == [
        provider,
        "get_weather",
        "tool_search",
        "other",
    ]


def ask_other() -> BaseTool:
    """A tool that is not indexed."""
    return StructuredTool.from_function(lambda: "here", name="other", description="Another.")


@pytest.mark.parametrize("given", [[*TOOLS, "search"], TOOLS, [], ["search"]])
def test_tools_may_be_given_once_or_twice(given: list[Any]) -> None:
    """The filter brings them along; a function that was made a tool twice is one tool."""
    search_tool, search_filter = tool_search(TOOLS)
    agent = Agent(
        ScriptedModel([]), tools=[search_tool if one == "search" else one for one in given], filters=[search_filter]
    )
    assert sorted(one.name for one in agent.tools) == ["get_weather", "refund_order", "send_email", "tool_search"]


def test_two_searches_over_the_same_tools() -> None:
    """Each filter brings them along, and each of them counts once."""
    words, by_words = tool_search(TOOLS, always_include=["send_email"])
    patterns, by_patterns = tool_search(
        TOOLS, index="regex", tool_name="grep", name="grep", always_include=["send_email"]
    )
    agent = Agent(ScriptedModel([]), filters=[by_words, by_patterns])
    assert [one.name for one in agent.tools] == ["refund_order", "send_email", "get_weather", words.name, patterns.name]


def test_another_tool_of_the_same_name_is_refused() -> None:
    """It would be found and not be the one that runs."""
    other = StructuredTool.from_function(lambda order: "no", name="refund_order", description="Another.")
    with pytest.raises(ConfigurationError, match="two tools are named 'refund_order'"):
        Agent(ScriptedModel([]), tools=[other], filters=[tool_search(TOOLS)[1]])


def test_a_thread_remembers_over_turns_and_trimming(any_saver: Any) -> None:
    """In the filter's state: the seeds read it from the history, and a window forgot it."""

    def only_last(request: ChatRequest, state: Any, next: Any) -> ChatReply:
        return next(request.replace(messages=request.messages[-1:]))

    search_tool, search_filter = tool_search(TOOLS)
    model = ScriptedModel([asks(find("letter")), "found", "done"])
    window = Filter("window", around_chat=only_last)
    agent = Agent(model, tools=[search_tool], filters=[window, search_filter], checkpointer=any_saver)
    agent.invoke("go", thread="t")
    agent.invoke("again", thread="t")
    assert shown(model)[1:] == [["tool_search", "send_email"]] * 2
    assert [one.text for one in model.calls[2]] == ["again"]


def test_another_thread_knows_nothing_of_it(sql: Any) -> None:
    """Nothing is kept in the filter, which threads share."""
    agent, model = searching(asks(find("letter")), "found", "done", saver=sql)
    agent.invoke("go", thread="t")
    agent.invoke("go", thread="u")
    assert shown(model)[-1] == ["tool_search"]


def test_a_pause_forgets_nothing(drive: Drive, sql: Any) -> None:
    """Another agent, as in another process, goes on with what was found before the pause and beside it."""
    replies = [
        asks(find("letter", "a")),
        asks(find("refund", "b"), call("ask_human", "c", question="Which?")),
        asks(call("refund_order", "d", order=1)),
        "done",
    ]

    def agent(replies: list[Any]) -> tuple[Agent, ScriptedModel]:
        search_tool, search_filter = tool_search(TOOLS, strict=True)
        model = ScriptedModel(replies)
        return Agent(model, tools=[ask_human, search_tool], filters=[search_filter], checkpointer=sql), model

    first, _ = agent(replies[:2])
    paused, _ = drive(first).start("go", thread="t")
    assert isinstance(paused, Paused)
    second, model = agent(replies[2:])
    result, _ = drive(second).resume("t", respond("the last"))
    assert isinstance(result, Completed)
    assert shown(model) == [["ask_human", "tool_search", "send_email", "refund_order"]] * 2
    assert ran == ["refund_order"]


def test_a_tool_that_has_to_be_called_is_shown() -> None:
    """Providers refuse a choice that is not among the tools."""
    _, search_filter = tool_search(TOOLS)
    seen: list[Any] = []

    def model(request: ChatRequest) -> ChatReply:
        seen.extend(one.name for one in request.tools)
        return ChatReply(AIMessage("done"))

    chain = compose([search_filter], "chat", model)
    chain(ChatRequest([HumanMessage("go")], search_filter.tools, tool_choice="send_email"))
    assert seen == ["send_email", "tool_search"]


class Odd:
    """An index as careless as a model."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def search(self, query: str, limit: int) -> Any:
        """Whatever it was made with."""
        return self.answer


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (None, []),
        ([], []),
        (["invented", "send_email", "send_email", "refund_order", "get_weather"], ["send_email", "refund_order"]),
    ],
)
def test_an_index_of_ones_own(answer: Any, found: list[str]) -> None:
    """Unknown names and repeated ones are dropped, and the cap is kept."""
    search_tool, _ = tool_search(TOOLS, index=Odd(answer), max_results=2)
    assert json.loads(search_tool.invoke({"query": "x"})) == found


def test_a_neighbour_fails_on_an_invented_tool() -> None:
    """LangChain's selector, which asks a model, ends the turn with an error where that names what there is not."""
    agents = pytest.importorskip("langchain.agents", reason="needs the langchain extra")
    from langchain.agents.middleware import LLMToolSelectorMiddleware

    chosen = asks(call("ToolSelectionResponse", tools=["invented"]))
    theirs = agents.create_agent(ScriptedModel([chosen, "done"]), TOOLS, middleware=[LLMToolSelectorMiddleware()])
    with pytest.raises(ValueError, match="invalid tools"):
        theirs.invoke({"messages": [HumanMessage("go")]})
    agent, _ = searching(asks(find("letter")), "done", index=Odd(["invented"]))
    assert agent.invoke("go").answer == "done"


def test_a_class_of_indexes() -> None:
    """Is given entries and the options, once."""
    made: list[list[Entry]] = []

    def make(entries: list[Entry], *, k: int) -> KeywordIndex:
        made.append(entries)
        return KeywordIndex(entries, min_score=k)

    search_tool, _ = tool_search(TOOLS, index=make, index_options={"k": 0})
    assert [search_tool.invoke({"query": "letters"}) for _ in range(2)] == ['["send_email"]'] * 2
    assert [[one.name for one in entries] for entries in made] == [["refund_order", "send_email", "get_weather"]]


def test_an_index_that_fails_is_a_result(drive: Drive) -> None:
    """The turn goes on, and nothing is found."""

    class Broken:
        def search(self, query: str, limit: int) -> Any:
            raise TimeoutError

    agent, model = searching(asks(find("letter")), "done", index=Broken())
    result, _ = drive(agent).start("go")
    assert isinstance(result, Completed)
    assert shown(model)[-1] == ["tool_search"]


@pytest.mark.parametrize("query", [None, "", "  ", 3, ["letter"]])
def test_a_query_that_is_none(query: Any) -> None:
    """Finds nothing, as does a call without one; what else a model adds is ignored."""
    search_tool, _ = tool_search(TOOLS)
    assert search_tool.invoke({"query": query}) == search_tool.invoke({}) == "[]"
    assert asyncio.run(search_tool.ainvoke({"query": "letter", "limit": 3})) == '["send_email"]'


@pytest.mark.parametrize("index", ["keyword", "regex", "hybrid", "vector"])
def test_an_exact_name_wins(index: str) -> None:
    """Over whatever the index likes better; an identifier in a sentence does too, a plain word does not."""
    names = ["send", "send_email_later", "send_email", "email"]
    tools = [
        StructuredTool.from_function(lambda: "", name=name, description="Send, send, send email.") for name in names
    ]
    search_tool, _ = tool_search(tools, index=index, max_results=2)

    def first(query: str) -> str:
        return json.loads(search_tool.invoke({"query": query}))[0]

    for name in names:
        assert first(name) == first(name.upper()) == first(f"`{name}`") == name
    assert first("I need send_email_later, please") == "send_email_later"
    assert named_in("send an email", {name: name for name in names}) == []


def test_a_regex_tool_says_what_it_expects() -> None:
    """And an invalid expression does no harm."""
    search_tool, _ = tool_search(TOOLS, index="regex")
    assert "regular expression" in search_tool.args["query"]["description"]
    assert search_tool.invoke({"query": "refund|weather"}) == '["get_weather", "refund_order"]'
    assert search_tool.invoke({"query": "(["}) == "[]"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"index": "fuzzy"}, "'keyword', 'regex', 'vector', 'hybrid'"),
        ({"index": 3}, "not 3"),
        ({"index_options": {"k1": 2}}, "index_options.*k1"),
        ({"index_options": {"min_score": "0.1"}}, "min_score of a tool index is a number, not '0.1'"),
        ({"index": "hybrid", "index_options": {"min_words": None}}, "min_words of a tool index is a number"),
        ({"index": "vector", "index_options": {"embeddings": "small"}}, "Embeddings, not str"),
        ({"index": Odd([]), "index_options": {"k1": 2}}, "index_options"),
        ({"max_results": 0}, "at least 1, not 0"),
        ({"max_results": "5"}, "at least 1"),
        ({"tool_name": "send_email"}, "a name that no other tool has, not 'send_email'"),
        ({"tool_name": ""}, "a name"),
        (
            {"tool_name": "find a tool"},
            "has 1 to 64 letters, digits, _ and -, as providers refuse other names: not 'find",
        ),
        ({"tool_name": "x" * 65}, "has 1 to 64 letters"),
        ({"always_include": ["send_mail"]}, "no tool is named 'send_mail'"),
        ({"always_include": "send_email"}, "into brackets"),
        ({"tools": [*TOOLS, send_email]}, "two tools are named 'send_email'"),
        ({"tools": "send_email"}, "a list of tools"),
        ({"max_results": True}, "at least 1, not True"),
        ({"index_options": 5}, "a mapping, not int"),
        ({"always_include": 5}, "a list of names, not 5"),
        ({"always_include": [[1]]}, "a list of names"),
        ({"index": 5}, "not 5"),
        ({"index": lambda entries: 5}, "int has no def search"),
        ({"index": SlowIndex()}, "SlowIndex has no def search"),
        ({"strict": "no"}, r"strict=...\) is True or False, not 'no'"),
        ({"accumulate": 1}, "is True or False"),
        ({"tools": [3]}, r"tools\[0\] is not a tool but int"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], told: str) -> None:
    """Where they are given."""
    with pytest.raises(ConfigurationError, match=told):
        tool_search(**{"tools": TOOLS, **options})


def test_of_names_that_differ_in_case_only_the_exact_one_is_meant() -> None:
    made = [StructuredTool.from_function(refund_order, name=name) for name in ("getUser", "getuser", "GETUSER")]
    search_tool, _ = tool_search(made, max_results=1)
    for asked, found in [*((one.name, one.name) for one in made), ("GetUser", "getuser")]:
        assert json.loads(search_tool.invoke({"query": asked})) == [found]


def test_a_tool_whose_parameters_have_no_schema_is_found_by_its_description() -> None:
    def odd(function: Callable[[int], int]) -> None:
        """Map the numbers."""

    search_tool, _ = tool_search([StructuredTool.from_function(odd), get_weather])
    assert json.loads(search_tool.invoke({"query": "map numbers"})) == ["odd"]


@pytest.mark.parametrize("index", ["keyword", "regex", "vector", "hybrid"])
def test_half_a_character_in_a_query_is_no_failure(index: str) -> None:
    search_tool, _ = tool_search(TOOLS, index=index)
    assert isinstance(json.loads(search_tool.invoke({"query": "forecast \ud800"})), list)


def test_nothing_is_put_into_the_system_prompt() -> None:
    """There is a text for it, and it is the caller's to use."""
    agent, model = searching("done")
    agent.invoke("go")
    assert [one.type for one in model.calls[0]] == ["human"]
    assert "tool_search" in tool_search.suggested_prompt
    assert filters.tool_search is tool_search


LETTERS = [StructuredTool.from_function(lambda: "", name=name, description="d") for name in "xabycdefghz"]
NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(rounds=st.lists(st.lists(NAMES, max_size=3), max_size=5))
def test_what_was_shown_stays_in_front(rounds: list[list[list[str]]]) -> None:
    """The tools of each call begin with those of the call before: a provider's cache of the prompt holds."""
    found: Any = {"round": 0, "names": []}
    before: list[Any] = []
    for searches in rounds:
        for names in searches:
            found = merged(found, {"round": 0, "names": names})
        now = advertised(LETTERS, frozenset("abcdefgh"), found["names"])
        assert now[: len(before)] == (before or now[:0])
        assert {one.name for one in now} == {*"xyz", *found["names"]}
        before = now


def test_the_same_find_in_another_order_is_the_same_prompt() -> None:
    """The tools of one search are shown in the order in which they were registered."""
    shown_: list[list[str]] = []
    for query in ("refund_order send_email", "send_email refund_order"):
        agent, model = searching(asks(find(query)), "done")
        agent.invoke("go")
        shown_.append(shown(model)[-1])
    assert shown_ == [["tool_search", "refund_order", "send_email"]] * 2


def test_what_a_person_or_a_filter_answers_counts() -> None:
    """A result without an artifact is read; one that is no list of names finds nothing."""
    _, search_filter = tool_search(TOOLS)
    for text, found in (('["send_email", 3, "invented"]', ["send_email"]), ("none", []), ("3", [])):

        def answer(request: Any, text: str = text) -> Any:
            return ToolReply(ToolMessage(text, tool_call_id="s", name="tool_search"))

        chain = compose([search_filter], "tool", answer)
        chain(ToolRequest(find("x")))
        assert chain.filter_state["tool_search"]["found"]["names"] == found
