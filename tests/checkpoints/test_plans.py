"""A page of a listing is one query that an index answers in order, whatever is asked for and however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.many import fill
from checkpoints.databases import sync_kinds
from sqlalchemy import event, text

from scallion.sql.saver import SQLCheckpointer

THREADS, PAUSED = 10_000, 500

APPROVALS: list[dict[str, Any]] = [
    {},
    {"owner": "u0"},
    {"thread": "t20"},
    {"tool": "pay"},
    {"kind": "question"},
    {"owner": "u0", "tool": "pay"},
]
SESSIONS: list[dict[str, Any]] = [
    {"order": order} | chosen
    for order in ("updated", "created")
    for chosen in (
        {},
        {"status": "paused"},
        {"owner": "u3"},
        {"tag": "tag1"},
        {"owner": "u3", "status": "idle"},
        {"tag": "tag1", "status": "idle"},
        {"archived": None},
    )
]

Statement = tuple[str, Any]


@contextmanager
def watched(saver: SQLCheckpointer) -> Iterator[list[Statement]]:
    """The statements that are run meanwhile."""
    seen: list[Statement] = []

    def see(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        seen.append((statement, parameters))

    event.listen(saver.database.engine, "before_cursor_execute", see)
    yield seen
    event.remove(saver.database.engine, "before_cursor_execute", see)


def pages(view: Any, asked: dict[str, Any]) -> Iterator[Any]:
    """The first page, and the one after it where there is one."""
    page = view.list(**asked, limit=20)
    yield page
    if page.next is not None:
        yield view.list(**asked, limit=20, after=page.next)


def wrong(saver: SQLCheckpointer, statement: Statement) -> list[str]:
    """What of the plan reads a whole table, or sorts."""
    dialect = saver.database.engine.dialect.name
    explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN (FORMAT JSON) "}.get(dialect, "EXPLAIN ")

    def plan(conn: Any) -> list[Any]:
        return list(conn.exec_driver_sql(explain + statement[0], statement[1]).mappings())

    steps = saver.database.run(plan)
    if dialect == "sqlite":
        return [one["detail"] for one in steps if not _is_indexed(one["detail"])]
    if dialect == "postgresql":
        found = steps[0]["QUERY PLAN"]
        nodes = list(_nodes((found if isinstance(found, list) else json.loads(found))[0]["Plan"]))
        return [node for node in nodes if "Seq Scan" in node or "Sort" in node or "Bitmap" in node]
    return [
        str(dict(one)) for one in steps if one["key"] is None or "file" in one["Extra"] or "temporary" in one["Extra"]
    ]


def _is_indexed(step: str) -> bool:
    return any(word in step for word in ("USING INDEX", "USING COVERING INDEX", "PRIMARY KEY", "SUBQUERY"))


def _nodes(plan: dict[str, Any]) -> Iterator[str]:
    yield plan["Node Type"]
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


@sync_kinds
def test_every_page_is_one_indexed_query(saver: SQLCheckpointer) -> None:
    fill(saver, THREADS, PAUSED)
    for thread in ("t1", "t2"):
        saver.sessions.archive(thread)
    _analyse(saver)
    for view, questions in ((saver.approvals, APPROVALS), (saver.sessions, SESSIONS)):
        for asked in questions:
            with watched(saver) as seen:
                found = [list(page.items) for page in pages(view, asked)]
            assert found[0], asked
            read = [one for one in seen if not one[0].startswith("SELECT session_tags.")]
            assert len(read) == len(found), f"{asked}: {len(read)} queries for {len(found)} pages"
            assert len(seen) - len(read) <= len(found), "the tags of a page are one query at most"
            for statement in seen:
                assert wrong(saver, statement) == [], f"{asked}: {statement[0]}"


def _analyse(saver: SQLCheckpointer) -> None:
    """Have a server count: its plans depend on that. SQLite's do not, and nobody runs ANALYZE on it."""
    if saver.database.is_sqlite:
        return
    names = [table.name for table in saver.database.tables.metadata.sorted_tables]
    is_postgres = saver.database.engine.dialect.name == "postgresql"
    with saver.database.engine.connect() as conn:
        for name in names:
            conn.execute(text(f"ANALYZE {name}" if is_postgres else f"ANALYZE TABLE {name}"))
        conn.commit()
