"""Threads of LangGraph's own savers are ours afterwards: the same history, the same questions, and they go on."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import Server, counted, one_of_each
from checkpoints.journeys import ALLOWED, AT, JOURNEYS, Journey, Parcel, forked, history, said, send
from checkpoints.workers import at_once
from click.testing import CliRunner
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send
from sqlalchemy import make_url
from tests.scenes import asks, call

from scallion import Agent, approve, filters
from scallion.cli import main
from scallion.cli.db import db
from scallion.errors import TypeBlocked
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import StrictSerializer
from scallion.testing import ScriptedModel

SERDE = JsonPlusSerializer(allowed_msgpack_modules=ALLOWED)


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path, server: Callable[[str], Server]) -> str:
    """The URL of what a saver of LangGraph will keep; parametrise it indirectly with a kind."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path / 'theirs.db'}"
    return server("postgresql").bare("postgresql+psycopg")


both = pytest.mark.parametrize("source", ["sqlite", "postgresql"], indirect=True)


@contextmanager
def theirs(source: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """LangGraph's saver."""
    url = make_url(source)
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(url.database), check_same_thread=False)) as conn:
            yield SqliteSaver(conn, serde=SERDE)
    else:
        with PostgresSaver.from_conn_string(url.set(drivername="postgresql").render_as_string(False)) as saver:
            saver.serde = SERDE
            saver.setup()
            yield saver


@pytest.fixture
def ours(saver: SQLCheckpointer) -> Iterator[SQLCheckpointer]:
    """Our saver, which takes the classes of the journeys."""
    with SQLCheckpointer(saver.database.url, serde=StrictSerializer(ALLOWED)) as allowing:
        yield allowing


def move(saver: SQLCheckpointer, source: str, *options: str) -> Any:
    """Run the command."""
    url = saver.database.url.render_as_string(False)
    return CliRunner().invoke(db, ["import-langgraph", "--db", url, source, *options])


def at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def tuples(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    """All checkpoints of all namespaces, as the saver gives them."""
    found = sorted(saver.list({"configurable": {"thread_id": "t"}}), key=lambda one: str(one.config))
    return [(one.config, one.checkpoint, one.metadata, one.parent_config, one.pending_writes) for one in found]


@both
@pytest.mark.parametrize("name", JOURNEYS)
def test_its_history_is_the_same_and_it_goes_on(source: str, ours: SQLCheckpointer, name: str) -> None:
    journey: Journey = JOURNEYS[name]
    with theirs(source) as other:
        graph = journey.build(other)
        journey.before(graph, {**AT, "metadata": {"owner": "mira", "agent": "desk"}})
        done = move(ours, source)
        assert (done.stdout, done.exit_code) == ("t\n", 0)
        here = journey.build(ours)
        assert history(here) == history(graph)
        assert json.loads(json.dumps(tuples(ours), default=repr)) == json.loads(json.dumps(tuples(other), default=repr))
        asked = ours.approvals.list().items
        assert len(asked) == journey.open
        session = ours.sessions.get("t")
        assert session is not None
        assert (session.owner, session.agent, session.pending_count) == ("mira", "desk", journey.open)
        snapshots = list(graph.get_state_history(AT))
        assert session.status == ("paused" if journey.open else "running" if snapshots[0].next else "idle")
        assert session.message_count == len(snapshots[0].values.get("messages") or [])
        assert session.updated.isoformat() == snapshots[0].created_at
        assert session.created.isoformat() <= snapshots[-1].created_at
        assert said(journey.after(here, AT)) == said(journey.after(graph, AT))
    after = ours.sessions.get("t")
    assert after is not None
    assert (after.status, after.pending_count) == ("idle", 0)


def test_a_thread_that_exists_is_left_alone_and_a_second_run_goes_on(source: str, ours: SQLCheckpointer) -> None:
    with theirs(source) as other:
        for thread in ("a", "b", "ü 3"):
            forked(other).invoke({"log": [thread]}, at(thread))
    assert move(ours, source, "--dry-run").stdout == "a\nb\nü 3\n"
    assert ours.sessions.list().items == []
    assert move(ours, source, "--thread", "b").stdout == "b\n"
    before = list(ours.sessions.export("b"))
    done = move(ours, source)
    assert done.stdout == "a\nü 3\n"
    assert "b exists, and is left alone" in done.stderr
    assert list(ours.sessions.export("b")) == before
    rows = counted(ours)
    with theirs(source) as other:
        forked(other).invoke({"log": ["more"]}, at("a"))
    again = move(ours, source)
    assert (again.stdout, again.exit_code) == ("", 0)
    assert (
        "a exists, and is left alone, though it has newer checkpoints there\nb exists, and is left alone\n"
        in again.stderr
    )
    assert counted(ours) == rows


def test_a_new_file_is_made_and_a_thread_that_is_not_there_is_told(source: str, tmp_path: Path) -> None:
    with theirs(source) as other:
        forked(other).invoke({"log": []}, at("a"))
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'new.db'}") as ours:
        for options in (["--dry-run"], []):
            done = move(ours, source, "--thread", "A", "--thread", "a", *options)
            assert (done.stdout, done.exit_code) == ("a\n", 1)
            assert "not stored: thread 'A': there is no such thread" in done.stderr
        assert [one.thread for one in ours.sessions.list().items] == ["a"]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_two_programs_may_do_it_at_once(source: str, ours: SQLCheckpointer) -> None:
    with theirs(source) as other:
        for n in range(4):
            forked(other).invoke({"log": [n]}, at(str(n)))
        url = ours.database.url.render_as_string(False)
        assert at_once(importing, [(url, source)] * 2) == [0, 0]
        for n in range(4):
            assert history(forked(ours), at(str(n))) == history(forked(other), at(str(n)))
    assert len(ours.sessions.list().items) == 4


def importing(url: str, source: str) -> None:
    """Run the command in a process of its own."""
    sys.exit(main(["db", "import-langgraph", "--db", url, source]))


def test_their_database_is_not_changed(source: str, ours: SQLCheckpointer) -> None:
    with theirs(source) as other:
        forked(other).invoke({"log": ["x"]}, AT)
        file = Path(str(make_url(source).database))
        before = {one.name: one.read_bytes() for one in file.parent.glob(f"{file.name}*") if one.suffix != ".db-shm"}
        assert move(ours, str(file)).exit_code == 0  # LangGraph names its file without a scheme
        after = {one.name: one.read_bytes() for one in file.parent.glob(f"{file.name}*") if one.suffix != ".db-shm"}
    assert after == before


def test_a_class_that_is_not_allowed_is_moved_all_the_same(source: str, saver: SQLCheckpointer) -> None:
    with theirs(source) as other:
        forked(other).invoke({"log": ["x"]}, AT)
    assert move(saver, source).stdout == "t\n"
    with pytest.raises(TypeBlocked, match=r"Parcel|Mood"):
        saver.get_tuple(AT)
    with SQLCheckpointer(saver.database.url, serde=StrictSerializer(ALLOWED)) as allowing:
        found = allowing.get_tuple(AT)
        assert found is not None
        assert isinstance(found.checkpoint["channel_values"]["parcel"], Parcel)


def test_what_is_repeated_is_stored_once(source: str, ours: SQLCheckpointer) -> None:
    with theirs(source) as other:
        graph = JOURNEYS["loop"].build(other)
        for n in range(6):
            graph.update_state(AT, {"messages": [("user", f"{n} " * 1000)]}, as_node="chat")
        theirs_size = sum(len(one.checkpoint["channel_values"]["messages"]) for one in other.list(AT))
    assert theirs_size == 21
    move(ours, source)
    assert counted(ours)["entries"] == 6
    session = ours.sessions.get("t")
    assert session is not None
    assert (session.message_count, session.title) == (6, ("0 " * 40).strip())
    assert 20_000 < session.bytes < 25_000


BROKEN = {
    "pickle": ("pickle", b"x"),
    r"msgpack\+aes": ("msgpack+aes", b"x"),
    "damaged": ("msgpack", b"\xc1"),
    "no channels": ("msgpack", b"\x01"),
}


@pytest.mark.parametrize("told", BROKEN)
def test_what_cannot_be_moved_is_named_and_the_rest_goes_on(source: str, ours: SQLCheckpointer, told: str) -> None:
    with theirs(source) as other:
        for thread in ("a", "b", "c"):
            forked(other).invoke({"log": [thread]}, at(thread))
    with closing(sqlite3.connect(str(make_url(source).database))) as conn, conn:
        newest = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'b'"
        conn.execute(f"UPDATE checkpoints SET type = ?, checkpoint = ? WHERE checkpoint_id = ({newest})", BROKEN[told])
    done = move(ours, source)
    assert (done.stdout, done.exit_code) == ("a\nc\n", 1)
    assert "not stored: thread 'b': a checkpoint" in done.stderr
    assert told.replace("\\", "") in done.stderr
    assert {one.thread for one in ours.sessions.list().items} == {"a", "c"}


def put(saver: BaseCheckpointSaver[Any], thread: str, ns: str = "", **changes: Any) -> Any:
    """A checkpoint of another program, whose id or metadata are as given."""
    id, metadata = changes.pop("id", "1"), {"source": "loop", "step": 1, **changes}
    checkpoint: Any = {**empty_checkpoint(), "id": id}
    place: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
    return saver.put(place, checkpoint, metadata, {})  # type: ignore[arg-type]


UNFIT: dict[str, Callable[[BaseCheckpointSaver[Any]], Any]] = {
    "checkpoint id": lambda saver: put(saver, "b", id="i" * 65),
    "checkpoint id must": lambda saver: put(saver, "b", id="a\0b"),
    "namespace": lambda saver: put(saver, "b", ns="n" * 513),
    "run_id": lambda saver: put(saver, "b", run_id="r" * 65),
    "owner": lambda saver: put(saver, "b", owner="o" * 256),
    "agent": lambda saver: put(saver, "b", agent="a" * 256),
    "task id": lambda saver: saver.put_writes(put(saver, "b"), [("a", 1)], "t" * 65),
    "task path": lambda saver: saver.put_writes(put(saver, "b"), [("a", 1)], "t", "p\0"),
    "no saver of LangGraph writes": lambda saver: put(saver, "b", ns="inner", parents=[1]) and write(saver, "inner"),
}


def write(saver: BaseCheckpointSaver[Any], ns: str) -> None:
    place: Any = {"configurable": {"thread_id": "b", "checkpoint_ns": ns, "checkpoint_id": "1"}}
    saver.put_writes(place, [("a", 1)], "t")


@one_of_each
@pytest.mark.parametrize("told", UNFIT)
def test_a_name_that_no_database_holds_is_told_with_its_thread(source: str, ours: SQLCheckpointer, told: str) -> None:
    with theirs(source) as other:
        put(other, "a")
        UNFIT[told](other)
        put(other, "c")
    done = move(ours, source)
    assert (done.stdout, done.exit_code) == ("a\nc\n", 1)
    assert re.search(f"not stored: thread 'b': .*{told}", done.stderr)
    assert {one.thread for one in ours.sessions.list().items} == {"a", "c"}


@one_of_each
def test_rows_that_nobody_can_read_leave_the_others_alone(source: str, ours: SQLCheckpointer) -> None:
    with theirs(source) as other:
        for thread in ("a", "b", "c"):
            put(other, thread)
    with closing(sqlite3.connect(str(make_url(source).database))) as conn, conn:
        conn.execute("UPDATE checkpoints SET metadata = '{nope' WHERE thread_id = 'b'")
        conn.execute(
            "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata)"
            " VALUES (x'6262', '', '1', 'msgpack', x'80', '{}'), (?, '', '1', 'msgpack', x'80', '{}')",
            ["x" * 256],
        )
    done = move(ours, source)
    assert (done.stdout, done.exit_code) == ("a\nc\n", 1)
    told = done.stderr.splitlines()
    assert "not stored: thread 'b': the metadata of a checkpoint is damaged: it is no JSON" in told
    assert any(line.startswith("not stored: thread b'bb': the thread id") for line in told)
    assert any("has 256 characters" in line for line in told)


def test_a_dry_run_makes_no_database(source: str, tmp_path: Path) -> None:
    with theirs(source) as other:
        put(other, "a")
    here = tmp_path / "new.db"
    done = CliRunner().invoke(db, ["import-langgraph", "--db", f"sqlite:///{here}", source, "--dry-run"])
    assert (done.stdout, done.exit_code, here.exists()) == ("a\n", 0, False)
    assert "1 thread(s) would be stored" in done.stderr


@both
def test_what_was_handed_over_as_configurable_stays_there(source: str, ours: SQLCheckpointer) -> None:
    """LangGraph's savers copy it into the metadata, where it cannot be told from what was given as metadata."""
    node: Any = lambda state: {"messages": [("ai", "done")]}  # noqa: E731
    with theirs(source) as other:
        builder: Any = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
        for thread in ("a", "b", "c"):
            place = {"thread_id": thread, "api_key": "S3CRET", "tenant": "acme"}
            given = {"owner": "mira", "agent": "desk", "topic": "parcels"}
            builder.compile(checkpointer=other).invoke(
                {"messages": [("user", "Hi")]}, {"configurable": place, "metadata": given}
            )
    done = move(ours, source, "--thread", "a")
    assert "left out of the metadata: api_key, tenant, topic; --metadata-keys takes what you need" in done.stderr
    assert move(ours, source, "--thread", "b", "--metadata-keys", "tenant,topic").exit_code == 0
    assert "left out" not in move(ours, source, "--thread", "c", "--metadata-keys", "*").stderr
    kept = {}
    for thread in ("a", "b", "c"):
        metadata = [one.metadata for one in ours.list(at(thread))]
        assert len(metadata) == 3
        assert {one["source"] for one in metadata if one} == {"input", "loop"}
        kept[thread] = {key for one in metadata if one for key in one} - {"source", "step", "parents", "owner", "agent"}
        assert ours.sessions.get(thread).owner == "mira"  # type: ignore[union-attr]
    assert kept["a"].isdisjoint({"api_key", "tenant", "topic"})
    assert kept["b"] - kept["a"] == {"tenant", "topic"}
    assert kept["c"] - kept["a"] == {"api_key", "tenant", "topic"}
    assert "S3CRET" not in str([*ours.list(at("a")), *ours.list(at("b"))])


def test_what_is_no_database_of_theirs_is_told(ours: SQLCheckpointer, tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "text.db").write_text("hello" * 1000)
    for url, told in {
        f"sqlite:///{tmp_path / 'none.db'}": "there is no database at",
        f"sqlite:///{tmp_path / 'empty.db'}": "not the database of a LangGraph saver.*checkpoints.thread_id",
        f"sqlite:///{tmp_path / 'text.db'}": "cannot be read",
        "mysql://root@127.0.0.1/x": "SQLite or PostgreSQL, not mysql",
        "postgresql://nobody:secret@127.0.0.1:1/x": "cannot be read",
    }.items():
        done = move(ours, url)
        assert done.exit_code == 1
        assert re.search(told, done.stderr)
        assert "secret" not in done.output
    assert not (tmp_path / "none.db").exists()


OLD = """
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


def human(text: str) -> dict[str, Any]:
    """A message in the JSON of old releases."""
    id = ["langchain", "schema", "messages", "HumanMessage"]
    return {"lc": 1, "type": "constructor", "id": id, "kwargs": {"content": text, "type": "human", "id": text}}


def old_rows(file: str) -> None:
    """What a release of 2024 left: JSON, `writes` in the metadata, versions as numbers, sends with the parent's."""
    versions = {"messages": 2, "__start__": 1}
    checkpoints = [
        {"v": 1, "id": f"1ef{n}", "ts": f"2024-08-0{n + 1}T10:00:00+00:00", "versions_seen": {"__input__": {}},
         "channel_versions": versions, "channel_values": {"messages": [human("hi"), human("there")][: n + 1]},
         "pending_sends": []}
        for n in range(2)
    ]  # fmt: skip
    with closing(sqlite3.connect(file)) as conn, conn:
        conn.executescript(OLD)
        for n, one in enumerate(checkpoints):
            one["channel_versions"] = {"messages": n + 2, "__start__": 1}
            metadata = {"source": "loop", "step": n, "parents": {}, "writes": {"chat": {"messages": [human("hi")]}}}
            row = ("t", "", one["id"], "1ef0" if n else None, "json", json.dumps(one), json.dumps(metadata))
            conn.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        type, sent = SERDE.dumps_typed(Send("chat", {"messages": []}))
        conn.execute("INSERT INTO writes VALUES ('t', '', '1ef0', 'x', 0, '__pregel_tasks', ?, ?)", (type, sent))


def test_rows_of_an_old_release_are_moved_and_go_on(source: str, ours: SQLCheckpointer) -> None:
    old_rows(str(make_url(source).database))
    done = move(ours, source)
    assert (done.stdout, done.stderr) == ("t\n", "1 thread(s) stored, 0 left alone\n")
    graph = StateGraph(MessagesState).add_node("chat", lambda state: {"messages": [("ai", "done")]})
    app = graph.add_edge(START, "chat").compile(checkpointer=ours)
    first, second = reversed(list(app.get_state_history(AT)))
    assert [one.text for one in second.values["messages"]] == ["hi", "there"]
    assert first.metadata is not None
    assert first.metadata["writes"]["chat"]["messages"] == [human("hi")]
    assert second.created_at == "2024-08-02T10:00:00+00:00"
    assert [task.name for task in second.tasks] == ["chat"]  # what was sent
    session = ours.sessions.get("t")
    assert session is not None
    assert (session.title, session.preview, session.message_count) == ("hi", "there", 2)
    assert session.created.isoformat() == "2024-08-01T10:00:00+00:00"
    assert len(app.invoke(None, AT)["messages"]) == 3
    assert len(app.invoke({"messages": [("user", "more")]}, AT)["messages"]) == 5


def test_versions_go_on_as_texts(source: str, ours: SQLCheckpointer) -> None:
    with theirs(source) as other:
        graph = forked(other)
        graph.invoke({"log": ["x"]}, AT)
        (before, *_) = other.list(AT)
    move(ours, source)
    forked(ours).invoke({"log": ["y"]}, AT)
    (after, *_) = ours.list(AT)
    for name, version in before.checkpoint["channel_versions"].items():
        now = after.checkpoint["channel_versions"][name]
        assert isinstance(now, str)
        assert now > version


def test_a_killed_run_leaves_whole_threads_only(source: str, ours: SQLCheckpointer) -> None:
    """The kill comes where the second thread is half stored."""
    with theirs(source) as other:
        for thread in ("a", "b", "c"):
            forked(other).invoke({"log": [thread]}, at(thread))
    code = (
        "import os, sys; from scallion.cli import main; from scallion.sql import moving\n"
        "take, taken = moving._Moving.take, []\n"
        "def dying(self, found):\n"
        "    taken.append(1); take(self, found)\n"
        "    if len(taken) == 4: os._exit(9)\n"
        "moving._Moving.take = dying; main(['db', 'import-langgraph', '--db', sys.argv[1], sys.argv[2]])"
    )
    url = ours.database.url.render_as_string(False)
    assert subprocess.run([sys.executable, "-c", code, url, source], capture_output=True, check=False).returncode == 9
    assert [one.thread for one in ours.sessions.list().items] == ["a"]
    assert move(ours, source).stdout == "b\nc\n"


def test_an_agent_of_ours_that_paused_elsewhere_goes_on_here(source: str, ours: SQLCheckpointer) -> None:
    def build(saver: BaseCheckpointSaver[Any]) -> Agent:
        answer = lambda messages: asks(call("send", to="ana")) if messages[-1].type == "human" else "done"  # noqa: E731
        return Agent(
            ScriptedModel(answer), tools=[send], filters=[filters.approval({"send": True})], checkpointer=saver
        )

    with theirs(source) as other:
        build(other).invoke("go", thread="t")
    assert move(ours, source).stdout == "t\n"
    (asked,) = ours.approvals.list().items
    assert (asked.kind, asked.tool, asked.args) == ("tool_call", "send", {"to": "ana"})
    ours.approvals.decide(asked.id, approve(), by="ana")
    assert build(ours).resume("t").answer == "done"
    assert ours.approvals.get(asked.id).status == "used"
