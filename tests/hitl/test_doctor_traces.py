"""The doctor looks at traces: those that cannot be read, and those of turns that are gone."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints.databases import counted, one_of_each
from sqlalchemy import delete, update

from scallion import Agent, FilterError, SQLCheckpointer, around_turn
from scallion.testing import ScriptedModel


@around_turn
def broken(request: Any, state: Any, next: Any) -> Any:
    """Fail before anything is stored."""
    raise RuntimeError("no")


def two_turns(saver: SQLCheckpointer, thread: str = "t") -> list[str]:
    """The ids of two turns of a thread, behind which another one failed at once: nothing is wrong."""
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=saver)
    turns = [str(agent.invoke("?", thread=thread).turn) for _ in range(2)]
    with pytest.raises(FilterError):
        Agent(ScriptedModel([]), filters=[broken], checkpointer=saver).invoke("?", thread=thread)
    return turns


def harm(saver: SQLCheckpointer, statement: Any) -> None:
    """Change a table by hand."""
    saver.database.run(lambda conn: conn.execute(statement), write=True)


@one_of_each
@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "sealed"])
def test_a_trace_that_cannot_be_read(database: str, key: bytes | None) -> None:
    """It is told with its turn, and deleted; those of other turns and threads stay."""
    with SQLCheckpointer(database, key=key) as saver:
        first, second = two_turns(saver)
        two_turns(saver, "u")
        rows = saver.database.tables.traces
        assert saver.doctor.list().items == []
        harm(saver, update(rows).where(rows.c.turn == first).values(data=b"[9]"))
        (found,) = saver.doctor.list().items
        assert (found.thread, found.kind, found.subject) == ("t", "unreadable_trace", first)
        assert found.is_damage
        assert saver.doctor.repair("t") == [found]
        assert saver.doctor.repair("t") == saver.doctor.list().items == []
        assert saver.sessions.trace("t", first) is None
        assert saver.sessions.trace("t", second) is not None
        assert counted(saver)["traces"] == 5


@one_of_each
def test_a_trace_of_a_turn_that_is_gone(database: str) -> None:
    """As a program leaves it that deletes checkpoints and knows of no traces."""
    with SQLCheckpointer(database) as saver:
        first, second = two_turns(saver)
        kept = saver.sessions.get("t")
        rows, steps, s = saver.database.tables.traces, saver.database.tables.checkpoints, saver.database.tables.sessions
        head = saver.database.run(lambda conn: conn.scalar(s.select().with_only_columns(s.c.head)))
        harm(saver, delete(steps).where(steps.c.id != head))
        (found,) = saver.doctor.examine("t")
        assert (found.kind, found.subject) == ("orphan_trace", first)
        harm(saver, update(rows).where(rows.c.turn == first).values(data=b"x"))
        assert [one.kind for one in saver.doctor.repair("t")] == ["unreadable_trace"]
        assert saver.doctor.examine("t") == []
        assert saver.sessions.traced("t")[0] == second
        assert saver.sessions.get("t").updated == kept.updated
