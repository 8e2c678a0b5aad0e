"""A session runs turns, is decided, and tells its history: in every mode, and on every database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from checkpoints.databases import everywhere, one_of_each
from langgraph.checkpoint.memory import InMemorySaver
from modes import Mode
from sessions.talks import FAILS, Counter, Spoken, said, talker

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    InvalidDecision,
    ModelError,
    NotPaused,
    Paused,
    SQLCheckpointer,
    ThreadError,
    approve,
    around_turn,
    edit,
    reject,
)
from scallion.testing import ScriptedModel


@around_turn
def plain(request: Any, state: Any, next: Any) -> Any:
    """Stand around the turn, and do nothing."""
    return next(request)


@pytest.mark.parametrize("around", [[], [plain]], ids=["", "around the turn"])
def test_turns_are_run_paused_decided_and_told(mode: Mode, sql: SQLCheckpointer, around: list[Any]) -> None:
    began = datetime.now(UTC)
    counter = Counter()
    session = talker(sql, around=around, counter=counter).session("t-1", owner="mira", user="ana")
    spoken = Spoken(session, mode)
    assert (spoken.see("history"), spoken.see("messages"), spoken.see("pending"), session.status) == ([], [], [], None)

    assert isinstance(spoken.send("look here"), Completed)
    assert isinstance(spoken.send("pay 7"), Paused)
    (asked,) = spoken.see("pending")
    assert (asked.tool, asked.owner, asked.requested_by, session.status) == ("pay", "mira", "ana", "paused")
    assert [one.status for one in spoken.see("history")] == ["completed", "paused"]
    with pytest.raises(InvalidDecision):
        spoken.do("decide", asked.id, edit({"nothing": 1}))
    (decided,) = spoken.do("decide", asked.id, approve(), by="bob")
    assert (decided.status, counter.ran) == ("decided", ["look here"])
    assert spoken.see("pending") == []
    assert isinstance(spoken.resume(), Completed)
    with pytest.raises(NotPaused):
        spoken.do("decide", approve())

    first, second = spoken.see("history")
    assert [one.text for one in first.sent] == ["look here"]
    assert first.answer.startswith("3: seen look here")
    assert [(one.name, one.args, one.status) for one in first.tool_calls] == [("look", {"of": "look here"}, "success")]
    assert second.tool_calls[0].result == "paid pay 7"
    assert [(one.status, one.decided_by, one.decision) for one in second.approvals] == [("used", "bob", approve())]
    assert [one.user for one in (first, second)] == ["ana", "ana"]
    assert began <= first.began_at <= first.ended_at <= second.began_at <= second.ended_at <= datetime.now(UTC)
    assert [one.message for one in (first, second)] == [spoken.see("messages")[3], spoken.see("messages")[7]]
    assert [*first.messages, *second.messages] == spoken.see("messages")
    assert (session.title, session.owner, session.status) == ("look here", "mira", "idle")


def test_turns_without_an_answer_are_told_as_what_they_are(mode: Mode, sql: SQLCheckpointer) -> None:
    spoken = Spoken(talker(sql).session("t"), mode)
    with pytest.raises(ModelError):
        spoken.send(FAILS)
    assert [(one.status, said(one.messages)) for one in spoken.see("history")] == [("failed", ["human: fail"])]
    spoken.send("pay 1")
    assert spoken.do("cancel")
    spoken.send("pay 2")
    assert isinstance(spoken.resume(reject("no")), Completed)
    history = spoken.see("history")
    assert [one.status for one in history] == ["closed", "closed", "completed"]
    assert [[each.status for each in one.approvals] for one in history] == [[], ["cancelled"], ["used"]]
    assert len({one.id for one in history}) == 3
    assert [[str(each.result) for each in one.tool_calls] for one in history][1] == ["cancelled"]


@one_of_each
def test_every_database_tells_the_same(saver: SQLCheckpointer) -> None:
    session = talker(saver).session("t")
    for text in ("hello", "pay 1", "look at it"):
        if isinstance(session.send(text), Paused):
            session.resume(approve())
    assert [(said(one.sent), one.status, len(one.messages)) for one in session.history] == [
        (["human: hello"], "completed", 2),
        (["human: pay 1"], "completed", 4),
        (["human: look at it"], "completed", 4),
    ]
    session.tag("a", "b")
    lines = list(session.export())
    session.delete()
    assert (session.row, session.history, session.checkpoints) == (None, [], [])
    session.load(lines)
    assert (session.tags, len(session.history), session.title) == (("a", "b"), 3, "hello")
    assert said(session.messages)[-1] == "ai: 9: seen look at it"


@everywhere
async def test_every_driver_serves_async_callers(saver: SQLCheckpointer) -> None:
    session = talker(saver).session("t", owner="mira")
    for text in ("hello", "look at it", "bye"):
        await session.asend(text)
    first, second, _ = await session.ahistory()
    fork = await session.afork(at=second)
    await session.arewind(to=first)
    await session.aarchive()
    await session.arename("Given")
    assert said(await session.amessages()) == said(first.messages)
    assert [len(await one.ahistory()) for one in (session, fork)] == [1, 2]
    assert (await fork.asend("on")).answer == "7: heard on"
    row = await session.arow()
    assert (row.title, row.archived, len(await session.arewound())) == ("Given", True, 2)
    lines = [line async for line in session.aexport()]
    await session.adelete()
    await session.aload(lines)
    assert (await session.arow()).title == "Given"


@pytest.mark.parametrize("whose", ["mira", None])
def test_another_owner_sees_and_changes_nothing(mode: Mode, sql: SQLCheckpointer, whose: str | None) -> None:
    agent = talker(sql)
    hers = Spoken(agent.session("t", owner=whose), mode)
    hers.send("hello")
    hers.send("pay 1")
    before = sql.trail("t", lambda trail: [])
    theirs = Spoken(agent.session("t", owner="bob"), mode)
    for name in ("history", "rewound", "checkpoints", "messages", "pending"):
        assert theirs.see(name) == [], name
    assert (theirs.see("row"), theirs.do("cancel")) == (None, False)
    for verb, given in {
        "at": [0],
        "fork": [],
        "rewind": [0],
        "edit_message": ["x", "y"],
        "decide": [approve()],
    }.items():
        with pytest.raises(ThreadError):
            theirs.do(verb, *given)
    theirs.do("delete")
    for verb, given in {"send": ["mine"], "resume": [approve()]}.items():
        with pytest.raises(ThreadError):
            getattr(theirs, verb)(*given)
    assert sql.trail("t", lambda trail: []) == before
    with pytest.raises(ConfigurationError):
        talker(sql.for_owner("mira")).session("t", owner="bob")


@pytest.mark.parametrize("name", [None, "", b"x", ["x"], True])
def test_what_names_no_thread_is_refused(sql: SQLCheckpointer, name: Any) -> None:
    agent = talker(sql)
    for verb in (agent.session, agent.resume, agent.recover, agent.cancel):
        with pytest.raises(ConfigurationError, match="thread"):
            verb(name)
    assert sql.sessions.list().items == []


def test_what_another_checkpointer_cannot_is_said(mode: Mode) -> None:
    spoken = Spoken(talker(InMemorySaver()).session("t"), mode)
    spoken.send("pay 1")
    assert [one.tool for one in spoken.see("pending")] == ["pay"]
    for work in (
        lambda: spoken.see("history"),
        lambda: spoken.do("fork"),
        lambda: spoken.do("decide", approve()),
        lambda: spoken.see("row"),
        lambda: talker(InMemorySaver()).session("t", owner="mira"),
    ):
        with pytest.raises(ConfigurationError, match="checkpointer"):
            work()
    assert spoken.resume(approve()).answer == "3: paid pay 1"
    assert said(spoken.see("messages"))[0] == "human: pay 1"
    with pytest.raises(ConfigurationError, match="checkpointer"):
        Agent(ScriptedModel([])).session("t")
