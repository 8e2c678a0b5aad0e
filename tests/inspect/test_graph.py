"""Graphs as inline SVG: of agents and of any graph, with the way of a run, and as text without the library."""

from __future__ import annotations

import re
import sys
from typing import Any, TypedDict
from xml.etree import ElementTree

import pytest
from langgraph.graph import END, START, StateGraph
from tests.inspect.scenery import BEGAN, refund_trace
from tests.inspect.test_escaping import HOSTILE
from tests.inspect.wellformed import read

from scallion import Agent, filters
from scallion.inspect import graph_svg
from scallion.inspect.graph import way
from scallion.testing import ScriptedModel
from scallion.tracing import Part, Span, Trace


class State(TypedDict):
    """Of a graph of somebody else."""

    x: int


def foreign(*names: str) -> Any:
    """A chain of nodes, and a way back with a condition that has a name."""
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, lambda state: state)
    for one, other in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(one, other)
    graph.add_conditional_edges(names[-1], lambda state: "again", {"again": names[0], "done": END})
    return graph.compile()


def agent() -> Agent:
    """The graph of every agent is the same."""
    return Agent(ScriptedModel([]), tools=[], filters=[filters.retry_model()])


def words(svg: str) -> list[str]:
    """The labels in order."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_of_an_agent() -> None:
    """Its nodes and edges, as XML that a file may hold too."""
    svg = graph_svg(agent())
    assert words(svg) == ["start", "chat", "tool", "end"]
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.count("<polygon") == svg.count("<path") == 5
    assert 'aria-label="graph with the nodes start, chat, tool, end"' in svg
    assert agent().graph.get_graph().draw_mermaid().count("-->") + svg.count("stroke-dasharray") == 5


def test_the_way_of_a_run() -> None:
    """The nodes that ran and how often, and the edges between them: a retry is no way of the graph."""
    svg = graph_svg(agent(), refund_trace())
    assert words(svg) == ["start", "chat ×2", "tool ×2", "end"]
    assert svg.count("sca-node sca-ran") == 4
    assert svg.count("sca-edge sca-ran") == 4
    assert "; ran: start, chat ×2, tool ×2, end" in svg
    paused = Trace(
        "t", "x", [Part(BEGAN, 1.0, "paused", [Span("model", "m", 0, 1), Span("tool", "t", 1, 0, "paused")])]
    )
    assert way(paused) == ["__start__", "chat", "tool"]
    again = Trace("t", "x", [Part(BEGAN, 1.0, "completed", [
        Span("layer", "validate", 0, 1, hook="around_turn", calls=2, inside=[
            Span("attempt", str(n), 0, 1, inside=[Span("model", "m", 0, 1)]) for n in (1, 2)
        ])
    ])])  # fmt: skip
    assert way(again) == ["__start__", "chat", "__end__", "__start__", "chat", "__end__"]
    svg = graph_svg(agent(), paused)
    assert words(svg) == ["start", "chat ×1", "tool ×1", "end"]
    assert svg.count("sca-edge sca-ran") == 2


def test_of_any_graph() -> None:
    """With the names of conditions; a trace that is not of it marks nothing but the start."""
    svg = graph_svg(foreign("plan", "act"), refund_trace())
    assert sorted(words(svg)[:2]) == ["again", "done"]
    assert words(svg)[2:] == ["start", "plan", "act", "end"]
    assert svg.count("sca-edge sca-ran") == 0


def test_edges_that_cross() -> None:
    """Each with each of the next row: a picture too."""
    graph = StateGraph(State)
    for name in "abcdef":
        graph.add_node(name, lambda state: state)
    for one in "abc":
        graph.add_edge(START, one)
        for other in "def":
            graph.add_edge(one, other)
    for one in "def":
        graph.add_edge(one, END)
    svg = graph_svg(graph.compile())
    assert words(svg) == ["start", *"abcdef", "end"]
    assert svg.count("<polygon") == svg.count("<path") == 15
    assert re.search(r'<path d="[^"]*A', svg), "no edges cross: draw others"


def test_agents_that_hand_over_to_each_other() -> None:
    graph = StateGraph(State)
    for name in "abcd":
        graph.add_node(name, lambda state: state)
        graph.add_conditional_edges(name, lambda state: END, [*({*"abcd"} - {name}), END])
    graph.add_edge(START, "a")
    svg = graph_svg(graph.compile())
    assert words(svg) == ["start", *"abcd", "end"]
    assert svg.count("<polygon") == svg.count("<path") == 17


def test_two_on_a_page() -> None:
    """There is nothing in them that could clash, be fetched, or run."""
    svg = graph_svg(agent(), refund_trace())
    page = read(f'<div class="scallion">{svg}{svg}</div>')
    assert not {"id", "href", "style"} & {name for _, attributes in page.elements for name in attributes}
    assert "url(" not in svg
    assert len(svg) < 6000


@pytest.mark.parametrize("name", [one for one in HOSTILE if not re.search(r"[\ud800-\udfff:|]", one)])
def test_hostile_names(name: str) -> None:
    """Names of nodes are given to nobody who draws; they are labels and nothing else."""
    svg = graph_svg(foreign(name, f"{name} 2"))
    page = read(svg)
    assert page.elements[0][0] == "svg"
    assert len(words(svg)) == 6


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mermaid text of LangGraph, as text."""
    monkeypatch.setitem(sys.modules, "mmdr", None)
    page = read(graph_svg(foreign("<b>", "act")))
    assert page.elements[0][0] == "pre"
    assert page.texts[0].startswith("---\nconfig:")


def test_a_picture_that_is_not_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another release of the library may draw it: text again, no half of a picture."""
    import mmdr

    for other in (
        "<svg",
        "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "<svg viewBox='0 0 1 1'><g id='m-flowchart-n0-0'/></svg>",
    ):
        monkeypatch.setattr(
            mmdr, "render", lambda source, other=other: type("Drawn", (), {"svg": lambda self: other})()
        )
        assert graph_svg(agent()).startswith("<pre")


def test_a_large_graph_is_text() -> None:
    """Nobody could read the picture."""
    assert graph_svg(foreign(*(f"n{number}" for number in range(210)))).startswith("<pre")


def test_what_is_no_graph() -> None:
    """It says so."""
    with pytest.raises(TypeError, match="str is neither an agent nor a compiled graph"):
        graph_svg("secret")
