"""The conversation that input and output filters edit, without an agent."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from scenes import asks, call

from scallion import ConfigurationError
from scallion.filters.conversation import InputConversation, OutputConversation, map_text, replaced, with_text, without
from scallion.testing import malformed


@given(st.text(), st.text(min_size=1), st.text())
def test_strings_are_literal_on_both_sides(text: str, old: str, new: str) -> None:
    assert replaced(text, old, new) == text.replace(old, new)


@pytest.mark.parametrize("new", ["costs $5", r"C:\new\1", "$1", "\\"])
def test_dollars_and_backslashes_are_themselves(new: str) -> None:
    """Seed defect 31's neighbour: a `$` in a replacement was read as a group."""
    assert replaced("a PRICE b", "PRICE", new) == f"a {new} b"


@given(st.text(), st.text(alphabet="xyz"))
def test_a_pattern_that_matches_everything_gives_one_replacement(text: str, new: str) -> None:
    """Seed defect 31: `.*` gave it twice, as `re.sub` does."""
    assert replaced(text, re.compile(".*", re.DOTALL), new) == new
    assert re.sub(".*", "X", "old") == "XX"


@given(st.lists(st.text(alphabet="ab", min_size=1), min_size=1))
def test_it_gives_one_for_each_line(lines: list[str]) -> None:
    assert replaced("\n".join(lines), re.compile(".*"), "X") == "\n".join(["X"] * len(lines))


@given(st.text(alphabet="ab1"))
def test_a_pattern_that_matches_no_empty_text_is_replaced_as_by_re(text: str) -> None:
    pattern = re.compile(r"([a1])b?")
    assert replaced(text, pattern, r"<\1>") == pattern.sub(r"<\1>", text)
    assert replaced(text, pattern, lambda match: match[0].upper()) == pattern.sub(lambda match: match[0].upper(), text)


def test_an_empty_match_elsewhere_inserts() -> None:
    assert replaced("ab", re.compile("(?=b)"), "-") == "a-b"
    assert replaced("ab", re.compile("x*"), "-") == "-a-b-"


@pytest.mark.parametrize(
    ("old", "new", "error"), [("", "x", ConfigurationError), ("a", 7, TypeError), (7, "x", TypeError)]
)
def test_what_cannot_be_replaced_is_refused(old: Any, new: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        replaced("abc", old, new)


BLOCKS: list[Any] = [{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": "bad"}, "bad too"]


def test_texts_among_other_blocks_are_changed_and_the_others_stay() -> None:
    """Seed defect 30: the text in a list was not looked at."""
    message = HumanMessage(BLOCKS)
    assert map_text(message, lambda text: text.replace("bad", "good")).content == [
        BLOCKS[0],
        {"type": "text", "text": "good"},
        "good too",
    ]
    assert with_text(message, "new").content == [{"type": "text", "text": "new"}, BLOCKS[0]]
    assert message.content == BLOCKS


def test_the_latest_message_is_what_is_changed() -> None:
    one, two = HumanMessage("bad one", id="1"), HumanMessage("bad two", id="2")
    conversation = InputConversation([one, two])
    conversation.replace("bad", "good")
    assert [message.text for message in conversation.input] == ["bad one", "good two"]
    conversation.remove(re.compile("bad ?"), where="all")
    assert [message.text for message in conversation.input] == ["one", "good two"]
    conversation.message = "new"
    assert (conversation.message, conversation.input_message.text, conversation.input_message.id) == ("new", "new", "2")
    conversation.input_message = HumanMessage("other", id="3")
    assert [message.id for message in conversation.messages] == ["1", "3"]
    conversation.input = [two]
    assert conversation.messages == [two]
    assert (one.text, two.text) == ("bad one", "bad two")


def test_edits_of_the_output_one_after_another_all_stand() -> None:
    """In the seed system a new output message took back what was done to the output before."""
    conversation = OutputConversation([HumanMessage("q"), AIMessage("a")], [HumanMessage("q")])
    conversation.output = [HumanMessage("Q"), AIMessage("a")]
    conversation.output_message = AIMessage("b")
    conversation.message += "!"
    assert [message.text for message in conversation.output] == ["Q", "b!"]
    assert [message.text for message in conversation.input] == ["q"]


def test_what_nobody_changed_is_the_very_message_that_was_given() -> None:
    given_ = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
    conversation = OutputConversation(given_)
    assert (conversation.output, conversation.message, conversation.is_changed) == (tuple(given_), "b", False)
    conversation.replace("x", "y", where="all")
    assert all(one is other for one, other in zip(conversation.messages, given_, strict=True))


def test_a_message_that_is_changed_in_place_is_changed_in_the_conversation_and_nowhere_else() -> None:
    message = HumanMessage("a")
    conversation = InputConversation([message])
    conversation.input_message.content = "b"
    assert (conversation.message, conversation.is_changed, message.content) == ("b", True, "a")


@pytest.mark.parametrize("field", ["input", "input_message", "message", "mesage"])
def test_a_view_cannot_be_written(field: str) -> None:
    view = InputConversation([HumanMessage("a")]).view()
    with pytest.raises(AttributeError):
        setattr(view, field, "b")
    with pytest.raises(AttributeError, match="replace changes"):
        view.replace("a", "b")
    assert (view.message, view.is_changed) == ("a", False)


def test_the_input_of_an_output_conversation_cannot_be_written() -> None:
    conversation = OutputConversation([AIMessage("a")], [HumanMessage("q")])
    with pytest.raises(AttributeError):
        conversation.input = ()  # type: ignore[misc]
    conversation.input[0].content = "other"
    with pytest.raises(AttributeError, match="input is read only"):
        _ = conversation.is_changed


@pytest.mark.parametrize("messages", [["text"], [None], "text"])
def test_what_is_no_message_cannot_be_put_in(messages: Any) -> None:
    with pytest.raises(TypeError):
        InputConversation([HumanMessage("a")]).input = messages
    with pytest.raises(TypeError):
        InputConversation([HumanMessage("a")]).input_message = messages  # type: ignore[assignment]


def test_where_and_what_is_left_are_checked() -> None:
    conversation = InputConversation([HumanMessage("a")])
    with pytest.raises(ConfigurationError, match="latest"):
        conversation.replace("a", "b", where="first")  # type: ignore[arg-type]
    conversation.input = []
    with pytest.raises(LookupError, match="no message is left"):
        _ = conversation.message


@st.composite
def conversations(draw: st.DrawFn) -> list[BaseMessage]:
    """Messages with whole pairs of calls and results."""
    made: list[BaseMessage] = []
    for turn in range(draw(st.integers(1, 4))):
        ids = [f"{turn}-{number}" for number in range(draw(st.integers(0, 3)))]
        made += [HumanMessage("q"), asks(*(call("tool", one) for one in ids))]
        made += [ToolMessage("r", tool_call_id=one) for one in draw(st.permutations(ids))]
    return made


@given(conversations(), st.data())
def test_whatever_is_dropped_pairs_of_call_and_result_stay_whole(messages: list[BaseMessage], data: Any) -> None:
    dropped = data.draw(st.sets(st.integers(0, len(messages) - 1)))
    left = without(messages, dropped)
    called = [one["id"] for message in left if isinstance(message, AIMessage) for one in message.tool_calls]
    assert sorted(called) == sorted(one.tool_call_id for one in left if isinstance(one, ToolMessage))
    assert not any(messages[place] is one for place in dropped for one in left)
    if all(messages[place].type == "human" for place in dropped):
        assert len(left) == len(messages) - len(dropped)


@given(conversations(), st.data())
def test_ids_that_come_again_do_not_tie_rounds_together(messages: list[BaseMessage], data: Any) -> None:
    """Models number the calls of each message anew: what is left is the same as with ids that differ."""
    again = [renamed(one) for one in messages]
    dropped = data.draw(st.sets(st.integers(0, len(messages) - 1)))
    left = without(messages, dropped)
    assert without(again, dropped) == [renamed(one) for one in left]


def renamed(message: BaseMessage) -> BaseMessage:
    """The message with ids that are counted from 0 in each round."""
    if isinstance(message, ToolMessage):
        return message.model_copy(update={"tool_call_id": message.tool_call_id.partition("-")[2]})
    if isinstance(message, AIMessage):
        calls = [{**one, "id": str(one["id"]).partition("-")[2]} for one in message.tool_calls]
        return message.model_copy(update={"tool_calls": calls})
    return message


def test_the_result_of_a_malformed_call_goes_with_it() -> None:
    messages = [HumanMessage("q"), asks(malformed("tool", "c1")), ToolMessage("no JSON", tool_call_id="c1")]
    assert without(messages, {1}) == messages[:1]
    assert without(messages, {2}) == messages[:1]
