"""`retrieve`: looked up once a turn, shown to the model, kept nowhere."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from modes import Drive
from pydantic import Field
from scenes import Desk, asks, call, heard

from scallion import (
    Agent,
    ConfigurationError,
    FilterError,
    ModelError,
    Paused,
    SQLCheckpointer,
    approve,
    around_turn,
    filters,
    pause,
)
from scallion.filters.retrieve import INTRODUCTION
from scallion.testing import ScriptedModel


class Shelf(BaseRetriever):
    """Finds as many passages as it has, and writes down what it was asked."""

    passages: list[str] = Field(default=["Leeks are in aisle 3.", "Onions are in aisle 4."])
    asked: list[str] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.asked.append(query)
        return [Document(text, metadata={"source": f"page {n}"}) for n, text in enumerate(self.passages, 1)]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.asked.append("async")
        return self._get_relevant_documents(query, run_manager=run_manager)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def kept(agent: Agent, thread: str) -> list[str]:
    return [
        text for _, text in heard(agent.graph.get_state({"configurable": {"thread_id": thread}}).values["messages"])
    ]


def test_the_model_reads_it_and_the_thread_does_not_keep_it(drive: Drive, shelf: Shelf, sql: SQLCheckpointer) -> None:
    """The seed persisted what it had looked up, and sent it again with each later turn."""
    model = ScriptedModel([asks(call("look", order=1)), "Aisle 3.", "Bye."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.retrieve(shelf, k=1)], checkpointer=sql)
    driver = drive(agent)
    result, _ = driver.start("Where are leeks?", thread="t")
    context = f"{INTRODUCTION}\n\n[1] (page 1) Leeks are in aisle 3."
    for read in model.calls:
        assert [text for _, text in heard(read)][:2] == [context, "Where are leeks?"]
    assert result.filter_state["retrieve"] == {"sources": ["page 1"]}
    driver.start("Thanks", thread="t")
    assert [text for text in kept(agent, "t") if "Passages" in text] == []
    assert [text for _, text in heard(model.calls[-1])].count(context) == 1  # what is looked up for this turn
    colour = ["async"] if driver.mode.startswith("a") else []
    assert shelf.asked == [*colour, "Where are leeks?", *colour, "Thanks"]


def test_a_resume_does_not_look_up_again(drive: Drive, shelf: Shelf, sql: SQLCheckpointer) -> None:
    model = ScriptedModel([asks(call("refund", order=1)), "Done."])
    stack = [filters.retrieve(shelf), filters.approval({"refund": True})]
    agent = Agent(model, tools=Desk().tools, filters=stack, checkpointer=sql)
    result, _ = drive(agent).finish("Refund it.", thread="t")
    assert shelf.asked.count("Refund it.") == 1
    assert model.calls[1][0].text.startswith("Passages")
    assert result.filter_state["retrieve"]["sources"] == ["page 1", "page 2"]


def test_a_pause_in_front_of_the_loop_looks_up_when_the_loop_begins(shelf: Shelf, sql: SQLCheckpointer) -> None:
    """The passages of the first look went with the process: nothing of them is stored."""

    @around_turn
    def may_i(request: Any, state: Any, next: Any) -> Any:
        pause("Begin?", allowed=("approve",))
        return next(request)

    model = ScriptedModel(["Aisle 3."])
    agent = Agent(model, filters=[filters.retrieve(shelf), may_i], checkpointer=sql)
    assert isinstance(agent.invoke("Where are leeks?", thread="t"), Paused)
    agent.resume("t", approve())
    assert model.calls[0][0].text.startswith("Passages")


@pytest.mark.parametrize("reply", [asks(call("refund", order=1)), TimeoutError()], ids=["paused", "failed"])
def test_a_session_is_not_titled_by_a_passage(shelf: Shelf, sql: SQLCheckpointer, reply: Any) -> None:
    stack = [filters.retrieve(shelf), filters.approval({"refund": True})]
    agent = Agent(ScriptedModel([reply]), tools=Desk().tools, filters=stack, checkpointer=sql)
    with suppress(ModelError):
        agent.invoke("Where are leeks?", thread="t")
    session = sql.sessions.get("t")
    assert session is not None
    assert (session.title, session.preview) == ("Where are leeks?", "Where are leeks?")


def test_an_answer_that_is_sent_back_does_not_look_up_the_feedback(shelf: Shelf) -> None:
    @around_turn
    def shorter(request: Any, state: Any, next: Any) -> Any:
        first = next(request)
        return next(request.replace(messages=[*first.messages, HumanMessage("Shorter.")], load_history=False))

    model = ScriptedModel(["Long.", "Short."])
    Agent(model, filters=[shorter, filters.retrieve(shelf)]).invoke("Where are leeks?")
    assert shelf.asked == ["Where are leeks?"]
    assert [text.split(".")[0] for _, text in heard(model.calls[1])] == [
        "Passages that may help with the next message", "Where are leeks?", "Long", "Shorter",
    ]  # fmt: skip


@pytest.mark.parametrize("passages", [[], ["found"]])
def test_nothing_is_shown_where_nothing_is_found_or_asked(shelf: Shelf, passages: list[str]) -> None:
    shelf.passages = []
    model = ScriptedModel(["a"])
    image = {"type": "image", "url": "https://example.com/leek.png"}
    Agent(model, filters=[filters.retrieve(shelf)]).invoke(HumanMessage([image]) if passages else "?")
    assert [one.type for one in model.calls[0]] == ["human"]
    assert shelf.asked == ([] if passages else ["?"])


def test_an_image_beside_the_question_is_left_alone(shelf: Shelf) -> None:
    model = ScriptedModel(["a"])
    content = [{"type": "text", "text": "What is this?"}, {"type": "image", "url": "https://example.com/leek.png"}]
    Agent(model, filters=[filters.retrieve(shelf)]).invoke(HumanMessage(content))
    assert shelf.asked == ["What is this?"]
    assert model.calls[0][-1].content == content


def test_the_prefix_stays_from_round_to_round(shelf: Shelf) -> None:
    """Within a turn each call reads what the one before read, and more."""
    model = ScriptedModel([asks(call("look", f"c{n}", order=n)) for n in range(3)] + ["Here."])
    Agent(model, tools=Desk().tools, filters=[filters.retrieve(shelf)]).invoke("Where?")
    for before, now in zip(model.calls, model.calls[1:], strict=False):
        assert now[: len(before)] == before


def test_passages_as_you_write_them(shelf: Shelf) -> None:
    model = ScriptedModel(["a"])
    one = filters.retrieve(shelf, render=lambda found: " / ".join(document.page_content for document in found))
    Agent(model, filters=[one]).invoke("?")
    assert model.calls[0][0].text == "Leeks are in aisle 3. / Onions are in aisle 4."


def test_passages_as_async_code_writes_them(drive: Drive, shelf: Shelf) -> None:
    async def render(found: Any) -> str:
        return f"{len(found)} passages"

    model = ScriptedModel(["a"])
    drive(Agent(model, filters=[filters.retrieve(shelf, render=render)])).start("?")
    assert model.calls[0][0].text == "2 passages"


def test_a_retriever_that_fails_fails_the_turn_without_the_question(drive: Drive) -> None:
    class Broken(Shelf):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise OSError(query)

    with pytest.raises(FilterError) as raised:
        drive(Agent(ScriptedModel(["a"]), filters=[filters.retrieve(Broken())])).start("a secret")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("given", "told"), [({"k": 0}, "k is a whole"), ({"render": "x"}, "render is a function")])
def test_what_cannot_work_is_refused(shelf: Shelf, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"filter 'rag': {told}"):
        filters.retrieve(shelf, name="rag", **given)
    with pytest.raises(ConfigurationError, match="a retriever of LangChain"):
        filters.retrieve(print)
