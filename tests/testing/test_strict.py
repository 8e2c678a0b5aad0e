"""The scripted model is strict: what was left, what was asked beyond, structured output, chunks as they are given."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from modes import Drive, delivered
from pydantic import BaseModel

from scallion import Agent, ChatReply, Completed, around_chat, filters
from scallion.testing import BreaksOff, Chunks, ScriptedModel, ScriptExhausted, ScriptMismatch, asks, call


class Refund(BaseModel):
    """A refund."""

    order: int
    euros: float


def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


def test_what_was_left_is_told() -> None:
    """By `assert_done`, and at the end of the block; not where the block failed, which would hide its error."""
    model = ScriptedModel(["one", asks(call("refund", order=2)), TimeoutError("late")])
    model.invoke("a")
    assert len(model.unused) == 2
    with pytest.raises(AssertionError, match=r"reply 2 was not asked for: AIMessage.*refund.*; reply 3 .*Timeout"):
        model.assert_done()
    with pytest.raises(AssertionError, match="reply 1 was not asked for: 'x'"), ScriptedModel(["x"]):
        pass
    with pytest.raises(KeyError), ScriptedModel(["x"]):
        raise KeyError
    with ScriptedModel(["x"]) as model:
        model.invoke("a")
    ScriptedModel(lambda messages: "any").assert_done()


def test_what_was_asked_beyond_is_told_even_where_the_error_was_swallowed() -> None:
    """A filter that answers itself where the model fails hides the error, not the count."""

    @around_chat
    def hides(request, state, next):
        try:
            return next(request)
        except Exception:
            return ChatReply(AIMessage("all is well"))

    model = ScriptedModel([])
    assert Agent(model, filters=[hides]).invoke("hi").answer == "all is well"
    with pytest.raises(AssertionError, match=r"asked 1 time\(s\) beyond its 0 replies"):
        model.assert_done()
    with pytest.raises(ScriptExhausted):
        Agent(ScriptedModel([])).invoke("hi")


def test_a_strict_script_calls_what_it_was_offered() -> None:
    """A script that went stale when a tool was renamed fails, instead of testing the answer about unknown tools."""
    script = [asks(call("refnd", order=1)), "end"]
    assert Agent(ScriptedModel(script), tools=[refund]).invoke("hi").answer == "end"
    with pytest.raises(ScriptMismatch, match="calls 'refnd', and the model was offered refund"):
        Agent(ScriptedModel(script, strict=True), tools=[refund]).invoke("hi")


def test_structured_output_by_a_tool_and_by_json(drive: Drive) -> None:
    """One reply serves `with_structured_output`, and the filter that reads an answer of JSON."""
    given = Refund(order=1042, euros=9.5)
    assert ScriptedModel([given]).with_structured_output(Refund).invoke("hi") == given
    model = ScriptedModel([given], profile={"structured_output": True})
    result, _ = drive(Agent(model, filters=[filters.validate_schema(Refund)])).start("hi")
    assert isinstance(result, Completed)
    assert result.parsed == given
    assert model.settings[0]["response_format"]["json_schema"]["name"] == "Refund"


def test_chunks_come_as_they_are_given(drive: Drive) -> None:
    """Their sum is the message, with usage, in each mode."""
    thought = AIMessageChunk("", additional_kwargs={"reasoning_content": "hm"})
    model = ScriptedModel([Chunks("Hel", thought, "", "lo.")])
    driver = drive(Agent(model))
    result, events = driver.start("hi there")
    assert isinstance(result, Completed)
    assert (result.answer, result.usage["total_tokens"]) == ("Hello.", 3)
    if driver.streams:
        assert delivered(events) == "Hello."
    assert [chunk.text for chunk in ScriptedModel([Chunks("a", "bc")]).stream("hi") if chunk.text] == ["a", "bc"]
    with pytest.raises(ConnectionError):
        [*ScriptedModel([BreaksOff(Chunks("a", "bc"), ConnectionError("gone"))]).stream("hi")]


def test_usage_of_the_chunks_counts_once() -> None:
    """What the script says about tokens is not added to the count of words."""
    usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    result = Agent(ScriptedModel([Chunks("Hi", AIMessageChunk("!", usage_metadata=usage))])).stream("hi")
    assert [*result][-1].usage["total_tokens"] == 9
