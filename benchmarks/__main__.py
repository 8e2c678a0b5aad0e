"""`python -m benchmarks`: run all of them and write their tables into `docs/benchmarks.md`.

`python -m benchmarks NAME [OPTION ...]` runs one of them with its options and only prints its tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.tables import TABLES

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
MARK = "<!-- the tables below are written by `make bench` -->"


def run(name: str, *options: str) -> Any:
    """What one benchmark prints; how far it is, it says on the terminal."""
    command = [sys.executable, str(HERE / f"{name}.py"), *options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    """Measure and print; with all of them, rewrite the tables of the page."""
    name, *options = sys.argv[1:] or [""]
    if name in TABLES:
        print("\n\n".join(TABLES[name](run(name, *options))))
        return
    if name:
        sys.exit(f"no such benchmark: {name}; there are {', '.join(TABLES)}")
    tables = "\n\n".join(made for name, tables in TABLES.items() for made in tables(run(name)))
    print(tables)
    head = PAGE.read_text().split(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{tables}\n")


if __name__ == "__main__":
    main()
