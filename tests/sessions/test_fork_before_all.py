"""A fork before the first turn: nothing is copied, and all that holds for another fork holds for it."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints.databases import one_of_each
from modes import Mode
from sessions.talks import Spoken, said, talker

from scallion import SQLCheckpointer, StorageError, ThreadBusy


@one_of_each
def test_a_name_that_is_taken_or_none_is_refused(saver: SQLCheckpointer) -> None:
    agent = talker(saver)
    agent.invoke("private", thread="taken", owner="eve")
    agent.invoke("hello", thread="t", owner="bob")
    before = said(agent.session("taken").messages)
    for session in (agent.session("t"), agent.session("t", owner="bob")):
        (first,) = session.history
        for name in ("taken", "t", "a ", "x" * 256, "\0"):
            with pytest.raises(StorageError):
                session.fork(before=first, thread=name)
    assert said(agent.session("taken").messages) == before


def test_it_is_whose_the_thread_is(mode: Mode, sql: SQLCheckpointer) -> None:
    """Whoever forks it: an empty thread is not stored, so that the session knows it until something is."""
    talker(sql).invoke("hello", thread="t", owner="bob")
    spoken = Spoken(talker(sql).session("t"), mode)
    (first,) = spoken.see("history")
    fork = spoken.fork(before=first)
    assert fork.see("row") is None
    fork.send("hi")
    assert (fork.see("row").owner, said(fork.see("messages"))) == ("bob", ["human: hi", "ai: 1: heard hi"])


def test_a_thread_that_runs_is_busy(mode: Mode, sql: SQLCheckpointer) -> None:
    spoken = Spoken(talker(sql).session("t"), mode)
    spoken.send("hello")
    (first,) = spoken.see("history")
    lease: Any = sql.leases.take("t", new=False)
    with pytest.raises(ThreadBusy):
        spoken.fork(before=first)
    sql.leases.release(lease, failed=False)
    assert spoken.fork(before=first).send("hi").answer == "1: heard hi"
