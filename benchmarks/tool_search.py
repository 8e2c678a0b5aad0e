"""Tool search: what is found among up to 4,076 tools, how long that takes, and what need not be sent."""

from __future__ import annotations

import json
import time
from typing import Any

from catalogues import CATALOGUES, INDEXES, SHARED, Catalogue, catalogue, nothing_fits
from langchain_core.utils.function_calling import convert_to_openai_function

from scallion.search import ToolIndex
from scallion.tools import tool_search


def measure(kind: str, given: Catalogue) -> dict[str, Any]:
    """One index on one catalogue."""
    entries = given.entries
    begun = time.process_time()
    index: ToolIndex = INDEXES[kind](entries)
    built = time.process_time() - begun
    found = given.found(index)
    best = min(_seconds(given, index) for _ in range(3))
    search_tool, _ = tool_search([])
    return {
        "recall": [round(given.recall(found, limit), 3) for limit in (5, 10)],
        "saved": round(given.saved(found, convert_to_openai_function(search_tool)), 3),
        "seconds to build": round(built, 2),
        "milliseconds a query": round(1_000 * best / len(found), 2),
    }


def _seconds(given: Catalogue, index: ToolIndex) -> float:
    begun = time.process_time()
    given.found(index)
    return time.process_time() - begun


def main() -> None:
    """Measure and print; nothing without the folder `shared`."""
    if not SHARED.exists():
        print("{}")
        return
    found = {
        kind: {
            "nothing fits": round(nothing_fits(INDEXES[kind]), 2),
            "catalogues": {name: measure(kind, catalogue(name)) for name in CATALOGUES},
        }
        for kind in INDEXES
    }
    sizes = {name: len(catalogue(name).tools) for name in CATALOGUES}
    print(json.dumps({"tools": sizes, "found": found}))


if __name__ == "__main__":
    main()
