"""A graph as a picture: laid out without a network, and drawn here, so that only shapes and texts are in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import hypot
from typing import TYPE_CHECKING, Any, Literal

from scallion.inspect.bounds import short
from scallion.inspect.escape import one_line
from scallion.inspect.html.markup import Markup, tag
from scallion.inspect.layout import Box, Edge, Layout, Path, Point, laid_out

if TYPE_CHECKING:
    from scallion.tracing import Span, Trace

START, END = "__start__", "__end__"
NODE_OF = {"model": "chat", "around_chat": "chat", "tool": "tool", "around_tool": "tool"}
"""Which node of an agent's loop makes a span, by its kind or the hook of a layer."""
MOST = 200
"""Nodes; a larger graph is shown as text."""
NAME = 40
"""Characters of a node's name."""
FONT = 15
SCALE = 0.8
ARROW = (9.0, 4.0)
"""Its length, and half of its width."""


def graph_svg(agent_or_graph: Any, trace: Trace | None = None) -> str:
    """The graph of an agent, or any compiled LangGraph graph, as inline SVG; with a trace, the way that its run took.

    Needs `scallion[notebook]`, and no network. Without it, or where the graph is too large, what is returned is its
    mermaid text in a `<pre>`. Any number of pictures may stand on one page: there are no ids in them. Raises TypeError
    for something that is no graph.
    """
    found = getattr(agent_or_graph, "graph", agent_or_graph)
    if not hasattr(found, "get_graph"):
        raise TypeError(f"{type(agent_or_graph).__name__} is neither an agent nor a compiled graph")
    drawable = found.get_graph()
    names = list(drawable.nodes)
    went = way(trace) if trace is not None else []
    ran, edges = Counter(went), list(_edges(drawable, names))
    labels = [_label(name, ran[name]) for name in names]
    layout = laid_out(labels, edges) if len(names) <= MOST else None
    if layout is None:
        return tag("pre", drawable.draw_mermaid(), cls="code", tabindex="0")
    taken = {(names.index(one), names.index(other)) for one, other in pairwise(went) if {one, other} <= {*names}}
    return _drawn(layout, labels, edges, [ran[name] > 0 for name in names], taken)


def way(trace: Trace) -> list[str]:
    """The nodes that the turn came by, in order, as far as its trace tells: each call of a batch is one.

    What is done again within a node, as by a retry, is one; a node that paused comes again when it goes on.
    """
    found, attempt = [START], ""
    for kind, name in _visits([span for part in trace.parts for span in part.spans]):
        if kind == "node":
            found.append(name)
        elif attempt not in ("", name):
            found += [END, START]  # the loop had come to its end, and is entered again
        attempt = name if kind == "attempt" else attempt
    return [*found, *([END] if trace.parts and trace.status == "completed" else [])]


def _visits(spans: Sequence[Span]) -> Iterator[tuple[Literal["node", "attempt"], str]]:
    for one in spans:
        if node := NODE_OF.get(one.hook or one.kind):
            yield "node", node
            continue
        if one.kind == "attempt":
            yield "attempt", one.name
        yield from _visits(one.inside)


def _edges(drawable: Any, names: Sequence[str]) -> Iterator[Edge]:
    number = {name: place for place, name in enumerate(names)}
    for one in drawable.edges:
        label = "" if one.data is None else short(one_line(str(one.data)), NAME)
        yield Edge(number[one.source], number[one.target], bool(one.conditional), label)


def _label(name: str, times: int) -> str:
    told = short(one_line(name.strip("_") if name in (START, END) else name), NAME)
    return f"{told} ×{times}" if times and name not in (START, END) else told


def _drawn(
    layout: Layout, labels: Sequence[str], edges: Sequence[Edge], ran: Sequence[bool], taken: set[tuple[int, int]]
) -> Markup:
    marked = [label for label, did in zip(labels, ran, strict=True) if did]
    told = f"graph with the nodes {', '.join(labels)}" + (f"; ran: {', '.join(marked)}" if marked else "")
    paths = zip(edges, layout.paths, strict=True)
    return tag(
        "svg",
        tag("title", told),
        (_edge(one, path, (one.source, one.target) in taken) for one, path in paths),
        (_node(label, box, did) for label, box, did in zip(labels, layout.boxes, ran, strict=True)),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=" ".join(f"{one:g}" for one in layout.view),
        width=f"{layout.view[2] * SCALE:.0f}",
        height=f"{layout.view[3] * SCALE:.0f}",
        role="img",
        aria_label=told,
        cls="graph",
    )


def _node(label: str, box: Box, ran: bool) -> Markup:
    shape = tag(
        "rect",
        x=f"{box.x - box.width / 2:g}",
        y=f"{box.y - box.height / 2:g}",
        width=f"{box.width:g}",
        height=f"{box.height:g}",
        rx=8,
        fill="currentColor",
        fill_opacity=0.12 if ran else 0.02,
        stroke="currentColor",
        stroke_width=2 if ran else 1,
    )
    return tag("g", shape, _words(label, (box.x, box.y)), cls="node ran" if ran else "node")


def _edge(edge: Edge, path: Path, taken: bool) -> Markup:
    line = tag(
        "path",
        d=path.d,
        fill="none",
        stroke="currentColor",
        stroke_width=2 if taken else 1,
        stroke_dasharray="4 3" if edge.conditional and not taken else None,
    )
    arrow = tag("polygon", points=_arrow(path.points[-2], path.points[-1]), fill="currentColor")
    label = _words(edge.label, path.label) if path.label else None
    return tag("g", line, arrow, label, cls="edge ran" if taken else "edge")


def _words(words: str, at: Point) -> Markup:
    place = {"x": f"{at[0]:g}", "y": f"{at[1]:g}"}
    return tag(
        "text",
        words,
        **place,
        text_anchor="middle",
        dominant_baseline="central",
        font_size=FONT,
        fill="currentColor",
    )


def _arrow(before: Point, tip: Point) -> str:
    """The corners of an arrow's head."""
    length = hypot(tip[0] - before[0], tip[1] - before[1]) or 1.0
    x, y = (tip[0] - before[0]) / length, (tip[1] - before[1]) / length
    back = (tip[0] - x * ARROW[0], tip[1] - y * ARROW[0])
    corners = (tip, (back[0] - y * ARROW[1], back[1] + x * ARROW[1]), (back[0] + y * ARROW[1], back[1] - x * ARROW[1]))
    return " ".join(f"{one:.2f},{other:.2f}" for one, other in corners)
