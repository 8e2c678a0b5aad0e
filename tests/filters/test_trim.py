"""`trim`: the model reads the end, the thread keeps all, and the front of what is read stays the same for long."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from modes import Drive
from scenes import Desk, asks, call, heard

from scallion import Agent, ChatReply, ChatRequest, ConfigurationError, ModelError, SQLCheckpointer, compose, filters
from scallion.testing import ScriptedModel


def test_the_model_reads_the_end_and_the_thread_keeps_all(drive: Drive, sql: SQLCheckpointer) -> None:
    model = ScriptedModel([f"answer {n}" for n in range(6)])
    agent = Agent(model, filters=[filters.trim(max_messages=4)], checkpointer=sql, system_prompt="Be kind.")
    for n in range(6):
        result, _ = drive(agent).start(f"question {n}", thread="t")
    assert [text for _, text in heard(model.calls[-1])] == ["Be kind.", "question 4", "answer 4", "question 5"]
    assert len(result.messages) == 12
    assert max(map(len, model.calls)) == 1 + 3  # a fourth would be an answer in front


def test_the_question_of_a_long_turn_is_not_forgotten(drive: Drive) -> None:
    """The seeds and the neighbours drop it after a few rounds of tools."""
    rounds = [asks(call("look", f"c{n}", order=n)) for n in range(5)]
    model = ScriptedModel([*rounds, "All are here."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.trim(max_messages=3)])
    drive(agent).start("Where are my orders?")
    assert [one.type for one in model.calls[-1]] == ["human", "ai", "tool"]
    assert model.calls[-1][0].text == "Where are my orders?"


def test_questions_of_turns_that_failed_are_not_the_question(drive: Drive, memory: Any) -> None:
    """All of them in a row were shown in any case."""

    def answer(messages: Any) -> str:
        if "fails" in messages[-1].text:
            raise TimeoutError
        return "well"

    model = ScriptedModel(answer)
    agent = Agent(model, filters=[filters.trim(max_messages=4)], checkpointer=memory)
    for n in range(8):
        with pytest.raises(ModelError):
            agent.invoke(f"{n} fails", thread="t")
    drive(agent).start([HumanMessage(text) for text in "abcde"], thread="t")
    assert [one.text for one in model.calls[-1]] == list("abcde")
    drive(agent).start("f", thread="t")
    assert len(model.calls[-1]) <= 4


def test_the_cut_stays_until_the_rest_is_too_long(memory: Any) -> None:
    """In most calls what was read before is the front of what is read now."""
    model = ScriptedModel(lambda messages: "well")
    agent = Agent(model, filters=[filters.trim(max_messages=20, keep=0.5)], checkpointer=memory)
    for n in range(40):
        agent.invoke(f"{n}", thread="t")
    moved = [now[: len(before)] != before for before, now in zip(model.calls, model.calls[1:], strict=False)]
    assert sum(moved) == 5
    assert all(len(messages) <= 20 for messages in model.calls)


def test_tokens_are_counted_by_the_model() -> None:
    class Counting(ScriptedModel):
        def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
            asked.append(len(messages))
            return 100 * len(messages)

    asked: list[int] = []
    messages = [one(f"{n}", id=f"{one.__name__}{n}") for n in range(50) for one in (HumanMessage, AIMessage)]
    one = compose(
        [filters.trim(max_tokens=900, keep=0.5)],
        "chat",
        lambda request: ChatReply(AIMessage(str(len(request.messages)))),
    )
    reply = one(ChatRequest([*messages, HumanMessage("?")], model=Counting()))
    assert reply.message.text == "3"
    assert len(asked) < 12


def test_a_counter_that_fails_is_no_reason_to_fail(drive: Drive, caplog: Any) -> None:
    """That of OpenAI's client loads a vocabulary from the net."""

    class Offline(ScriptedModel):
        def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
            tried.append(len(messages))
            raise ConnectionError("a secret")

    tried: list[int] = []
    result, _ = drive(Agent(Offline(["a"]), filters=[filters.trim(max_tokens=1)])).start("word " * 50)
    assert result.answer == "a"
    assert tried == [1]
    assert "ConnectionError" in caplog.text
    assert "secret" not in caplog.text


def test_tokens_are_counted_by_async_code_of_yours(drive: Drive, memory: Any) -> None:
    async def count(messages: Any) -> int:
        return len(messages)

    model = ScriptedModel(list("ABC"))
    agent = Agent(model, filters=[filters.trim(max_tokens=2, count=count)], checkpointer=memory)
    for text in "abc":
        drive(agent).start(text, thread="t")
    assert list(map(len, model.calls)) == [1, 1, 1]


def test_tokens_are_counted_by_a_function_of_yours() -> None:
    counted = filters.trim(max_tokens=2, keep=1, count=len)
    one = compose([counted], "chat", lambda request: ChatReply(AIMessage(request.messages[-1].text)))
    reply = one(ChatRequest([SystemMessage("rules"), HumanMessage("a"), AIMessage("b"), HumanMessage("c")]))
    assert reply.message.text == "c"


def test_a_short_conversation_passes_as_it_is() -> None:
    seen: list[Any] = []
    request = ChatRequest([HumanMessage("a")], model=ScriptedModel())
    one = compose([filters.trim(max_tokens=100)], "chat", lambda r: seen.append(r) or ChatReply(AIMessage("b")))
    one(request)
    assert seen == [request]
    assert one.filter_state == {"trim": {}}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give max_messages= or max_tokens="),
        ({"max_messages": 0}, "max_messages is a whole number above zero, not 0"),
        ({"max_tokens": 2.5}, "max_tokens is a whole number above zero, not 2.5"),
        ({"max_tokens": True}, "max_tokens is a whole number"),
        ({"max_tokens": 9, "keep": 0}, "keep is a share above 0"),
        ({"max_tokens": 9, "count": 7}, "count is a function"),
    ],
)
def test_bounds_that_cannot_be_kept_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"filter 'short': {told}"):
        filters.trim(name="short", **given)
