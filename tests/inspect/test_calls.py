"""Calls of tools in a conversation: each is shown by its name, with its own result."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, ToolMessage
from tests.inspect.wellformed import read

from scallion import Agent, Completed, SQLCheckpointer
from scallion.inspect import to_html
from scallion.inspect.calls import answers
from scallion.inspect.conversation import call_line, message_data
from scallion.testing import ScriptedModel


def calling(*names: str, id: str = "call_0") -> AIMessage:
    """A message that calls `say` once for each name, always with the same id."""
    return AIMessage("", tool_calls=[{"name": "say", "args": {"to": name}, "id": id} for name in names])


def told(messages: list[Any]) -> str:
    """The conversation as a person reads it."""
    return read(to_html(Completed(AIMessage("Done."), messages))).text


def test_an_id_that_comes_again() -> None:
    """A model that numbers its calls in each reply anew: each call has the result that came of it."""
    text = told(
        [
            HumanMessage("both"),
            calling("ann"),
            ToolMessage("paid ann", tool_call_id="call_0"),
            calling("bob"),
            ToolMessage("refused", tool_call_id="call_0", status="error"),
            calling("eve"),
        ]
    )
    assert "say (to='ann') success paid ann" in text
    assert "say (to='bob') error refused" in text
    assert "say (to='eve') open" in text


def test_an_id_twice_in_a_message() -> None:
    """The results are told in the order of the calls; one more result stands by itself, and none is lost."""
    results = [ToolMessage(f"result {number}", tool_call_id="call_0") for number in range(3)]
    text = told([calling("ann", "bob"), *results])
    assert "say (to='ann') success result 0" in text
    assert "say (to='bob') success result 1" in text
    assert "tool result 2" in text


def test_a_call_that_was_given_up() -> None:
    """It does not take the result of a later one, and a result before any call is nobody's."""
    early, late = ([], "x"), ([], "x")
    assert answers([early, (["x"], None), (["x"], None), late]) == {(2, 0): 3}
    assert answers([(["x", None], None), ([], None), late]) == {(0, 0): 2}


def test_in_the_data_of_a_turn() -> None:
    """`Turn.tool_calls` and the picture of the session, of a real agent."""

    def say(to: str) -> str:
        """Say it."""
        return f"said to {to}"

    def model(messages: Any) -> AIMessage:
        results = sum(isinstance(one, ToolMessage) for one in messages)
        return AIMessage("Done.") if results == 2 else calling(("ann", "bob")[results])

    with SQLCheckpointer("sqlite://") as saver:
        session = Agent(ScriptedModel(model), tools=[say], checkpointer=saver).session("t-1")
        session.send("both")
        (turn,) = session.history
        assert [(one.args["to"], one.result) for one in turn.tool_calls] == [
            ("ann", "said to ann"),
            ("bob", "said to bob"),
        ]
        text = read(to_html(session)).text
        assert "say (to='ann') success said to ann" in text
        assert "say (to='bob') success said to bob" in text


def openai(arguments: Any) -> dict[str, Any]:
    """A message as a graph has it that talks to the API of OpenAI itself."""
    function = {"name": "pay", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def test_the_form_of_openai() -> None:
    """Name, arguments and result, in a picture and in a terminal."""
    result = {"role": "tool", "content": "paid", "tool_call_id": "1"}
    assert "pay (to='ann') success" in told([openai('{"to": "ann"}'), result])
    assert call_line(*message_data(openai('{"to": "ann"}'))["tool_calls"]) == 'pay({"to": "ann"})'
    assert call_line(*message_data(openai('{"to'))["tool_calls"]) == 'pay("{\\"to") (not valid)'


def test_a_call_that_is_not_valid() -> None:
    """It is shown as the model wrote it, with the result that says so, and marked."""
    broken = AIMessage("", invalid_tool_calls=[{"name": "pay", "args": "{bad", "id": "1", "error": "no JSON"}])
    text = told([broken, ToolMessage("not valid JSON", tool_call_id="1", status="error")])
    assert "pay ({bad) not valid error not valid JSON" in text.replace("'", "")
    assert call_line(*message_data(broken)["tool_calls"]) == 'pay("{bad") (not valid)'


def test_a_role_of_somebody_else() -> None:
    """A chat message speaks as its role; what is no role, list of calls or id is text, and nothing fails."""
    assert message_data(ChatMessage(role="judge", content="x"))["role"] == "judge"
    odd = [
        {"role": ["judge"], "content": "x"},
        {"role": "assistant", "content": "x", "tool_calls": {"a": 1}},
        {"role": "assistant", "content": "x", "tool_calls": ["pay", {"id": ["x"]}, {"function": 5}]},
        {"role": "tool", "content": "x", "tool_call_id": ["x"]},
    ]
    assert "['judge'] x" in told(odd).replace("&#x27;", "'")
    assert "unknown" in told(odd)
