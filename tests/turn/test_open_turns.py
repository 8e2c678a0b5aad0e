"""A turn that a crash kept from its commit is finished by the next message, or stays open: its answer is not lost."""

from __future__ import annotations

from typing import Any

import pytest
from modes import Drive

from scallion import Agent, SQLCheckpointer, StorageError, around_turn
from scallion.testing import ScriptedModel, crash_at


@around_turn(name="passes")
def passes(request: Any, state: Any, next: Any) -> Any:
    """Nothing of its own: the turn is committed at its end."""
    return next(request)


def agent(saver: SQLCheckpointer, *replies: str) -> Agent:
    return Agent(ScriptedModel(list(replies)), filters=[passes], checkpointer=saver)


def test_an_error_of_the_database_leaves_it_open(
    drive: Drive, sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crash_at("before write", 6):  # that of the commit
        agent(sql, "first answer").invoke("one", thread="t")
    [turn] = agent(sql).session("t").history
    assert (turn.status, turn.answer) == ("running", None)

    def refuses(*given: Any, **options: Any) -> Any:
        raise StorageError("the server closed the connection")

    for name in ("put", "aput"):
        monkeypatch.setattr(SQLCheckpointer, name, refuses)
    with pytest.raises(StorageError):
        drive(agent(sql, "second answer")).start("two", thread="t")
    monkeypatch.undo()
    result, _ = drive(agent(sql, "second answer")).start("two", thread="t")
    assert [one.text for one in result.messages] == ["one", "first answer", "two", "second answer"]
