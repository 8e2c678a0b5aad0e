"""A forked child has locks, threads and connections of its own."""

from __future__ import annotations

import sys

import pytest
from checkpoints import forks
from processes import ended

CASES = ("after_async_use", "while_another_writes", "while_another_connects", "with_locks_held")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("database", ["file", "postgresql", "asyncpg", "mariadb"], indirect=True)
def test_a_forked_child_works(database: str, case: str) -> None:
    done = ended(forks.run, case, database)
    assert (done.status, done.out) == (0, "fine\n"), done.err[-3000:]
