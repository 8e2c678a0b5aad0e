"""`on_message_while_paused="alongside"`: a message is answered in a branch, and the pause is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints.databases import one_of_each
from langchain_core.messages import AIMessage
from loop.scripts import assert_valid
from modes import Drive, Mode, delivered
from scenes import Desk, asks, call, heard
from tests.hitl.paused import GATE, ONION, desk_of, history

from scallion import Agent, Blocked, Completed, Filter, Paused, SQLCheckpointer, approve, filters, pause, respond
from scallion.testing import ScriptedModel

WAITS = "not run yet: this waits for a person"


def test_it_is_answered_and_the_pause_is_as_it_was(drive: Drive, any_saver: Any, mode: Mode) -> None:
    desk = Desk()
    agent = desk_of(any_saver, "alongside", *ONION[mode], desk=desk)
    driver = drive(agent)
    paused, _ = driver.start("go", thread="t")
    before = any_saver.get_tuple({"configurable": {"thread_id": "t"}})
    result, events = driver.start("how long?", thread="t")
    assert isinstance(result, Completed)
    assert result.answer == "heard how long?"
    assert not driver.streams or delivered(events) == result.answer
    assert any_saver.get_tuple({"configurable": {"thread_id": "t"}}) == before
    assert heard(result.messages) == [
        ("human", "go"),
        ("ai", ""),
        ("tool", "order 2 is here"),
        ("tool", WAITS),
        ("human", "how long?"),
        ("ai", "heard how long?"),
    ]
    assert str(result.thread).startswith("t#")
    assert history(agent, str(result.thread)) == list(result.messages)
    done, _ = driver.resume("t", {paused.approvals[0].id: approve()})
    assert isinstance(done, Completed)
    assert desk.ran == ["look 2", "refund 1"]
    assert "how long?" not in [one.text for one in done.messages]


def test_it_goes_on_by_its_name_and_each_message_has_a_branch_of_its_own(drive: Drive, any_saver: Any) -> None:
    agent = desk_of(any_saver, "alongside")
    driver = drive(agent)
    driver.start("go", thread="t")
    first, second = (driver.start(text, thread="t")[0] for text in ("one", "two"))
    assert len({first.thread, second.thread, "t"}) == 3
    assert "one" not in [one.text for one in second.messages]
    more, _ = driver.start("more", thread=first.thread)
    assert [one.text for one in more.messages if one.type == "human"] == ["go", "one", "more"]
    assert_valid(history(agent, str(first.thread)))


@pytest.mark.parametrize(
    "guard",
    [
        filters.moderation(lambda text: "bomb" in text, exit="error"),
        filters.pii("email", strategy="block", detectors={"email": "bomb"}),
    ],
)
def test_what_a_guard_blocks_leaves_no_branch(drive: Drive, sql: SQLCheckpointer, guard: Filter) -> None:
    driver = drive(desk_of(sql, "alongside", guard))
    driver.start("go", thread="t")
    before = sql.get_tuple({"configurable": {"thread_id": "t"}})
    for _ in range(2):
        with pytest.raises(Blocked):
            driver.start("a bomb", thread="t")
    assert [one.thread for one in sql.sessions.list().items] == ["t"]
    assert sql.get_tuple({"configurable": {"thread_id": "t"}}) == before
    assert str(driver.start("hello", thread="t")[0].thread).startswith("t#")


def test_its_approvals_are_its_own(drive: Drive, sql: SQLCheckpointer) -> None:
    desk = Desk()
    driver = drive(desk_of(sql, "alongside", desk=desk))
    first, _ = driver.start("go", thread="t")
    second, _ = driver.start("go too", thread="t")
    assert isinstance(second, Paused)
    [asked] = second.approvals
    assert asked.thread == second.thread != "t"
    assert {one.thread for one in sql.approvals.list().items} == {"t", second.thread}
    result, _ = driver.resume(asked.thread, {asked.id: approve()})
    assert isinstance(result, Completed)
    assert desk.ran.count("refund 1") == 1
    assert [one.id for one in sql.approvals.list().items] == [first.approvals[0].id]


def test_it_has_the_shared_state_and_what_filters_keep(drive: Drive, any_saver: Any) -> None:
    def notes(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return reply.replace(writes={"looked": request.call["args"]["order"]}), {"n": state["n"] + 1}

    counts = Filter("counts", around_tool=notes, init={"n": 0}, scope="thread")
    agent = desk_of(any_saver, "alongside", counts)
    driver = drive(agent)
    driver.start("go", thread="t")
    result, _ = driver.start("how long?", thread="t")
    assert result.filter_state["counts"] == {"n": 1}
    assert agent.graph.get_state({"configurable": {"thread_id": result.thread}}).values["state"] == {"looked": 2}


def test_an_answer_that_nobody_has_released_is_not_in_it(drive: Drive, any_saver: Any) -> None:
    def release(request: Any, state: Any, next: Any) -> Any:
        out = next(request)
        if out.answer == "draft" and pause("release it?").message != "yes":
            return out.replace(message=AIMessage("nothing"))
        return out

    review = Filter("review", around_turn=release)
    agent = Agent(
        ScriptedModel(["draft", "beside"]),
        filters=[review],
        checkpointer=any_saver,
        on_message_while_paused="alongside",
    )
    driver = drive(agent)
    driver.start("write", thread="t")
    result, _ = driver.start("how long?", thread="t")
    assert [one.text for one in result.messages] == ["write", "how long?", "beside"]
    assert driver.resume("t", respond("yes"))[0].answer == "draft"


@one_of_each
def test_the_paused_thread_can_be_resumed_meanwhile(saver: SQLCheckpointer, database: str) -> None:
    """Nothing holds it while the message is answered."""
    desk = Desk()
    resumed: list[str] = []

    def says(messages: list[Any]) -> Any:
        if messages[-1].text == "go":
            return asks(call("refund", order=1))
        if messages[-1].text == "how long?":
            with SQLCheckpointer(database) as other:
                resumed.append(desk_of(other, "alongside", desk=desk).resume("t", approve()).answer)
        return "soon"

    agent = Agent(
        ScriptedModel(says), tools=desk.tools, filters=[GATE], checkpointer=saver, on_message_while_paused="alongside"
    )
    agent.invoke("go", thread="t", owner="ana")
    result = agent.invoke("how long?", thread="t")
    assert (result.answer, resumed, desk.ran) == ("soon", ["heard refunded 1"], ["refund 1"])
    session = saver.sessions.get(str(result.thread))
    assert session is not None
    assert session.owner == "ana"
    assert saver.status("t") == saver.status(str(result.thread)) == "idle"


def test_the_longest_name_of_a_thread_has_a_branch(sql: SQLCheckpointer) -> None:
    agent = desk_of(sql, "alongside")
    agent.invoke("go", thread="t" * 255)
    result = agent.invoke("how long?", thread="t" * 255)
    assert isinstance(result, Completed)


def test_a_message_to_a_thread_that_is_not_paused_stays_in_it(drive: Drive, any_saver: Any) -> None:
    driver = drive(desk_of(any_saver, "alongside"))
    assert driver.start("hello", thread="t")[0].thread == "t"
