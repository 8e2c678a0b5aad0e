"""The audit: one chain of rows, whoever adds them at the same moment."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import pytest
from checkpoints.databases import one_of_each, sync_kinds
from checkpoints.workers import at_once
from sqlalchemy import select

from scallion.approvals.effects import AttemptStatus
from scallion.sql import audit, ledger
from scallion.sql.rules import EVENTS
from scallion.sql.saver import SQLCheckpointer

SOURCE = Path(audit.__file__).parents[1]
PAGE = SOURCE.parents[1] / "docs" / "audit.md"
LITERAL = re.compile(r"""(?:audit\.(?:add|ending)\(\s*conn,\s*t,|ledger\.end\(.*,)\s*"(\w+)\"""")


def test_the_table_in_the_docs_has_every_event() -> None:
    """What the source names beside its calls, what an attempt or an approval may become, what rules say; no others."""
    written = {name for file in SOURCE.rglob("*.py") for name in LITERAL.findall(file.read_text())}
    assert {"decided", "withdrawn", "voted", "escalated", "rule_added", "deleted", "used"} <= written
    written |= {f"effect_{status}" for status in get_args(AttemptStatus)} | set(EVENTS.values())
    written |= set(ledger.STATUSES) - {"pending"}
    table = re.findall(r"^\| (`.*?) \|", PAGE.read_text().partition("\n## ")[0], re.MULTILINE)
    assert {name for row in table for name in re.findall(r"`(\w+)`", row)} == written


def add(saver: SQLCheckpointer, thread: str, rows: int = 1) -> None:
    t = saver.database.tables

    def work(conn: Any) -> None:
        for n in range(rows):
            audit.add(conn, t, "decided", thread=thread, subject=f"a{n}", by="ana", detail={"n": n})

    saver.database.run(work, write=True)


def stored(saver: SQLCheckpointer) -> list[Any]:
    a = saver.database.tables.audit
    return saver.database.run(lambda conn: list(conn.execute(select(a).order_by(a.c.no))))


def is_whole(rows: list[Any]) -> bool:
    """As the documentation says it, not as the program does it."""
    before = "0" * 64
    for no, row in enumerate(rows, 1):
        covered = [before, row.no, row.at, row.event, row.thread, row.subject, row.by, row.detail]
        before = sha256(json.dumps(covered, separators=(",", ":")).encode()).hexdigest()
        if (row.no, row.hash) != (no, before):
            return False
    return True


@sync_kinds
def test_rows_of_many_writers_are_one_chain(saver: SQLCheckpointer) -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda n: add(saver, f"t{n}", 1 + n % 3), range(60)))
    rows = stored(saver)
    assert len(rows) == 120
    assert is_whole(rows)


def add_some(url: str, worker: int) -> None:
    """Twenty rows in a process of its own."""
    with SQLCheckpointer(url) as saver:
        for _ in range(20):
            add(saver, f"t{worker}")


@one_of_each
def test_rows_of_several_processes_are_one_chain_from_the_first_on(database: str) -> None:
    assert at_once(add_some, [(database, n) for n in range(4)]) == [0] * 4
    with SQLCheckpointer(database) as saver:
        rows = stored(saver)
    assert len(rows) == 80
    assert is_whole(rows)


def test_what_is_undone_leaves_no_row(saver: SQLCheckpointer) -> None:
    def work(conn: Any) -> None:
        audit.add(conn, saver.database.tables, "decided", thread="t")
        raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        saver.database.run(work, write=True)
    add(saver, "t")
    assert [row.no for row in stored(saver)] == [1]


def test_arguments_and_texts_are_refused(saver: SQLCheckpointer) -> None:
    t = saver.database.tables
    for detail in ({"args": {"amount": 7}}, {"message": "x" * 300}):
        with pytest.raises(TypeError, match="ids, digests"):
            saver.database.run(lambda conn, d=detail: audit.add(conn, t, "decided", thread="t", detail=d), write=True)
    assert not stored(saver)
