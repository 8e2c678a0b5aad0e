"""Reading the audit: its pages, its file, and what is seen of rows that are not as they were written."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from scenes import Desk, asks, call
from sqlalchemy import delete, insert, select, update

from scallion import Agent, ConfigurationError, Inbox, SQLCheckpointer, StorageError, approve, filters
from scallion.approvals.chain import GENESIS, Head, Link, verify
from scallion.cli.entry import main
from scallion.sql import audit
from scallion.sql.engines import Database
from scallion.testing import ScriptedModel

Rows = list[dict[str, Any]]
Change = Callable[[Rows], Rows]


def add(database: Database, rows: int = 1, thread: str = "t", event: str = "decided") -> None:
    def work(conn: Any) -> None:
        for n in range(rows):
            audit.add(conn, database.tables, event, thread=thread, subject=f"a{n}", by="ana", detail={"n": n})

    database.run(work, write=True)


def rows_of(database: Database) -> Rows:
    a = database.tables.audit
    return database.run(lambda conn: [dict(row) for row in conn.execute(select(a).order_by(a.c.no)).mappings()])


def changed(database: Database, *statements: Any) -> None:
    """Do something behind the program's back."""
    database.run(lambda conn: [conn.execute(one) for one in statements], write=True, durable=False)


def store(database: Database, rows: Rows) -> None:
    """Make the table consist of these."""
    table = database.tables.audit
    changed(database, delete(table), *([insert(table).values(rows)] if rows else []))


def renumbered(rows: Rows) -> Rows:
    return [row | {"no": no} for no, row in enumerate(rows, 1)]


def hashed(rows: Rows) -> Rows:
    """The rows as one chain, whatever they say."""
    before, made = GENESIS, []
    for row in renumbered(rows):
        before = Link(*(row[name] for name in Link._fields)).hash(before)
        made.append(row | {"hash": before})
    return made


def foreign(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"event": "withdrawn", "hash": "f" * 64}


def rehashed(row: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return row | {"hash": Link(*(row[name] for name in Link._fields)).hash(before["hash"])}


TAMPERED: dict[str, tuple[Change, str, int]] = {
    "an event": (lambda rows: [*rows[:3], rows[3] | {"event": "withdrawn"}, *rows[4:]], "changed", 4),
    "who": (lambda rows: [*rows[:3], rows[3] | {"by": "bo"}, *rows[4:]], "changed", 4),
    "the last one": (lambda rows: [*rows[:-1], rows[-1] | {"at": 1}], "changed", 12),
    "a hash": (lambda rows: [*rows[:3], rows[3] | {"hash": "f" * 64}, *rows[4:]], "changed", 4),
    "a row and its hash": (
        lambda rows: [*rows[:3], hashed([foreign(rows[3])])[0] | {"no": 4}, *rows[4:]],
        "changed",
        4,
    ),
    "the first is gone": (lambda rows: rows[1:], "missing", 1),
    "some are gone": (lambda rows: rows[:4] + rows[7:], "missing", 5),
    "some are gone, and renumbered": (lambda rows: renumbered(rows[:4] + rows[7:]), "missing", 5),
    "the end is gone": (lambda rows: rows[:-2], "missing", 11),
    "one is put in": (lambda rows: renumbered([*rows[:5], foreign(rows[5]), *rows[5:]]), "put in", 6),
    "several are put in": (lambda rows: renumbered([*rows[:5], *map(foreign, rows[:3]), *rows[5:]]), "put in", 6),
    "one is put behind": (lambda rows: [*rows, foreign(rows[0]) | {"no": 13}], "put in", 13),
    "neighbours changed places": (lambda rows: renumbered([*rows[:3], rows[4], rows[3], *rows[5:]]), "moved", 4),
    "two changed places": (lambda rows: renumbered([*rows[:3], rows[8], *rows[4:8], rows[3], *rows[9:]]), "moved", 4),
    "one went up": (lambda rows: renumbered([*rows[:3], rows[9], *rows[3:9], *rows[10:]]), "moved", 4),
    "one went down": (lambda rows: renumbered([*rows[:3], *rows[4:9], rows[3], *rows[9:]]), "moved", 4),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_the_first_row_that_does_not_fit_is_named_with_why(sql: SQLCheckpointer, what: str) -> None:
    add(sql.database, 12)
    assert sql.audit.verify().is_whole
    change, problem, broken = TAMPERED[what]
    store(sql.database, change(rows_of(sql.database)))
    found = sql.audit.verify()
    assert (found.problem, found.broken) == (problem, broken)
    assert found == asyncio.run(sql.audit.averify())
    assert found == verify(sql.audit.export())  # the file says the same, though it was made of rows that do not fit


def test_the_head_is_compared(sql: SQLCheckpointer) -> None:
    add(sql.database, 3)
    head = sql.database.tables.audit_head
    for values in ({"hash": "f" * 64}, {"last": 2}):
        changed(sql.database, update(head).values(values))
        assert (sql.audit.verify().problem, sql.audit.verify().broken) == ("head", 4)
    changed(sql.database, delete(head))
    assert sql.audit.verify().problem == "head"


def test_who_remembers_a_head_sees_what_was_made_anew(sql: SQLCheckpointer) -> None:
    """Who can write the table can make a whole chain of anything: nothing in the database tells."""
    add(sql.database, 12)
    remembered = sql.audit.verify().head
    add(sql.database, 3)
    rows = rows_of(sql.database)
    assert sql.audit.verify(since=remembered).is_whole
    for made, problem in ((rows[:9], "missing"), ([*rows[:5], *rows[6:]], "changed"), ([], "missing")):
        made = hashed(made)
        last = made[-1] if made else {"no": 0, "hash": GENESIS}
        store(sql.database, made)
        changed(sql.database, update(sql.database.tables.audit_head).values(last=last["no"], hash=last["hash"]))
        assert sql.audit.verify().is_whole
        for found in (sql.audit.verify(since=remembered), verify(sql.audit.export(), since=remembered)):
            assert found.problem == problem


@one_of_each
def test_a_long_audit_is_read_in_portions(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scallion.sql.auditing.PORTION", 10)
    empty = saver.audit.verify()
    assert (empty.is_whole, empty.rows, empty.head) == (True, 0, str(Head()))
    for rows in (10, 10, 5):  # whole portions and a part of one
        add(saver.database, rows)
        found = saver.audit.verify()
        assert (found.is_whole, found.rows) == (True, len(rows_of(saver.database)))
        lines = list(saver.audit.export())
        assert verify(lines) == found
        assert asyncio.run(_all(saver.audit.aexport())) == lines


@one_of_each
def test_what_is_written_meanwhile_is_no_break(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scallion.sql.auditing.PORTION", 20)
    stop = Event()

    def write(n: int) -> None:
        while not stop.is_set():
            add(saver.database, 2, f"t{n}")

    with ThreadPoolExecutor(3) as threads:
        writing = [threads.submit(write, n) for n in range(3)]
        try:
            for _ in range(6):
                found, again = saver.audit.verify(), verify(saver.audit.export())
                assert (found.reason, again.reason, found.rows <= again.rows) == (None, None, True)
        finally:
            stop.set()
    assert not any(one.exception() for one in writing)
    add(saver.database, 1)  # the writers may have done nothing since the last reading
    assert saver.audit.verify(since=again.head).rows > again.rows


async def _all(lines: Any) -> list[str]:
    return [line async for line in lines]


def test_memory_does_not_grow_with_the_audit(sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scallion.sql.auditing.PORTION", 50)
    add(sql.database, 5_000)
    sql.audit.verify()
    tracemalloc.start()
    found = verify(sql.audit.export()), sql.audit.verify()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {one.rows for one in found} == {5_000}
    assert most < 600_000  # all rows together take ten times that


def test_a_file_goes_on_where_the_one_before_it_ends(sql: SQLCheckpointer) -> None:
    add(sql.database, 4)
    former = list(sql.audit.export())
    head = verify(former).head
    add(sql.database, 3)
    later = list(sql.audit.export(after=head))
    found = verify(later, since=head)
    assert (found.is_whole, found.rows, found.since, found.head) == (True, 3, head, sql.audit.verify().head)
    assert verify(later, since=f"4:{'f' * 64}").problem == "changed"
    assert verify(later, since=f"2:{'f' * 64}").problem == "missing"
    assert verify(former, since=found.head).problem == "missing"
    assert verify([*later[:2], *later[3:]], since=head).problem == "missing"
    assert verify(later[:-1], since=head).problem == "head"
    assert verify([later[0], later[2], later[1], *later[3:]]).problem == "moved"
    assert verify([*later[:3], *later[2:]]).problem == "put in"
    with pytest.raises(ConfigurationError, match="no row 9"):
        list(sql.audit.export(after=f"9:{'f' * 64}"))
    for wrong in ("4", "x:1", head + "0"):
        with pytest.raises(ConfigurationError, match="head of an audit"):
            sql.audit.verify(since=wrong)
    for lines in (
        [],
        ["{}"],
        ['{"scallion": "audit", "format": 2, "after": "0:0"}'],
        [former[0], "x"],
        [former[0], "7"],
    ):
        with pytest.raises(StorageError):
            verify(lines)


@one_of_each
def test_rows_are_listed_the_newest_first(saver: SQLCheckpointer) -> None:
    add(saver.database, 3, "t1")
    add(saver.database, 3, "t2", "withdrawn")
    page = saver.audit.list(limit=2)
    assert [one.no for one in page.items] == [6, 5]
    assert [one.no for one in saver.audit.list(limit=10, after=page.next).items] == [4, 3, 2, 1]
    assert {one.event for one in saver.audit.list(thread="t2").items} == {"withdrawn"}
    assert {one.thread for one in asyncio.run(saver.audit.alist(event="decided")).items} == {"t1"}
    one = page.items[0]
    assert (one.subject, one.by, dict(one.detail), one.at.tzinfo) == ("a2", "ana", {"n": 2}, one.at.tzinfo)
    assert json.loads(json.dumps(one.to_json()))["detail"] == {"n": 2}
    for wrong in ({"limit": 0}, {"after": "x"}):
        with pytest.raises(ConfigurationError):
            saver.audit.list(**wrong)


def decide_one(saver: SQLCheckpointer, thread: str, owner: str | None) -> None:
    model = ScriptedModel([asks(call("refund", order=1)), "end"])
    agent = Agent(model, tools=Desk().tools, filters=[filters.approval({"refund": True})], checkpointer=saver)
    agent.invoke("go", thread=thread, owner=owner)
    agent.resume(thread, approve(), by="ana")


def test_an_owner_sees_what_is_about_their_threads(sql: SQLCheckpointer) -> None:
    add(sql.database, 1, "hers")  # of a thread that had the name before
    for thread, owner in (("hers", "eva"), ("his", "tom"), ("nobody's", None)):
        decide_one(sql, thread, owner)
    scoped = sql.for_owner("eva")
    assert {one.thread for one in scoped.audit.list().items} == {"hers"}
    assert [one.event for one in scoped.audit.list().items] == ["used", "decided"]
    assert not scoped.audit.list(thread="his").items
    for refused in (
        scoped.audit.verify,
        lambda: list(scoped.audit.export()),
        lambda: asyncio.run(scoped.audit.averify()),
    ):
        with pytest.raises(ConfigurationError, match="one owner"):
            refused()


def test_effects_and_what_became_of_unknown_ones_are_in_the_chain(sql: SQLCheckpointer) -> None:
    """Reserved, recorded, failed; and where a person said what came of it. No argument is."""
    from scallion import happened

    def refund(order: int) -> str:
        """Refund."""
        if order == 1:
            raise TimeoutError("lost")
        return "refunded"

    calls = asks(call("refund", "c1", order=1), call("refund", "c2", order=4711))
    agent = Agent(ScriptedModel([calls, "end"]), tools=[refund], filters=[filters.once("refund")], checkpointer=sql)
    asked = agent.invoke("go", thread="t").approvals[0]
    agent.resume("t", happened("refunded"), by="ana")
    found = [(one.event, one.by, one.detail.get("kind")) for one in sql.audit.list(thread="t").items]
    assert sorted(found, key=str) == sorted(
        [
            *[("effect_begun", None, None), ("effect_done", None, None)] * 2,
            ("decided", "ana", "unknown_outcome"),
            ("used", None, None),
        ],
        key=str,
    )
    assert asked.id in {one.subject for one in sql.audit.list(event="decided").items}
    assert "4711" not in "".join(json.dumps(one.to_json()["detail"]) for one in sql.audit.list().items)
    assert sql.audit.verify().is_whole


@pytest.fixture
def shell(tmp_path: Path, sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Run the command line on the test's database: status and output."""
    monkeypatch.setenv("SCALLION_DB", sql.database.url.render_as_string(False))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        status = main(words)
        out = capsys.readouterr()
        return status, out.out + out.err

    return run


def test_the_command_line_verifies(sql: SQLCheckpointer, shell: Any, tmp_path: Path) -> None:
    add(sql.database, 4)
    status, told = shell("audit", "verify")
    assert (status, told.startswith("whole: 4 row(s), head 4:")) == (0, True)
    head = told.split()[-1]
    assert shell("audit", "export", "-o", "one.jsonl") == (0, "")
    add(sql.database, 2)
    assert shell("audit", "export", "-o", "two.jsonl", "--after", head) == (0, "")
    status, told = shell("audit", "verify", "one.jsonl", "two.jsonl", "--json")
    assert (status, json.loads(told)["rows"], json.loads(told)["whole"]) == (0, 6, True)
    assert shell("audit", "verify", "two.jsonl", "one.jsonl")[0] == 1
    status, told = shell("audit", "list", "--event", "decided", "--limit", "1", "--json")
    assert [one["no"] for one in json.loads(told)["items"]] == [6]
    assert "decided" in shell("audit", "list")[1]

    lines = (tmp_path / "one.jsonl").read_text().splitlines(True)
    (tmp_path / "one.jsonl").write_text("".join(lines).replace("ana", "bo", 1))
    assert shell("audit", "verify", "one.jsonl", "two.jsonl") == (
        1,
        "broken at row 1: changed: row 1 was changed: its hash is of something else\n",
    )
    store(sql.database, [row | {"by": "bo"} for row in rows_of(sql.database)])
    assert shell("audit", "verify")[0] == 1
    assert shell("audit", "verify", "--since", "x") == (1, shell("audit", "verify", "--since", "x")[1])
    (tmp_path / "other.jsonl").write_text("{}\n")
    status, told = shell("audit", "verify", "other.jsonl")
    assert (status, "not the file of an audit" in told) == (1, True)


def test_the_inbox_has_the_audit_too(sql: SQLCheckpointer) -> None:
    add(sql.database, 2)
    with Inbox(sql.database.url) as inbox:
        assert inbox.audit.verify() == sql.audit.verify()
