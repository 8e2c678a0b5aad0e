"""An agent: the onion as boxes in boxes, its tools, its limits, its graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scallion.inspect.bounds import Bounds, short
from scallion.inspect.figures import count
from scallion.inspect.graph import graph_svg
from scallion.inspect.html.markup import Markup, join, tag
from scallion.inspect.html.pieces import badge, facts, folded, header, more
from scallion.inspect.reading import Tool, limits, tools

DESCRIPTION = 160
"""Characters of what a tool says of itself."""


def agent(one: Any, bounds: Bounds) -> Markup:
    """The agent with its layers from the outside in."""
    layers = one.layers
    inner = tag(
        "div",
        _onion("chat", layers["chat"], _core("model"), bounds),
        _onion("tool", layers["tool"], _core("tool"), bounds),
        cls="loop",
    )
    loop = tag("div", tag("p", "loop", cls="caption"), inner, cls="ring core")
    keeps = "keeps its threads" if one.checkpointer is not None else "keeps nothing"
    return tag(
        "section",
        header("Agent", tag("code", one.name), facts([count(len(one.filters), "filter"), keeps])),
        _onion("turn", layers["turn"], loop, bounds),
        _tools(one, bounds),
        tag("p", "limits of a turn: ", ", ".join(limits(one)), cls="small") if limits(one) else None,
        folded("graph", graph_svg(one)),
        cls="agent",
        aria_label="agent",
    )


def _core(name: str) -> Markup:
    return tag("div", name, cls="ring core")


def _onion(chain: str, names: Sequence[str], inside: Markup, bounds: Bounds) -> Markup:
    """The layers of a chain around what is inside of them; where there are many, the inner ones share a box."""
    shown, rest = names[: bounds.layers], names[bounds.layers :]
    if rest:
        inside = _ring(f"{count(len(rest), 'more layer')}: {short(', '.join(rest), 200)}", inside)
    for name in reversed(shown):
        inside = _ring(name, inside)
    label = f"around the {chain}" if names else f"nothing around the {chain}"
    return tag("div", tag("p", label, cls="caption"), inside, cls="chain")


def _ring(name: str, inside: Markup) -> Markup:
    return tag("div", tag("p", name, cls="layer-name"), inside, cls="ring")


def _tools(one: Any, bounds: Bounds) -> Markup | None:
    found = list(tools(one))
    shown = found[: bounds.items]
    drawn = join(tag("ul", map(_tool, shown), cls="tools"), more(len(found) - len(shown), "tool"))
    return folded(count(len(found), "tool"), drawn, is_open=len(found) <= 8) if found else None


def _tool(one: Tool) -> Markup:
    told = short(one.description, DESCRIPTION)
    return tag("li", tag("code", one.name, cls="call-name"), " ", told, map(badge, one.marks))
