"""Characters that some database cannot hold, in texts and in names; and a delete as the first call."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints.databases import bare_database, everywhere
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from scallion.errors import StorageError
from scallion.inbox import Inbox
from scallion.sql.saver import SQLCheckpointer

__all__ = ["bare_database"]

TEXTS = ["a\x00b", "half \ud83e of a pair", "🧅\u2028\x7f"]
NAMES = {"NUL": "a\x00b", "surrogate": "a\ud800b", "long": "x" * 600}


def config(thread: str = "t", **metadata: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}, "metadata": metadata}


def graph(saver: SQLCheckpointer, text: str) -> Any:
    """A graph whose tool gives the text, after it has asked with it."""

    def ask(state: MessagesState) -> Any:
        call = {"name": f"tool {text}", "args": {text: text}, "id": "c"}
        return {"messages": [AIMessage(text, tool_calls=[call])]}

    def tool(state: MessagesState) -> Any:
        assert interrupt({"question": text, text: [text]}) == text
        return {"messages": [ToolMessage(text, tool_call_id="c")]}

    made = StateGraph(MessagesState).add_node("ask", ask).add_node("tool", tool)
    return made.add_edge(START, "ask").add_edge("ask", "tool").compile(checkpointer=saver)


@everywhere
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
async def test_texts_come_back_equal(saver: SQLCheckpointer, text: str) -> None:
    run = graph(saver, text)
    await run.ainvoke({"messages": [HumanMessage(text)]}, config(note=text))
    (found,) = run.get_state(config()).interrupts
    assert found.value == {"question": text, text: [text]}
    assert saver.approvals.list().items[0].description
    await run.ainvoke(Command(resume=text), config(note=text))
    messages = run.get_state(config()).values["messages"]
    assert [one.content for one in messages] == [text, text, text]
    assert messages[1].tool_calls[0]["args"] == {text: text}
    assert saver.get_tuple(config()).metadata["note"] == text
    assert saver.sessions.list().items[0].message_count == 3
    await saver.aclose()


@everywhere
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_name_that_a_database_cannot_hold_is_refused_by_every_one(saver: SQLCheckpointer, name: str) -> None:
    """Before anything is written, and saying which."""
    source: Any = {"source": "input", "step": -1, "parents": {}}

    def put(place: Any, metadata: Any = source) -> Any:
        return saver.put(place, empty_checkpoint(), metadata, {})

    with pytest.raises(StorageError, match="thread"):
        put(config(name))
    with pytest.raises(StorageError, match="thread"):
        await saver.aput(config(name), empty_checkpoint(), source, {})
    within = {"configurable": {"thread_id": "t", "checkpoint_ns": name}}
    with pytest.raises(StorageError, match="namespace"):
        put(within)
    for key in ("run_id", "owner", "agent"):
        with pytest.raises(StorageError, match=key):
            put(config(), {**source, key: name})
    assert saver.sessions.list().items == []
    stored = put(config())
    with pytest.raises(StorageError, match="task"):
        saver.put_writes(stored, [("messages", "x")], name)
    for key in ("checkpoint_id", "checkpoint_ns"):
        place = {"configurable": {**stored["configurable"], key: name}}
        with pytest.raises(StorageError, match="checkpoint"):
            saver.put_writes(place, [("messages", "x")], "task")
        with pytest.raises(StorageError, match="checkpoint"):
            put(place)
        with pytest.raises(StorageError, match="checkpoint"):
            saver.get_tuple(place)
    with pytest.raises(StorageError, match="checkpoint id"):
        saver.put(config(), {**empty_checkpoint(), "id": name}, source, {})
    with pytest.raises(StorageError, match="task path"):
        saver.put_writes(stored, [("messages", "x")], "task", name * 200)
    with pytest.raises(StorageError, match="owner"):
        saver.for_owner(name)
    with pytest.raises(StorageError, match="thread"):
        saver.copy_thread("t", name)
    with pytest.raises(StorageError, match="tag"):
        saver.sessions.tag("t", name)
    assert saver.get_tuple(stored).pending_writes == []
    assert [one.tags for one in saver.sessions.list().items] == [()]
    await saver.aclose()


@everywhere
def test_a_space_at_the_end_lets_no_other_owner_in(saver: SQLCheckpointer) -> None:
    """MariaDB compares texts without the spaces at their ends."""
    source: Any = {"source": "input", "step": -1, "parents": {}, "owner": "mira"}
    saver.put(config(), empty_checkpoint(), source, {})
    with pytest.raises(StorageError, match="owner must not end in a space"):
        saver.for_owner("mira ")
    with pytest.raises(StorageError, match="owner"):
        saver.sessions.list(owner="mira  ")
    with pytest.raises(StorageError, match="owner"):
        saver.put(config("t-2"), empty_checkpoint(), {**source, "owner": "mira "}, {})
    for use in (saver.delete_thread, saver.status, saver.sessions.get, saver.sessions.delete, saver.sessions.archive):
        with pytest.raises(StorageError, match="thread id"):
            use("t ")
    with pytest.raises(StorageError, match="thread id"):
        saver.get_tuple(config("t "))
    with pytest.raises(StorageError, match="tag"):
        saver.sessions.tag("t", "a", "a ")
    (session,) = saver.sessions.list().items
    assert (session.thread, session.tags) == ("t", ())


@everywhere
def test_what_a_model_calls_a_tool_is_no_reason_to_lose_a_checkpoint(saver: SQLCheckpointer) -> None:
    run = StateGraph(MessagesState)
    for n, name in enumerate(NAMES.values()):
        request = {"action_requests": [{"name": name, "args": {}}], "review_configs": []}
        run.add_node(f"n{n}", lambda state, request=request: {"messages": [HumanMessage(interrupt(request))]})
        run.add_edge(START, f"n{n}")
    run.compile(checkpointer=saver).invoke({"messages": []}, config())
    assert len(saver.approvals.list().items) == 3


@pytest.mark.parametrize(
    "bare_database", ["file", "memory", "postgresql", "asyncpg", "mariadb", "asyncmy"], indirect=True
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_the_first_call_is_a_delete(bare_database: str, is_async: bool) -> None:
    async with SQLCheckpointer(bare_database, auto_upgrade=True) as saver:
        if is_async:
            await saver.adelete_thread("nobody")
        else:
            saver.delete_thread("nobody")
        assert saver.sessions.list().items == []
    with Inbox(bare_database, auto_upgrade=True) as inbox:
        inbox.sessions.delete("nobody")
