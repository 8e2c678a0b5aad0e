"""Running a turn again with other agents on threads of their own, and telling what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from checkpoints.databases import one_of_each
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from modes import Mode
from scenes import asks, call
from sessions.talks import FAILS, Counter, Spoken, reply, said, talker
from tests.crash.test_kill import killed
from tests.hitl.harness import desk as waiting_desk
from tests.hitl.harness import elsewhere, outcome, saver_on

from scallion import (
    Agent,
    ConfigurationError,
    Filter,
    ModelError,
    Paused,
    SQLCheckpointer,
    StorageError,
    ThreadBusy,
    ThreadError,
    WrongKey,
    approve,
    around_chat,
    around_turn,
    filters,
)
from scallion.session import Difference
from scallion.testing import ScriptedModel
from scallion.testing.crash import die


def answers(text: str, saver: Any, **options: Any) -> Agent:
    """An agent that says that."""
    return Agent(ScriptedModel(lambda messages: text), checkpointer=saver, **options)


@tool
def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write something down."""
    return Command(update={"note": text, "messages": [ToolMessage("written", tool_call_id=call_id)]})


@around_turn
def plain(request: Any, state: Any, next: Any) -> Any:
    """See what the turn is asked."""
    assert request.messages or request.resume
    return next(request)


def counting(by: int) -> Filter:
    """A filter that counts the model calls of a turn."""

    @around_chat(name="count", init={"n": 0})
    def count(request: Any, state: Any, next: Any) -> Any:
        return next(request), {"n": state["n"] + by}

    return count


@one_of_each
@pytest.mark.parametrize("colour", ["invoke", "ainvoke"])
def test_a_turn_is_run_again_by_another_agent(database: str, colour: Mode) -> None:
    """On a thread of its own, with all that came before; the thread stays as it is."""
    with SQLCheckpointer(database) as saver:
        spoken = Spoken(talker(saver).session("t", owner="mira", user="ana"), colour)
        for text in ("hello", "look here", "bye"):
            spoken.send(text)
        before, turns = spoken.see("messages"), spoken.see("history")
        for number, turn in enumerate(turns):
            rerun = spoken.do("rerun", turn, agent=answers("otherwise", saver), thread=f"again-{number}")
            assert (rerun.status, rerun.answer, rerun.result.answer) == ("completed", "otherwise", "otherwise")
            assert rerun.original.id == turn.id
            assert rerun.difference.answers == (turn.answer, "otherwise")
            again = Spoken(rerun.session, colour)
            assert said(again.see("messages")) == [
                *said([m for one in turns[:number] for m in one.messages]),
                *said(turn.sent),
                "ai: otherwise",
            ]
            assert again.see("history")[-1] == rerun.turn
            row = rerun.session.row
            assert (row.thread, row.owner, rerun.turn.user) == (f"again-{number}", "mira", "ana")
            assert again.send("and on").answer == "otherwise"
        assert (spoken.see("messages"), spoken.see("history"), spoken.see("rewound")) == (before, turns, [])
        for row in saver.sessions.list(limit=100).items:
            assert not saver.doctor.examine(row.thread)


@pytest.mark.parametrize("theirs", [[], [plain]], ids=["", "theirs around the turn"])
@pytest.mark.parametrize("ours", [[], [plain]], ids=["", "ours around the turn"])
def test_from_every_step(sql: SQLCheckpointer, ours: list[Any], theirs: list[Any]) -> None:
    """The other agent goes on from there, whatever stands around its turns; each thread is whole in the end."""
    session = talker(sql, around=ours).session("t")
    session.send("hello")
    session.send("pay 1")
    session.resume(approve())
    runs = 0
    for step in session.checkpoints:
        counter, held = Counter(), session.at(step)
        try:
            rerun = session.rerun(step, agent=talker(sql, around=theirs, counter=counter))
        except ThreadError:
            assert held.answer is not None, "at no other step a turn is over"
            continue
        runs += 1
        asked = isinstance(rerun.result, Paused)
        answer = rerun.session.resume(approve()).answer if asked else rerun.answer
        assert answer == rerun.original.answer
        assert counter.ran == (["pay 1"] if asked and not _calls(held.messages) else []), "else the effect is recorded"
        assert said(rerun.session.history[-1].messages) == said(rerun.original.messages)
        assert not sql.doctor.examine(rerun.session.thread)
    assert runs >= 6


def test_a_rerun_may_pause_and_is_decided_like_any_other(mode: Mode, sql: SQLCheckpointer) -> None:
    """The pause is the other agent's: what the thread itself asks stays open."""
    counter = Counter()
    session = talker(sql).session("t")
    session.send("pay 1")
    (asked,) = session.pending
    rerun = session.rerun(session.history[0], agent=talker(sql, counter=counter))
    assert (type(rerun.result), rerun.status, rerun.answer) == (Paused, "paused", None)
    assert rerun.difference.answers == (None, None)
    spoken = Spoken(rerun.session, mode)
    assert [one.id for one in spoken.see("pending")] != [asked.id]
    assert spoken.resume(approve()).answer == "3: paid pay 1"
    assert (counter.ran, [one.id for one in session.pending]) == (["pay 1"], [asked.id])
    assert session.compare(rerun.original, spoken.see("history")[-1]).answers == (None, "3: paid pay 1")


def test_a_call_that_was_decided_is_asked_about_as_the_other_agent_would(sql: SQLCheckpointer) -> None:
    """From inside of a turn: gone without a tool, run without a gate; nobody is asked what was changed."""
    session = talker(sql).session("t")
    session.send("pay 1")
    session.resume(approve())
    called = next(step for step in session.checkpoints if _calls(session.at(step).messages))
    counter = Counter()
    free = Agent(ScriptedModel(reply), tools=[counter.pay], checkpointer=sql)
    assert session.rerun(called, agent=free).answer == "3: paid pay 1"
    assert counter.ran == ["pay 1"]
    without = Agent(ScriptedModel(reply), checkpointer=sql, on_changed="ask")
    assert "there is no tool named 'pay'" in str(session.rerun(called, agent=without).answer)


def _calls(messages: Any) -> bool:
    return bool(messages) and bool(getattr(messages[-1], "tool_calls", None))


def test_several_agents_are_compared(mode: Mode, sql: SQLCheckpointer) -> None:
    """Side by side; one that fails is told so, and the others are run."""
    spoken = Spoken(talker(sql).session("t"), mode)
    spoken.send("hello")
    spoken.send("look here")
    turn = spoken.see("history")[-1]

    def fails(messages: Any) -> Any:
        raise ConnectionError("secret")

    runs = spoken.do(
        "compare_runs",
        turn,
        {
            "brief": answers("seen", sql),
            "asks": Agent(
                ScriptedModel([asks(call("pay", of="x"))]),
                tools=[Counter().pay],
                filters=[filters.approval({"pay": True})],
                checkpointer=sql,
            ),
            "broken": Agent(ScriptedModel(fails), checkpointer=sql),
        },
    )
    assert list(runs) == ["brief", "asks", "broken"]
    assert runs.answers == {"brief": "seen", "asks": None, "broken": None}
    assert isinstance(runs["broken"].error, ModelError)
    assert [run.status for run in runs.values()] == ["completed", "paused", "failed"]
    assert len({run.session.thread for run in runs.values()}) == 3
    assert runs.to_json()["runs"]["broken"]["error"] == "ModelError"
    assert "secret" not in str(runs.to_json())
    with pytest.raises(ModelError):
        spoken.do("rerun", turn, agent=Agent(ScriptedModel(fails), checkpointer=sql), thread="failed")
    assert sql.sessions.get("failed").status == "failed"
    for wrong in ({}, [answers("x", sql)], {"a": "b"}):
        with pytest.raises(ConfigurationError):
            spoken.do("compare_runs", turn, wrong)


def test_runs_are_read_side_by_side(sql: SQLCheckpointer) -> None:
    session = answers("Good day.", sql).session("t")
    session.send("Hello\x1b[2J")
    long = "I beg your pardon? I did not quite hear what it was that you said to me."
    runs = session.compare_runs(session.history[0], {"long": answers(long, sql), "same": answers("Good day.", sql)})
    assert repr(runs).splitlines()[:4] == [
        "       | t (original) | long                         | same",
        "-------|--------------|------------------------------|----------",
        "status | completed    | completed                    | completed",
        "answer | Good day.    | I beg your pardon? I did not | Good day.",
    ]
    assert repr(runs["long"]).splitlines()[2:4] == [
        r"user: Hello\x1b[2J                                 user: Hello\x1b[2J",
        "assistant: Good day.                             | assistant: I beg your pardon? I did not quite",
    ]
    assert not runs["same"].difference
    assert runs["long"].difference


def test_states_are_compared_too(mode: Mode, sql: SQLCheckpointer) -> None:
    """The shared state and what the filters keep: between steps of a thread, and between two runs of a turn."""
    spoken = Spoken(Agent(ScriptedModel(reply), filters=[counting(1)], checkpointer=sql).session("t"), mode)
    spoken.send("hello")
    spoken.send("ho")
    noting = Agent(
        ScriptedModel([asks(call("note", text="x")), "otherwise"]),
        tools=[note],
        filters=[counting(10)],
        checkpointer=sql,
    )
    rerun = spoken.do("rerun", spoken.see("history")[-1], agent=noting)
    assert rerun.difference.state == {"note": (None, "x")}
    assert rerun.difference.filter_state == {"count": {"n": (1, 20)}}
    assert repr(rerun.difference).splitlines()[-4:] == [
        "- state note: None",
        "+ state note: 'x'",
        "- filter count n: 1",
        "+ filter count n: 20",
    ]
    assert repr(rerun).splitlines()[-1].split(" | ") == ["filter count n: 1".ljust(48), "filter count n: 20"]
    again = Spoken(rerun.session, mode)
    first, *_, last = again.see("checkpoints")
    between = again.do("compare", first, last)
    assert (between.state, between.filter_state) == ({"note": (None, "x")}, {"count": {"n": (None, 20)}})
    assert between.to_json()["filter_state"] == {"count": {"n": [None, 20]}}
    only_state = Difference([], (None, None), {}, {"count": {"n": (1, 2)}})
    assert only_state
    hello = spoken.see("history")[0]
    assert spoken.do("compare", hello, rerun.turn).state == {"note": (None, "x")}
    sql.prune(["t"])
    assert spoken.do("compare", hello, rerun.turn).state == {}, "the end of that turn is stored no more"


def test_places_that_cannot_be_run_again(mode: Mode, sql: SQLCheckpointer) -> None:
    """And names that are taken, and agents that keep their threads elsewhere."""
    spoken = Spoken(talker(sql).session("t"), mode)
    with pytest.raises(ThreadError, match="there is no thread"):
        spoken.do("rerun", "nothing")
    spoken.send("hello")
    spoken.send("ho")
    first, second = spoken.see("history")
    with pytest.raises(ThreadError, match="no turn is under way at step 1"):
        spoken.do("rerun", 1)
    with pytest.raises(ThreadError, match="no turn 'nothing'"):
        spoken.do("rerun", "nothing")
    with pytest.raises(ConfigurationError, match="a place is"):
        spoken.do("rerun", None)
    with pytest.raises(StorageError):
        spoken.do("rerun", second, thread="t")
    with pytest.raises(StorageError, match="exists"):
        spoken.do("rerun", first, thread="t")
    with pytest.raises(TypeError, match="no option"):
        spoken.do("rerun", first, nothing=1)
    with pytest.raises(ConfigurationError, match="not by a str"):
        spoken.do("rerun", first, agent="model")
    with pytest.raises(ConfigurationError, match="SQLCheckpointer"):
        spoken.do("rerun", first, agent=answers("x", InMemorySaver()))
    with pytest.raises(ConfigurationError, match="keeps its threads elsewhere"):
        spoken.do("rerun", first, agent=answers("x", "sqlite://"))
    assert len(sql.sessions.list().items) == 1, "nothing was made"
    same = Spoken(talker(sql).session("t"), mode)
    assert same.do("rerun", first.id).answer == "1: heard hello"
    assert not same.do("rerun", second).difference
    spoken.do("rewind", first)
    assert spoken.do("rerun", second).answer == "3: heard ho"
    sql.prune(["t"])
    with pytest.raises(ThreadError, match="not kept any more"):
        spoken.do("rerun", spoken.see("history")[0])


def test_an_agent_with_its_own_saver_on_the_same_database(mode: Mode, sql: SQLCheckpointer) -> None:
    spoken = Spoken(talker(sql).session("t"), mode)
    spoken.send("hello")
    spoken.send("ho")
    with SQLCheckpointer(str(sql.database.url)) as same:
        for turn in spoken.see("history"):
            assert spoken.do("rerun", turn, agent=answers("otherwise", same)).answer == "otherwise"


def test_another_owner_sees_nothing_of_it(sql: SQLCheckpointer) -> None:
    """Neither the thread nor what came of it; and a run of an owned thread is the owner's, whoever runs it."""
    session = talker(sql).session("t", owner="mira")
    session.send("hello")
    session.send("ho")
    stranger = talker(sql).session("t", owner="bob")
    with pytest.raises(ThreadError, match="there is no thread"):
        stranger.rerun(session.history[0])
    for turn in session.history:
        for held in (session, talker(sql).session("t")):
            assert held.rerun(turn, agent=answers("otherwise", sql)).session.row.owner == "mira"
    narrowed = answers("x", sql.for_owner("bob"))
    with pytest.raises(ConfigurationError):
        session.rerun(session.history[0], agent=narrowed)


def test_of_an_encrypted_database(tmp_path: Path) -> None:
    """An agent without the key reads nothing."""
    url, key = f"sqlite:///{tmp_path / 'sealed.db'}", "0" * 64
    with SQLCheckpointer(url, key=bytes.fromhex(key)) as saver, SQLCheckpointer(url, key=b"1" * 32) as theirs:
        session = talker(saver).session("t")
        session.send("hello")
        session.send("pay 1")
        rerun = session.rerun(session.history[1], agent=talker(saver))
        assert rerun.session.resume(approve()).answer == "5: paid pay 1"
        with pytest.raises(WrongKey):
            session.rerun(session.history[1], agent=talker(theirs))


@one_of_each
def test_of_a_thread_that_runs_elsewhere(database: str) -> None:
    """It is busy where something of it would be copied."""
    with saver_on(database) as saver:
        session = waiting_desk(saver).session("t")
        session.send("hello")
        with elsewhere(database) as other:
            hello = session.history[0]
            with pytest.raises(ThreadBusy):
                session.rerun(session.history[1])
            assert session.rerun(hello, agent=answers("otherwise", saver)).answer == "otherwise"
            assert other.end() == "Completed"
        assert session.rerun(session.history[1], agent=answers("otherwise", saver)).answer == "otherwise"


def test_nobody_else_is_answered_in_its_place(sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends something to the new thread before the turn is run there has it."""
    session = talker(sql).session("t")
    session.send("hello")
    session.send("ho")
    forked = SQLCheckpointer.fork_thread

    def taken(self: Any, *args: Any) -> None:
        forked(self, *args)
        assert outcome(talker(sql), "sync", "invoke", "mine", thread="new") == "Completed"

    monkeypatch.setattr(SQLCheckpointer, "fork_thread", taken)
    with pytest.raises(ThreadError, match="somebody else went on"):
        session.rerun(session.history[1], thread="new")
    assert said(talker(sql).session("new").messages)[2:] == ["human: mine", "ai: 3: heard mine"]


def _runs_again_and_dies(url: str, colour: Mode) -> None:
    def dies(messages: Any) -> Any:
        return die()

    with SQLCheckpointer(url) as saver:
        spoken = Spoken(talker(saver).session("t"), colour)
        spoken.do("rerun", spoken.see("history")[1], agent=Agent(ScriptedModel(dies), checkpointer=saver), thread="new")


@one_of_each
@pytest.mark.parametrize("colour", ["invoke", "ainvoke"])
def test_killed_in_the_middle_the_thread_is_as_it_was(database: str, colour: Mode) -> None:
    """And the new one goes on like any that a crash interrupted."""
    with SQLCheckpointer(database) as saver:
        spoken = Spoken(talker(saver).session("t"), colour)
        for text in ("hello", "look here", "bye"):
            spoken.send(text)
        before = spoken.see("history")
        killed(_runs_again_and_dies, database, colour)
        assert spoken.see("history") == before
        assert spoken.send("on").answer == "9: heard on"
        again = Spoken(talker(saver).session("new"), colour)
        assert again.session.status == "running"
        assert again.resume().answer == before[1].answer
        assert [said(one.messages) for one in again.see("history")] == [said(one.messages) for one in before[:2]]


def test_a_turn_that_failed_is_run_again(sql: SQLCheckpointer) -> None:
    """As it was sent, by an agent that does not fail."""
    session = talker(sql).session("t")
    assert outcome(talker(sql), "sync", "invoke", FAILS, thread="t") == "ModelError"
    assert session.rerun(session.history[-1], agent=answers("now it works", sql)).answer == "now it works"
