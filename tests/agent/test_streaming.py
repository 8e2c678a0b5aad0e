"""What a reader of a turn sees: events in order, text that stands, and no raw token past the transforms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from modes import Drive, delivered
from tests.agent.test_bare_graph import Outer
from tests.loop.scripts import Log, asks, call, history

from scallion import (
    Agent,
    ChatReply,
    Completed,
    FilterActed,
    ModelError,
    ModelFinished,
    ModelStarted,
    Paused,
    Reasoning,
    Retracted,
    Token,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    approve,
    around_chat,
    around_tool,
    around_turn,
    filters,
    token_transform,
)
from scallion.testing import BreaksOff, ScriptedModel

STREAMS = pytest.mark.parametrize("mode", ["stream", "astream"])
ANSWER = "A zebra crosses the road."


def kinds(events: list[Any]) -> list[str]:
    """The names of the events, runs of the same one drawn together."""
    names = [type(one).__name__ for one in events]
    return [one for place, one in enumerate(names) if place == 0 or names[place - 1] != one]


@STREAMS
def test_the_events_of_a_turn_with_a_tool_come_in_order(drive: Drive) -> None:
    model = ScriptedModel([asks(call("send", text="a"), text="Sending."), "done"])
    result, events = drive(Agent(model, tools=[Log().tool("send")])).start("go")
    assert kinds(events) == [
        "TurnStarted",
        "ModelStarted", "Token", "ToolCallDelta", "ModelFinished",
        "ToolStarted", "ToolFinished",
        "ModelStarted", "Token", "ModelFinished",
    ]  # fmt: skip
    assert isinstance(result, Completed)
    assert events[0] == TurnStarted(result.thread, result.turn)


@STREAMS
def test_the_tokens_joined_are_the_answer_byte_for_byte(drive: Drive) -> None:
    odd = "\n\n  ass" + "isting \t\r\n«zébra» 🦓\n "
    for size in (1, 2, 3, 4, 1000):
        result, events = drive(Agent(ScriptedModel([odd], chunk_size=size))).start("go")
        assert delivered(events) == result.answer == odd


@STREAMS
def test_each_token_names_its_model_call(drive: Drive) -> None:
    model = ScriptedModel([asks(call("send"), text="Sending."), "done"])
    _, events = drive(Agent(model, tools=[Log().tool("send")])).start("go")
    started = [one.call for one in events if isinstance(one, ModelStarted)]
    assert len(set(started)) == 2
    by_call = {name: "".join(t.text for t in events if isinstance(t, Token) and t.call == name) for name in started}
    assert list(by_call.values()) == ["Sending.", "done"]


@STREAMS
def test_tool_call_deltas_make_the_call(drive: Drive) -> None:
    model = ScriptedModel([asks(call("send", "c1", text="hello"), call("send", "c2", text="b")), "ok"], chunk_size=3)
    _, events = drive(Agent(model, tools=[Log().tool("send")])).start("go")
    deltas = [one for one in events if isinstance(one, ToolCallDelta)]
    assert [one.id for one in deltas if one.id] == ["c1", "c2"]
    assert [one.name for one in deltas if one.name] == ["send", "send"]
    assert "".join(one.args or "" for one in deltas if one.index == 0) == '{"text": "hello"}'


@STREAMS
def test_reasoning_is_an_event_of_its_own_and_survives_in_the_stored_message(drive: Drive) -> None:
    blocks = [{"type": "reasoning", "reasoning": "Let me think about it."}, {"type": "text", "text": "Yes."}]
    agent = Agent(ScriptedModel([AIMessage(blocks)]), checkpointer=InMemorySaver())
    result, events = drive(agent).start("go", thread="t")
    assert "".join(one.text for one in events if isinstance(one, Reasoning)) == "Let me think about it."
    assert delivered(events) == result.answer == "Yes."
    kept = history(agent, "t")[-1].content_blocks
    assert [one.get("reasoning") or one.get("text") for one in kept] == ["Let me think about it.", "Yes."]


@STREAMS
def test_tool_events_tell_call_tool_and_status(drive: Drive) -> None:
    def fails() -> str:
        """Fail."""
        raise ValueError("no")

    model = ScriptedModel([asks(call("fails", "c1"), call("send", "c2")), "ok"])
    _, events = drive(Agent(model, tools=[fails, Log().tool("send")])).start("go")
    assert {(one.call_id, one.tool) for one in events if isinstance(one, ToolStarted)} == {
        ("c1", "fails"), ("c2", "send"),
    }  # fmt: skip
    ended = {one.call_id: one for one in events if isinstance(one, ToolFinished)}
    assert {name: one.status for name, one in ended.items()} == {"c1": "error", "c2": "success"}
    assert all(one.duration >= 0 for one in ended.values())


@STREAMS
def test_the_finished_model_call_is_told_with_its_usage(drive: Drive) -> None:
    _, events = drive(Agent(ScriptedModel([ANSWER]))).start("go")
    [finished] = [one for one in events if isinstance(one, ModelFinished)]
    assert finished.message.text == ANSWER
    assert finished.usage["total_tokens"] > 0


@STREAMS
def test_a_pause_is_the_last_item_and_the_resumed_stream_goes_on(drive: Drive, any_saver: Any) -> None:
    agent = Agent(
        ScriptedModel([asks(call("send", text="a"), text="Wait."), "done"]),
        tools=[Log().tool("send")],
        filters=[filters.approval({"send": True})],
        checkpointer=any_saver,
    )
    paused, before = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    assert delivered(before) == "Wait."
    result, after = drive(agent).resume("t", approve())
    assert isinstance(result, Completed)
    ran = ["TurnStarted", "FilterActed", "ToolStarted", "ToolFinished", "ModelStarted", "Token", "ModelFinished"]
    assert kinds(after) == ran
    assert delivered(after) == "done"
    assert not any(isinstance(one, Retracted) for one in before + after)
    assert after[0].turn == before[0].turn


@STREAMS
def test_a_retry_after_part_of_the_text_takes_it_back_first(drive: Drive) -> None:
    @around_chat
    def retry(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except ModelError:
            return next(request)

    model = ScriptedModel([BreaksOff("Hello wor", ConnectionError("gone"), chunks=2), "Hello world!"])
    result, events = drive(Agent(model, filters=[retry])).start("go")
    gone = events.index(next(one for one in events if isinstance(one, Retracted)))
    assert any(isinstance(one, Token) for one in events[:gone])
    assert delivered(events) == result.answer == "Hello world!"
    assert "".join(one.text for one in events[gone:] if isinstance(one, Token)) == "Hello world!"
    assert FilterActed("retry", "around_chat", "retry") in events


@STREAMS
def test_a_retry_before_any_text_takes_nothing_back(drive: Drive) -> None:
    @around_chat
    def retry(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except ModelError:
            return next(request)

    _, events = drive(Agent(ScriptedModel([TimeoutError("slow"), ANSWER]), filters=[retry])).start("go")
    assert not any(isinstance(one, Retracted) for one in events)
    assert delivered(events) == ANSWER


@STREAMS
def test_a_chat_filter_that_replaces_the_answer_takes_the_text_back(drive: Drive) -> None:
    @around_chat
    def replace(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return reply.replace(message=AIMessage("replaced"))

    agent = Agent(ScriptedModel([ANSWER]), filters=[replace], checkpointer=InMemorySaver())
    result, events = drive(agent).start("go", thread="t")
    assert delivered(events) == result.answer == history(agent, "t")[-1].text == "replaced"
    assert any(isinstance(one, Retracted) for one in events)
    assert len(history(agent, "t")) == 2


@STREAMS
def test_a_turn_filter_that_replaces_the_answer_takes_the_text_back(drive: Drive) -> None:
    @around_turn
    def replace(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(message=AIMessage("replaced"))

    result, events = drive(Agent(ScriptedModel([ANSWER]), filters=[replace])).start("go")
    assert delivered(events) == result.answer == "replaced"


@STREAMS
def test_a_chat_filter_that_short_circuits_is_streamed_too(drive: Drive) -> None:
    @around_chat
    def cached(request: Any, state: Any, next: Any) -> Any:
        return ChatReply(AIMessage("from the cache"))

    result, events = drive(Agent(ScriptedModel([]), filters=[cached])).start("go")
    assert delivered(events) == result.answer == "from the cache"
    assert FilterActed("cached", "around_chat", "short_circuit") in events


@STREAMS
def test_a_tool_filter_that_short_circuits_is_told(drive: Drive) -> None:
    from langchain_core.messages import ToolMessage

    from scallion import ToolReply

    @around_tool
    def block(request: Any, state: Any, next: Any) -> Any:
        return ToolReply(ToolMessage("no", tool_call_id=request.call["id"]))

    _, events = drive(Agent(ScriptedModel([asks(call("send")), "ok"]), tools=[Log().tool("send")], filters=[block])).start("go")  # noqa: E501  # fmt: skip
    assert FilterActed("block", "around_tool", "short_circuit") in events
    (told,) = [one for one in events if isinstance(one, FilterActed)]
    assert (told.tool, told.call_id) == ("send", "c1")


@STREAMS
def test_what_filters_do_elsewhere_is_about_no_call(drive: Drive) -> None:
    @around_chat
    def cached(request: Any, state: Any, next: Any) -> Any:
        return ChatReply(AIMessage("known"))

    _, events = drive(Agent(ScriptedModel(["new"]), filters=[cached])).start("go")
    (told,) = [one for one in events if isinstance(one, FilterActed)]
    assert (told.tool, told.call_id) == (None, None)


@STREAMS
def test_an_error_is_raised_and_nothing_that_was_held_comes_out(drive: Drive) -> None:
    @token_transform(init="", flush=lambda held: [held])
    def hold(token: Token, held: str) -> Any:
        return [], held + token.text

    agent = Agent(ScriptedModel([BreaksOff(ANSWER, ConnectionError("gone"), chunks=3)]), filters=[hold])
    seen: list[Any] = []
    with pytest.raises(ModelError):
        collect(agent, drive, seen)
    assert not any(isinstance(one, Token) for one in seen)


def collect(agent: Agent, drive: Drive, seen: list[Any]) -> None:
    """Read a stream up to its error."""

    async def read() -> None:
        async for one in agent.astream("go"):
            seen.append(one)

    if drive(agent).mode == "astream":
        asyncio.run(read())
    else:
        seen.extend(iter_into(agent.stream("go"), seen))


def iter_into(items: Iterator[Any], seen: list[Any]) -> list[Any]:
    for one in items:
        seen.append(one)
    return []


@token_transform(init="", flush=lambda held: [held])
def shouts(token: Token, held: str) -> Any:
    """Holds the last four characters, and shouts."""
    text = held + token.text
    return [text[:-4].upper()], text[-4:].upper()


@STREAMS
def test_a_transform_changes_what_is_delivered_and_not_what_is_stored(drive: Drive) -> None:
    agent = Agent(ScriptedModel([ANSWER]), filters=[shouts], checkpointer=InMemorySaver())
    result, events = drive(agent).start("go", thread="t")
    assert delivered(events) == ANSWER.upper()
    assert result.answer == history(agent, "t")[-1].text == ANSWER


def leaves(value: Any, seen: set[int] | None = None) -> Iterator[str]:
    """Every text inside a value."""
    seen = seen if seen is not None else set()
    if isinstance(value, str):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inner: Any = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        inner = value
    elif isinstance(value, BaseMessage):
        inner = [value.model_dump()]
    elif is_dataclass(value):
        inner = [getattr(value, one.name) for one in fields(value)]
    else:
        return
    for one in inner:
        yield from leaves(one, seen)


PIECES = {ANSWER[start : start + 4] for start in range(0, len(ANSWER), 4)}


def assert_no_raw_token(items: list[Any], *, whole: bool = True) -> None:
    """No piece of the answer left on its own; the whole stored message may."""
    texts = [text for one in items for text in leaves(one)]
    assert not PIECES & set(texts), "a raw token left the graph"
    partly = [text for text in texts if "zebr" in text and ANSWER not in text]
    assert not partly
    assert not whole or any(ANSWER in text for text in texts)


def streaming_agent(**parts: Any) -> Agent:
    """An agent whose model streams tokens of four characters, with a tool round before the answer."""
    return Agent(
        ScriptedModel([asks(call("send", text="a"), text="A zebra?"), ANSWER], chunk_size=4),
        tools=[Log().tool("send")],
        filters=[shouts],
        **parts,
    )


MODES = ["values", "updates", "custom", "messages", "debug", "tasks", "checkpoints"]
GO = {"messages": [HumanMessage("go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def graph_stream(graph: Any, colour: str, **options: Any) -> list[Any]:
    """All that the graph streams."""

    async def read() -> list[Any]:
        return [one async for one in graph.astream(GO, CONFIG, **options)]

    return list(graph.stream(GO, CONFIG, **options)) if colour == "sync" else asyncio.run(read())


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize("stream_mode", [*MODES, MODES])
def test_no_raw_token_leaves_the_graph_in_any_stream_mode(colour: str, subgraphs: bool, stream_mode: Any) -> None:
    graph = streaming_agent(checkpointer=InMemorySaver()).graph
    items = graph_stream(graph, colour, stream_mode=stream_mode, subgraphs=subgraphs)
    texts = [text for one in items for text in leaves(one) if text in PIECES]
    assert not texts, "a raw token left the graph"
    assert_no_raw_token([one for one in items if "A zebra?" not in set(leaves(one))], whole=False)


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_no_raw_token_leaves_by_stream_events_v3(colour: str) -> None:
    graph = streaming_agent(checkpointer=InMemorySaver()).graph

    async def read() -> list[Any]:
        run = await graph.astream_events(GO, CONFIG, version="v3")
        return [one async for one in run]

    items = list(graph.stream_events(GO, CONFIG, version="v3")) if colour == "sync" else asyncio.run(read())
    assert items
    texts = [text for one in items for text in leaves(one) if text in PIECES]
    assert not texts, "a raw token left the graph"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_no_raw_token_leaves_a_graph_around_ours(colour: str) -> None:
    outer = StateGraph(Outer)
    outer.add_node("agent", streaming_agent().graph)
    outer.add_edge(START, "agent")
    outer.add_edge("agent", END)
    graph = outer.compile(checkpointer=InMemorySaver())
    items = graph_stream(graph, colour, stream_mode=MODES, subgraphs=True)
    assert not [text for one in items for text in leaves(one) if text in PIECES]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_whole_stored_messages_do_leave_in_messages_mode(colour: str) -> None:
    items = graph_stream(streaming_agent().graph, colour, stream_mode="messages")
    assert ANSWER in {one.text for one, _ in items}


def test_two_readers_at_once_do_not_mix() -> None:
    agent = Agent(ScriptedModel(lambda messages: f"for {messages[-1].text}"))
    one, other = agent.stream("one"), agent.stream("two")
    seen: dict[str, list[Any]] = {"one": [], "two": []}
    for first, second in zip(one, other, strict=True):
        seen["one"].append(first)
        seen["two"].append(second)
    assert delivered(seen["one"]) == "for one"
    assert delivered(seen["two"]) == "for two"
