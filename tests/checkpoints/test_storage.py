"""What is stored comes back equal, shared pieces are stored once, and nothing is lost by replaced lists and forks."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import sync_kinds
from checkpoints.graphs_that_ask import Loop
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, Send
from pydantic import BaseModel
from sqlalchemy import func, select

from scallion.errors import Closed, ConfigurationError, NotSerializable, TypeBlocked
from scallion.sql.saver import SQLCheckpointer


class Writer:
    """Puts checkpoints one after the other, like LangGraph does."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self.saver = saver
        self.step = 0

    def put(self, parent: str | None, values: dict[str, Any], versions: dict[str, int], new: dict[str, int]) -> str:
        self.step += 1
        place = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": parent}
        checkpoint = {
            **empty_checkpoint(),
            "id": f"{self.step:08}",
            "channel_values": dict(values),
            "channel_versions": dict(versions),
        }
        metadata = {"source": "loop", "step": self.step, "parents": {}}
        stored = self.saver.put({"configurable": place}, checkpoint, metadata, new)  # type: ignore[arg-type]
        return str(stored["configurable"]["checkpoint_id"])

    def get(self, id: str) -> dict[str, Any]:
        place = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}
        found = self.saver.get_tuple({"configurable": place})
        assert found is not None
        return found.checkpoint["channel_values"]


def message(n: int) -> AnyMessage:
    call = {"name": "f", "args": {"n": n, "yes": n % 2 == 0}, "id": f"c{n}", "type": "tool_call"}
    kinds: list[Callable[[], AnyMessage]] = [
        lambda: HumanMessage(f"question {n} " * 9, id=str(n)),
        lambda: AIMessage([{"type": "text", "text": f"answer {n}"}], id=str(n), tool_calls=[call]),
        lambda: ToolMessage(f"result {n}", tool_call_id=f"c{n}", id=str(n), artifact={"rows": [n, 1.5, None]}),
        lambda: SystemMessage("short", id=str(n)),
    ]
    return kinds[n % 4]()


@sync_kinds
def test_values_come_back(saver: SQLCheckpointer) -> None:
    values = {
        "bytes": b"\0\xff" * 400,
        "none": None,
        "set": {1, 2},
        "time": datetime(2026, 1, 1, tzinfo=UTC),
        "id": uuid.UUID(int=7),
        "money": Decimal("1.10"),
        "path": Path("/a/b"),
        "big": 2**63,
        "nan": [float("inf"), -0.0],
        "send": [Send("tool", {"n": n}) for n in range(30)],
        "deep": {"messages": [message(n) for n in range(8)], "other": {"a": [1, {"b": (1,)}]}},
        "words": ["one", "two" * 100] * 9,
        "wide": {str(n): "x" * n for n in range(60)},
        "": "no name",
        "messages": [message(n) for n in range(12)],
    }
    writer = Writer(saver)
    versions = dict.fromkeys(values, 1)
    id = writer.put(None, values, versions, versions)
    assert writer.get(id) == values


def test_nothing_is_shared_mutably(saver: SQLCheckpointer) -> None:
    writer = Writer(saver)
    id = writer.put(None, {"messages": [message(n) for n in range(4)]}, {"messages": 1}, {"messages": 1})
    first = writer.get(id)
    first["messages"][1].tool_calls[0]["args"]["n"] = "changed"
    first["messages"][2].artifact["rows"].append("changed")
    first["messages"].pop()
    second = writer.get(id)
    assert second["messages"] == [message(n) for n in range(4)]


@sync_kinds
def test_a_conversation_is_stored_once(saver: SQLCheckpointer) -> None:
    writer, messages, parent = Writer(saver), [], None
    for n in range(1, 61):
        messages = [*messages, HumanMessage(f"{n} " * 150, id=str(n))]
        parent = writer.put(parent, {"messages": messages, "k": "k" * 99}, {"messages": n, "k": 1}, {"messages": n})
    t = saver.database.tables
    count = saver.database.run(lambda conn: conn.execute(select(func.count()).select_from(t.items)).scalar())
    entries = saver.database.run(lambda conn: conn.execute(select(func.count()).select_from(t.entries)).scalar())
    assert (count, entries) == (62, 60)  # the messages, the other value, the form
    assert len(writer.get(str(parent))["messages"]) == 60


def test_a_sliding_window_appends_only(saver: SQLCheckpointer) -> None:
    writer, messages, parent = Writer(saver), [], None
    for n in range(1, 101):
        messages = [*messages, HumanMessage(f"{n} " * 150, id=str(n))][-10:]
        parent = writer.put(parent, {"messages": messages}, {"messages": n}, {"messages": n})
    entries = saver.database.run(
        lambda conn: conn.execute(select(func.count()).select_from(saver.database.tables.entries)).scalar()
    )
    assert entries == 100


@sync_kinds
def test_delete_leaves_nothing(saver: SQLCheckpointer) -> None:
    loop = Loop(saver)
    for thread in ("t", "other"):
        config = {"configurable": {"thread_id": thread}}
        loop.graph.invoke({"messages": [HumanMessage("pay")]}, config)
        saver.sessions.tag(thread, "vip")
    saver.delete_thread("t")
    t = saver.database.tables
    for table in (t.items, t.entries, t.checkpoints, t.writes, t.approvals, t.session_tags):
        left = saver.database.run(lambda conn, table=table: conn.execute(select(table.c.session).distinct()).all())
        assert len(left) == 1
    assert [one.thread for one in saver.sessions.list(tag="vip").items] == ["other"]
    loop.graph.invoke({"messages": [HumanMessage("pay")]}, {"configurable": {"thread_id": "t"}})
    assert saver.status("t") == "paused"


@sync_kinds
def test_a_copy_and_a_pruned_thread_go_on(saver: SQLCheckpointer) -> None:
    loop = Loop(saver)
    config: dict[str, Any] = {"configurable": {"thread_id": "t"}}
    loop.graph.invoke({"messages": [HumanMessage("pay")]}, config)
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    for thread in ("t", "copy"):
        config = {"configurable": {"thread_id": thread}}
        ids = [one.id for one in saver.approvals.list(thread=thread).items]
        assert len(ids) == 2
        while ids:
            result = loop.graph.invoke(Command(resume=dict.fromkeys(ids, "yes")), config)
            ids = [one.id for one in saver.approvals.list(thread=thread).items]
        assert result["messages"][-1].content == "done"
        assert saver.status(thread) == "idle"
    saver.prune(["t"])
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 1
    again = loop.graph.invoke({"messages": [HumanMessage("more")]}, {"configurable": {"thread_id": "t"}})
    assert len(again["messages"]) == len(result["messages"]) + 2


class Custom(BaseModel):
    n: int = 1


def test_a_blocked_type_is_an_error(database: str) -> None:
    with SQLCheckpointer(database, serde=JsonPlusSerializer()) as permissive:
        id = Writer(permissive).put(None, {"c": {"deep": [Custom()]}}, {"c": 1}, {"c": 1})
    with SQLCheckpointer(database) as saver:
        with pytest.raises(TypeBlocked, match="Custom"):
            Writer(saver).get(id)
        allowed = saver.with_allowlist({(Custom.__module__, "Custom")})
        assert Writer(allowed).get(id) == {"c": {"deep": [Custom()]}}


def test_what_cannot_be_stored_is_told(saver: SQLCheckpointer) -> None:
    with pytest.raises(NotSerializable) as refused:
        Writer(saver).put(None, {"c": {"deep": [object()]}}, {"c": 1}, {"c": 1})
    assert (refused.value.channel, refused.value.type) == ("c", "object")
    assert list(saver.list(None)) == []


@pytest.mark.parametrize("options", [{"key": b"k"}, {"schema": "s"}])
def test_what_is_not_there_yet_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SQLCheckpointer("sqlite://", **options)


async def test_a_closed_saver_says_so(database: str) -> None:
    async with SQLCheckpointer(database) as saver:
        await saver.aget_tuple({"configurable": {"thread_id": "t"}})
    with pytest.raises(Closed):
        saver.get_tuple({"configurable": {"thread_id": "t"}})
    with pytest.raises(Closed):
        await saver.approvals.alist()
