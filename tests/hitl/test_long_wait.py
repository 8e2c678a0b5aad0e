"""A pause outlives the program that made it, by a year and a release."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from checkpoints.databases import one_of_each
from modes import MODES
from tests.hitl.deploys import YEAR, asks_a_person, goes_on, run

from scallion import SQLCheckpointer


@one_of_each
def test_a_year_later_a_release_with_more_goes_on(saver: SQLCheckpointer, database: str, tmp_path: Path) -> None:
    """Decided and resumed in another process, with filters and tools behind those that were there; in each mode."""
    run(asks_a_person, database, str(tmp_path))
    assert not (tmp_path / "done.txt").exists()
    run(goes_on, database, str(tmp_path))
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert answers == {mode: f"done: audited refunded {number}" for number, mode in enumerate(MODES)}
    done = (tmp_path / "done.txt").read_text().splitlines()
    assert sorted(one for one in done if one.startswith("refund")) == [f"refund {number}" for number in range(4)]
    assert done.count("more saw refund") == done.count("more saw audit") == 4
    for one in saver.approvals.list(None).items:
        assert one.status == "used"
        assert one.created_at is not None
        assert one.decided_at is not None
        assert YEAR - timedelta(hours=1) < one.decided_at - one.created_at < YEAR + timedelta(hours=1)
