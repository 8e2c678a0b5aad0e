"""A forked child has locks, threads and connections of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = ("after_async_use", "while_another_writes", "while_another_connects", "with_locks_held")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("database", ["file", "postgresql", "asyncpg", "mariadb"], indirect=True)
def test_a_forked_child_works(database: str, case: str) -> None:
    script = Path(__file__).with_name("forks.py")
    done = subprocess.run(
        [sys.executable, str(script), case, database], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-3000:]
