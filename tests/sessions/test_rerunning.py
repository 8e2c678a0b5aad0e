"""Running a turn again: edited in its place under one lease, whoever else comes or whenever the process dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from checkpoints.databases import one_of_each
from modes import Mode
from sessions.talks import Spoken, said, talker
from tests.crash.test_kill import killed
from tests.hitl.harness import outcome

from scallion import ConfigurationError, SQLCheckpointer, approve
from scallion.sql.leases import Leases
from scallion.testing.crash import die

COLOURS = pytest.mark.parametrize("colour", ["invoke", "ainvoke"])


@contextmanager
def after(owner: Any, verb: str, step: Callable[[Any], Any]) -> Iterator[None]:
    """Each time that a verb of the class was called, do that with its object before anything else is done."""
    sync, asynchronous = getattr(owner, verb), getattr(owner, f"a{verb}")

    def called(self: Any, *args: Any, **options: Any) -> Any:
        made = sync(self, *args, **options)
        step(self)
        return made

    async def acalled(self: Any, *args: Any, **options: Any) -> Any:
        made = await asynchronous(self, *args, **options)
        await asyncio.to_thread(step, self)
        return made

    with mock.patch.multiple(owner, **{verb: called, f"a{verb}": acalled}):
        yield


@COLOURS
@one_of_each
def test_nobody_comes_between_the_rewind_and_the_edited_turn(database: str, colour: Mode) -> None:
    """The thread is free for somebody else behind the edited turn, and not before."""
    ends: list[str] = []
    with SQLCheckpointer(database) as saver, SQLCheckpointer(database) as theirs:
        other = talker(theirs)
        spoken = Spoken(talker(saver).session("t"), colour)
        spoken.send("hello")
        spoken.send("pay 1")
        first = spoken.see("messages")[0]

        def comes(leases: Any) -> None:
            if leases.database is saver.database:
                ends.append(outcome(other, "sync", "invoke", f"between {len(ends)}", thread="t"))

        with after(Leases, "release", comes):
            assert spoken.do("edit_message", first.id, "good morning").answer == "1: heard good morning"
        assert ends == ["Completed"]
        assert said(spoken.see("messages")) == [
            "human: good morning", "ai: 1: heard good morning", "human: between 0", "ai: 3: heard between 0",
        ]  # fmt: skip


def _edits_and_dies(url: str, colour: Mode) -> None:
    with SQLCheckpointer(url) as saver, after(SQLCheckpointer, "rewind_thread", lambda _: die()):
        spoken = Spoken(talker(saver).session("t"), colour)
        spoken.do("edit_message", spoken.see("history")[1].sent[0].id, "pay 2")


@COLOURS
@one_of_each
def test_killed_between_the_two_the_thread_is_rewound_and_nothing_is_lost(database: str, colour: Mode) -> None:
    with SQLCheckpointer(database) as saver:
        spoken = Spoken(talker(saver).session("t"), colour)
        for text in ("hello", "look here", "pay 1"):
            spoken.send(text)
        before = spoken.see("history")
        killed(_edits_and_dies, database, colour)
        assert said(spoken.see("messages")) == said(before[0].messages)
        assert [one.id for one in spoken.see("rewound")] == [one.id for one in reversed(before[1:])]
        assert (spoken.session.status, spoken.see("pending")) == ("idle", [])
        assert [one.kind for one in saver.doctor.examine("t")] == ["expired_lease"]  # who is dead holds nothing
        spoken.do("rewind", before[1])
        assert spoken.do("edit_message", before[1].sent[0].id, "pay 2").approvals[0].args == {"of": "pay 2"}
        assert spoken.resume(approve()).answer == "5: paid pay 2"
        assert not saver.doctor.examine("t")


@pytest.mark.parametrize("text", ["look", "pay", "hello"])
def test_a_turn_that_failed_or_was_interrupted_is_edited_too(mode: Mode, sql: SQLCheckpointer, text: str) -> None:
    """Whatever the thread was before, the edited turn begins on what it was at that place."""
    spoken = Spoken(talker(sql).session("t"), mode)
    spoken.send("hello")
    outcome(talker(sql), "sync", "invoke", "fail", thread="t")
    spoken.send(f"{text} 1")
    for turn, length in zip(reversed(spoken.see("history")), (3, 2, 1), strict=True):
        assert spoken.do("edit_message", turn.sent[0].id, "ho").answer.endswith("heard ho")
        assert len(spoken.see("history")) == length
    assert not sql.doctor.examine("t")


def test_a_session_says_that_it_has_its_thread(mode: Mode, sql: SQLCheckpointer) -> None:
    spoken = Spoken(talker(sql).session("t"), mode)
    spoken.send("pay 1")
    (sent,) = (one for one in spoken.see("messages") if one.type == "human")
    for work in (
        lambda: spoken.send("x", thread="other"),
        lambda: spoken.resume(approve(), thread="other"),
        lambda: spoken.do("edit_message", sent.id, "x", thread="other"),
    ):
        with pytest.raises(ConfigurationError, match="a session runs on its own thread, 't'"):
            work()
    assert len(spoken.see("pending")) == 1


@pytest.mark.parametrize("name", ["owner", "user"])
def test_a_session_says_that_it_has_its_owner_and_user(mode: Mode, sql: SQLCheckpointer, name: str) -> None:
    """Another one is refused by each verb, as it would be taken for the session's; the same one is fine, and none."""
    spoken = Spoken(talker(sql).session("t", owner="7", user="ana"), mode)
    own: Any = {"owner": 7, "user": "ana"}[name]
    spoken.send("pay 1", **{name: own})
    (sent,) = (one for one in spoken.see("messages") if one.type == "human")
    for work in (
        lambda: spoken.send("x", **{name: "bob"}),
        lambda: spoken.resume(approve(), **{name: "bob"}),
        lambda: spoken.do("edit_message", sent.id, "x", **{name: "bob"}),
        lambda: spoken.do("rerun", spoken.see("history")[0], **{name: "bob"}),
        lambda: spoken.do("compare_runs", spoken.see("history")[0], {"a": spoken.session.agent}, **{name: "bob"}),
    ):
        with pytest.raises(ConfigurationError, match=f"a session has its own {name}"):
            work()
    assert len(spoken.see("pending")) == len(sql.sessions.list().items) == 1
    assert spoken.resume(approve(), **{name: None}).answer == "3: paid pay 1"
    assert (spoken.see("row").owner, spoken.see("history")[0].user) == ("7", "ana")
    assert Spoken(talker(sql).session("new"), mode).send("hello", owner="bob").answer == "1: heard hello"
