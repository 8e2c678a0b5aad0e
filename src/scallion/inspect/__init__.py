"""Looking at values: pictures for notebooks, lines for terminals, from one reading of the data.

`to_html(value)` and `to_text(value)` draw what has a picture in a notebook; `timeline(trace)` is for rich;
`graph_svg(agent_or_graph, trace=None)` is the picture of a graph.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scallion.inspect.drawing import mimebundle, to_html, to_text
    from scallion.inspect.graph import graph_svg
    from scallion.inspect.terminal import timeline

_HOMES = {
    "graph_svg": "graph",
    "mimebundle": "drawing",
    "timeline": "terminal",
    "to_html": "drawing",
    "to_text": "drawing",
}

__all__ = ["graph_svg", "mimebundle", "timeline", "to_html", "to_text"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'scallion.inspect' has no attribute {name!r}")
    return getattr(import_module(f"scallion.inspect.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
