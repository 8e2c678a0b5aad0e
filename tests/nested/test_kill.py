"""Kill -9 inside of an agent in a tool of another: the outermost one goes on, and nothing that finished is repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hitl.killing import all_killed, die
from nested.offices import Office, release

from scallion import Completed, Paused, SQLCheckpointer, approve

pytestmark = pytest.mark.slow


class Written(Counter[str]):
    """Counts in a file, as processes die: each line is one thing that was done."""

    def __init__(self, path: Path, at: str = "") -> None:
        super().__init__()
        self._path, self._at = path, at
        for line in path.read_text().splitlines() if path.exists() else ():
            super().__setitem__(line, self[line] + 1)

    def __setitem__(self, what: str, n: int) -> None:
        with self._path.open("a") as file:
            file.write(f"{what}\n")
        super().__setitem__(what, n)
        if what == self._at and n == 2:
            die()


def office(saver: Any, path: Path, at: str = "") -> Office:
    """An office whose second model call of `at` kills the process."""
    made = Office(saver, release)
    made.did = Written(path, at)
    return made


def step(url: str, path: Path, at: str) -> None:
    """The turn up to its pause, which is decided call by call; then it dies."""
    with SQLCheckpointer(url) as saver:
        chief = office(saver, path, at).chief
        result = chief.invoke("go 1 2", thread="t")
        for one in sorted(result.approvals, key=lambda one: one.args["euro"]):
            chief.resume("t", {one.id: approve()})


@pytest.mark.parametrize("database", ["file", "postgresql"], indirect=True)
def test_killed_behind_the_pause_of_an_inner_agent(database: str, tmp_path: Path) -> None:
    done, at = tmp_path / "done", "accountant pay 2"
    all_killed(step, [(database, done, at)])
    with SQLCheckpointer(database) as saver:
        again = office(saver, done)
        result = again.chief.recover("t", wait=20)
        assert isinstance(result, Paused)
        while isinstance(result, Paused):
            result = again.chief.resume("t", approve())
        assert isinstance(result, Completed)
        assert "paid 1" in result.answer
        assert "paid 2" in result.answer
        assert {one.status for one in saver.approvals.list(None, thread="t").items} == {"used"}
    lines = Counter(done.read_text().splitlines())
    assert (lines["pay 1"], lines["pay 2"]) == (1, 1)
    assert {what: n for what, n in lines.items() if n > (1 if what.split()[0] in ("pay", "note") else 2)} == {at: 3}
