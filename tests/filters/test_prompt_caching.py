"""Filters of memory and context together: what a model read before is the front of what it reads next."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from scenes import Desk, asks, call

from scallion import Agent, SQLCheckpointer, filters
from scallion.testing import ScriptedModel


class Shelf(BaseRetriever):
    """Always has something."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"about {query}")]


def rounds(turns: int) -> list[Any]:
    """Each turn calls tools twice, in the first round also two at once."""
    return [
        reply
        for n in range(turns)
        for reply in (
            asks(call("look", f"c{n}-1", order=n), call("look", f"c{n}-2", order=n + 1)),
            asks(call("write_todos", f"c{n}-3", todos=[{"content": f"{n}", "status": "pending"}])),
            f"done {n}",
        )
    ]


@pytest.mark.parametrize("with_saver", [True, False], ids=["checkpointer", "memory"])
def test_within_a_turn_the_front_never_changes(drive: Drive, sql: SQLCheckpointer, with_saver: bool) -> None:
    """Whoever keeps the history; and what is sent of the tools is the same in all calls."""
    model = ScriptedModel(rounds(4))
    stack = [
        *([] if with_saver else [filters.memory(sql.history)]),
        filters.retrieve(Shelf()),
        filters.summarise(ScriptedModel(lambda messages: "S"), max_messages=100),
        filters.trim(max_messages=100),
        filters.todo(),
        filters.usage(),
    ]
    agent = Agent(
        model, tools=Desk().tools, filters=stack, system_prompt="Be kind.", checkpointer=sql if with_saver else None
    )
    for n in range(4):
        drive(agent).start(f"question {n}", thread="t")
    for turn in range(4):
        first, second, third = model.calls[3 * turn : 3 * turn + 3]
        assert second[: len(first)] == first
        assert third[: len(second)] == second
    assert all(sent["tools"] == model.settings[0]["tools"] for sent in model.settings)


def test_from_turn_to_turn_only_the_passages_go() -> None:
    """The history in front of the question is what it was; the passages of the turn before are no part of it."""
    model = ScriptedModel(rounds(3))
    stack = [filters.retrieve(Shelf()), filters.trim(max_messages=100), filters.todo()]
    agent = Agent(model, tools=Desk().tools, filters=stack, checkpointer=InMemorySaver())
    for n in range(3):
        agent.invoke(f"question {n}", thread="t")

    def lasting(messages: list[BaseMessage]) -> list[Any]:
        return [one.id for one in messages if "Passages" not in str(one.text)]

    for before, now in zip(model.calls, model.calls[1:], strict=False):
        assert lasting(now)[: len(lasting(before))] == lasting(before)
