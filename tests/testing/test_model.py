"""The scripted model: the same answer in every colour and mode, and what it records."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, message_chunk_to_message
from langchain_core.tools import tool

from scallion import ConfigurationError
from scallion.testing import BreaksOff, ScriptedModel, ScriptExhausted, call

CALLS = AIMessage(
    "Let me see.",
    tool_calls=[
        {"name": "add", "args": {"a": 1, "b": 20}, "id": "c1"},
        {"name": "add", "args": {}, "id": "c2"},
    ],
)
BLOCKS = AIMessage(
    [
        {"type": "reasoning", "reasoning": "Twenty and one more."},
        {"type": "text", "text": "It is twenty-one."},
    ]
)


def whole(chunks: list[AIMessageChunk]) -> AIMessage:
    """The message that the chunks add up to."""
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    message = message_chunk_to_message(total)
    assert isinstance(message, AIMessage)
    return message


async def collect(model: ScriptedModel) -> list[AIMessageChunk]:
    """What an asynchronous stream gives."""
    return [chunk async for chunk in model.astream("hi")]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_replies_come_in_order_and_calls_are_recorded() -> None:
    """Texts, messages and functions are answered one a call."""
    model = ScriptedModel(["one", AIMessage("two"), lambda messages: f"{messages[-1].text}!"])
    assert [model.invoke(text).text for text in ("a", "b", "c")] == ["one", "two", "c!"]
    assert [call[-1].text for call in model.calls] == ["a", "b", "c"]


def test_one_function_makes_every_reply() -> None:
    """A function in place of a list never runs out."""
    model = ScriptedModel(lambda messages: str(len(messages)))
    assert model.invoke("a").text == model.invoke("b").text == "1"


def test_a_script_that_ran_out_says_so() -> None:
    """The error counts the replies and the calls."""
    model = ScriptedModel(["only"])
    model.invoke("a")
    with pytest.raises(ScriptExhausted, match="has 1 replies, and this is call number 2"):
        model.invoke("b")


def test_an_exception_in_the_script_is_raised() -> None:
    """The next call goes on behind it."""
    model = ScriptedModel([TimeoutError("slow"), "ok"])
    with pytest.raises(TimeoutError):
        model.invoke("a")
    assert model.invoke("a").text == "ok"


def test_a_reply_of_another_type_is_refused() -> None:
    """A mistake in a test is told where it was made."""
    with pytest.raises(ConfigurationError, match="not int"):
        ScriptedModel([3]).invoke("a")  # type: ignore[list-item]


@pytest.mark.parametrize("reply", ["Hello, you there.", CALLS, BLOCKS], ids=["text", "calls", "blocks"])
@pytest.mark.parametrize("size", [1, 3, 1000, "word"])
async def test_a_stream_adds_up_to_the_message(reply: str | AIMessage, size: int) -> None:
    """Text, tool calls, reasoning, usage and id are the same however it is cut, in both colours."""
    told = await ScriptedModel([reply]).ainvoke("hi")
    model = ScriptedModel([reply, reply], chunk_size=size)
    for chunks in ([*model.stream("hi")], await collect(model)):
        message = whole(chunks)
        assert message.text == told.text
        assert message.tool_calls == told.tool_calls
        assert message.usage_metadata == told.usage_metadata
        assert [block["type"] for block in message.content_blocks] == [block["type"] for block in told.content_blocks]
        assert len({chunk.id for chunk in chunks}) == 1


def test_text_arrives_in_pieces_of_the_size() -> None:
    """Arguments of tool calls too: their pieces are no JSON by themselves."""
    chunks = [*ScriptedModel([CALLS], chunk_size=5).stream("hi")]
    assert [chunk.text for chunk in chunks if chunk.text] == ["Let m", "e see", "."]
    args = [part["args"] for chunk in chunks for part in chunk.tool_call_chunks if part["index"] == 0]
    assert "".join(args) == '{"a": 1, "b": 20}'
    assert len(args) == 1 + 4


def test_words_keep_their_spaces() -> None:
    """Cut by words, the sum is the text, line ends included."""
    chunks = [*ScriptedModel(["  One two\nthree "], chunk_size="word").stream("hi")]
    assert [chunk.text for chunk in chunks if chunk.text] == ["  One ", "two\n", "three "]


def test_malformed_calls_survive_the_stream() -> None:
    """Arguments that are no JSON come out as an invalid tool call."""
    bad = {"name": "add", "args": "a = 1", "id": "c1", "error": None}
    message = whole([*ScriptedModel([AIMessage("", invalid_tool_calls=[bad])]).stream("hi")])
    assert [(call["name"], call["args"]) for call in message.invalid_tool_calls] == [("add", "a = 1")]


@pytest.mark.parametrize("chunks", [0, 2])
def test_a_stream_that_breaks_off(chunks: int) -> None:
    """Some chunks are delivered, then the error is raised."""
    model = ScriptedModel([BreaksOff("Hello, you", ConnectionError("gone"), chunks)])
    seen = []
    with pytest.raises(ConnectionError):
        seen.extend(chunk.text for chunk in _each(model, seen))
    assert len(seen) == chunks


def _each(model: ScriptedModel, seen: list[str]) -> list[AIMessageChunk]:
    for chunk in model.stream("hi"):
        seen.append(chunk.text)
    return []


def test_without_a_stream_it_breaks_at_once() -> None:
    """`invoke` raises the error of the broken stream."""
    with pytest.raises(ConnectionError):
        ScriptedModel([BreaksOff("Hello", ConnectionError("gone"))]).invoke("hi")


def test_bound_tools_are_recorded_and_sent() -> None:
    """`bound` holds what was given, `settings` what a provider would get."""
    model = ScriptedModel(["ok"])
    model.bind_tools([add], tool_choice="any").invoke("hi")
    assert model.bound == [[add]]
    assert model.settings[0]["tools"][0]["function"]["name"] == "add"
    assert model.settings[0]["tool_choice"] == "any"


async def test_one_colour_only() -> None:
    """A model of one colour refuses the other, streamed or not."""
    sync, nosync = ScriptedModel(["a", "b"], sync_only=True), ScriptedModel(["a", "b"], async_only=True)
    assert sync.invoke("hi").text == (await nosync.ainvoke("hi")).text == "a"
    with pytest.raises(NotImplementedError, match="sync_only"):
        await sync.ainvoke("hi")
    with pytest.raises(NotImplementedError, match="sync_only"):
        await collect(sync)
    with pytest.raises(NotImplementedError, match="async_only"):
        nosync.invoke("hi")
    with pytest.raises(NotImplementedError, match="async_only"):
        [*nosync.stream("hi")]
    assert whole([*sync.stream("hi")]).text == whole(await collect(nosync)).text == "b"


def test_usage_counts_words() -> None:
    """Input and output are counted unless the script says otherwise."""
    usage = ScriptedModel(["two words"]).invoke([HumanMessage("a question of five words")]).usage_metadata
    assert usage == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    own = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    assert ScriptedModel([AIMessage("x", usage_metadata=own)]).invoke("hi").usage_metadata == own


def test_a_message_given_twice_gets_two_ids() -> None:
    """What a caller does to a reply does not change the script."""
    reply = AIMessage("same", additional_kwargs={"a": []})
    model = ScriptedModel([reply, reply])
    first, second = model.invoke("a"), model.invoke("b")
    first.additional_kwargs["a"].append(1)
    assert first.id != second.id
    assert second.additional_kwargs == {"a": []}


def test_many_threads_get_each_reply_once() -> None:
    """The script is handed out under a lock."""
    model = ScriptedModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        texts = [*pool.map(lambda _: model.invoke("hi").text, range(200))]
    assert sorted(map(int, texts)) == list(range(200))
    assert len(model.calls) == 200


async def test_a_slow_reply_can_be_cancelled() -> None:
    """`delay` waits without blocking the event loop."""
    model = ScriptedModel(["late"], delay=30)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(model.ainvoke("hi"), 0.05)


def test_a_tool_may_have_an_argument_that_is_called_name() -> None:
    assert call("find", name="bob") == {"name": "find", "args": {"name": "bob"}, "id": "c1", "type": "tool_call"}
