"""A trace is an accessory: neither the turn, nor the lease, nor the export of a thread depends on it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from langchain_core.messages import AIMessage
from modes import Drive
from sqlalchemy import text, update

from scallion import Agent, Completed, SQLCheckpointer
from scallion.testing import ScriptedModel
from scallion.tracing import Part, Span
from scallion.tracing.compact import DEPTH, dump, load


@contextmanager
def away(saver: SQLCheckpointer) -> Iterator[None]:
    """The table has another name meanwhile."""

    def rename(old: str, new: str) -> None:
        saver.database.run(lambda conn: conn.execute(text(f"ALTER TABLE {old} RENAME TO {new}")), write=True)

    rename("traces", "elsewhere")
    try:
        yield
    finally:
        rename("elsewhere", "traces")


@one_of_each
def test_who_may_not_write_it_releases_the_lease(
    drive: Drive, saver: SQLCheckpointer, caplog: pytest.LogCaptureFixture
) -> None:
    """At once, and what was done stays."""
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=saver)
    drive(agent).start("1", thread="t")
    with caplog.at_level(logging.WARNING, "scallion"), away(saver):
        assert drive(agent).start("2", thread="t")[0].answer == "two"
    row = saver.sessions.get("t")
    assert row is not None
    assert (row.holder, row.message_count) == (None, 4)
    assert [one.getMessage().split(":")[0] for one in caplog.records] == [
        "the trace of a turn was refused, and is lost"
    ]


@pytest.mark.parametrize("count", [1.5, float("nan"), float("inf"), True, 10**400, None])
def test_counts_that_are_none(saver: SQLCheckpointer, count: Any) -> None:
    """A client may set anything there: what is stored is read again."""
    reply = AIMessage("ok")
    reply.usage_metadata = {"input_tokens": count, "output_tokens": 2, "total_tokens": 3}
    agent = Agent(ScriptedModel([reply]), checkpointer=saver)
    result = agent.invoke("?", thread="t")
    assert isinstance(result, Completed)
    trace = agent.session("t").trace()
    assert trace is not None
    whole = {1.5: {"input": 1}, 10**400: {"input": 10**400}}
    counted = {} if isinstance(count, bool) else whole.get(count, {})
    assert [one.tokens for one in trace.of("model")] == [{**counted, "output": 2}]


@pytest.mark.parametrize(
    "data", [b"?", b"[99, 0, 0, 1]", b"[]", b"[" * 100_000], ids=["none", "newer", "empty", "deep"]
)
def test_a_thread_is_loaded_without_it(saver: SQLCheckpointer, tmp_path: Any, data: bytes) -> None:
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=saver)
    first, second = (agent.invoke(word, thread="t").turn for word in "12")
    t = saver.database.tables.traces
    saver.database.run(lambda conn: conn.execute(update(t).where(t.c.turn == first).values(data=data)), write=True)
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.sessions.load(saver.sessions.export("t"))
        assert list(other.sessions.traced("t")) == [second]
        assert [one.text for one in Agent(ScriptedModel([]), checkpointer=other).session("t").messages][1::2] == [
            "one",
            "two",
        ]


@pytest.mark.parametrize("deep", [DEPTH - 2, DEPTH - 1, DEPTH, DEPTH + 1, 3 * DEPTH])
def test_what_is_too_deep_stands_in_the_deepest(deep: int) -> None:
    """Of so many spans in each other none is lost."""
    span = Span("model", "m0", 0.0, 1.0)
    for number in range(1, deep):
        span = Span("layer", f"f{number}", 0.0, 1.0, inside=(span,))
    (found,) = load(dump(Part(datetime(2026, 1, 1, tzinfo=UTC), 1.0, "completed", (span,)))).spans
    assert [one.name for one in found.walk()] == [one.name for one in span.walk()]
