"""Where the nodes and edges of a graph lie: asked of mmdr, which is given no name of anybody, only how wide it is."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

STEP = re.compile(r"[MLQCAHVZ0-9eE.,\-\s]+")
PLACE = re.compile(r"translate\(\s*(-?[\d.]+)[,\s]+(-?[\d.]+)\s*\)")
SETTINGS = (
    "---\nconfig:\n  flowchart:\n    curve: basis\n    nodeSpacing: 40\n    rankSpacing: 40\n    padding: 10\n---"
)
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two nodes, by their numbers; `label` is what its condition is called."""

    source: int
    target: int
    conditional: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A node as it is laid out: its middle and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Path:
    """An edge as it is laid out: its path, the points that it goes by, and the middle of its label."""

    d: str
    points: Sequence[Point]
    label: Point | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The boxes of the nodes and the paths of the edges, in their order, and the `viewBox` around them."""

    boxes: Sequence[Box]
    paths: Sequence[Path]
    view: tuple[float, float, float, float]


def laid_out(labels: Sequence[str], edges: Sequence[Edge]) -> Layout | None:
    """The layout; None without the library, or where its picture is not understood."""
    try:
        import mmdr
    except ImportError:
        return None
    try:
        root = ElementTree.fromstring(mmdr.render(_mermaid(labels, edges)).svg())
        left, top, width, height = map(float, root.attrib["viewBox"].split())
        boxes = [_box(root, number) for number in range(len(labels))]
        return Layout(boxes, list(_paths(root, edges)), (left, top, width, height))
    except (ElementTree.ParseError, KeyError, ValueError, TypeError, StopIteration):
        return None


def _mermaid(labels: Sequence[str], edges: Sequence[Edge]) -> str:
    lines = [SETTINGS, "graph TD"]
    lines += [f"n{number}({_as_wide(label)})" for number, label in enumerate(labels)]
    for one in edges:
        arrow = "-.->" if one.conditional else "-->"
        label = f'|"{_as_wide(one.label)}"|' if one.label else ""
        lines.append(f"n{one.source} {arrow}{label} n{one.target}")
    return "\n".join(lines)


def _as_wide(words: str) -> str:
    return "n" * max(len(words), 1)


def _box(root: ElementTree.Element, number: int) -> Box:
    found = next(one for one in root.iter() if re.fullmatch(rf"\w+-flowchart-n{number}-\d+", one.get("id", "")))
    place = PLACE.fullmatch(found.get("transform", ""))
    shape = next(one for one in found.iter() if one.tag.endswith("rect") and one.get("width"))
    if place is None:
        raise ValueError("a node without a place")
    return Box(float(place[1]), float(place[2]), float(shape.attrib["width"]), float(shape.attrib["height"]))


def _paths(root: ElementTree.Element, edges: Sequence[Edge]) -> Iterator[Path]:
    drawn = {one.attrib["data-id"]: one for one in root.iter() if one.get("data-edge")}
    seen: Counter[tuple[int, int]] = Counter()
    for one in edges:
        id = f"L_n{one.source}_n{one.target}_{seen[one.source, one.target]}"
        seen[one.source, one.target] += 1
        points = [(float(p["x"]), float(p["y"])) for p in json.loads(b64decode(drawn[id].attrib["data-points"]))]
        if not STEP.fullmatch(drawn[id].attrib["d"]) or len(points) < 2:
            raise ValueError("a path that is none")
        yield Path(drawn[id].attrib["d"], points, _label_place(root, id) if one.label else None)


def _label_place(root: ElementTree.Element, id: str) -> Point | None:
    for one in root.iter():
        if one.get("class") == "edgeLabel" and any(inner.get("data-id") == id for inner in one):
            place = PLACE.fullmatch(one.get("transform", ""))
            return (float(place[1]), float(place[2])) if place else None
    return None
