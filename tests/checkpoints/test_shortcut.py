"""PostgreSQL, the short way: what a turn sends, and that what is believed of a session and is not so does no harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from checkpoints.graphs_that_ask import Loop
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import event

from scallion import Agent, SQLCheckpointer
from scallion.sql import shortcut
from scallion.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "loop", "step": 1, "parents": {}}
pytestmark = pytest.mark.parametrize("database", ["postgresql"], indirect=True)


@pytest.fixture
def sent(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to the server: statements of a transaction, and whole writes."""
    seen: list[str] = []
    send = shortcut.send

    def whole(*arguments: Any) -> int:
        seen.append("whole")
        return send(*arguments)

    monkeypatch.setattr(shortcut, "send", whole)
    saver.setup()
    event.listen(saver.database.engine, "before_cursor_execute", lambda c, cursor, text, *more: seen.append(text))
    return seen


def test_a_turn_sends_one_statement_for_each_write(saver: SQLCheckpointer, sent: list[str]) -> None:
    agent = Agent(ScriptedModel(["one", "two", "three"]), checkpointer=saver)
    for message in ("a", "b"):
        agent.invoke(message, thread="t")
    writes = []
    for name in ("put", "put_writes"):
        plain = getattr(saver, name)
        setattr(saver, name, lambda *given, plain=plain: (writes.append(1), plain(*given))[1])
    sent.clear()
    agent.invoke("c", thread="t")
    assert sent.count("whole") == len(writes) > 3
    inserted = [text for text in sent if "items" in text or "checkpoints" in text]
    assert not [text for text in inserted if text.startswith("INSERT")]


def aside(saver: SQLCheckpointer) -> dict[str, Callable[[], Any]]:
    """What others do to the thread, so that nothing is as the saver believes."""
    other = SQLCheckpointer(saver.database.engine)
    return {
        "write": lambda: other.put(CONFIG, empty_checkpoint(), METADATA, {}),
        "tag": lambda: other.sessions.tag("t", "mine"),
        "delete": lambda: other.delete_thread("t"),
        "prune": lambda: other.prune(["t"]),
        "ask": lambda: Loop(other).graph.invoke({"messages": [HumanMessage("pay")]}, CONFIG),
    }


@pytest.mark.parametrize("what", ["write", "tag", "delete", "prune", "ask"])
def test_what_others_did_meanwhile_is_seen(saver: SQLCheckpointer, sent: list[str], what: str) -> None:
    first = {**empty_checkpoint(), "channel_values": {"messages": [HumanMessage("a" * 300)]}}
    first["channel_versions"] = {"messages": 1}
    at = saver.put(CONFIG, first, METADATA, {"messages": 1})  # type: ignore[arg-type]
    before = saver.sessions.get("t")
    aside(saver)[what]()
    saver.put_writes(at, [("messages", [HumanMessage("b" * 300)])], "task")
    second = {**empty_checkpoint(), "channel_values": {"messages": [HumanMessage("a" * 300), HumanMessage("c" * 300)]}}
    second["channel_versions"] = {"messages": 2}
    at = saver.put(at, second, METADATA, {"messages": 2})  # type: ignore[arg-type]
    with SQLCheckpointer(saver.database.engine) as fresh:
        found = fresh.get_tuple(at)
        assert [one.content[0] for one in found.checkpoint["channel_values"]["messages"]] == ["a", "c"]
        now = fresh.sessions.get("t")
    assert before is not None
    assert now is not None
    assert now.bytes > (0 if what == "delete" else before.bytes)
    asked = saver.approvals.list(None).items
    assert {one.status for one in asked} == ({"superseded"} if what == "ask" else set())


def test_a_write_of_an_unknown_item_that_is_there(saver: SQLCheckpointer, sent: list[str]) -> None:
    values = {"messages": [HumanMessage("a" * 300)]}
    first = {**empty_checkpoint(), "channel_values": values, "channel_versions": {"messages": 1}}
    at = saver.put(CONFIG, first, METADATA, {"messages": 1})  # type: ignore[arg-type]
    saver._memory._sessions.drop_oldest()
    saver.put_writes(at, [("messages", values["messages"])], "task")
    (write,) = saver.get_tuple(at).pending_writes or []
    assert write[2] == values["messages"]
    assert sent.count("whole") == 1  # it was refused, and the usual way found the item
