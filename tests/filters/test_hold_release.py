"""`filters.hold_release`: nothing is delivered that the check has not seen; asynchronous transforms in general."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modes import Driver, delivered

from scallion import Agent, ConfigurationError, Filter, FilterError, ModelError, Token, TokenTransform, filters
from scallion.filters.hold_release import Gate, Held, due
from scallion.testing import BreaksOff, ScriptedModel


@pytest.fixture(params=["stream", "astream"])
def read(request: pytest.FixtureRequest) -> Any:
    """`read(agent) -> (result, events)` in both kinds of stream."""
    return lambda agent: Driver(agent, request.param).start("go")


@pytest.fixture(params=["def", "async def", "awaitable"])
def coloured(request: pytest.FixtureRequest) -> Any:
    """`coloured(check)`: the check as `def`, as `async def`, or as a `def` that gives something to await."""

    def make(check: Any) -> Any:
        async def run(text: str) -> Any:
            await asyncio.sleep(0.001)
            return check(text)

        return {"def": check, "async def": run, "awaitable": lambda text: run(text)}[request.param]

    return make


def passed(gate: Gate, pieces: list[str]) -> list[str]:
    """What is delivered with each piece, and at the end."""
    held: Held | None = None
    out = []
    for piece in pieces:
        tokens, held = gate.step(Token(piece), held)
        out.append("".join(map(text_of, tokens)))
    return [*out, "".join(map(text_of, gate.flush(held)))]


def text_of(one: Token | str) -> str:
    return one if isinstance(one, str) else one.text


class Seen(list[str]):
    """A check that lets all pass and keeps what it saw."""

    def __call__(self, text: str) -> bool:
        self.append(text)
        return True


def test_the_whole_text_is_checked_once_and_comes_in_its_pieces(read: Any, coloured: Any) -> None:
    seen = Seen()
    model = ScriptedModel(["one two three"], chunk_size=4)
    _, events = read(Agent(model, filters=[filters.hold_release(coloured(seen))]))
    assert seen == ["one two three"]
    assert [one.text for one in events if isinstance(one, Token)] == ["one ", "two ", "thre", "e"]


@pytest.mark.parametrize(("verdict", "told"), [("Sorry.", "Sorry."), (False, ""), ("", "")])
def test_a_text_is_replaced_and_the_answer_stays(read: Any, coloured: Any, verdict: Any, told: str) -> None:
    model = ScriptedModel(["a bad word"])
    result, events = read(Agent(model, filters=[filters.hold_release(coloured(lambda text: verdict))]))
    assert delivered(events) == told
    assert result.answer == "a bad word"


@pytest.mark.parametrize("wrong", [KeyError("bad word"), None, 1])
def test_a_check_that_fails_releases_nothing(read: Any, coloured: Any, wrong: Any) -> None:
    """Fail closed: the turn fails, with an error that holds none of the text."""

    def check(text: str) -> Any:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    got: list[Any] = []
    agent = Agent(ScriptedModel(["a bad word"]), filters=[filters.hold_release(coloured(check))])
    with pytest.raises(FilterError) as caught:
        got.extend(agent.stream("go"))
    assert delivered(got) == ""
    assert (caught.value.filter, caught.value.hook) == ("hold_release", "token_transform")
    assert "bad word" not in str(caught.value)
    with pytest.raises(FilterError):
        read(Agent(ScriptedModel(["a bad word"]), filters=[filters.hold_release(coloured(check))]))


def test_nothing_leaves_when_the_model_breaks_off() -> None:
    seen = Seen()
    model = ScriptedModel([BreaksOff("one two three", TimeoutError(), chunks=2)])
    got: list[Any] = []
    with pytest.raises(ModelError):
        got.extend(Agent(model, filters=[filters.hold_release(seen)]).stream("go"))
    assert delivered(got) == ""
    assert seen == []


def test_an_asynchronous_check_runs_on_the_readers_loop() -> None:
    """So a client that belongs to the loop can be used, and the loop is not blocked meanwhile."""
    loops: list[Any] = []
    beats = 0

    async def check(text: str) -> bool:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.05)
        return True

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.005)
            beats += 1

    async def main() -> Any:
        other = asyncio.ensure_future(beat())
        agent = Agent(ScriptedModel(["One. Two. "]), filters=[filters.hold_release(check, "sentence")])
        items = [item async for item in agent.astream("go")]
        other.cancel()
        return items, asyncio.get_running_loop()

    items, loop = asyncio.run(main())
    assert delivered(items) == "One. Two. "
    assert set(loops) == {loop}
    assert beats > 2


class TestWindows:
    """What is checked, and what leaves, with which piece."""

    def test_sentences_leave_as_they_end(self) -> None:
        seen = Seen()
        out = passed(Gate(seen, "sentence", None, None), ["One. T", "wo! Thr", 'ee "x." F', "our"])
        assert out == ["One. ", "Two! ", 'Three "x." ', "", "Four"]
        assert seen == out[:3] + out[4:]

    @pytest.mark.parametrize(
        ("text", "end"),
        [("3.5 of", 0), ("a.b", 0), ("One.", 0), ("One. ", 5), ("一。二", 2), ("line\nmore", 5), ("Really?) And", 9)],
    )
    def test_where_a_sentence_is_over(self, text: str, end: int) -> None:
        """A point inside of a number is none; whether one at the end is, the next piece tells."""
        assert due(text, "sentence") == (end, end)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.text('a. \n"」。)', max_size=4), max_size=12))
    def test_only_what_is_new_is_looked_at(self, pieces: list[str]) -> None:
        """With the same outcome; before, all that was held was searched again with each piece."""
        held = Held()
        for piece in pieces:
            held.add(Token(piece))
            leaving = due(held.text, "sentence")
            assert held.due("sentence") == leaving
            held.take(leaving[1])
            assert len(held.text) - held._looked <= len(held.text) - len(held.text.rstrip('."」)'))

    def test_what_follows_a_blocked_sentence_does_not_leave(self) -> None:
        gate = Gate(lambda text: "[cut]" if "bad" in text else True, "sentence", None, None)
        assert passed(gate, ["Good. ", "A bad one. ", "Good again. "]) == ["Good. ", "[cut]", "", ""]

    @settings(max_examples=200, deadline=None)
    @given(st.integers(1, 6), st.lists(st.text("ab ", max_size=5), max_size=12))
    def test_what_fits_into_a_window_is_seen_before_any_of_it_leaves(self, window: int, pieces: list[str]) -> None:
        """Every stretch of that length is in one checked text; no more than two windows and a piece are held."""
        gone, seen = 0, []

        def check(text: str) -> bool:
            seen.append((gone, gone + len(text)))
            return True

        gate, held = Gate(check, window, None, None), None
        text = "".join(pieces)
        for piece in pieces:
            tokens, held = gate.step(Token(piece), held)
            gone += sum(len(text_of(one)) for one in tokens)
            assert len(held.text) < 2 * window
        gate.flush(held)
        for start in range(len(text)):
            end = min(start + window, len(text))
            assert any(low <= start and end <= high for low, high in seen)

    @settings(max_examples=100, deadline=None)
    @given(
        st.sampled_from(["whole", "sentence", 1, 3, 10]),
        st.none() | st.integers(20, 30),
        st.lists(st.text("ab.! \n", max_size=6), max_size=12),
    )
    def test_what_passes_is_the_text_itself(self, window: Any, max_chars: int | None, pieces: list[str]) -> None:
        assert "".join(passed(Gate(lambda text: True, window, max_chars, None), pieces)) == "".join(pieces)

    def test_at_the_limit_of_size_what_is_held_is_checked(self) -> None:
        seen = Seen()
        assert passed(Gate(seen, "whole", 5, None), ["abc", "def", "g"]) == ["", "abcdef", "", "g"]
        assert seen == ["abcdef", "g"]

    def test_at_the_limit_of_time_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the clock that no one can set back, since the first piece that is held."""
        now = 100.0
        monkeypatch.setattr("time.monotonic", lambda: now)
        seen = Seen()
        gate = Gate(seen, "sentence", None, 2.0)
        tokens, held = gate.step(Token("slow"), None)
        now = 101.9
        more, held = gate.step(Token(" and"), held)
        assert [*tokens, *more] == []
        now = 102.0
        tokens, held = gate.step(Token(" steady"), held)
        assert "".join(map(text_of, tokens)) == "slow and steady"
        now = 103.9
        assert gate.step(Token("x"), held)[0] == []


def test_a_meta_of_a_token_is_kept_where_it_is_cut() -> None:
    gate = Gate(lambda text: True, "sentence", None, None)
    tokens, held = gate.step(Token("One. Tw", {"k": 1}, "call"), None)
    assert tokens == [Token("One. ", {"k": 1}, "call")]
    assert gate.flush(held) == [Token("Tw", {"k": 1}, "call")]


def test_it_checks_what_the_transforms_in_front_made_of_the_text(read: Any) -> None:
    seen = Seen()
    stack = [filters.redact_tokens(r"sk-\w+", "[K]"), filters.hold_release(seen)]
    read(Agent(ScriptedModel(["key sk-abc."]), filters=stack))
    assert seen == ["key [K]."]


def test_any_transform_may_be_asynchronous(read: Any) -> None:
    """Step and flush; before, both had to be `def`."""

    async def step(token: Token, count: int) -> Any:
        await asyncio.sleep(0)
        return [token.text.upper()], count + 1

    async def flush(count: int) -> list[str]:
        await asyncio.sleep(0)
        return [f" ({count})"]

    one = Filter("loud", token_transform=TokenTransform(step, init=0, flush=flush))
    _, events = read(Agent(ScriptedModel(["quiet"], chunk_size=2), filters=[one]))
    assert delivered(events) == "QUIET (3)"


def test_without_a_stream_nothing_is_checked() -> None:
    seen = Seen()
    assert Agent(ScriptedModel(["hi"]), filters=[filters.hold_release(seen)]).invoke("go").answer == "hi"
    assert seen == []


@pytest.mark.parametrize(
    ("check", "options", "message"),
    [
        ("yes", {}, "check"),
        (lambda: True, {}, r"check\(\) cannot take \(text\)"),
        (bool, {"window": "word"}, "window"),
        (bool, {"window": 0}, "window"),
        (bool, {"window": True}, "window"),
        (bool, {"max_chars": 0}, "max_chars"),
        (bool, {"max_chars": 1.5}, "max_chars"),
        (bool, {"window": 10, "max_chars": 19}, "twice"),
        (bool, {"max_seconds": 0}, "max_seconds"),
        (bool, {"max_seconds": "1"}, "max_seconds"),
    ],
)
def test_a_mistake_is_refused_where_it_is_made(check: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'late'.*{message}"):
        filters.hold_release(check, **options, name="late")
