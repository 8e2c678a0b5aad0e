"""What the cheap verbs import, and what they cost."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import Command

Ask = Callable[..., list[str]]

WATCHED = {
    "langgraph", "langchain_core", "langchain", "alembic", "pydantic", "rich", "sqlalchemy", "jsonschema", "lark",
}  # fmt: skip
LISTED = """
import json, sys
from scallion.cli import main
status = main(sys.argv[1:])
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})), file=sys.stderr)
sys.exit(status)
"""


def loaded(*words: str) -> set[str]:
    """Those of the watched packages that the command imports; it must succeed."""
    done = subprocess.run([sys.executable, "-c", LISTED, *words], capture_output=True, text=True, check=True)
    return WATCHED & set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("verb", [[], ["pending"], ["approve"], ["edit"], ["sessions"], ["watch"]])
def test_help_imports_nothing(place: Path, verb: list[str]) -> None:
    """Not even SQLAlchemy."""
    assert loaded(*verb, "--help") == set()


def test_the_cheap_verbs(paused: Ask) -> None:
    """Neither langgraph nor langchain, and rich only for tables."""
    pay, mail = paused("both")
    (question,) = paused("ask", "q")
    assert loaded("pending", "--json") == loaded("sessions", "--json") == {"sqlalchemy"}
    assert loaded("pending") == loaded("sessions") == {"sqlalchemy", "rich"}
    assert loaded("sessions", "--search", "pay", "--json") == {"sqlalchemy", "pydantic"}  # which indexes first
    assert loaded("sessions", "--search", "pay", "--json") == {"sqlalchemy"}
    assert loaded("audit", "list", "--json") == loaded("audit", "verify") == {"sqlalchemy"}
    assert loaded("rules", "add", "pay") == loaded("rules", "list", "--json") == {"sqlalchemy"}
    assert loaded("approve", pay[:12]) == {"sqlalchemy"}
    assert loaded("withdraw", pay) == {"sqlalchemy"}
    assert loaded("reject", mail, "-m", "no", "--always") == {"sqlalchemy"}
    assert loaded("respond", question, "blue") == {"sqlalchemy"}
    assert loaded("edit", pay, "--set", "order=8") == {"sqlalchemy", "jsonschema"}


def test_watch(paused: Ask) -> None:
    """As the listings."""
    paused("pay")
    assert loaded("watch", "--once", "--json") == {"sqlalchemy"}
    assert loaded("watch", "--once") == {"sqlalchemy", "rich"}


def seconds(*command: str) -> float:
    """The processor time of a process: other processes do not count. The first one compiles for all."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, *command], capture_output=True, check=True, env=compiled)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_the_cheap_verbs_cost_little(paused: Ask) -> None:
    """At most twice an import of SQLAlchemy and click: the best of some runs of each, taken in turns."""
    ids = [paused("pay", f"t{number}")[0] for number in range(3)]
    plain, *verbs = ("-c", "import sqlalchemy, click"), ("pending",), ("sessions", "--json"), ("approve",)
    rounds = []
    for id in ids:
        runs = [["-m", "scallion.cli", *verb, *([id] if verb == ("approve",) else [])] for verb in verbs]
        rounds.append([seconds(*plain), *(seconds(*run) for run in runs)])
    best, *costs = map(min, zip(*rounds, strict=True))
    assert max(costs) < 2 * best


def test_db_is_found(here: Command) -> None:
    """The group that looks after the database."""
    assert here("db", "upgrade").status == 0
    assert "upgrade" in here("db", "--help").out
