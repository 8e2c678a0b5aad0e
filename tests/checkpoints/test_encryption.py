"""Encryption: nothing readable is stored, a wrong or missing key fails closed, keys can be changed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from checkpoints.databases import everywhere, sync_kinds
from checkpoints.graphs_that_ask import Loop
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.types import Command
from sqlalchemy import event, make_url, text

from scallion import values
from scallion.errors import ConfigurationError, StorageError, WrongKey
from scallion.inbox import Inbox
from scallion.sql import resealing
from scallion.sql.encoding import Blob
from scallion.sql.engines import Database
from scallion.sql.saver import SQLCheckpointer

ONE, TWO = b"1" * 32, (b"2" * 32).hex()
CONFIG: Any = {"configurable": {"thread_id": "t"}, "metadata": {"note": "canary-note"}}
CANARIES = [b"canary-text", b"canary-note", b"pay c0?", b"canary-answer", b"canary-respond"]


def ask(saver: SQLCheckpointer) -> dict[str, Any]:
    """A thread that waits, with a canary wherever a person's words end up."""
    result: dict[str, Any] = Loop(saver).graph.invoke({"messages": [HumanMessage("canary-text")]}, CONFIG)
    id = result["__interrupt__"][0].id
    saver.approvals.decide(id, values.respond("canary-respond"))
    return result


def finish(saver: SQLCheckpointer) -> str:
    """Answer everything that is asked; the last message of the thread."""
    graph = Loop(saver).graph
    while interrupts := graph.get_state(CONFIG).interrupts:
        graph.invoke(Command(resume={one.id: "canary-answer" for one in interrupts}), CONFIG)
    return str(graph.get_state(CONFIG).values["messages"][-1].content)


def dumped(url: str, folder: Path) -> bytes:
    """All bytes that a database consists of."""
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        return b"".join(path.read_bytes() for path in folder.iterdir() if path.name.startswith("test.db"))
    plain = parts.set(drivername=parts.get_backend_name())
    command = ["pg_dump", "--inserts", plain.render_as_string(False)]
    if plain.drivername == "mysql":
        where = f"--host={parts.host}", f"--port={parts.port}", f"--user={parts.username}"
        command = ["mariadb-dump", *where, "--skip-hex-blob", str(parts.database)]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip(f"NO {command[0]} here")


def hidden(data: bytes) -> list[bytes]:
    """The canaries that are not found, neither as they are nor as pg_dump writes bytes."""
    return [one for one in CANARIES if one not in data and one.hex().encode() not in data]


files = pytest.mark.parametrize("database", ["file", "postgresql", "mariadb"], indirect=True)


@files
def test_nothing_readable_is_stored(database: str, tmp_path: Path) -> None:
    """Messages, metadata, writes, questions, decisions, titles and previews; without a key all of it is found."""
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
        assert hidden(dumped(database, tmp_path)) == CANARIES  # while it waits
        assert finish(saver) == "done"
        saver.copy_thread("t", "u")
        assert saver.sessions.get("u").title == "canary-text"  # type: ignore[union-attr]
    assert hidden(dumped(database, tmp_path)) == CANARIES


@files
def test_the_canaries_are_where_they_are_looked_for(database: str, tmp_path: Path) -> None:
    with SQLCheckpointer(database) as saver:
        ask(saver)
        finish(saver)
    assert hidden(dumped(database, tmp_path)) == []


@everywhere
async def test_a_wrong_or_missing_key_fails_closed(database: str) -> None:
    if database == "sqlite://":
        pytest.skip("what lies in memory is opened once")
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
    for key, said in ((None, "give key="), (TWO, "is not given")):
        for opened in (SQLCheckpointer(database, key=key), Inbox(database, key=key)):
            async with opened:
                with pytest.raises(WrongKey, match=said):
                    opened.approvals.list()
                with pytest.raises(WrongKey, match=said):
                    await opened.sessions.alist()
    async with SQLCheckpointer(database, key=[TWO, ONE]) as saver:  # who knows another one, too
        assert len((await saver.approvals.alist(None)).items) == 2
    with SQLCheckpointer(database, key=ONE) as saver:  # is no trouble for who does not
        assert len(saver.approvals.list(None).items) == 2


def test_a_plain_database_is_not_mixed(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        ask(saver)
    with SQLCheckpointer(database, key=ONE) as saver, pytest.raises(WrongKey, match="scallion db rekey"):
        saver.get_tuple(CONFIG)


COPIED = {
    "items": "UPDATE items SET data = (SELECT data FROM items WHERE id = 1) WHERE id = 0",
    "leaves": "UPDATE checkpoints SET leaves = (SELECT leaves FROM checkpoints ORDER BY id LIMIT 1)",
    "metadata": "UPDATE checkpoints SET metadata = (SELECT metadata FROM checkpoints ORDER BY id LIMIT 1)",
    "other thread": "UPDATE checkpoints SET metadata = 'sealed:AAAA'",
}


@pytest.mark.parametrize("change", COPIED.values(), ids=COPIED.keys())
def test_a_value_that_was_moved_does_not_open(database: str, change: str) -> None:
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
        saver.database.run(lambda conn: conn.execute(text(change)), write=True)
    with SQLCheckpointer(database, key=ONE) as saver, pytest.raises(WrongKey):
        list(saver.list(CONFIG))


def test_a_question_of_another_thread_does_not_open(database: str) -> None:
    """Approving a harmless call must not approve another."""
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
        saver.copy_thread("t", "u")
        swap = "UPDATE approvals SET payload = (SELECT payload FROM approvals b WHERE b.id = approvals.id LIMIT 1)"
        saver.database.run(lambda conn: conn.execute(text(swap)), write=True)
        assert saver.approvals.list(None, thread="t").items
        with pytest.raises(WrongKey, match=r"approvals\.payload was changed or moved"):
            saver.approvals.list(None, thread="u")


@files
async def test_keys_are_changed(database: str, tmp_path: Path) -> None:
    """From none to one, to another, and back to none; the thread goes on each time."""
    with SQLCheckpointer(database) as saver:
        ask(saver)
        assert saver.rekey(ONE) == 1
        assert len(list(saver.list(CONFIG))) == 3
    if database.startswith("sqlite"):  # a server frees old rows in its own time
        assert hidden(dumped(database, tmp_path)) == CANARIES
    with SQLCheckpointer(database, key=ONE) as saver:
        assert await saver.arekey(TWO) == 1
    with SQLCheckpointer(database, key=ONE) as saver, pytest.raises(WrongKey):
        saver.get_tuple(CONFIG)
    with SQLCheckpointer(database, key=TWO) as saver:
        assert finish(saver) == "done"
        assert saver.rekey(None) == 1
    with SQLCheckpointer(database) as saver:
        assert len(list(saver.list(CONFIG))) == 5
        assert saver.sessions.get("t").preview == "done"  # type: ignore[union-attr]


@pytest.mark.parametrize("path", [(None, ONE), (ONE, TWO), (TWO, None)], ids=["on", "other", "off"])
def test_an_interrupted_change_is_done_again(database: str, path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = path
    with SQLCheckpointer(database, key=before) as saver:
        ask(saver)
        saver.copy_thread("t", "u")
        real = resealing._next_thread

        def dies(*args: Any, last: int, **options: Any) -> int | None:
            if last:
                raise KeyboardInterrupt
            return real(*args, last=last, **options)

        with monkeypatch.context() as patched:
            patched.setattr(resealing, "_next_thread", dies)
            with pytest.raises(KeyboardInterrupt):
                saver.rekey(after)
    with SQLCheckpointer(database, key=before) as saver:
        if after is not None:
            with pytest.raises(WrongKey):
                saver.get_tuple(CONFIG)
        assert saver.rekey(after) == 2
    with SQLCheckpointer(database, key=after) as saver:
        assert finish(saver) == "done"
        assert len(list(saver.list({"configurable": {"thread_id": "u"}}))) == 3


def test_a_rekey_with_the_wrong_key_changes_nothing(database: str) -> None:
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
    for wrong in (None, TWO):
        with SQLCheckpointer(database, key=wrong) as saver, pytest.raises(WrongKey):
            saver.rekey(b"3" * 32)
    with SQLCheckpointer(database, key=ONE) as saver:
        assert finish(saver) == "done"


def test_equal_items_are_still_stored_once(database: str) -> None:
    """Also after the memory of the process is gone."""
    for _ in range(3):
        with SQLCheckpointer(database, key=ONE) as saver:
            Loop(saver).graph.update_state(CONFIG, {"messages": [HumanMessage("the same " * 9, id="1")]}, "chat")
    with SQLCheckpointer(database, key=ONE) as saver:
        found = saver.database.run(lambda conn: conn.execute(text("SELECT hash FROM items")).scalars().all())
    assert len(found) == len(set(found))
    assert len(found) < 8


@pytest.mark.parametrize("key", ["secret-password", b"secret", "x" * 64, 7, [], [ONE, "secret"], "é" * 43], ids=repr)
def test_what_is_no_key_is_refused(key: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        SQLCheckpointer("sqlite://", key=key)
    assert "secret" not in str(raised.value).replace("secrets", "")


@pytest.mark.parametrize("written", [bytes.hex, lambda raw: __import__("base64").b64encode(raw).decode()])
def test_a_key_may_be_written_down(database: str, written: Callable[[bytes], str]) -> None:
    raw = os.urandom(32)
    with SQLCheckpointer(database, key=raw) as saver:
        ask(saver)
    with SQLCheckpointer(database, key=f"{written(raw)}\n") as saver:
        assert finish(saver) == "done"


@sync_kinds
async def test_it_conforms_with_a_key(database: str) -> None:
    @checkpointer_test(name="encrypted")
    async def encrypted() -> Any:
        async with SQLCheckpointer(database, key=ONE) as saver:
            for one in (await saver.sessions.alist(limit=500)).items:
                await saver.adelete_thread(one.thread)
            yield saver

    report = await validate(encrypted)
    assert report.passed_all()
    assert sum(result.detected for result in report.results.values()) == 8


def test_a_thread_is_carried_to_another_key(database: str) -> None:
    """What is exported is readable: it is the file that has to be kept safe then."""
    with SQLCheckpointer(database, key=ONE) as saver, SQLCheckpointer("sqlite://", key=TWO) as other:
        ask(saver)
        lines = list(saver.sessions.export("t"))
        assert any("canary-note" in line for line in lines)
        other.sessions.load(lines)
        assert {one.status for one in other.approvals.list(None).items} == {"decided", "pending"}
        assert finish(other) == "done"


@files
def test_two_keys_are_one_database(database: str) -> None:
    """Whatever the order they are given in: the database says which one is for new values."""
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
    with SQLCheckpointer(database, key=[TWO, ONE]) as saver:  # knows nothing of what is stored
        Loop(saver).graph.update_state(CONFIG, {"messages": [HumanMessage("more of it " * 30)]}, "chat")
        saver.copy_thread("t", "u")
    with SQLCheckpointer(database, key=[ONE, TWO]) as saver, SQLCheckpointer(database, key=[ONE, TWO]) as other:
        assert len(other.sessions.list().items) == 2
        assert saver.rekey(TWO) == 2
        Loop(other).graph.update_state(CONFIG, {"messages": [HumanMessage("after it")]}, "chat")
        assert len(other.sessions.list().items) == 2
    with SQLCheckpointer(database, key=TWO) as saver:
        assert saver.sessions.get("t").preview == "after it"  # type: ignore[union-attr]
        assert len(list(saver.list(None))) > 6


def test_items_that_were_stored_twice_get_one_key(database: str) -> None:
    """Writers that did not know of each other's keys may have stored an item twice."""
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
        double = (
            "INSERT INTO items SELECT session, id + 1000, randomblob(16), type, data FROM items WHERE id = "
            "(SELECT max(id) FROM items)"
        )
        saver.database.run(lambda conn: conn.execute(text(double)), write=True)
        with pytest.raises(WrongKey):  # bound to the place where it was
            saver.rekey(TWO)
    with SQLCheckpointer(database, key=[ONE, TWO]) as saver:
        t = saver.database.tables
        hash = Blob("a", b"b").hash
        move = resealing.Move(t.cipher, t.cipher, 1, 2)
        row = {"id": 1, "type": "a", "hash": b"", "data": t.cipher.seal(b"b", "items.data", 1, 1)}
        first, second = (move.sealed("items", row)["hash"] for _ in range(2))
        assert first == t.cipher.digests(hash, 2)[0] != second


def test_who_opened_it_before_it_had_a_key_may_not_write(database: str, tmp_path: Path) -> None:
    with SQLCheckpointer(database) as late, SQLCheckpointer(database, key=ONE) as saver:
        assert late.sessions.list().items == []
        ask(saver)
        with pytest.raises(WrongKey, match="give key="):
            ask(late)
        assert saver.sessions.get("t") is not None
    assert hidden(dumped(database, tmp_path)) == CANARIES


@pytest.mark.parametrize("database", ["file", "postgresql"], indirect=True)
def test_a_saver_changes_its_key_while_it_is_used(database: str) -> None:
    with SQLCheckpointer(database, key=ONE) as saver:
        loop = Loop(saver)
        stop = Event()

        def work(name: int) -> int:
            turns = 0
            while not stop.is_set() or not turns:
                place = {"configurable": {"thread_id": f"t{name}-{turns % 5}"}}
                loop.graph.update_state(place, {"messages": [HumanMessage(f"turn {turns} " * 20)]}, "chat")
                turns += 1
            return turns

        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(work, name) for name in range(2)]
            for key in (TWO, ONE, TWO):
                saver.rekey(key)
            stop.set()
            turns = sum(one.result() for one in running)
    with SQLCheckpointer(database, key=TWO) as saver:
        states = [saver.get_tuple({"configurable": {"thread_id": f"t{n // 5}-{n % 5}"}}) for n in range(10)]
        assert sum(len(found.checkpoint["channel_values"]["messages"]) for found in states if found) == turns


def test_a_reader_that_keeps_old_pages_is_told(database: str, tmp_path: Path) -> None:
    """The values are sealed by then: another rekey, when the reader is gone, clears the file."""
    with SQLCheckpointer(database) as saver:
        ask(saver)
        reader = sqlite3.connect(make_url(database).database or "")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM items").fetchone()
        with pytest.raises(StorageError, match="every value is sealed anew, but old ones are left"):
            saver.rekey(ONE)
        assert finish(saver) == "done"
        reader.close()
        saver.rekey(ONE)
    assert hidden(dumped(database, tmp_path)) == CANARIES


def test_a_decryption_that_was_interrupted_needs_the_key(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
        with monkeypatch.context() as patched:
            patched.setattr(resealing, "_next_thread", lambda *args, **options: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                saver.rekey(None)
    for key in (None, TWO):
        with SQLCheckpointer(database, key=key) as saver:
            with pytest.raises(WrongKey, match="is being decrypted"):
                saver.sessions.list()
            with pytest.raises(WrongKey):
                saver.rekey(None)
    with SQLCheckpointer(database, key=ONE) as saver:
        assert saver.rekey(None) == 1
        assert finish(saver) == "done"


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_decision_meets_a_change_of_keys(database: str) -> None:
    """The key that a decision is sealed with stays until it is stored: the change waits."""
    with (
        SQLCheckpointer(database, key=ONE) as saver,
        SQLCheckpointer(database, key=[TWO, ONE]) as both,
        ThreadPoolExecutor(1) as pool,
    ):
        ask(saver)
        waiting = saver.approvals.list().items[0].id
        changes: list[Any] = []
        running: list[Future[int]] = []

        def executed(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
            if changes and statement.startswith("SELECT") and "FROM approvals" in statement:
                running.append(pool.submit(saver.rekey, changes.pop()))
                assert not wait(running, 0.2).done

        both.setup()
        event.listen(both.database.engine, "after_cursor_execute", executed)
        changes.append([TWO, ONE])
        assert both.approvals.decide(waiting, values.respond("yes"), by="ana").decided_by == "ana"
        assert running.pop().result(30) == 1
        assert both.approvals.get(waiting).decision == values.respond("yes")
        changes.append(ONE)
        assert both.approvals.withdraw(waiting).status == "pending"
        assert running.pop().result(30) == 1
        assert saver.approvals.get(waiting).status == "pending"


LATE: dict[str, Callable[[SQLCheckpointer, str, list[str]], Any]] = {
    "decide": lambda saver, id, lines: saver.approvals.decide(id, values.respond("yes")),
    "copy": lambda saver, id, lines: saver.copy_thread("t", "u"),
    "load": lambda saver, id, lines: saver.sessions.load(lines, "u"),
}


@pytest.mark.parametrize("call", LATE.values(), ids=LATE.keys())
def test_what_began_before_a_change_of_keys_is_done_with_the_new_one(
    database: str, call: Callable[[SQLCheckpointer, str, list[str]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLCheckpointer(database, key=ONE) as saver:
        ask(saver)
        id, lines = saver.approvals.list().items[0].id, list(saver.sessions.export("t"))
        run = Database.run

        def late(self: Database, work: Any, **options: Any) -> Any:
            monkeypatch.setattr(Database, "run", run)
            saver.rekey(TWO)
            return run(self, work, **options)

        monkeypatch.setattr(Database, "run", late)
        call(saver, id, lines)
    with SQLCheckpointer(database, key=TWO) as saver:
        assert saver.approvals.list(None).items
        assert finish(saver) == "done"


KEYS = {"1": ONE, "2": TWO, "-": None}


@pytest.mark.parametrize("order", ["12", "21"])
@pytest.mark.parametrize("changes", ["2", "21", "2121"])
def test_who_has_all_keys_seals_with_that_of_the_database(database: str, order: str, changes: str) -> None:
    with SQLCheckpointer(database, key=ONE) as first:
        ask(first)
    with SQLCheckpointer(database, key=[KEYS[one] for one in order]) as worker:
        Loop(worker).graph.invoke({"messages": [HumanMessage("before")]}, place("before"))
        for key in changes:
            with SQLCheckpointer(database, key=[ONE, TWO]) as operator:
                operator.rekey(KEYS[key])
            Loop(worker).graph.invoke({"messages": [HumanMessage("after")]}, place(f"after {key}"))
            with SQLCheckpointer(database, key=KEYS[key]) as alone:
                assert {one.thread for one in alone.sessions.list().items} >= {"t", "before", f"after {key}"}
                assert len(list(alone.list(place(f"after {key}")))) > 1


def place(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.mark.parametrize("changes", ["12-", "121-", "1-12", "-1-1", "1--2"])
def test_one_saver_changes_its_key_again_and_again(database: str, changes: str) -> None:
    with SQLCheckpointer(database, key=KEYS[changes[0]]) as saver:
        ask(saver)
        for key in changes[1:]:
            saver.rekey(KEYS[key])
            with SQLCheckpointer(database, key=KEYS[key]) as fresh:
                assert fresh.get_tuple(CONFIG) == saver.get_tuple(CONFIG)
        assert finish(saver) == "done"
