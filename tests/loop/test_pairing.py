"""What the model is sent: behind each message with calls one result of each, whatever came of the history."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from modes import Drive
from tests.loop.scripts import Log, asks, assert_valid, broken, call, history, results, told

from scallion import Agent, Completed, FilterError, around_chat, around_turn, filters
from scallion.filters.replies import BadReply
from scallion.history import with_ids
from scallion.loop.pairing import LOST, paired
from scallion.testing import ScriptedModel

IDS = some.sampled_from(["c1", "c2", "c3"])
MESSAGES = some.lists(
    some.builds(HumanMessage, some.just("hm"))
    | some.builds(ToolMessage, some.sampled_from("abcd"), tool_call_id=IDS)
    | some.builds(
        lambda ids, bad: AIMessage("", tool_calls=[call("do", id) for id in ids[bad:]], invalid_tool_calls=[
            {**broken("do"), "id": id} for id in ids[:bad]
        ]),
        some.lists(IDS, unique=True, max_size=3),
        some.integers(0, 2),
    ),
    max_size=9,
)  # fmt: skip


def others(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [one for one in messages if not isinstance(one, ToolMessage)]


class TestPaired:
    """`paired` by itself."""

    @given(MESSAGES)
    def test_a_provider_takes_it(self, messages: list[BaseMessage]) -> None:
        """Of any messages; no result is made up where there is one, none stands twice, and nothing else changes."""
        made = paired(messages)
        assert_valid(with_ids(made))
        assert others(made) == others(messages)
        left = Counter(id(one) for one in messages if isinstance(one, ToolMessage))
        left.subtract(id(one) for one in made if isinstance(one, ToolMessage) and one.content != LOST)
        assert set(left.values()) <= {0, 1}
        lost = {one.tool_call_id for one in made if isinstance(one, ToolMessage) and one.content == LOST}
        assert lost.isdisjoint(one.tool_call_id for one in messages if isinstance(one, ToolMessage) and left[id(one)])
        assert paired(made) is made

    def test_results_stay_with_the_calls_before_them_though_ids_come_again(self) -> None:
        one, two = (AIMessage("", tool_calls=[call("do", "c1")]) for _ in range(2))
        first, second, third = (ToolMessage(text, tool_call_id="c1") for text in "abc")
        assert paired([one, two, second]) == [one, _lost("c1"), two, second]
        assert paired([one, first, two]) == [one, first, two, _lost("c1")]
        assert paired([one, first, third, two, second]) == [one, first, two, second]
        assert paired([first, second, one, two]) == [one, first, two, second]

    def test_a_call_without_an_id_or_a_name(self) -> None:
        asked = AIMessage(
            "", tool_calls=[call("do", "c1") | {"id": None}], invalid_tool_calls=[{**broken(""), "id": "x"}]
        )
        assert [one.tool_call_id for one in paired([asked, HumanMessage("hm")]) if isinstance(one, ToolMessage)] == [
            "x"
        ]


def _lost(id: str) -> ToolMessage:
    return ToolMessage(LOST, tool_call_id=id, name="do", status="error")


def no_results(conversation: Any) -> None:
    conversation.output = [one for one in conversation.output if one.type != "tool"]


@around_turn
def drops_results(request: Any, state: Any, next: Any) -> Any:
    result = next(request)
    return result.replace(messages=[one for one in result.messages if one.type != "tool"])


@around_turn
def drops_calls(request: Any, state: Any, next: Any) -> Any:
    result = next(request)
    return result.replace(messages=[one for one in result.messages if not getattr(one, "tool_calls", ())])


@around_turn
def drops_the_last_round(request: Any, state: Any, next: Any) -> Any:
    result = next(request)
    return result.replace(messages=[*result.messages[:-3], result.message])


@around_turn
def drops_the_first_round(request: Any, state: Any, next: Any) -> Any:
    result = next(request)
    return result.replace(messages=[result.messages[0], *result.messages[4:]])


@around_turn
def drops_all(request: Any, state: Any, next: Any) -> Any:
    result = next(request)
    return result.replace(messages=[result.message])


LEFT_OUT = [
    filters.filter_output(no_results),
    drops_results, drops_calls, drops_the_last_round, drops_the_first_round, drops_all,
]  # fmt: skip


@pytest.mark.parametrize("one", LEFT_OUT, ids=lambda one: one.name)
def test_what_a_filter_leaves_out_of_the_calls_that_ran_stays_where_it_was(drive: Drive, sql: Any, one: Any) -> None:
    log = Log()
    batch = asks(call("send", "c1", text="a"), call("send", "c2", text="b"))
    model = ScriptedModel([batch, asks(call("send", "c1", text="c")), "done", "again"])
    agent = Agent(model, tools=[log.tool("send")], filters=[one], checkpointer=sql)
    drive(agent).start("go", thread="t")
    turn = [
        "user: go", "model: send, send", "tool: send did a", "tool: send did b", "model: send", "tool: send did c",
        "model: done",
    ]  # fmt: skip
    assert told(history(agent, "t")) == turn
    assert_valid(history(agent, "t"))
    drive(agent).start("and?", thread="t")
    assert told(model.calls[-1]) == [*turn, "user: and?"]


@around_chat
def stores_no_results(request: Any, state: Any, next: Any) -> Any:
    return next(request).replace(stored=[one for one in request.stored if one.type != "tool"])


@around_chat
def shows_no_results(request: Any, state: Any, next: Any) -> Any:
    return next(request.replace(messages=[one for one in request.messages if one.type != "tool"]))


@pytest.mark.parametrize("one", [stores_no_results, shows_no_results], ids=lambda one: one.name)
def test_a_call_whose_result_a_filter_drops_is_answered_all_the_same(drive: Drive, sql: Any, one: Any) -> None:
    log = Log()
    model = ScriptedModel([asks(call("send", "c1", text="a")), "done", "again"])
    agent = Agent(model, tools=[log.tool("send")], filters=[one], checkpointer=sql)
    drive(agent).start("go", thread="t")
    drive(agent).start("and?", thread="t")
    assert told(model.calls[-1]) == ["user: go", "model: send", f"tool: {LOST}", "model: done", "user: and?"]
    assert log == ["send a"]


def test_given_calls_and_results_that_do_not_fit_reach_no_model(drive: Drive, sql: Any) -> None:
    asked = AIMessage("", tool_calls=[call("send", "c1"), call("send", "c2")])
    given = [
        ToolMessage("of nobody", tool_call_id="zz"), HumanMessage("go"), asked, ToolMessage("late", tool_call_id="c2"),
        HumanMessage("hm"), ToolMessage("too late", tool_call_id="c1"),
    ]  # fmt: skip
    model = ScriptedModel(["done", "again"])
    agent = Agent(model, tools=[Log().tool("send")], checkpointer=sql)
    drive(agent).start(given, thread="t")
    drive(agent).start("and?", thread="t")
    sent = ["user: go", "model: send, send", "tool: too late", "tool: late", "user: hm"]
    assert told(model.calls[0]) == sent
    assert told(model.calls[1]) == [*sent, "model: done", "user: and?"]
    assert results(model.calls[1]) == {"c1": "too late", "c2": "late"}


@pytest.mark.parametrize(
    "answer",
    [AIMessage("late", tool_calls=[call("send", "c9")]), AIMessage("late", invalid_tool_calls=[broken("send")])],
)
def test_an_answer_of_a_turn_makes_no_calls(drive: Drive, sql: Any, answer: AIMessage) -> None:
    """Nothing would run them, and no result would come."""

    @around_turn
    def asks_more(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(message=answer)

    agent = Agent(ScriptedModel(["a"]), filters=[asks_more], checkpointer=sql)
    with pytest.raises(FilterError, match="makes no tool calls") as caught:
        drive(agent).start("go", thread="t")
    assert isinstance(caught.value.__cause__, BadReply)
    done, _ = drive(Agent(ScriptedModel(["b"]), checkpointer=sql)).start("again", thread="t")
    assert isinstance(done, Completed)
    assert not any(getattr(one, "tool_calls", ()) for one in history(agent, "t"))
