"""At most once, and you are asked: processes are killed at every boundary of an effect, in each mode and database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from modes import MODES
from tests.hitl.killing import all_killed
from tests.hitl.till import POINTS, UNKNOWN, Till, pays_and_dies, runs_again_and_dies

from scallion import Completed, Paused, SQLCheckpointer, happened, rerun


def killed(url: str, folder: Path, points: Any = POINTS, modes: Any = MODES, **parts: Any) -> list[Till]:
    """Tills whose first turn was killed, one for each point and mode."""
    tills = [
        Till(url, folder, f"{mode}-{POINTS.index(point)}", mode, point=point, **parts)
        for mode in modes
        for point in points
    ]
    all_killed(pays_and_dies, [(till,) for till in tills])
    return tills


def revived(till: Till, saver: SQLCheckpointer, **options: Any) -> Till:
    """The same till in this process, where nothing dies."""
    return replace(till, point="", saver=saver, options=options)


@pytest.mark.slow
@one_of_each
def test_killed_anywhere_it_pays_once_and_asks_where_nobody_knows(
    database: str, saver: SQLCheckpointer, tmp_path: Path
) -> None:
    saver.setup()
    for till in killed(database, tmp_path):
        before = till.paid
        assert len(before) <= 1
        again = revived(till, saver)
        result, _ = again.drive().resume(till.thread)
        if till.point in UNKNOWN:
            assert isinstance(result, Paused), till
            [asked] = result.approvals
            assert (asked.kind, asked.allowed, asked.args) == (
                "unknown_outcome",
                ("happened", "rerun", "stop"),
                {"euros": 5},
            )
            assert till.paid == before  # nothing runs before somebody has said so
            result, _ = again.drive().resume(till.thread, happened("paid 5") if before else rerun(), by="ana")
        assert isinstance(result, Completed), till
        assert result.answer == "paid 5"
        assert len(till.paid) == 1, till
        if before:
            assert till.paid == before


def test_verify_is_asked_before_a_person(database: str, saver: SQLCheckpointer, tmp_path: Path) -> None:
    """It has the idempotency key that the tool had, with what it belongs to; here it looks into the till's own book."""
    for till in killed(database, tmp_path, points=UNKNOWN):
        before, seen = till.paid, []

        def look_up(key: Any, till: Till = till, seen: list[Any] = seen) -> Any:
            seen.append((key.tool, dict(key.args), key.thread, key.call_id))
            return "paid 5" if key in till.paid else False

        async def alook_up(key: Any) -> Any:
            return look_up(key)

        verify = alook_up if "a" in till.mode[:1] else look_up
        result, _ = revived(till, saver, verify=verify).drive().resume(till.thread)
        assert isinstance(result, Completed)
        assert result.answer == "paid 5"
        assert len(till.paid) == 1
        assert seen == [("pay", {"euros": 5}, till.thread, "call-pay")]
        if before:
            assert till.paid == before


def test_without_a_person_the_model_is_told_or_the_tool_runs_again(
    database: str, saver: SQLCheckpointer, tmp_path: Path
) -> None:
    for till in killed(database, tmp_path, points=UNKNOWN, modes=["invoke", "astream"]):
        fail = till.mode == "invoke"
        before = len(till.paid)
        result, _ = revived(till, saver, on_unknown="fail" if fail else "rerun").drive().resume(till.thread)
        assert isinstance(result, Completed)
        assert len(till.paid) == before + (not fail)
        assert len(set(till.paid)) <= 1  # the service can tell that it is the same payment
        assert result.answer == ("paid 5" if not fail else result.answer)
        assert ("not known" in result.answer) is fail


def test_killed_again_after_a_person_had_it_run_again_a_person_is_asked_again(
    database: str, saver: SQLCheckpointer, tmp_path: Path
) -> None:
    """The decision was about the attempt before: it is not taken for the next one."""
    tills = killed(database, tmp_path, points=[POINTS[2]], modes=["invoke", "astream"])
    for till in tills:
        revived(till, saver).drive().resume(till.thread)
    all_killed(runs_again_and_dies, [(till,) for till in tills])
    for till in tills:
        assert len(till.paid) == 2
        result, _ = revived(till, saver).drive().resume(till.thread)
        assert isinstance(result, Paused)
        assert len(till.paid) == 2
        result, _ = revived(till, saver).drive().resume(till.thread, happened("paid 5"))
        assert isinstance(result, Completed)
        assert (len(till.paid), len(set(till.paid))) == (2, 1)
        assert [one.status for one in saver.effects.list(till.thread)] == ["open", "done"]


def test_a_sibling_keeps_its_result(database: str, saver: SQLCheckpointer, tmp_path: Path) -> None:
    for till in killed(database, tmp_path, points=[POINTS[2]], calls=("look", "pay")):
        drive = revived(till, saver).drive()
        result, _ = drive.resume(till.thread)
        assert isinstance(result, Paused)
        assert [one.tool for one in result.approvals] == ["pay"]
        result, _ = drive.resume(till.thread, happened("paid 5"))
        assert isinstance(result, Completed)
        assert (result.answer, len(till.paid)) == ("there are 5 / paid 5", 1)


def test_a_new_message_after_a_crash_finds_what_is_recorded(
    database: str, saver: SQLCheckpointer, tmp_path: Path
) -> None:
    """And is told what is not known; the tool does not run."""
    for till in killed(database, tmp_path, points=[POINTS[2], POINTS[4]], modes=["ainvoke"]):
        result, _ = revived(till, saver).drive().start("and now?", thread=till.thread)
        assert isinstance(result, Completed)
        assert len(till.paid) == 1
        assert ("not known" in result.answer) is (till.point == POINTS[2])
        assert ("paid 5" in result.answer) is (till.point == POINTS[4])
