"""Token transforms: what is delivered of the text; the stored answer stays the original."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from modes import Mode, delivered
from scenes import Desk, asks, call

from scallion import (
    Agent,
    ChatReply,
    Completed,
    Filter,
    FilterError,
    ModelError,
    Paused,
    Retracted,
    Token,
    TokenTransform,
    approve,
    filters,
    token_transform,
)
from scallion.filters.tokens import Pipeline
from scallion.testing import BreaksOff, ScriptedModel

STREAMS: tuple[Mode, ...] = ("stream", "astream")


@pytest.fixture(params=STREAMS)
def read(request: pytest.FixtureRequest) -> Any:
    """`read(agent) -> (events, result)` in both kinds of stream; `error` is the third, if one was raised."""

    async def gather(items: Any, got: list[Any]) -> None:
        async for item in items:
            got.append(item)

    def run(agent: Agent, input: Any = "go", **options: Any) -> tuple[list[Any], Any, Exception | None]:
        got: list[Any] = []
        try:
            if request.param == "stream":
                got.extend(agent.stream(input, **options))
            else:
                asyncio.run(gather(agent.astream(input, **options), got))
        except Exception as error:
            return got, None, error
        return got[:-1], got[-1], None

    return run


def pieces(transforms: list[TokenTransform], chunks: list[str]) -> list[str]:
    """What a pipeline delivers of a text that comes in these chunks."""
    out: list[Token] = []
    pipeline = Pipeline([(str(n), one) for n, one in enumerate(transforms)], out.append)
    for chunk in chunks:
        pipeline.push(Token(chunk))
    pipeline.close()
    return [one.text for one in out]


def redactor(secret: str, stars: str = "*") -> TokenTransform:
    """Holds back what may still become the secret: exact over all chunk borders."""

    def step(token: Token, held: str) -> tuple[list[str], str]:
        text = (held + token.text).replace(secret, stars)
        keep = next((n for n in range(min(len(secret) - 1, len(text)), 0, -1) if secret.startswith(text[-n:])), 0)
        return [text[: len(text) - keep]], text[len(text) - keep :]

    return TokenTransform(step, init="", flush=lambda held: [held])


class TestOneStream:
    """The transforms of one text, without an agent."""

    def test_one_piece_may_become_none_or_several(self) -> None:
        split = TokenTransform(lambda token, state: (list(token.text), state))
        drop = TokenTransform(lambda token, state: ([] if token.text == "x" else [token], state))
        assert pieces([split], ["ab", "c"]) == ["a", "b", "c"]
        assert pieces([split, drop], ["axb", "x"]) == ["a", "b"]

    def test_state_goes_from_chunk_to_chunk(self) -> None:
        number = TokenTransform(lambda token, n: ([f"{n}{token.text}"], n + 1), init=1)
        assert pieces([number], ["a", "b", "c"]) == ["1a", "2b", "3c"]

    def test_the_first_filter_sees_the_raw_token(self) -> None:
        upper = TokenTransform(lambda token, state: ([token.text.upper()], state))
        tag = TokenTransform(lambda token, state: ([f"<{token.text}>"], state))
        assert pieces([upper, tag], ["a"]) == ["<A>"]
        assert pieces([tag, upper], ["a"]) == ["<A>"]
        assert pieces([tag, TokenTransform(lambda t, s: ([t.text.replace("<a>", "seen")], s))], ["a"]) == ["seen"]

    def test_what_is_flushed_goes_through_the_transforms_behind_and_their_flush_comes_last(self) -> None:
        hold = TokenTransform(lambda token, held: ([], held + token.text), init="", flush=lambda held: [held, "!"])
        hold_too = TokenTransform(
            lambda token, held: ([], [*held, token.text]), init=[], flush=lambda held: [*held, "."]
        )
        upper = TokenTransform(lambda token, state: ([token.text.upper()], state), flush=lambda state: ["end"])
        assert pieces([hold, hold_too, upper], ["a", "b"]) == ["AB", "!", ".", "end"]

    def test_meta_and_call_of_a_token_are_kept_for_texts(self) -> None:
        out: list[Token] = []
        pipeline = Pipeline([("t", TokenTransform(lambda token, s: (["x", token.replace(text="y")], s)))], out.append)
        pipeline.push(Token("a", {"k": 1}, "call"))
        pipeline.close()
        assert out == [Token("x", {"k": 1}, "call"), Token("y", {"k": 1}, "call")]

    def test_each_stream_starts_from_a_copy_of_init(self) -> None:
        def remembers(token: Token, seen: list[str]) -> Any:
            seen.append(token.text)
            return ["".join(seen)], seen

        one = TokenTransform(remembers, init=[])
        assert pieces([one], ["a", "b"]) == ["a", "ab"]
        assert pieces([one], ["c"]) == ["c"]
        assert one.init == []

    @settings(max_examples=200, deadline=None)
    @given(
        text=st.text("abc ", max_size=40),
        cuts=st.lists(st.integers(0, 40), max_size=12),
        secret=st.sampled_from(["abc", "aab", "a", "abab"]),
    )
    def test_every_chunking_gives_the_redaction_of_the_whole(self, text: str, cuts: list[int], secret: str) -> None:
        edges = sorted({0, len(text), *(min(one, len(text)) for one in cuts)})
        chunks = [text[a:b] for a, b in pairwise(edges)]
        assert "".join(pieces([redactor(secret)], chunks)) == text.replace(secret, "*")
        assert "".join(pieces([redactor(secret, "*"), redactor("**", "#")], chunks)) == text.replace(
            secret, "*"
        ).replace("**", "#")


class TestInAgents:
    """What `stream` and `astream` deliver, and what the thread keeps."""

    @pytest.mark.parametrize("size", [1, 3, 4, 100, "word"])
    def test_the_stored_answer_is_the_original(self, read: Any, sql: Any, size: Any) -> None:
        model = ScriptedModel(["my key is sk-123 ok", "next"], chunk_size=size)
        agent = Agent(model, filters=[Filter("redact", token_transform=redactor("sk-123"))], checkpointer=sql)
        events, result, _ = read(agent, thread="t")
        assert delivered(events) == "my key is * ok"
        assert not any("sk-123" in one.text for one in events if isinstance(one, Token))
        assert result.answer == "my key is sk-123 ok"
        kept = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert [one.text for one in kept] == ["go", "my key is sk-123 ok"]

    def test_without_transforms_the_stream_is_the_answer(self, read: Any) -> None:
        events, result, _ = read(Agent(ScriptedModel(["some longer answer"])))
        assert delivered(events) == result.answer == "some longer answer"
        assert len([one for one in events if isinstance(one, Token)]) > 2

    def test_one_message_is_stored_per_model_call_though_every_chunk_is_rewritten(self, read: Any, sql: Any) -> None:
        @token_transform(init=0)
        def many(token: Token, n: int) -> Any:
            return [*token.text], n + 1

        desk = Desk()
        model = ScriptedModel([asks(call("look", order=1), text="looking"), "found"])
        agent = Agent(model, tools=desk.tools, filters=[many], checkpointer=sql)
        events, _, _ = read(agent, thread="t")
        assert delivered(events) == "lookingfound"
        kept = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert [one.type for one in kept] == ["human", "ai", "tool", "ai"]

    def test_each_model_call_has_a_state_of_its_own(self, read: Any) -> None:
        number = TokenTransform(lambda token, n: ([f"{n}"], n + 1), init=0, flush=lambda n: ["|"])
        model = ScriptedModel([asks(call("look", order=1), text="abc"), "de"], chunk_size=1)
        agent = Agent(model, tools=Desk().tools, filters=[Filter("n", token_transform=number)])
        assert delivered(read(agent)[0]) == "012|01|"

    def test_nothing_is_flushed_on_an_error(self, read: Any) -> None:
        hold = TokenTransform(lambda token, held: ([], held + token.text), init="", flush=lambda held: [held])
        model = ScriptedModel([BreaksOff("never to be seen", ConnectionError("reset"), chunks=3)])
        events, _, error = read(Agent(model, filters=[Filter("hold", token_transform=hold)]))
        assert isinstance(error, ModelError)
        assert [one for one in events if isinstance(one, Token)] == []

    def test_a_retry_retracts_what_was_delivered_first(self, read: Any) -> None:
        def retry(request: Any, state: Any, next: Any) -> Any:
            try:
                return next(request)
            except ModelError:
                return next(request)

        model = ScriptedModel([BreaksOff("half an answer", ConnectionError("reset"), chunks=2), "a whole answer"])
        events, result, _ = read(Agent(model, filters=[Filter("retry", around_chat=retry)]))
        shown = [one for one in events if isinstance(one, Token | Retracted)]
        at = next(n for n, one in enumerate(shown) if isinstance(one, Retracted))
        assert "".join(one.text for one in shown[:at]) == "half an "
        assert {one.call for one in shown[:at]} == {shown[at].call}
        assert "".join(one.text for one in shown[at + 1 :]) == result.answer == "a whole answer"
        assert delivered(events) == "a whole answer"

    def test_a_retry_of_what_was_not_delivered_retracts_nothing(self, read: Any) -> None:
        def retry(request: Any, state: Any, next: Any) -> Any:
            try:
                return next(request)
            except ModelError:
                return next(request)

        events, _, _ = read(
            Agent(ScriptedModel([ConnectionError("reset"), "answer"]), filters=[Filter("retry", around_chat=retry)])
        )
        assert not any(isinstance(one, Retracted) for one in events)
        assert delivered(events) == "answer"

    @pytest.mark.parametrize("chain", ["chat", "turn"])
    def test_a_refusal_that_a_filter_gives_is_delivered_through_the_transforms(self, read: Any, chain: str) -> None:
        message = AIMessage("no sk-123 here", id="a")

        def refuses(request: Any, state: Any, next: Any) -> Any:
            if chain == "chat":
                return ChatReply(message)
            return Completed(message, [*request.messages, message])

        stack = [Filter("guard", **{"around_" + chain: refuses}), Filter("r", token_transform=redactor("sk-123"))]
        events, result, _ = read(Agent(ScriptedModel([]), filters=stack))
        assert delivered(events) == "no * here"
        assert result.answer == "no sk-123 here"

    @pytest.mark.parametrize("chain", ["chat", "turn"])
    def test_an_answer_that_a_filter_changed_replaces_what_was_delivered(self, read: Any, chain: str) -> None:
        def changes(request: Any, state: Any, next: Any) -> Any:
            out = next(request)
            message = out.message.model_copy(update={"content": "changed"})
            if chain == "chat":
                return out.replace(message=message)
            return out.replace(message=message, messages=[*out.messages[:-1], message])

        events, result, _ = read(
            Agent(ScriptedModel(["original"]), filters=[Filter("c", **{"around_" + chain: changes})])
        )
        assert delivered(events) == result.answer == "changed"

    @pytest.mark.parametrize("part", ["step", "flush"])
    def test_a_transform_that_crashes_names_its_filter(self, read: Any, part: str) -> None:
        def crashes(*_: Any) -> Any:
            raise KeyError("bug")

        fine = lambda token, state: ([token], state)  # noqa: E731
        one = TokenTransform(crashes) if part == "step" else TokenTransform(fine, flush=crashes)
        _, _, error = read(Agent(ScriptedModel(["text"]), filters=[Filter("clumsy", token_transform=one)]))
        assert isinstance(error, FilterError)
        assert error.filter == "clumsy"
        assert isinstance(error.__cause__, KeyError)

    @pytest.mark.parametrize("wrong", [None, "text", [["x"]], 3, ([1], None)])
    def test_a_transform_that_returns_nonsense_names_its_filter(self, read: Any, wrong: Any) -> None:
        one = TokenTransform(lambda token, state: wrong)
        _, _, error = read(Agent(ScriptedModel(["text"]), filters=[Filter("clumsy", token_transform=one)]))
        assert isinstance(error, FilterError)
        assert error.filter == "clumsy"

    def test_a_transform_does_not_run_where_nobody_reads(self) -> None:
        """Without a stream there are no tokens; the answer is the original."""
        ran: list[str] = []

        def step(token: Token, state: Any) -> Any:
            ran.append(token.text)
            return [token], state

        agent = Agent(ScriptedModel(["text"] * 2), filters=[Filter("t", token_transform=TokenTransform(step))])
        assert agent.invoke("go").answer == "text"
        assert asyncio.run(agent.ainvoke("go")).answer == "text"
        assert ran == []

    def test_a_resumed_turn_is_streamed_too(self, read: Any, sql: Any) -> None:
        """From the pause on, through the transforms."""
        desk = Desk()
        model = ScriptedModel([asks(call("refund", order=1), text="asking"), "paid with sk-123"])
        stack = [filters.approval(default=True), Filter("r", token_transform=redactor("sk-123"))]
        agent = Agent(model, tools=desk.tools, filters=stack, checkpointer=sql)
        events, paused, _ = read(agent, thread="t")
        assert isinstance(paused, Paused)
        assert delivered(events) == "asking"
        rest = list(agent.stream_resume("t", approve()))
        assert delivered(rest) == "paid with *"
        assert not any("sk-123" in one.text for one in rest if isinstance(one, Token))
