"""Many threads in a database, some of which wait: written as rows, as running a graph for each would take minutes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, text

from scallion.sql.saver import SQLCheckpointer

START = 1_600_000_000_000_000
"""The instant at which the first thread was made, in microseconds; each is a second after the one before."""


def fill(saver: SQLCheckpointer, threads: int, paused: int) -> None:
    """Threads t0, t1, ..., evenly spread: `paused` of them wait; there are 20 owners and 20 tags."""
    t = saver.database.tables
    every = threads // paused

    def write(conn: Any) -> None:
        for table, rows in (
            (t.sessions, [_session(no, every) for no in range(1, threads + 1)]),
            (t.session_tags, [_tag(no) for no in range(1, threads + 1)]),
            (t.approvals, [_approval(no, every) for no in range(1, threads + 1) if no % every == 0]),
            (
                t.approvals,
                [_approval(no, every) | {"id": f"used-{no}", "status": "used"} for no in range(1, threads, 5)],
            ),
        ):
            for start in range(0, len(rows), 5_000):
                conn.execute(insert(table), rows[start : start + 5_000])
        if conn.dialect.name == "postgresql":  # it does not count what was numbered by hand
            conn.execute(text(f"SELECT setval(pg_get_serial_sequence('sessions', 'no'), {threads})"))

    saver.database.run(write, write=True)


def _session(no: int, every: int) -> dict[str, Any]:
    waits = no % every == 0
    status = "paused" if waits else ("idle", "running", "failed")[no % 3 if no % 50 == 0 else 0]
    return {
        "no": no, "thread": f"t{no}",
        "created": START + no * 1_000_000, "updated": START + (no * 7919 % 100_003) * 1_000_000,
        "status": status, "progress": "idle", "owner": f"u{no % 20}", "agent": "desk", "title": f"Parcel {no}",
        "preview": "Where is it?", "message_count": 4, "pending_count": int(waits), "open_count": int(waits),
        "bytes": 2_000, "generation": 0, "version": 1, "item_count": 4, "tag_count": 1, "head": "c",
    }  # fmt: skip


def _tag(no: int) -> dict[str, Any]:
    times = {name: _session(no, 10)[name] for name in ("created", "updated")}
    return times | {"session": no, "tag": f"tag{no // 7 % 20}"}


def _approval(no: int, every: int) -> dict[str, Any]:
    kinds: Sequence[str] = ("tool_call", "question")
    kind = kinds[no // every % 2]
    return {
        "session": no, "id": f"a{no}", "ns": "", "checkpoint": "c", "root": "c", "task": "t", "status": "pending",
        "kind": kind, "owner": f"u{no % 20}", "tool": "pay" if kind == "tool_call" else None,
        "payload": json.dumps({"value": f"May I pay {no}?", "schema": None}), "created": START + no,
        "expires": None if no % 2 else 2 * START,
    }  # fmt: skip
