"""`summarise`: written once, kept with the thread, counted, not streamed; where it fails nothing is lost."""

from __future__ import annotations

import logging
from datetime import date
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, RemoveMessage
from langchain_core.retrievers import BaseRetriever
from modes import Drive, delivered
from scenes import Desk, asks, call, heard

from scallion import Agent, ConfigurationError, LimitExceeded, Limits, SQLCheckpointer, around_chat, filters, pause
from scallion.events import FilterActed, ModelStarted, Retracted
from scallion.filters.summarise import PROMPT, SUMMARY, transcript
from scallion.testing import ScriptedModel


def counting() -> ScriptedModel:
    """A model that answers with the number of messages that it reads."""
    return ScriptedModel(lambda messages: f"read {len(messages)}")


def test_the_front_is_summed_up_once(drive: Drive, sql: SQLCheckpointer) -> None:
    """A neighbour writes it into the history in the place of what was said; here the thread keeps all."""
    model, writer = counting(), ScriptedModel(["first", "second"])
    one = filters.summarise(writer, max_messages=6)
    agent = Agent(model, filters=[one], checkpointer=sql, system_prompt="Be kind.")
    for n in range(7):
        result, _ = drive(agent).start(f"question {n}", thread="t")
    assert len(result.messages) == 14
    assert len(writer.calls) == 2
    assert heard(model.calls[-1]) == [
        ("system", "Be kind."),
        ("human", f"{SUMMARY}second"),
        *heard(result.messages)[-6:-1],
    ]
    assert result.filter_state["summarise"]["summary"] == "second"


def test_the_second_summary_is_made_of_the_first_and_what_came_behind_it(memory: Any) -> None:
    writer = ScriptedModel(["first", "second"])
    agent = Agent(
        ScriptedModel(list("ABCDEF")), filters=[filters.summarise(writer, max_messages=4)], checkpointer=memory
    )
    for text in "abcdef":
        agent.invoke(text, thread="t")
    first, second = (asked[0].text for asked in writer.calls)
    assert first == f"{PROMPT}\n\nhuman: a\nai: A\nhuman: b\nai: B"
    assert second.startswith(f"{PROMPT}\n\nThe summary of what came before:\nfirst\n\nhuman: c\nai: C\n")


def test_it_counts_and_is_not_streamed(drive: Drive, memory: Any) -> None:
    """The agent's own model writes it, without the agent's prompt and tools; the reader hears the answer only."""
    model = ScriptedModel(lambda messages: "In short." if PROMPT in messages[0].text else "Well.")
    stack = [filters.summarise(max_messages=2, keep=0.5), filters.usage()]
    agent = Agent(model, tools=Desk().tools, filters=stack, checkpointer=memory, system_prompt="Be kind.")
    driver = drive(agent)
    driver.start("a", thread="t")
    result, events = driver.start("b", thread="t")
    assert len(model.calls) == 3
    assert [one.type for one in model.calls[1]] == ["human"]
    assert "tools" not in model.settings[1]
    assert result.usage["model_calls"] == 2
    assert result.filter_state["usage"]["models"]["scripted"]["calls"] == 2
    if driver.streams:
        assert delivered(events) == "Well."
        assert len([one for one in events if isinstance(one, ModelStarted)]) == 1
        assert not [one for one in events if isinstance(one, Retracted | FilterActed)]


def test_a_limit_holds_for_it_too(memory: Any) -> None:
    agent = Agent(
        counting(), filters=[filters.summarise(max_messages=2)], checkpointer=memory, limits=Limits(model_calls=1)
    )
    agent.invoke("a", thread="t")
    with pytest.raises(LimitExceeded):
        agent.invoke("b", thread="t")


def test_a_pause_behind_it_does_not_write_it_again(drive: Drive, sql: SQLCheckpointer) -> None:
    @around_chat
    def may_i(request: Any, state: Any, next: Any) -> Any:
        if not request.aside and request.messages[0].text.startswith(SUMMARY):
            pause("Ask?", allowed=("approve",))
        return next(request)

    model, writer = counting(), ScriptedModel(["once"])
    agent = Agent(model, filters=[filters.summarise(writer, max_messages=2), may_i], checkpointer=sql)
    for text in "ab":
        result, _ = drive(agent).finish(text, thread="t")
    assert len(writer.calls) == 1
    assert result.filter_state["summarise"]["summary"] == "once"
    assert model.calls[-1][0].text == f"{SUMMARY}once"


@pytest.mark.parametrize("reply", [ValueError("a secret"), "  "], ids=["fails", "empty"])
def test_where_it_fails_the_whole_conversation_is_read(memory: Any, caplog: Any, reply: Any) -> None:
    """LangChain's middleware lets the turn fail with it."""
    model, writer = counting(), ScriptedModel([reply, "now"])
    agent = Agent(model, filters=[filters.summarise(writer, max_messages=2)], checkpointer=memory)
    with caplog.at_level(logging.WARNING):
        agent.invoke("a", thread="t")
        result = agent.invoke("b", thread="t")
    assert [text for _, text in heard(model.calls[1])] == ["a", "read 1", "b"]
    assert result.filter_state["summarise"] == {}
    assert "secret" not in caplog.text
    agent.invoke("c", thread="t")
    assert model.calls[-1][0].text == f"{SUMMARY}now"


def test_a_history_that_is_another_one_is_not_read_with_the_old_summary(sql: SQLCheckpointer) -> None:
    """As after a fork from before the summary: what it sums up is not there."""
    writer = ScriptedModel(["old", "new"])
    agent = Agent(counting(), filters=[filters.summarise(writer, max_messages=2)], checkpointer=sql)
    for text in "ab":
        agent.invoke(text, thread="t")
    config = {"configurable": {"thread_id": "t"}}
    messages = agent.graph.get_state(config).values["messages"]
    agent.graph.update_state(config, {"messages": [RemoveMessage(one.id) for one in messages]}, as_node="chat")
    result = agent.invoke("c", thread="t")
    assert result.answer == "read 1"


def test_many_rounds_of_tools_keep_the_question(memory: Any) -> None:
    rounds = [asks(call("look", f"c{n}", order=n)) for n in range(4)]
    model = ScriptedModel([*rounds, "All here."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.summarise(ScriptedModel(lambda m: "S"), max_messages=5)])
    agent.invoke("Where are they?")
    texts = [text for _, text in heard(model.calls[-1])]
    assert texts[:2] == [f"{SUMMARY}S", "Where are they?"]
    assert texts[-1] == "order 3 is here"


def test_where_it_fails_within_a_turn_all_behind_the_last_one_is_read(memory: Any) -> None:
    """The window moved on to the next person all the same, and what was between was in neither."""
    rounds = [asks(call("look", f"c{n}", order=n)) for n in range(6)]
    model = ScriptedModel([*rounds, "All here.", "Yes.", "Good.", "Bye."])
    writer = ScriptedModel(["first", *[TimeoutError("down")] * 9])
    agent = Agent(model, tools=Desk().tools, filters=[filters.summarise(writer, max_messages=8)], checkpointer=memory)
    agent.invoke("Where are they?", thread="t")
    summed_up = writer.calls[0][0].text.count("\n") - PROMPT.count("\n") - 1
    for text in ("Sure?", "Thanks.", "Bye."):
        result = agent.invoke(text, thread="t")
        assert heard(model.calls[-1]) == [("human", f"{SUMMARY}first"), *heard(result.messages)[summed_up:-1]]
    assert len(writer.calls) > 2


class Shelf(BaseRetriever):
    """Finds the same passage each time."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("a passage")]


def test_what_the_thread_does_not_keep_is_in_no_later_summary(drive: Drive, sql: SQLCheckpointer) -> None:
    """A summary of the running turn had it, and stayed."""
    rounds = [asks(call("look", f"c{n}", order=n)) for n in range(8)]
    model = ScriptedModel(["Well.", "Hm.", *rounds[:4], "rejected", *rounds[4:], "Good.", "Fine."])
    stack = [
        filters.retrieve(Shelf()),
        filters.validate_answer(lambda answer: answer != "rejected" or "the feedback"),
        filters.summarise(ScriptedModel(lambda messages: f"<{messages[0].text}>"), max_messages=8),
    ]
    agent = Agent(model, tools=Desk().tools, filters=stack, checkpointer=sql)
    for text in ("a", "b", "Where are they?"):
        drive(agent).start(text, thread="t")
    assert "rejected" in model.calls[-1][0].text
    result, _ = drive(agent).start("Sure?", thread="t")
    summary = result.filter_state["summarise"]["summary"]
    assert [word in summary for word in ("a passage", "rejected", "the feedback")] == [False] * 3
    assert "calls look" in summary
    assert summary in model.calls[-1][0].text


def test_a_summary_within_a_turn_serves_the_next_one(memory: Any) -> None:
    """Where all that it covers stayed in the thread."""
    rounds = [asks(call("look", f"c{n}", order=n)) for n in range(6)]
    writer = ScriptedModel(lambda messages: "S")
    model = ScriptedModel([*rounds, "All here.", "Yes."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.summarise(writer, max_messages=9)], checkpointer=memory)
    agent.invoke("Where are they?", thread="t")
    before = len(writer.calls)
    agent.invoke("Sure?", thread="t")
    assert model.calls[-1][0].text == f"{SUMMARY}S"
    assert len(writer.calls) == before


def test_beside_retrieve_it_goes_on_from_the_last_one(drive: Drive, memory: Any) -> None:
    """It looked for the passage that was gone, and wrote each summary from the first message on, in every turn."""
    model, writer = counting(), ScriptedModel(lambda messages: "S")
    stack = [filters.retrieve(Shelf()), filters.summarise(writer, max_messages=6)]
    agent = Agent(model, filters=stack, checkpointer=memory)
    for n in range(12):
        drive(agent).start(f"question {n}", thread="t")
        passage, question = model.calls[-1][-2:]
        assert ("a passage" in passage.text, question.text) == (True, f"question {n}")
    assert ["The summary of what came before" in asked[0].text for asked in writer.calls].count(False) == 1
    assert len(writer.calls) < 6


def test_the_prefix_stays_between_two_summaries(memory: Any) -> None:
    model = counting()
    agent = Agent(
        model, filters=[filters.summarise(ScriptedModel(lambda m: "S"), max_messages=20)], checkpointer=memory
    )
    for n in range(40):
        agent.invoke(f"{n}", thread="t")
    moved = [now[: len(before)] != before for before, now in zip(model.calls, model.calls[1:], strict=False)]
    assert sum(moved) == 5


def test_the_transcript_has_calls_with_their_arguments() -> None:
    message = asks(call("look", order=7), text="I look.")
    assert transcript([message, AIMessage("Here.")]) == 'ai: I look.\nai calls look: {"order": 7}\nai: Here.'


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give max_messages="),
        ({"max_tokens": 5, "model": "gpt"}, "model is a chat model"),
        ({"max_tokens": 5, "prompt": ""}, "prompt is a text"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"filter 'sum': {told}"):
        filters.summarise(name="sum", **given)


def test_arguments_are_told_as_they_were_written() -> None:
    asked = AIMessage("", tool_calls=[call("book", city="東京", on=date(2026, 12, 1))])
    assert transcript([asked]) == 'ai calls book: {"city": "東京", "on": "2026-12-01"}'
