"""Windows: for every conversation and every bound, no result without its call and no call without its results."""

from __future__ import annotations

from typing import Any

import pytest
from conversations.dialogues import Dialogue, dialogues
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    trim_messages,
)
from scenes import asks, call

from scallion.filters.windows import Bounds, Conversation, blocks
from scallion.testing import ScriptedModel

KINDS = st.sampled_from(["system", "human", "says", "calls one", "calls two", "malformed", "stray result"])


def made(kinds: list[str], *, whole: bool) -> list[BaseMessage]:
    """A history of these parts; one that is not whole has stray results and calls with too few of them."""
    messages: list[BaseMessage] = []
    for place, kind in enumerate(kinds):
        ids = [f"c{place}-{n}" for n in range(2 if kind == "calls two" else 1)]
        if kind == "system":
            messages.append(SystemMessage("rules", id=f"s{place}"))
        elif kind == "human":
            messages.append(HumanMessage("a question", id=f"h{place}"))
        elif kind == "says":
            messages.append(AIMessage("an answer", id=f"a{place}"))
        elif kind == "malformed":
            broken = {"name": "look", "args": "{", "id": ids[0], "error": None, "type": "invalid_tool_call"}
            messages.append(AIMessage("", id=f"a{place}", invalid_tool_calls=[broken]))
        elif kind.startswith("calls"):
            messages.append(asks(*(call("look", id, order=1) for id in ids)).model_copy(update={"id": f"a{place}"}))
        if kind in ("calls one", "calls two", "malformed") or (kind == "stray result" and not whole):
            answered = ids if whole else ids[: place % 3]
            messages += [ToolMessage("found", tool_call_id=id, id=f"t{id}") for id in answered]
    return messages


def check_whole(messages: list[BaseMessage]) -> None:
    """What a provider checks: results stand right behind their call, one for each call, and all are answered."""
    open_calls: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in open_calls
            open_calls.remove(message.tool_call_id)
            continue
        assert not open_calls
        if isinstance(message, AIMessage):
            open_calls = [one["id"] for one in (*message.tool_calls, *message.invalid_tool_calls)]
    assert not open_calls


def windowed(messages: list[BaseMessage], bounds: Bounds) -> tuple[Conversation, list[BaseMessage]]:
    conversation = Conversation.of(messages)
    return conversation, conversation.since(bounds.start(conversation, None, ScriptedModel(), ()))


@given(st.lists(KINDS, max_size=14), st.booleans(), st.integers(1, 12), st.sampled_from([0.5, 1.0]))
def test_every_window_is_whole(kinds: list[str], whole: bool, most: int, keep: float) -> None:
    messages = made(kinds, whole=whole)
    conversation, shown = windowed(messages, Bounds(most, None, keep, None))
    check_whole([*conversation.lead, *shown])
    places = [messages.index(one) for one in shown]
    assert places == sorted(set(places))
    assert bool(shown) == bool(conversation.blocks)


@given(st.lists(KINDS, max_size=14), st.integers(1, 60))
def test_a_window_begins_with_a_person_and_holds_question_and_end(kinds: list[str], tokens: int) -> None:
    messages = made(kinds, whole=True)
    conversation, shown = windowed(messages, Bounds(None, tokens, 1.0, lambda some: 5 * len(some)))
    people = [one for one in messages[len(conversation.lead) :] if isinstance(one, HumanMessage)]
    if people:
        assert isinstance(shown[0], HumanMessage) or len(shown) == sum(map(len, conversation.blocks))
        assert people[-1] in shown
    if conversation.blocks:
        assert shown[-1] is conversation.blocks[-1][-1]


@given(st.lists(KINDS, max_size=14), st.integers(1, 14))
def test_a_window_is_as_long_as_its_bound_lets_it(kinds: list[str], most: int) -> None:
    """What is over the bound is the question with the last block, which always stand; one block more does not fit."""
    conversation, shown = windowed(made(kinds, whole=True), Bounds(most, None, 1.0, None))
    start = Bounds(most, None, 1.0, None).start(conversation, None, ScriptedModel(), ())
    assert len(shown) <= most or start == conversation.begin(max(len(conversation.blocks) - 1, 0))
    for earlier in range(start):
        begun = conversation.begin(earlier)
        assert begun == start or len(conversation.since(begun)) > most


@pytest.mark.shared
@pytest.mark.parametrize("dialogue", dialogues(12), ids=lambda dialogue: dialogue.name)
def test_recorded_dialogues_are_whole_in_every_window(dialogue: Dialogue) -> None:
    """At each model call of the dialogue, for each bound."""
    messages = convert_to_messages(dialogue.messages)
    asked = [place for place, one in enumerate(messages) if isinstance(one, AIMessage)]
    for end in asked:
        for most in range(1, end + 1, 3):
            _, shown = windowed(messages[:end], Bounds(most, None, 0.75, None))
            check_whole(shown)
            assert isinstance(shown[0], HumanMessage)
            assert shown[-1] is messages[end - 1]


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        ([], []),
        ([SystemMessage("rules")], []),
        ([ToolMessage("lost", tool_call_id="c9")], []),
        ([HumanMessage("word " * 999)], ["human"]),
        ([AIMessage("word " * 999)], ["ai"]),
        (
            [HumanMessage("q"), asks(call("look")), ToolMessage("word " * 999, tool_call_id="c1")],
            ["human", "ai", "tool"],
        ),
    ],
    ids=["nothing", "only rules", "only a result", "one huge question", "one huge answer", "one huge result"],
)
def test_the_edges_have_a_defined_window(messages: list[Any], shown: list[str]) -> None:
    """`trim_messages` of langchain-core raised an IndexError on some of these."""
    assert [one.type for one in windowed(messages, Bounds(None, 5, 1.0, None))[1]] == shown


def test_a_neighbour_begins_with_a_result() -> None:
    """The last three messages by langchain-core's function, and by ours."""
    messages = [
        HumanMessage("q"),
        asks(call("look")),
        ToolMessage("1", tool_call_id="c1"),
        AIMessage("a"),
        HumanMessage("?"),
    ]
    theirs = trim_messages(messages, max_tokens=3, token_counter=len, strategy="last")
    assert theirs[0].type == "tool"
    assert [one.type for one in windowed(messages, Bounds(3, None, 1.0, None))[1]] == ["human"]


def test_results_in_any_order_and_twice() -> None:
    """The first result of a call is the one."""
    messages = [
        asks(call("look", "c1"), call("look", "c2")),
        *(ToolMessage(text, tool_call_id=id) for id, text in [("c2", "two"), ("c1", "one"), ("c2", "again")]),
    ]
    assert [[one.text for one in block] for block in blocks(messages)] == [["", "two", "one"]]
