"""The research assistant as it is loaded by path: two hundred tools, of which the model sees few."""

import json
from pathlib import Path
from types import ModuleType

import pytest
from langchain_core.messages import AIMessage
from tests.graphs.test_refund_desk import load

from library.holdings import KINDS
from library.tools import tools
from scallion import Agent, Completed
from scallion.testing import ScriptedModel
from scallion.tools import tool_search

ROOT = Path(__file__).parents[2]
TOOLS = tools()


@pytest.fixture
def assistant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Its module, with a database of the test's own."""
    monkeypatch.delenv("SCALLION_MODEL", raising=False)
    monkeypatch.setenv("SCALLION_DB", f"sqlite:///{tmp_path / 'scallion.db'}")
    return load(ROOT / "graphs" / "research_assistant.py")


def called(result: Completed) -> list[str]:
    """The names of the tools that ran, in order."""
    return [one["name"] for one in result.tool_calls]


def test_there_are_two_hundred(assistant: ModuleType) -> None:
    """All registered, with the search tool."""
    assert len(TOOLS) == len({one.name for one in TOOLS}) == 200
    assert len(assistant.agent.tools) == 201


def test_two_things_at_once(assistant: ModuleType) -> None:
    """Two searches in one message, then both tools that they found."""
    question = "Describe the volcano Vesuvius; compare the bridges Brooklyn Bridge and Golden Gate Bridge"
    result = assistant.agent.invoke(question, thread="t")
    assert called(result) == [
        "tool_search",
        "tool_search",
        "describe_volcano",
        "compare_bridges",
    ]
    assert "buried Pompeii" in result.answer
    assert "Brooklyn Bridge is 54 years older than Golden Gate Bridge" in result.answer
    assert "offline scripted model" in result.answer


@pytest.mark.parametrize(
    ("question", "tool", "told"),
    [
        ("What is the newest film?", "newest_film", "Spirited Away (2001)"),
        ("How many vaccines do you have, count them", "count_vaccines", "3 vaccines"),
        ("Give me a timeline of the treaties since 1900", "timeline_of_treaties", "Antarctic Treaty (1959)"),
        ("Find a drug against diabetes", "find_drugs", "Insulin"),
        ("Cite the paper A Mathematical Theory of Communication", "cite_paper", "Theory of Communication. In:"),
        ("In what year was the programming language Fortran made, the date?", "date_programming_language", "1957"),
        ("Describe the volcano Etna", "describe_volcano", "no volcano 'Describe the volcano Etna'; there are Vesuvius"),
    ],
)
def test_a_question_finds_its_tool(assistant: ModuleType, question: str, tool: str, told: str) -> None:
    """Among two hundred, by its words."""
    result = assistant.agent.invoke(question, thread="t")
    assert called(result) == ["tool_search", tool]
    assert told in result.answer


def test_nothing_fits(assistant: ModuleType) -> None:
    """And no tool is called for it."""
    result = assistant.agent.invoke("Knit me a woollen pullover", thread="t")
    assert called(result) == ["tool_search"]
    assert result.answer.startswith("I have no tool for that: Knit me")


def test_another_process_knows_what_was_found(assistant: ModuleType) -> None:
    """The thread keeps it, not the agent."""
    assistant.agent.invoke("Describe the volcano Krakatoa", thread="t")
    second = load(ROOT / "graphs" / "research_assistant.py")
    result = second.agent.invoke("Which is the newest planet?", thread="t")
    assert isinstance(result, Completed)
    found = result.filter_state["tool_search"]["found"]["names"]
    assert {"describe_volcano", "newest_planet"} <= set(found)
    assert len(found) == 6


def test_the_schemas_of_few_are_sent() -> None:
    """Less than a twentieth of what all of them take, in the call that has most."""
    search_tool, search_filter = tool_search(TOOLS, max_results=3)
    call = {"name": search_tool.name, "args": {"query": "compare two bridges"}, "id": "c"}
    sizes = []
    for given in ({"tools": TOOLS}, {"filters": [search_filter]}):
        model = ScriptedModel([AIMessage("", tool_calls=[call]), "done"])
        Agent(model, **given).invoke("go")
        sizes.append(max(len(json.dumps(one["tools"])) for one in model.settings))
    assert sizes[1] < sizes[0] / 20


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.one)
def test_every_tool_works(kind) -> None:
    """On what the library holds."""
    by_name = {one.name: one for one in TOOLS}
    first, last = kind.things[0], kind.things[-1]
    for verb in ("describe", "date", "cite"):
        assert str(first.year) in by_name[f"{verb}_{kind.one}"].invoke({"name": first.name})
    assert last.name in by_name[f"find_{kind.many}"].invoke({"words": last.fact})
    assert "older" in by_name[f"compare_{kind.many}"].invoke({"first": last.name, "second": first.name})
    assert by_name[f"count_{kind.many}"].invoke({}).startswith(f"{len(kind.things)} ")
    assert last.name in by_name[f"newest_{kind.one}"].invoke({})
    assert first.name not in by_name[f"timeline_of_{kind.many}"].invoke({"since": first.year + 1})
