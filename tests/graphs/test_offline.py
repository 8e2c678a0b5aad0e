"""The offline model of the refund desk: a conversation in plain English, one step at a time."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from desk import offline, tables, tools

REGISTERED = {
    tool.name: tool for tool in (tools.list_orders, tools.look_up_order, tools.refund_order, tools.send_email)
}


@pytest.fixture(autouse=True)
def _desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALLION_DESK_DB", str(tmp_path / "desk.db"))


def run(call: dict) -> ToolMessage:
    """The tool's own answer, its failure as an error message."""
    try:
        return REGISTERED[call["name"]].invoke({**call, "type": "tool_call"})
    except (LookupError, ValueError) as error:
        return ToolMessage(str(error), tool_call_id=call["id"], name=call["name"], status="error")


def refuse(call: dict) -> ToolMessage:
    """What the model reads of a rejected call."""
    return ToolMessage("Rejected by ana: too much.", tool_call_id=call["id"], name=call["name"], status="error")


def turn(talk: list[BaseMessage], text: str, **results) -> list[list[str]]:
    """Play one turn: the names of the tools called in each step; the last message of `talk` is the answer."""
    talk.append(HumanMessage(text))
    steps = []
    while (reply := offline.answer(talk)).tool_calls:
        talk += [reply, *(results.get(call["name"], run)(call) for call in reply.tool_calls)]
        steps.append([call["name"] for call in reply.tool_calls])
    talk.append(reply)
    return steps


def test_the_first_answer_says_what_it_is() -> None:
    """And no later one repeats it."""
    talk: list[BaseMessage] = []
    turn(talk, "Hello")
    assert "offline scripted model" in talk[-1].text
    turn(talk, "thanks!")
    assert talk[-1].text == "You are welcome."


def test_look_up_then_yes_then_yes() -> None:
    """The desk offers what comes next, and remembers which order it was."""
    talk: list[BaseMessage] = []
    assert turn(talk, "What about order 1042?") == [["look_up_order"]]
    assert "Mira Okafor" in talk[-1].text
    assert turn(talk, "Yes, please") == [["look_up_order"], ["refund_order"]]
    assert "189.00 EUR" in talk[-1].text
    assert turn(talk, "yes") == [["look_up_order"], ["send_email"]]
    assert "mira@example.com" in talk[-1].text
    with tables.connect() as connection:
        assert connection.execute("select recipient from outbox").fetchone()[0] == "mira@example.com"


def test_two_calls_at_once() -> None:
    """A refund and an e-mail that are asked for together are called together."""
    talk: list[BaseMessage] = []
    assert turn(talk, "Refund order 1042 and email the customer") == [["look_up_order"], ["refund_order", "send_email"]]
    assert talk[-1].text.count("Done.") == 2


def test_a_rejected_call_is_told_and_not_repeated() -> None:
    """The other call of the batch is told by itself."""
    talk: list[BaseMessage] = []
    steps = turn(talk, "Refund order 1042 and email the customer", refund_order=refuse)
    assert steps == [["look_up_order"], ["refund_order", "send_email"]]
    assert "refund was not made: Rejected by ana: too much." in talk[-1].text
    assert "Done. E-mail 1" in talk[-1].text


def test_a_part_of_the_price() -> None:
    """An amount in euros is refunded as such; more than what is left is refused by the tool."""
    talk: list[BaseMessage] = []
    turn(talk, "refund 20 euros of order 1043")
    assert "20.00 EUR" in talk[-1].text
    turn(talk, "refund €20 of order 1043")
    assert "has 12.50 EUR left to refund, not 20.00 EUR" in talk[-1].text


def test_an_email_in_the_users_words() -> None:
    """What follows `that` is what the customer reads."""
    talk: list[BaseMessage] = []
    turn(talk, "email the customer of order 1041 that the pan is late")
    assert next(call["args"]["body"] for call in offline._calls(talk) if call["name"] == "send_email").count("is late")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("refund it", "Which order is it?"),
        ("refund order 9999", "there is no order 9999"),
        ("list all orders", "Order 1041"),
        ("no", "leave it"),
        ("sing a song", "did not understand"),
        ("", "did not understand"),
    ],
)
def test_other_messages(text: str, answer: str) -> None:
    """What it cannot do, it says."""
    talk: list[BaseMessage] = []
    turn(talk, text)
    assert answer in talk[-1].text


def test_ids_of_calls_differ() -> None:
    """Two turns with the same words make calls with other ids."""
    talk: list[BaseMessage] = []
    turn(talk, "order 1042")
    turn(talk, "order 1042")
    ids = [call["id"] for message in talk if isinstance(message, AIMessage) for call in message.tool_calls]
    assert len(set(ids)) == len(ids) == 2
