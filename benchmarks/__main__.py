"""`python -m benchmarks`: run all of them and write their table into `docs/benchmarks.md`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
MARK = "<!-- the tables below are written by `make bench` -->"


def run(script: str) -> Any:
    """What one benchmark prints."""
    done = subprocess.run([sys.executable, str(HERE / script)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def table(head: list[str], rows: list[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def page(overhead: Any, cold: Any) -> str:
    """The tables, each with the goal beside it."""
    worst, asynchronous = overhead["sync, worst"], overhead["async"]
    turn = table(
        ["a turn with one tool call, × a hand-written graph", "sync, worst of four stack depths", "async", "goal"],
        [
            ["Scallion, no filters", worst["scallion 0"], asynchronous["scallion 0"], "at most 1.15"],
            [
                "Scallion, 20 `def` filters on chat and tool",
                worst["scallion 20"],
                asynchronous["scallion 20 def"],
                "1.35",
            ],
            ["Scallion, 20 `async def` filters", "", asynchronous["scallion 20"], ""],
            ["create_agent, no middleware", worst["create_agent 0"], asynchronous["create_agent 0"], ""],
            ["create_agent, 20 middlewares", worst["create_agent 20"], asynchronous["create_agent 20"], ""],
        ],
    )
    sync_layer, async_layer = overhead["sync, microseconds a layer"], overhead["async, microseconds a layer"]
    layer = table(
        ["one more layer, microseconds per call", "Scallion", "create_agent", "goal"],
        [
            ["sync", sync_layer["scallion"], sync_layer["create_agent"], "a tenth of theirs"],
            ["async (`async def` layers)", async_layer["scallion"], async_layer["create_agent"], "a tenth of theirs"],
        ],
    )
    start = table(
        ["cold process to resumed turn, 400 turns of history", "seconds"],
        [["Scallion on SQLite", cold["ours"]], ["create_agent on SqliteSaver", cold["theirs"]]],
    )
    return f"{turn}\n\n{layer}\n\n{start}\n"


def listing(found: Any) -> str:
    """The table of pages of 50; they are to take less than 10 ms."""
    from listing import rows

    head = f"a page of 50 of {found['threads']:,} threads, 1,000 of which wait: milliseconds"
    return table([head, *found["milliseconds"]], rows(found)) + "\n"


def main() -> None:
    """Measure, print, and rewrite the tables of the page."""
    tables = page(run("overhead.py"), run("cold.py")) + "\n" + listing(run("listing.py"))
    print(tables)
    head = PAGE.read_text().split(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{tables}")


if __name__ == "__main__":
    main()
