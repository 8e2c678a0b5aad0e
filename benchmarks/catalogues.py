"""Catalogues of tools, and requests with the tools that are right for them, from the folder `shared`."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scallion.search import Entry, HybridIndex, KeywordIndex, ToolIndex, VectorIndex, entry

SHARED = Path(__file__).parents[2] / "shared" / "data"
REQUESTS = SHARED / "vectors" / "toolsearch_eval.jsonl"
TOOLS = SHARED / "tool-catalogs"
BFCL = TOOLS / "BFCL" / "berkeley-function-call-leaderboard" / "bfcl_eval" / "data"
Tool = dict[str, Any]


class PlainIndex:
    """The neighbour's way: BM25 (1.5 and 0.75) over lower-cased words between spaces, as rank-bm25's examples do it."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        texts = {one.name: Counter(f"{one.name} {one.description}".lower().split()) for one in entries}
        holders = Counter(word for text in texts.values() for word in text)
        mean = sum(text.total() for text in texts.values()) / len(texts)
        self._gains: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for name, text in texts.items():
            for word, count in text.items():
                rarity = math.log(1 + (len(texts) - holders[word] + 0.5) / (holders[word] + 0.5))
                slowness = 1.5 * (0.25 + 0.75 * text.total() / mean)
                self._gains[word].append((name, rarity * count * 2.5 / (count + slowness)))

    def search(self, query: str, limit: int) -> Sequence[str]:
        """The best, whatever their scores."""
        scores: dict[str, float] = defaultdict(float)
        for word in query.lower().split():
            for name, gain in self._gains.get(word, ()):
                scores[name] += gain
        return sorted(scores, key=lambda name: (-scores[name], name))[:limit]


INDEXES: dict[str, Callable[[Iterable[Entry]], ToolIndex]] = {
    "plain BM25": PlainIndex,
    "keyword": KeywordIndex,
    "vector": VectorIndex,
    "hybrid": HybridIndex,
}


@dataclass(frozen=True)
class Catalogue:
    """Tools by name as they were published, and requests with the names of the tools that they need."""

    tools: dict[str, Tool]
    requests: Sequence[tuple[str, frozenset[str]]]

    @property
    def entries(self) -> list[Entry]:
        """What an index knows of them."""
        return [found for tool in self.tools.values() if (found := entry(tool)) is not None]

    def found(self, index: ToolIndex, limit: int = 10) -> list[Sequence[str]]:
        """What the index finds for each request."""
        return [index.search(query, limit) for query, _ in self.requests]

    def recall(self, found: Sequence[Sequence[str]], limit: int) -> float:
        """The share of the right tools among the first `limit`, the mean over the requests."""
        shares = [
            len(right.intersection(names[:limit])) / len(right)
            for names, (_, right) in zip(found, self.requests, strict=True)
        ]
        return sum(shares) / len(shares)

    def saved(self, found: Sequence[Sequence[str]], search_tool: Tool, limit: int = 5) -> float:
        """The share of the schemas' characters that is not sent: the search tool and what was found, not all tools."""
        sizes = {name: len(json.dumps(tool, ensure_ascii=False)) for name, tool in self.tools.items()}
        own = len(json.dumps(search_tool))
        sent = sum(own + sum(sizes[name] for name in names[:limit]) for names in found) / len(found)
        return 1 - sent / sum(sizes.values())


@cache
def catalogue(name: str) -> Catalogue:
    """The catalogue of that name; of tools that share a name, the first."""
    tools: dict[str, Tool] = {}
    for tool in CATALOGUES[name]():
        tools.setdefault(tool["name"], tool)
    rows = [json.loads(line) for line in REQUESTS.read_text().splitlines()]
    return Catalogue(tools, [(row["query"], frozenset(row["gold"])) for row in rows if row["catalog"] == name])


@cache
def without_tool() -> list[tuple[str, list[Entry]]]:
    """Requests, each with tools of which none fits."""
    rows = [json.loads(line) for line in (BFCL / "BFCL_v4_irrelevance.json").read_text().splitlines()]
    return [(row["question"][0][-1]["content"], [one for f in row["function"] if (one := entry(f))]) for row in rows]


def nothing_fits(make: Callable[[Iterable[Entry]], ToolIndex]) -> float:
    """The share of the requests without a tool for which such an index finds none."""
    answers = [make(tools).search(query, 5) for query, tools in without_tool()]
    return sum(not found for found in answers) / len(answers)


def _live() -> list[Tool]:
    servers = json.loads((TOOLS / "LiveMCPBench/tools/LiveMCPTool/tools.json").read_text())
    return [tool for server in servers for part in server["tools"].values() for tool in part["tools"]]


def _meta() -> list[Tool]:
    told = json.loads((TOOLS / "MetaTool/dataset/plugin_des.json").read_text())
    return [{"name": name, "description": description} for name, description in told.items()]


def _seal() -> list[Tool]:
    lines = (TOOLS / "Seal-Tools/Seal-Tools_Dataset/tool.jsonl").read_text().splitlines()
    return [
        {
            "name": tool["api_name"],
            "description": tool["api_description"],
            "parameters": {"type": "object", "properties": tool["parameters"]},
        }
        for tool in map(json.loads, lines)
    ]


def _bfcl() -> list[Tool]:
    files = [path for path in sorted(BFCL.glob("BFCL*.json")) if "irrelevance" not in path.name]
    lines = [line for path in files for line in path.read_text().splitlines()]
    return [tool for line in lines for tool in json.loads(line).get("function", ())]


CATALOGUES: dict[str, Callable[[], list[Tool]]] = {
    "LiveMCPBench": _live,
    "MetaTool": _meta,
    "Seal-Tools": _seal,
    "BFCL": _bfcl,
}
FLOORS = {
    "LiveMCPBench": (0.36, 0.44),
    "MetaTool": (0.57, 0.64),
    "Seal-Tools": (0.85, 0.92),
    "BFCL": (0.84, 0.90),
}
"""Recall among the first 5 and 10 of a BM25 with identifier splitting and light stemming, measured elsewhere."""
