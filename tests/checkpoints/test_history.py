"""Histories of conversations: threads of the checkpointer, to which each message is added once, by whoever is first."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from checkpoints.databases import everywhere
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from scenes import asks, call, heard

from scallion.errors import ConfigurationError, ThreadBusy, ThreadError
from scallion.sql import history as module
from scallion.sql.history import unknown
from scallion.sql.saver import SQLCheckpointer

SAID: list[BaseMessage] = [
    HumanMessage("Where is 7?", id="1"),
    asks(call("look", order=7)).model_copy(update={"id": "2"}),
    ToolMessage("here", tool_call_id="c1", name="look", id="3"),
    AIMessage("It is here.", id="4"),
]


@everywhere
def test_what_is_added_is_there_once_in_order_and_equal(saver: SQLCheckpointer) -> None:
    history = saver.history("ana")
    assert history.messages == []
    history.add_messages(SAID[:2])
    history.add_messages(SAID[1:])
    saver.history("ana").add_messages(SAID)
    assert saver.history("ana").messages == SAID
    assert saver.history("ben").messages == []
    history.clear()
    assert history.messages == []


@everywhere
async def test_both_colours_see_the_same(saver: SQLCheckpointer) -> None:
    history = saver.history("ana")
    await history.aadd_messages(SAID[:2])
    await asyncio.to_thread(history.add_messages, SAID[2:])
    assert await history.aget_messages() == SAID
    await history.aclear()
    assert await history.aget_messages() == []


@everywhere
def test_writers_at_once_lose_nothing(saver: SQLCheckpointer) -> None:
    """Each adds what all others add too, and one message of its own."""

    def write(number: int) -> None:
        saver.history("ana").add_messages([SAID[0], HumanMessage(f"{number}", id=f"own-{number}")])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(12)))
    ids = [one.id for one in saver.history("ana").messages]
    assert ids[0] == "1"
    assert sorted(ids[1:]) == sorted(f"own-{number}" for number in range(12))


async def test_tasks_at_once_lose_nothing(sql: SQLCheckpointer) -> None:
    await asyncio.gather(
        *(sql.history("ana").aadd_messages([HumanMessage("?", id=f"{number}")]) for number in range(12))
    )
    assert len(await sql.history("ana").aget_messages()) == 12


def test_a_message_without_an_id_is_given_one(sql: SQLCheckpointer) -> None:
    sql.history("ana").add_messages([HumanMessage("a"), HumanMessage("a")])
    ids = [one.id for one in sql.history("ana").messages]
    assert all(ids)
    assert len(set(ids)) == 2
    assert unknown([SAID[0], SAID[0], SAID[1]], SAID[1:]) == [SAID[0]]


def test_it_is_a_thread_as_others_are(sql: SQLCheckpointer) -> None:
    """Listed under its agent, moved and deleted with the rest; nothing is written where nothing is new."""
    history = sql.history("ana")
    history.add_messages(SAID)
    before = [one.config for one in sql.list({"configurable": {"thread_id": history.thread}})]
    history.add_messages(SAID)
    assert [one.config for one in sql.list({"configurable": {"thread_id": history.thread}})] == before
    (session,) = sql.sessions.list().items
    assert (session.thread, session.agent, session.status, session.message_count) == ("memory:ana", "memory", "idle", 4)
    lines = list(sql.sessions.export("memory:ana"))
    sql.sessions.delete("memory:ana")
    assert history.messages == []
    sql.sessions.load(lines)
    assert history.messages == SAID


def test_a_long_history_costs_what_it_holds(sql: SQLCheckpointer) -> None:
    """Its messages are shared by its checkpoints."""
    history = sql.history("ana")
    sizes = []
    for number in range(40):
        history.add_messages([HumanMessage("word " * 60, id=f"{number}")])
        sizes.append(sql.sessions.list().items[0].bytes)
    assert sizes[-1] - sizes[-11] < 1.5 * (sizes[10] - sizes[0])


def test_it_is_encrypted_with_the_rest(tmp_path: Path) -> None:
    with SQLCheckpointer(f"sqlite:///{tmp_path}/agent.db", key=b"k" * 32) as saver:
        saver.history("ana").add_messages(SAID)
        assert heard(saver.history("ana").messages) == heard(SAID)
    assert all(b"It is here" not in part.read_bytes() for part in tmp_path.iterdir())


def test_an_owner_has_histories_of_their_own(sql: SQLCheckpointer) -> None:
    sql.for_owner("ana").history("plans").add_messages(SAID)
    assert sql.for_owner("ana").history("plans").messages == SAID
    assert sql.for_owner("ben").history("plans").messages == []
    with pytest.raises(ThreadError):
        sql.for_owner("ben").history("plans").add_messages(SAID)
    assert sql.history("plans").messages == SAID


def test_a_writer_does_not_wait_for_ever(sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.03)
    assert sql.leases is not None
    lease = sql.leases.take("memory:ana", new=True)
    with pytest.raises(ThreadBusy):
        sql.history("ana").add_messages(SAID)
    sql.leases.release(lease, failed=False)
    sql.history("ana").add_messages(SAID)


def test_writers_wait_for_each_other_where_turns_have_no_leases(tmp_path: Path) -> None:
    with SQLCheckpointer(f"sqlite:///{tmp_path}/agent.db", lease_seconds=None) as saver:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: saver.history("ana").add_messages([HumanMessage("?", id=f"{n}")]), range(8)))
        assert len(saver.history("ana").messages) == 8


@pytest.mark.parametrize("name", [None, 1.5, b"ana"])
def test_what_is_no_name_is_refused(sql: SQLCheckpointer, name: object) -> None:
    with pytest.raises(ConfigurationError, match="conversation"):
        sql.history(name)
