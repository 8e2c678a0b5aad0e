"""Ten thousand open pauses slow nothing: no statement of a turn, a decision or a delivery reads a whole table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from benchmarks.many import fill
from checkpoints.databases import one_of_each
from sqlalchemy import event, insert, text
from tests.hitl.test_outbox import Told, ask, clerk

from scallion import SQLCheckpointer, approve
from scallion.sql import statement

OPEN = 10_000
LARGE = ("sessions", "session_tags", "approvals", "outbox")
"""The tables that have a row for each pause, or more."""

Statement = tuple[str, Any]


class Watched:
    """A driver's connection of which every statement is seen."""

    def __init__(self, raw: Any, seen: list[Statement]) -> None:
        self._raw, self._seen = raw, seen

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        self._seen.append((sql, parameters))
        return self._raw.execute(sql, parameters)

    def executemany(self, sql: str, rows: Any) -> Any:
        rows = list(rows)
        self._seen.append((sql, rows[0]))
        return self._raw.executemany(sql, rows)


@contextmanager
def watched(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Statement]]:
    """The statements that are run meanwhile, those included that go to the driver at once."""
    seen: list[Statement] = []

    def see(conn: Any, cursor: Any, sql: str, parameters: Any, context: Any, many: bool) -> None:
        seen.append((sql, parameters[0] if many else parameters))

    event.listen(saver.database.engine, "before_cursor_execute", see)
    with monkeypatch.context() as patch:
        driver = statement._driver
        patch.setattr(statement, "_driver", lambda conn: Watched(driver(conn), seen))
        patch.setattr(saver.database, "_has_shortcut", False)  # it runs the same statements, as one
        yield seen
    event.remove(saver.database.engine, "before_cursor_execute", see)


def read_whole(saver: SQLCheckpointer, one: Statement) -> set[str]:
    """The large tables that the statement reads from one end to the other."""
    dialect = saver.database.engine.dialect.name
    sql, given = one[0], tuple(one[1]) if isinstance(one[1], list) else one[1]
    explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN (FORMAT JSON) "}.get(dialect, "EXPLAIN ")
    steps = saver.database.run(lambda conn: list(conn.exec_driver_sql(explain + sql, given).mappings()))
    if dialect == "sqlite":
        scans = [step["detail"].split() for step in steps if step["detail"].startswith("SCAN ")]
        return {words[1] for words in scans} & set(LARGE)
    if dialect == "postgresql":
        plan = steps[0]["QUERY PLAN"]
        return set(_scanned((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"])) & set(LARGE)
    return {step["table"] for step in steps if step["type"] in ("ALL", "index")} & set(LARGE)


def _scanned(plan: dict[str, Any]) -> Iterator[str]:
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for inner in plan.get("Plans", ()):
        yield from _scanned(inner)


def is_explained(sql: str) -> bool:
    """Whether it has a plan: it reads, or changes what is there."""
    verb = sql.lstrip().split(maxsplit=1)[0].upper()
    return verb in ("SELECT", "UPDATE", "DELETE", "WITH") or (verb == "INSERT" and "SELECT" in sql)


def filled(saver: SQLCheckpointer) -> None:
    """Ten thousand threads that wait, each told of once and waiting to be told of again."""
    fill(saver, OPEN, OPEN)
    o = saver.database.tables.outbox
    row = {"event": "asked", "created": 1, "attempts": 1}
    waiting = {"status": "waiting", "due": 4_000_000_000_000_000, "delivered": None}
    delivered = {"status": "delivered", "due": None, "delivered": 2}
    rows = [
        {"session": no, "subject": f"a{no}", **row, **state}
        for no in range(1, OPEN + 1)
        for state in (delivered, waiting)
    ]
    saver.database.run(lambda conn: conn.execute(insert(o), rows), write=True)
    if saver.database.is_sqlite:
        return
    analyse = "ANALYZE" if saver.database.engine.dialect.name == "postgresql" else "ANALYZE TABLE"
    with saver.database.engine.connect() as conn:
        for name in LARGE:
            conn.execute(text(f"{analyse} {name}"))
        conn.commit()


@one_of_each
def test_no_statement_reads_a_whole_table(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with SQLCheckpointer(database, outbox=True) as saver:
        filled(saver)
        agent, told = clerk(saver), Told()

        def resumed() -> None:
            saver.approvals.decide(saver.approvals.list(thread="new").items[0].id, approve(), by="ana")
            agent.resume("new")

        steps: dict[str, Callable[[], Any]] = {
            "pause": lambda: ask(saver, thread="new"),
            "list": lambda: saver.approvals.list(limit=20, after=saver.approvals.list(limit=20).next),
            "deliver": lambda: saver.outbox.deliver(told),
            "sweep": saver.approvals.sweep,
            "decide and resume": resumed,
            "turn": lambda: clerk(saver).invoke("pay", thread="other"),
            "outbox": lambda: saver.outbox.list("failed"),
            "retry": saver.outbox.retry,
            "delete": lambda: saver.sessions.delete("t5000"),
        }
        for name, step in steps.items():
            with watched(saver, monkeypatch) as seen:
                step()
            assert seen, name
            for one in filter(lambda one: is_explained(one[0]), seen):
                assert read_whole(saver, one) == set(), f"{name}: {one[0]}"
        assert len(told) == 1
        assert len(saver.outbox.list("waiting", limit=5).items) == 5
