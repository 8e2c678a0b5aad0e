"""A thread leaves a database as lines, and is the same thread wherever they are loaded."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import SERVERS, Server, counted, everywhere, one_of_each
from checkpoints.journeys import ALLOWED, AT, JOURNEYS, Journey, forked, history, said
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from scallion import Inbox, respond
from scallion.errors import ConfigurationError, StorageError, ThreadError, TypeBlocked
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import StrictSerializer


def on(url: str) -> SQLCheckpointer:
    """A saver that takes the classes of the journeys."""
    return SQLCheckpointer(url, serde=StrictSerializer(ALLOWED), auto_upgrade=True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SQLCheckpointer]:
    """Where the threads come from."""
    with on(f"sqlite:///{tmp_path / 'home.db'}") as saver:
        yield saver


@pytest.fixture
def away(database: str) -> Iterator[SQLCheckpointer]:
    """Where they go."""
    with on(database) as saver:
        yield saver


@pytest.fixture
def exported(home: SQLCheckpointer) -> list[str]:
    """A small thread."""
    graph = forked(home)
    graph.invoke({"log": ["x" * 300]}, {**AT, "metadata": {"owner": "mira", "agent": "desk"}})
    return list(home.sessions.export("t"))


def values(lines: Iterable[str]) -> set[tuple[str, str]]:
    """The values among the lines, whatever their numbers are."""
    records = map(json.loads, lines)
    return {(record["type"], record["data"]) for record in records if "item" in record}


def about(saver: SQLCheckpointer) -> Any:
    """All that the index says about the thread."""
    return saver.sessions.get("t"), [one.to_json() for one in saver.approvals.list(None, limit=99).items]


@one_of_each
@pytest.mark.parametrize("name", JOURNEYS)
def test_it_goes_on_where_it_was(home: SQLCheckpointer, away: SQLCheckpointer, name: str) -> None:
    journey: Journey = JOURNEYS[name]
    here = journey.build(home)
    journey.before(here, {**AT, "metadata": {"owner": "mira", "agent": "desk"}})
    home.sessions.tag("t", "old", "große")
    assert away.sessions.load(home.sessions.export("t")) == "t"
    there = journey.build(away)
    assert history(there) == history(here)
    assert about(away) == about(home)
    assert len(away.approvals.list().items) == journey.open
    assert said(journey.after(there, AT)) == said(journey.after(here, AT))
    assert about(away)[0].status == "idle"
    assert not away.approvals.list().items


@everywhere
async def test_the_async_way_is_the_same(home: SQLCheckpointer, database: str) -> None:
    JOURNEYS["loop"].before(JOURNEYS["loop"].build(home), AT)
    lines = [line async for line in home.sessions.aexport("t")]
    assert lines == list(home.sessions.export("t"))
    async with on(database) as away:
        assert await away.sessions.aload(home.sessions.aexport("t")) == "t"
        assert await away.sessions.aload(lines, "u") == "u"
        assert about(away)[0] == about(home)[0]
        assert values([line async for line in away.sessions.aexport("u")]) == values(lines)


def test_from_one_database_to_the_next(home: SQLCheckpointer, server: Callable[[str], Server]) -> None:
    journey = JOURNEYS["nested"]
    here = journey.build(home)
    journey.before(here, AT)
    lines = list(home.sessions.export("t"))
    for kind in ("postgresql", "mariadb"):
        with on(server(kind).emptied(SERVERS[kind][1])) as saver:
            saver.sessions.load(lines)
            lines = list(saver.sessions.export("t"))
            there = history(journey.build(saver))
    assert there == history(here)
    with SQLCheckpointer("sqlite://", serde=StrictSerializer(ALLOWED)) as last:
        last.sessions.load(lines)
        assert about(last) == about(home)
        assert said(journey.after(journey.build(last), AT)) == said(journey.after(here, AT))


def test_a_decision_comes_along(home: SQLCheckpointer, away: SQLCheckpointer) -> None:
    journey = JOURNEYS["loop"]
    journey.before(journey.build(home), AT)
    first, second = home.approvals.list().items
    home.approvals.decide(first.id, respond("yes"), by="ana")
    away.sessions.load(home.sessions.export("t"))
    moved = away.approvals.get(first.id)
    assert moved == home.approvals.get(first.id)
    assert (moved.decided_by, moved.status) == ("ana", "decided")
    assert [one.id for one in away.approvals.list().items] == [second.id]


def test_it_takes_another_name_beside_its_own(home: SQLCheckpointer, exported: list[str]) -> None:
    assert home.sessions.load(exported, thread="copy") == "copy"
    graph = forked(home)
    copy = {"configurable": {"thread_id": "copy"}}
    assert [one.values for one in graph.get_state_history(copy)] == [one.values for one in graph.get_state_history(AT)]
    graph.invoke({"log": ["only there"]}, copy)
    assert list(home.sessions.export("t")) == exported


def test_it_is_read_without_the_libraries_of_the_graph(home: SQLCheckpointer, exported: list[str]) -> None:
    code = (
        "import sys; from scallion import Inbox; inbox = Inbox(sys.argv[1])\n"
        "inbox.sessions.load(inbox.sessions.export('t'), 'copy'); inbox.close()\n"
        "print({'langgraph', 'langchain_core', 'checkpoints'} & {name.split('.')[0] for name in sys.modules})"
    )
    url = home.database.url.render_as_string(False)
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert history(forked(home), {"configurable": {"thread_id": "copy"}})[0]["values"]["count"] == 1


def test_a_blocked_type_is_carried_and_stays_blocked(database: str, home: SQLCheckpointer, exported: list[str]) -> None:
    with SQLCheckpointer(database) as strict:
        strict.sessions.load(exported)
        assert values(strict.sessions.export("t")) == values(exported)
        with pytest.raises(TypeBlocked):
            strict.get_tuple(AT)  # type: ignore[arg-type]
    with SQLCheckpointer(database, serde=JsonPlusSerializer(allowed_msgpack_modules=ALLOWED)) as allowing:
        assert history(forked(allowing)) == history(forked(home))


def closed(lines: list[str]) -> list[str]:
    """The lines with a last one that fits them."""
    digest = blake2b("".join(lines).encode(), digest_size=16).hexdigest()
    return [*lines, json.dumps({"end": len(lines), "digest": digest}) + "\n"]


BROKEN = {
    "cut off": lambda lines: lines[:-1],
    "its first line is not": lambda lines: lines[1:],
    "is not the file": lambda lines: ["hello\n"],
    "first line": lambda lines: [],
    "damaged": lambda lines: [*lines[:3], *lines[4:]],
    "counts and hashes other lines": lambda lines: [
        line.replace('"source": "loop"', '"source": "fork"') for line in lines
    ],
    "cut off:": lambda lines: [*lines[:-1], lines[-1][:20]],
    "format 2.*upgrade": lambda lines: closed([lines[0].replace('"format": 1', '"format": 2'), *lines[1:-1]]),
    "no export has": lambda lines: closed([*lines[:-1], '{"checkpoint": "1"}\n']),
    "records that no": lambda lines: closed([lines[0].replace('"created"', '"made"'), *lines[1:-1]]),
    "no export": lambda lines: closed([*lines[:-1], '{"new": 1}\n']),
    "holds records": lambda lines: closed([lines[0], *(line for line in lines[1:-1] if '"item"' not in line)]),
}


def made_up(lines: list[str], kind: str, /, **changes: Any) -> list[str]:
    """The file with a first record of this kind that nobody exported."""
    records = [json.loads(line) for line in lines[:-1]]
    next(record for record in records if kind in record).update(changes)
    return closed([json.dumps(record) + "\n" for record in records])


MADE_UP: list[Any] = [10**30, -5, {"a": []}]
NAMED = {
    "scallion": ["owner", "agent", "title", "preview", "head", "message_count", "progress", "created", "tags"],
    "item": ["type"],
    "log": ["log", "at", "items"],
    "checkpoint": ["checkpoint", "ns", "parent", "values"],
    "writes": ["ns", "checkpoint", "task", "path", "writes"],
    "approval": [
        "approval", "ns", "checkpoint", "root", "task", "status", "kind", "owner", "requested_by", "tool", "payload",
        "created", "decision", "decided_by",
    ],
}  # fmt: skip


@one_of_each
def test_records_that_were_made_up_are_refused(home: SQLCheckpointer, away: SQLCheckpointer) -> None:
    """Before a listing or the graph has to read them."""
    journey = JOURNEYS["loop"]
    journey.before(journey.build(home), AT)
    lines = list(home.sessions.export("t"))
    empty = counted(away)
    for kind, names in NAMED.items():
        for name in names:
            for value in [*MADE_UP, "x" * 200_000]:
                with pytest.raises(StorageError):
                    away.sessions.load(made_up(lines, kind, **{name: value}))
                assert counted(away) == empty, (kind, name)
    assert away.sessions.load(lines) == "t"


def test_lines_may_be_bytes(away: SQLCheckpointer, exported: list[str], tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("".join(exported))
    with (tmp_path / "t.jsonl").open("rb") as file:
        assert away.sessions.load(file) == "t"
    with pytest.raises(StorageError, match="first line"):
        away.sessions.load(["ü".encode()], "other")


@pytest.mark.parametrize("given", [None, 5, [5], b"abc", [None]], ids=repr)
async def test_what_are_no_lines_is_refused(saver: SQLCheckpointer, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="lines"):
        saver.sessions.load(given)
    with pytest.raises(ConfigurationError, match="lines"):
        await saver.sessions.aload(given)


@pytest.mark.parametrize("told", BROKEN)
def test_a_file_that_is_not_whole_is_refused(saver: SQLCheckpointer, exported: list[str], told: str) -> None:
    empty = counted(saver)
    with pytest.raises(StorageError, match=told):
        saver.sessions.load(BROKEN[told](exported))
    assert counted(saver) == empty
    assert saver.sessions.load(exported) == "t"


@one_of_each
def test_what_fails_in_the_middle_leaves_nothing(away: SQLCheckpointer, exported: list[str]) -> None:
    empty = counted(away)
    with pytest.raises(StorageError):
        away.sessions.load(closed([*exported[:-1], '{"checkpoint": "1"}\n']))
    assert counted(away) == empty


def test_a_thread_that_exists_is_not_touched(home: SQLCheckpointer, exported: list[str]) -> None:
    before = counted(home)
    with pytest.raises(StorageError, match=r"'t' exists: .*another name"):
        home.sessions.load(exported)
    with pytest.raises(StorageError, match="there is no thread 'nobody'"):
        next(home.sessions.export("nobody"))
    assert counted(home) == before


def test_an_owner_moves_only_what_is_theirs(home: SQLCheckpointer, exported: list[str]) -> None:
    mira, ben = home.sessions.for_owner("mira"), home.sessions.for_owner("ben")
    assert list(mira.export("t")) == exported
    with pytest.raises(StorageError, match="no thread"):
        next(ben.export("t"))
    with pytest.raises(ThreadError, match="another owner"):
        ben.load(exported, "stolen")
    assert mira.load(exported, "copy") == "copy"


def test_a_large_thread_is_never_whole_in_memory(home: SQLCheckpointer, tmp_path: Path) -> None:
    graph = forked(home)
    for n in range(10):
        graph.invoke({"log": [f"{n}.{m} " * 25_000 for m in range(15)]}, AT, durability="exit")
    url, file = home.database.url, tmp_path / "thread.jsonl"
    with Inbox(url) as inbox, Inbox(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.sessions.list()
        tracemalloc.start()
        with file.open("w") as lines:
            lines.writelines(inbox.sessions.export("t"))
        with file.open() as lines:
            other.sessions.load(lines)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert file.stat().st_size > 20_000_000
    assert peak < 10_000_000
