"""A session is put away, and has a title that somebody gave it: in listings, wherever it goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoints.databases import one_of_each
from modes import Mode
from sessions.talks import Spoken, talker
from sqlalchemy import select

from scallion import ConfigurationError, Inbox, SQLCheckpointer, StorageError, ThreadError, approve

KEY = "00" * 32


def listed(inbox: Inbox | SQLCheckpointer, **wanted: object) -> list[str]:
    """The threads of all pages, of one session each."""
    found, after = [], None
    while True:
        page = inbox.sessions.list(limit=1, after=after, **wanted)  # type: ignore[arg-type]
        found += [one.thread for one in page.items]
        if (after := page.next) is None:
            return found


def test_a_session_is_put_away_renamed_and_tagged_in_every_mode(mode: Mode, sql: SQLCheckpointer) -> None:
    agent = talker(sql)
    spoken = Spoken(agent.session("t", owner="mira"), mode)
    for verb, given in {"archive": [], "unarchive": [], "rename": ["x"], "tag": ["x"]}.items():
        with pytest.raises(ThreadError, match="there is no thread"):
            spoken.do(verb, *given)
    spoken.send("hello")
    spoken.do("rename", "  A day  in May ")
    spoken.do("archive")
    spoken.do("tag", "b", "a")
    spoken.send("and on")
    row = spoken.see("row")
    assert (row.title, row.archived, row.tags, row.preview) == ("A day in May", True, ("a", "b"), "3: heard and on")
    with pytest.raises(ThreadError):
        Spoken(agent.session("t", owner="bob"), mode).do("rename", "mine")
    for wrong in ("", "x" * 81, 7):
        with pytest.raises(ConfigurationError, match="title"):
            spoken.do("rename", wrong)
    with pytest.raises(StorageError):
        spoken.do("rename", "\0")
    with pytest.raises(ConfigurationError, match="reserved"):
        spoken.do("tag", "scallion:archived")
    spoken.do("unarchive")
    spoken.do("rename", None)
    spoken.do("tag")
    spoken.send("bye")
    row = spoken.see("row")
    assert (row.title, row.archived, row.tags) == ("hello", False, ())


@one_of_each
def test_listings_leave_out_what_was_put_away(saver: SQLCheckpointer) -> None:
    agent = talker(saver)
    for thread in "abcd":
        agent.session(thread, owner="mira").send("pay 1")
        saver.sessions.tag(thread, "work")
    saver.sessions.archive("b")
    saver.sessions.archive("d")
    assert listed(saver) == ["c", "a"]
    assert listed(saver, archived=True) == ["d", "b"]
    assert listed(saver, archived=None) == ["d", "c", "b", "a"]
    assert listed(saver, tag="work", owner="mira", status="paused", order="created") == ["c", "a"]
    assert listed(saver, tag="work", archived=True) == ["d", "b"]
    with pytest.raises(ConfigurationError, match="archived"):
        saver.sessions.list(archived="yes")  # type: ignore[arg-type]
    assert len(saver.approvals.list().items) == 4, "what waits for a person waits all the same"
    agent.session("b").resume(approve())
    assert listed(saver, archived=True) == ["b", "d"], "the last used first"
    saver.sessions.rename("a", "Zebra")
    assert listed(saver, search="zebr") == ["a"]


@pytest.mark.parametrize("key", [None, KEY], ids=["", "encrypted"])
def test_title_and_archive_go_along(tmp_path: Path, key: str | None) -> None:
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'a.db'}", key=key) as saver:
        session = talker(saver).session("t")
        session.send("hello")
        session.send("look here")
        session.rename("Given")
        session.archive()
        s = saver.database.tables.sessions.c
        stored = saver.database.run(lambda conn: conn.execute(select(s.title)).scalar_one())
        assert (stored == "Given") is (key is None), "it is sealed as any title"
        fork = session.fork(at=session.history[0])
        session.rewind(to=session.history[0])
        assert [(one.title, one.archived, len(one.history)) for one in (session, fork)] == [
            ("Given", True, 1),
            ("Given", False, 1),
        ]
        lines = list(session.export())
        with SQLCheckpointer(f"sqlite:///{tmp_path / 'b.db'}") as other:
            there = talker(other).session("t")
            there.load(lines)
            there.send("on")
            assert (there.title, there.archived, there.tags) == ("Given", True, ())
            assert [one.id for one in there.rewound] == [one.id for one in session.rewound]
        saver.rekey("11" * 32)
        assert (session.title, session.history[0].answer) == ("Given", "1: heard hello")
        session.rewind(to=session.rewound[0])
        assert len(session.history) == 2
