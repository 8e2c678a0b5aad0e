"""Going back to a turn, going on beside it, editing what was sent: at every turn, as LangGraph's own saver has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import pytest
from checkpoints.databases import in_memory, one_of_each
from checkpoints.test_plans import watched
from checkpoints.test_random import Whole
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from modes import Mode
from processes import processes
from scenes import asks, call
from sessions.talks import FAILS, Counter, Spoken, reply, said, talker
from tests.hitl.harness import WAIT, elsewhere, saver_on
from tests.hitl.harness import desk as waiting_desk

from scallion import (
    Agent,
    ConfigurationError,
    ModelError,
    NotPaused,
    Paused,
    Session,
    SQLCheckpointer,
    StorageError,
    ThreadBusy,
    ThreadError,
    approve,
    around_turn,
    reject,
)
from scallion.testing import ScriptedModel

EXAMPLES = int(os.environ.get("SCALLION_TEST_EXAMPLES", "6"))
CONFIG: Any = {"configurable": {"thread_id": "t"}}


@tool
def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write something down."""
    return Command(update={"note": text, "messages": [ToolMessage("written", tool_call_id=call_id)]})


@around_turn
def twice(request: Any, state: Any, next: Any) -> Any:
    """Reject the first answer to what begins with "hard"."""
    result = next(request)
    if request.resume is None and request.messages[-1].text.startswith("hard"):
        return next(request.replace(messages=[*result.messages, HumanMessage("better")], load_history=False))
    return result


def spoken_by(agent: Agent, text: str, number: int) -> None:
    """One turn of a conversation: what pauses is approved, rejected, or left to be superseded or cancelled."""
    try:
        result = agent.invoke(HumanMessage(text, id=f"h{number}"), thread="t")
    except ModelError:
        return
    if isinstance(result, Paused):
        end: dict[str, Callable[[], Any]] = {
            "approve": lambda: agent.resume("t", approve()),
            "reject": lambda: agent.resume("t", reject("no")),
            "cancel": lambda: agent.cancel("t"),
        }
        end[text.rpartition(" ")[2]]()


texts = st.lists(
    st.sampled_from(
        ["hello", "look up", "pay approve", "pay reject", "pay cancel", "hard", FAILS, "a word " + "that is long " * 30]
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(texts=texts, around=st.booleans())
def test_every_turn_can_be_gone_back_to(migrated: Path, texts: list[str], around: bool) -> None:
    """The messages are those that LangGraph's saver has at that turn, and the thread goes on from them as there."""
    with SQLCheckpointer(in_memory(migrated)) as saver:
        theirs = talker(InMemorySaver(), around=[twice] if around else [])
        ours = talker(saver, around=[twice] if around else [])
        ends: list[Any] = [None]
        for number, text in enumerate(texts):
            spoken_by(theirs, text, number)
            spoken_by(ours, text, number)
            ends.append(theirs.graph.get_state(CONFIG).config)
        session = ours.session("t")
        turns = session.history
        expected = [[] if end is None else said(theirs.graph.get_state(end).values["messages"]) for end in ends]
        assert said(session.messages) == expected[-1]
        assert [said(one.messages) for one in turns] == [now[len(before) :] for before, now in pairwise(expected)]
        for number, turn in enumerate(turns):
            _goes_on(session.fork(at=turn), expected[number + 1])
            _goes_on(session.fork(before=turn), expected[number])
        for turn in reversed(turns):
            _rewinds(session, turn.id, expected[turns.index(turn) + 1], turns)
        session.rewind(before=turns[0])
        assert (session.messages, session.history, session.title) == ([], [], None)
        session.rewind(to=turns[-1])
        assert [one.id for one in session.history] == [one.id for one in turns]
        _goes_on(session, expected[-1])
        for row in saver.sessions.list(limit=100).items:
            assert not saver.doctor.examine(row.thread)


def _goes_on(session: Session, before: list[str]) -> None:
    assert said(session.messages) == before
    session.send("next")
    assert said(session.messages) == [*before, "human: next", f"ai: {len(before) + 1}: heard next"]
    assert session.row.message_count == len(before) + 2


def _rewinds(session: Session, to: str, messages: list[str], turns: Any) -> None:
    session.rewind(to=to)
    assert said(session.messages) == messages
    ids = [one.id for one in session.history]
    assert ids == [one.id for one in turns][: len(ids)]
    assert ids[-1] == to
    assert {one.id for one in session.rewound} == {one.id for one in turns} - set(ids)


@pytest.mark.parametrize("around", [[], [twice]], ids=["", "around the turn"])
def test_every_step_can_be_gone_on_from(migrated: Path, around: list[Any]) -> None:
    """Also inside of turns: what comes of it is what comes of LangGraph's own copy of that step."""
    memory = Whole()
    theirs = talker(memory, around=around)
    with SQLCheckpointer(in_memory(migrated)) as saver:
        ours = talker(saver, around=around)
        for number, text in enumerate(["hard", "pay approve"]):
            spoken_by(theirs, text, number)
            spoken_by(ours, text, number)
        session, steps = ours.session("t"), memory.all()
        assert len(steps) == len(session.checkpoints)
        for step, (_, _, id) in zip(session.checkpoints, steps, strict=True):
            memory.copy_thread("t", id)
            config: Any = {"configurable": {"thread_id": id, "checkpoint_id": id, "checkpoint_ns": ""}}
            theirs.graph.update_state(config, None, as_node="__copy__")
            expected = _to_its_end(theirs, id)
            fork = session.fork(at=step)
            session.rewind(to=step)
            assert _to_its_end(ours, fork.thread) == _to_its_end(ours, "t") == expected
            assert not saver.doctor.examine("t")


def _to_its_end(agent: Agent, thread: str) -> tuple[str, list[str]]:
    try:
        result = agent.resume(thread)
        while isinstance(result, Paused):
            result = agent.resume(thread, approve())
        outcome = str(result.answer)
    except NotPaused:
        outcome = "rests"
    return outcome, said(agent.session(thread).messages)


def test_a_history_is_read_in_as_few_queries_however_long_it_is(sql: SQLCheckpointer) -> None:
    session = talker(sql).session("t")
    counted = []
    for _ in range(2):
        for number in range(6):
            session.send(f"look {number}")
        with watched(sql) as seen:
            assert all(turn.tool_calls[0].result for turn in session.history)
        counted.append(len(seen))
    assert counted[0] == counted[1] <= 12


def test_turns_are_told_apart_however_they_are_run(sql: SQLCheckpointer) -> None:
    """With their ends stored alone, by the graph itself, and in a branch of a thread that waits."""
    agent = talker(sql)
    for text in ("hello", "look up"):
        agent.invoke(text, thread="ends", durability="exit")
        agent.graph.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": "graph"}})
    for thread in ("ends", "graph"):
        assert [said(one.sent) for one in agent.session(thread).history] == [["human: hello"], ["human: look up"]]
    ends = agent.session("ends")
    ends.rewind(to=ends.history[0])
    assert said(ends.messages) == ["human: hello", "ai: 1: heard hello"]
    with pytest.raises(ThreadError, match="not kept any more"):
        ends.rewind(before=ends.history[0])
    aside = talker(sql, on_message_while_paused="alongside")
    aside.invoke("pay 1", thread="t")
    branch = aside.invoke("and this?", thread="t").thread
    assert [said(one.sent) for one in aside.session(str(branch)).history] == [["human: pay 1"], ["human: and this?"]]


def test_a_rewind_cancels_what_is_asked_and_keeps_effects(mode: Mode, sql: SQLCheckpointer) -> None:
    counter = Counter()
    spoken = Spoken(talker(sql, counter=counter).session("t"), mode)
    spoken.send("hello")
    spoken.send("pay 1")
    (asked,) = spoken.see("pending")
    first, paused = spoken.see("history")
    spoken.do("rewind", first)
    assert (spoken.see("pending"), spoken.session.status) == ([], "idle")
    assert sql.approvals.get(asked.id).status == "cancelled"
    with pytest.raises(NotPaused):
        spoken.resume(approve())
    assert [one.id for one in spoken.see("rewound")] == [paused.id]

    spoken.send("pay 2")
    assert spoken.resume(approve()).answer == "5: paid pay 2"
    steps = spoken.see("checkpoints")
    calls = next(one for one in steps if one.current and spoken.do("at", one).messages[-1:] and _calls(spoken, one))
    spoken.do("rewind", calls)  # to where the model had called the tool, and nobody had been asked
    assert (spoken.session.status, counter.ran) == ("running", ["pay 2"])
    assert isinstance(spoken.resume(), Paused)
    assert spoken.resume(approve()).answer == "5: paid pay 2"
    assert counter.ran == ["pay 2"], "the effect of the call is in the ledger"
    fork = spoken.fork(at=calls)
    assert isinstance(fork.resume(), Paused)
    assert (fork.resume(approve()).answer, counter.ran) == ("5: paid pay 2", ["pay 2"])


def _calls(spoken: Spoken, step: Any) -> bool:
    return bool(getattr(spoken.do("at", step).messages[-1], "tool_calls", None))


def test_a_fork_of_a_paused_thread_is_paused_too(mode: Mode, sql: SQLCheckpointer) -> None:
    spoken = Spoken(talker(sql).session("t"), mode)
    spoken.send("pay 1")
    fork = spoken.fork(thread="copy")
    assert [one.id for one in fork.see("pending")] == [one.id for one in spoken.see("pending")]
    assert fork.resume(approve()).answer == "3: paid pay 1"
    assert spoken.session.status == "paused"
    beside = spoken.fork(at=spoken.see("checkpoints")[-1])
    assert (beside.see("pending"), beside.session.status) == ([], "running")
    assert spoken.fork(before=spoken.see("history")[0]).see("history") == []
    with pytest.raises(StorageError):
        spoken.fork(thread="copy")


def test_a_message_is_edited_and_its_turn_run_again(mode: Mode, sql: SQLCheckpointer) -> None:
    spoken = Spoken(talker(sql).session("t", user="ana"), mode)
    for text in ("hello", "look here", "bye"):
        spoken.send(text)
    hello, looked, bye = spoken.see("history")
    assert spoken.do("edit_message", looked.sent[0].id, "look there").answer.startswith("5: seen look there")
    assert [said(one.sent) for one in spoken.see("history")] == [["human: hello"], ["human: look there"]]
    assert [one.id for one in spoken.see("rewound")] == [bye.id, looked.id]
    assert said(spoken.do("at", bye).messages)[-1] == "ai: 7: heard bye"
    assert spoken.see("history")[1].user == "ana"
    assert spoken.do("edit_message", hello.sent[0].id, "hi").answer == "1: heard hi"
    assert spoken.session.title == "hi"
    with pytest.raises(ThreadError, match="nobody sent"):
        spoken.do("edit_message", spoken.see("messages")[-1].id, "x")
    before = spoken.see("messages")
    for wrong in (None, "", 7, [5], [None]):
        with pytest.raises(ConfigurationError, match="content"):
            spoken.do("edit_message", before[0].id, wrong)
    with pytest.raises(TypeError, match="no option"):
        spoken.do("edit_message", before[0].id, "x", nothing=1)
    assert spoken.see("messages") == before, "nothing was rewound"

    difference = spoken.do("compare", looked, spoken.see("rewound")[0])
    assert difference.answers[0] != difference.answers[1]
    fork = spoken.fork(at=bye)
    assert not spoken.do("compare", fork.session, bye.checkpoint)
    assert spoken.do("compare", hello, spoken.see("history")[0]).to_json()["answers"] == [
        "1: heard hello",
        "1: heard hi",
    ]
    assert repr(spoken.do("compare", hello, spoken.see("history")[0])).splitlines() == [
        "- user: hello",
        "- assistant: 1: heard hello",
        "+ user: hi",
        "+ assistant: 1: heard hi",
    ]


def test_another_agent_goes_on_from_a_step_and_is_compared(mode: Mode, sql: SQLCheckpointer) -> None:
    session = Agent(ScriptedModel(reply), tools=[note, Counter().look], checkpointer=sql).session("t")
    session.send("hello")
    session.send("look here")
    seen = next(one for one in session.checkpoints if session.at(one).messages[-1:] and _is_result(session, one))
    other = Agent(ScriptedModel([asks(call("note", text="x")), "otherwise"]), tools=[note], checkpointer=sql)
    spoken = Spoken(other.session(session.fork(at=seen).thread), mode)
    assert spoken.resume().answer == "otherwise"
    difference = spoken.do("compare", session, spoken.session)
    assert difference.answers == ("5: seen look here " + "." * 300, "otherwise")
    assert difference.state == {"note": (None, "x")}
    assert repr(difference).splitlines()[-1] == "+ state note: 'x'"
    assert not spoken.do("compare", session.history[0], spoken.see("history")[0])
    assert spoken.do("compare", session.history[0], spoken.see("checkpoints")[-1]).state == {"note": (None, "x")}


def _is_result(session: Session, step: Any) -> bool:
    return session.at(step).messages[-1].type == "tool"


def test_places_that_are_not_there(mode: Mode, sql: SQLCheckpointer) -> None:
    agent = talker(sql)
    spoken = Spoken(agent.session("t"), mode)
    with pytest.raises(ThreadError, match="there is no thread"):
        spoken.do("rewind", 0)
    spoken.send("hello")
    spoken.send("ho")
    agent.session("u").send("hello")
    for place in (99, "nowhere", agent.session("u").history[0]):
        for verb in ("at", "fork", "rewind"):
            with pytest.raises(ThreadError, match="no turn or step"):
                spoken.do(verb, place)
    for wrong in (True, 1.5, ["t"]):
        with pytest.raises(ConfigurationError):
            spoken.do("at", wrong)
    for given_ in ({}, {"to": 0, "before": spoken.see("history")[0]}):
        with pytest.raises(ConfigurationError):
            spoken.do("rewind", **given_)
    with pytest.raises(ThreadError, match="no turn"):
        spoken.do("fork", before="nowhere")
    sql.prune(["t"])
    assert said(spoken.see("history")[0].messages)[0] == "human: hello"
    with pytest.raises(ThreadError, match="not kept any more"):
        spoken.do("edit_message", spoken.see("messages")[0].id, "x")
    assert len(spoken.see("messages")) == 4


def test_what_is_no_decision_no_tag_and_no_file_of_the_owner_is_refused(sql: SQLCheckpointer) -> None:
    session = talker(sql).session("t")
    session.send("hello")
    with pytest.raises(ConfigurationError, match="decide takes"):
        session.decide({"id": approve()}, approve())
    with pytest.raises(ConfigurationError, match="not empty"):
        session.tag("")
    with pytest.raises(ThreadError, match="the file of thread 't' is that of another owner, or of nobody"):
        talker(sql).session("new", owner="ana").load(list(session.export()))


def test_messages_that_are_removed_or_taken_up_later(sql: SQLCheckpointer) -> None:
    """What a later turn removes was there in its own turn."""
    session = talker(sql).session("t")
    session.send([HumanMessage("one", id="h1"), HumanMessage("two", id="h2")])
    session.send([RemoveMessage("h1"), HumanMessage("three", id="h3")])
    assert [said(one.sent) for one in session.history] == [["human: one", "human: two"], ["human: three"]]
    session.edit_message("h2", "zwei")
    assert said(session.messages)[:2] == ["human: one", "human: zwei"]


@one_of_each
def test_a_thread_that_runs_elsewhere_is_busy(database: str) -> None:
    with elsewhere(database) as other, saver_on(database) as saver:
        session = waiting_desk(saver).session("t")
        (turn,) = session.history
        assert turn.status == "running"
        for work in (
            lambda: session.rewind(turn),
            lambda: session.fork(),
            lambda: session.edit_message(turn.sent[0].id, "x"),
        ):
            with pytest.raises(ThreadBusy):
                work()
        assert other.end() == "Completed"
        assert session.history[0].answer == "done"
        session.rewind(before=session.history[0])
        assert session.messages == []


def _rewinds_there(url: str, ends: Any) -> None:
    with SQLCheckpointer(url) as saver:
        session = talker(saver).session("t")
        session.rewind(session.history[0])
        ends.put([said(session.messages), session.fork(at=session.rewound[0]).thread])


@one_of_each
def test_another_process_sees_the_same(database: str) -> None:
    ends = processes.Queue()
    with SQLCheckpointer(database) as saver:
        session = talker(saver).session("t")
        for text in ("hello", "look here", "bye"):
            session.send(text)
        before = session.history
        other = processes.Process(target=_rewinds_there, args=(database, ends))
        other.start()
        messages, fork = ends.get(timeout=WAIT)
        other.join(WAIT)
        assert said(session.messages) == messages == said(before[0].messages)
        assert [one.id for one in session.rewound] == [one.id for one in reversed(before[1:])]
        copy = talker(saver).session(fork)
        assert [one.messages for one in copy.history] == [one.messages for one in before]
        session.send("on")
        copy.send("on")
        assert [said(one.messages)[-1] for one in (session, copy)] == ["ai: 3: heard on", "ai: 9: heard on"]
