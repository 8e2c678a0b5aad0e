"""`filters.redact_tokens`: however a text is cut into pieces, the stream is the redaction of the whole text."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from modes import Driver, delivered

from scallion import Agent, Completed, ConfigurationError, FilterError, Token, around_chat, filters, growing
from scallion.filters.redaction import Redactor
from scallion.growing import MOST_STEPS, OpenStarts, Undecidable
from scallion.testing import BreaksOff, ScriptedModel, check_chunking

VECTORS = Path(__file__).parents[3] / "shared" / "data" / "vectors" / "stream_redaction.jsonl"
EMAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
CARD = r"\b\d(?:[ -]?\d){12,18}\b"
PEM = r"(?s:-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----)"
ADDRESS = r"\b(?:\d{1,3}\.){3}\d{1,3}\b"
ALL = "|".join((EMAIL, CARD, PEM, ADDRESS, r"https?://\S+", r"sk-\w+"))


def redacted(pattern: str | re.Pattern[str], pieces: list[str], replacement: str = "[X]") -> list[str]:
    """What is let go with each piece, and at the end."""
    stream = Redactor(re.compile(pattern), lambda match: replacement).stream()
    return [*(stream.push(piece) for piece in pieces), stream.finish()]


def cut(text: str, places: list[int]) -> list[str]:
    """The text in pieces."""
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(borders)]


ONE = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\s", " ", "\n", "A", r"\d", "1"])
LOOK = st.sampled_from([r"\b", r"\B", "^", "$", r"\A", r"\Z", "(?<=a)", "(?<!ab)", r"(?<!\w)", "(?<=[ab]c)"])
COUNT = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}", "{1,3}?", "*+", "++"])


def _inside(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Sequences, alternatives, groups and look-aheads of smaller patterns, each repeated or not."""
    group = st.sampled_from(["(?:{})", "({})", "(?>{})", "(?={})", "(?!{})", "(?i:{})", "(?s:{})"])
    either = st.tuples(inner, inner).map("|".join)
    grouped = st.tuples(group, inner | either).map(lambda pair: pair[0].format(pair[1]))
    return st.lists(st.tuples(grouped | inner.map("(?:{})".format), COUNT).map("".join), min_size=1, max_size=3).map(
        "".join
    )


PATTERNS = st.recursive(st.tuples(ONE, COUNT).map("".join) | LOOK, _inside, max_leaves=8)
FLAGS = st.sampled_from([0, re.MULTILINE, re.DOTALL, re.IGNORECASE])


USED = ["ana@example.com", "4111 1111 1111 1111", "10.0.0.123", "sk-abc", "-----", "x@", "1", "@b.c", " ", ". ", "\n"]


class TestEveryChunking:
    """The invariant: joined, the pieces are what `re.sub` makes of the whole."""

    @settings(max_examples=400, deadline=None)
    @given(
        PATTERNS,
        FLAGS,
        st.text("aabbcA1 \n", max_size=10),
        st.lists(st.integers(0, 10), max_size=5),
        st.sampled_from([0, growing.MOST_COUNTED]),
    )
    @example("a(?=b)", 0, "ab", [1], 0)
    @example("ab|abcd", 0, "abcd", [2], 0)
    @example("(?:abcd|b)", 0, "abx", [2], 0)
    @example("a.*?b", 0, "aabb", [3], 0)
    @example(r"a+$", 0, "aa\n", [2], 0)
    @example(r"a+$", 0, "aa\na", [2, 3], 0)
    @example("(?:a|ab)(?:c|bcd)", 0, "abcd", [3], 0)
    @example("(?<=b)a", 0, "ba" * 5, [1, 2, 3], 0)
    @example("(?:ab{2,3}|b)c", 0, "abbbbbcabbbc", list(range(12)), 0)
    def test_any_pattern_over_any_text(
        self, pattern: str, flags: int, text: str, places: list[int], most_counted: int
    ) -> None:
        """Of all that `re` knows and the redactor accepts, with counts followed and without."""
        compiled = re.compile(pattern, flags)
        try:
            with mock.patch.object(growing, "MOST_COUNTED", most_counted):
                redactor = Redactor(compiled, lambda match: f"<{match[0]}>")
        except Undecidable:
            assume(False)
        stream = redactor.stream()
        out = [*map(stream.push, cut(text, places)), stream.finish()]
        assert "".join(out) == compiled.sub(r"<\g<0>>", text)

    def test_the_patterns_that_people_use_together(self) -> None:
        """STR-11: the pattern that holds longest decides when a piece may go."""
        check_chunking(filters.redact_tokens(ALL, "[X]"), lambda text: re.sub(ALL, "[X]", text), USED, examples=100)

    @pytest.mark.parametrize("secret", ["sk-xyz123", "ana@example.com", "4111 1111 1111 1111"])
    def test_a_secret_cut_at_every_place(self, secret: str) -> None:
        """STR-04: what was emitted counts, not what was detected."""
        text = f"say {secret} now"
        for place in range(len(text)):
            out = redacted(ALL, [text[:place], text[place:]])
            assert "".join(out) == "say [X] now"
            assert not any(set(one) & set("@14") or "sk" in one for one in out)

    def test_the_seeds_pieces(self) -> None:
        """Defect 1: these pieces leaked "s", "k-abc" and "z123"."""
        out = redacted(r"sk-\w+", ["key s", "k-abc", " def sk-xy", "z123"], "[K]")
        assert out == ["key ", "", "[K] def ", "", "[K]"]

    def test_a_long_text_is_cut_in_front_and_nothing_is_lost(self) -> None:
        """Look-behind, `^` and borders see what was let go before."""
        text = "a\nab sk-1 " * 2000
        pattern = re.compile(r"^ab|(?<=\n)a|\Aa|(?<!\w)sk-\d", re.MULTILINE)
        out = redacted(pattern, [text[at : at + 7] for at in range(0, len(text), 7)])
        assert "".join(out) == pattern.sub("[X]", text)

    @pytest.mark.shared
    @pytest.mark.skipif(not VECTORS.exists(), reason="needs the folder shared")
    def test_the_shared_vectors(self) -> None:
        """Texts that broke other redactors, in pieces of every size up to 9 characters."""
        for line in VECTORS.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            whole = re.sub(ALL, "[X]", case["text"])
            for size in range(1, 10):
                pieces = [case["text"][at : at + size] for at in range(0, len(case["text"]), size)]
                out = "".join(redacted(ALL, pieces))
                assert out == whole, (case["id"], size)
                assert not [one for one in case["secrets"] if one in out], case["id"]


class TestHolding:
    """No more is held back than has to be."""

    @pytest.mark.parametrize(
        ("pattern", "pieces", "out"),
        [
            (EMAIL, ["hello ", "world "], ["hello ", "world ", ""]),
            (r"sk-\w+", ["I am ass", "isting", " "], ["I am as", "sisting", " ", ""]),
            (r"sk-\w+", [" ", "\n\n", "\t"], [" ", "\n\n", "\t", ""]),
            (r"\bsk-\w+\b", ["a sk-1", ", b"], ["a ", "[X], b", ""]),
            (
                PEM,
                ["k: -----BEGIN A-----", "x\ny", "-----END A--", "---", " more"],
                ["k: ", "", "", "[X]", " more", ""],
            ),
            (r"ab+?", ["a", "b", "b"], ["", "[X]", "b", ""]),
            (r"secret(?! sauce)", ["secret", " s", "auce", " secret", "."], ["", "", "secret sauce", " ", "[X].", ""]),
            (r"end$", ["the end", "\n", "."], ["the ", "", "end\n.", ""]),
        ],
    )
    def test_what_leaves_when(self, pattern: str, pieces: list[str], out: list[str]) -> None:
        """STR-07, STR-08: texts without a match leave byte for byte, spaces too."""
        assert redacted(pattern, pieces) == out

    def test_a_long_word_that_is_no_match_costs_no_more_per_piece(self) -> None:
        """Starts that stand in the same place are one: a few stay open, however long the word."""
        stream = Redactor(re.compile(EMAIL), lambda match: "").stream()
        for _ in range(500):
            stream.push("abc.")
        assert len(stream._starts._open) <= 3
        assert stream.push(" ") + stream.finish() == "abc." * 500 + " "

    @pytest.mark.parametrize("size", [4, 100_000])
    @pytest.mark.parametrize(
        ("pattern", "text"),
        [
            (r"BEGIN[^\n]*END|\d+", "BEGIN " + "order 12345, " * 500 + "\nbye"),
            (r"sk-\w+", "key sk-abc123, \n" * 500),
        ],
    )
    def test_what_is_read_again_behind_a_match_is_little(
        self, monkeypatch: pytest.MonkeyPatch, pattern: str, text: str, size: int
    ) -> None:
        """Also where many matches are decided at once; before, all that was held was read again behind each."""
        reads = 0
        read = OpenStarts.read

        def counted(self: OpenStarts, text: str, place: int) -> None:
            nonlocal reads
            reads += len(text)
            read(self, text, place)

        monkeypatch.setattr(OpenStarts, "read", counted)
        out = redacted(pattern, [text[at : at + size] for at in range(0, len(text), size)])
        assert "".join(out) == re.sub(pattern, "[X]", text)
        assert reads < 2.5 * len(text)

    @pytest.mark.parametrize(
        ("pattern", "longest"),
        [(r"[A-Za-z0-9+/]{40,1000}={0,2}!", 1003), (r"(?s)<.{0,2000}>>>>>", 2006), (r"\b\w{300}(?=!!)", 304)],
    )
    def test_large_counts_whose_starts_are_everywhere(self, pattern: str, longest: int) -> None:
        """A few starts stay open, and no more is held than the longest match."""
        text = ("<" + "QWxhZGRpbjpvcGVuIHNlc2FtZQ" * 50 + "a" * 260 + "!! ") * 2 + "<b>>>>>"
        stream = Redactor(re.compile(pattern), lambda match: "[X]").stream()
        out = ""
        for character in text:
            out += stream.push(character)
            assert len(stream._starts._open) <= 5
            assert stream.held <= longest
        assert out + stream.finish() == re.sub(pattern, "[X]", text)

    def test_a_start_is_closed_where_its_longest_match_would_end(self) -> None:
        stream = Redactor(re.compile("(?s)<.{0,500}>"), lambda match: "[X]").stream()
        assert stream.push("<" + "a" * 500) == ""
        assert stream.push("a") == "<" + "a" * 501

    def test_what_the_automaton_remembers_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scallion.growing.MOST_STEPS", 50)
        assert MOST_STEPS > 50
        text = "".join(map(chr, range(0x4E00, 0x4F00))) + " sk-1 "
        one = Redactor(re.compile(r"sk-\w+|\w{3}x"), lambda match: "[X]")
        stream = one.stream()
        assert "".join(map(stream.push, text)) + stream.finish() == one.whole(text)
        assert one.automaton._remembered <= 50
        assert sum(len(known.steps) for known in one.automaton._known.values()) <= 51


@pytest.fixture(params=["stream", "astream"])
def read(request: pytest.FixtureRequest) -> Any:
    """`read(agent) -> (result, events)` in both kinds of stream."""
    return lambda agent: Driver(agent, request.param).start("go")


TEXT = "mail ana@example.com or call sk-abc123, please"


@pytest.mark.parametrize("chunk_size", [1, 3, 100, "word"])
def test_the_stream_is_redacted_and_the_answer_is_the_original(read: Any, chunk_size: Any) -> None:
    model = ScriptedModel([TEXT], chunk_size=chunk_size)
    result, events = read(Agent(model, filters=[filters.redact_tokens(ALL, "[X]")]))
    assert delivered(events) == "mail [X] or call [X], please"
    assert result.answer == TEXT
    assert len(result.messages) == 2  # FLT-06: one message a model call, however its pieces were rewritten


@pytest.mark.parametrize("replacement", [r"\g<user>@...", lambda match: f"{match['user']}@..."])
def test_the_replacement_is_that_of_re_sub(read: Any, replacement: Any) -> None:
    one = filters.redact_tokens(re.compile(r"(?P<user>\w+)@\w+\.com", re.IGNORECASE), replacement)
    _, events = read(Agent(ScriptedModel(["To ANA@Example.COM!"]), filters=[one]))
    assert delivered(events) == "To ANA@...!"


def test_two_filters_redact_one_behind_the_other(read: Any) -> None:
    stack = [filters.redact_tokens(EMAIL, "sk-mail", name="mail"), filters.redact_tokens(r"sk-\w+", "[K]")]
    _, events = read(Agent(ScriptedModel([TEXT], chunk_size=1), filters=stack))
    assert delivered(events) == "mail [K] or call [K], please"


def test_an_attempt_that_breaks_off_is_retracted_and_leaks_nothing(read: Any) -> None:
    """Defect 17: what a failed attempt delivered stood beside the next one. What it held is dropped."""

    @around_chat
    def again(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except Exception:
            return next(request)

    model = ScriptedModel([BreaksOff("the key sk-abc123", TimeoutError(), chunks=4), "the key sk-abc123."])
    _, events = read(Agent(model, filters=[again, filters.redact_tokens(r"sk-\w+", "[K]")]))
    assert [type(one).__name__ for one in events].count("Retracted") == 1
    assert delivered(events) == "the key [K]."
    assert not any("sk" in one.text for one in events if isinstance(one, Token))


def test_more_than_max_hold_fails_the_turn_and_leaks_nothing() -> None:
    one = filters.redact_tokens(r"(?s)BEGIN.*END", "[X]", max_hold=20)
    agent = Agent(ScriptedModel(["key BEGIN" + "x" * 50]), filters=[one])
    got: list[Any] = []
    with pytest.raises(FilterError) as caught:
        got.extend(agent.stream("go"))
    assert caught.value.filter == "redact_tokens"
    assert delivered(got) == "key "


def test_a_replacement_that_fails_stops_the_stream() -> None:
    """And the text that it was given is in no message."""

    def crash(match: re.Match[str]) -> str:
        raise ValueError(match[0])

    agent = Agent(ScriptedModel(["the key sk-abc123."]), filters=[filters.redact_tokens(r"sk-\w+", crash)])
    with pytest.raises(FilterError) as caught:
        list(agent.stream("go"))
    assert "sk-abc123" not in str(caught.value)


def test_a_function_that_gives_none_deletes_the_match_as_in_re_sub(read: Any) -> None:
    _, events = read(Agent(ScriptedModel(["hello all"]), filters=[filters.redact_tokens("l", lambda match: None)]))
    assert delivered(events) == "heo a"


def test_without_a_stream_nothing_changes() -> None:
    agent = Agent(ScriptedModel([TEXT]), filters=[filters.redact_tokens(ALL, "[X]")])
    result = agent.invoke("go")
    assert isinstance(result, Completed)
    assert result.answer == TEXT


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        ("a*", "", "empty text"),
        (r"\b", "", "empty text"),
        (r"(['\"]).*?\1", "", "refers to a group"),
        (r"(a)?b(?(1)c|d)", "", "refers to a group"),
        (r"(?<=a\b)b", "", "look-behind"),
        (r"(?:a{900}){900}", "", "too large"),
        (r"\w{40,5000}=*", "", r"too large: .*\{40,\}"),
        ("(", "", "no regular expression"),
        (3, "", "no regular expression"),
        (b"a", "", "bytes"),
        ("a", r"\1", "replacement"),
        ("a", r"\g<name>", "replacement"),
        ("a", 3, "replacement"),
        ("a", lambda: "", "replacement.*match"),
        ("(" * 500 + "a" + ")" * 500, "", "nested"),
        ("a{99999999999999999999}", "", "no regular expression"),
    ],
)
def test_what_cannot_be_held_back_exactly_is_refused(pattern: Any, replacement: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'keys'.*{message}"):
        filters.redact_tokens(pattern, replacement, name="keys")


@pytest.mark.parametrize("max_hold", [0, -1, 1.5, True, "10"])
def test_a_limit_is_a_number_above_zero(max_hold: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_hold"):
        filters.redact_tokens("a", "b", max_hold=max_hold)


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
async def test_a_secret_longer_than_any_window_which_langchain_lets_go() -> None:
    """Its middleware looks back 128 characters, and takes a match that ends there for the whole one."""
    text = "see https://example.com/" + "a" * 400 + " end"

    async def langchain() -> str:
        middleware = PIIMiddleware("url", strategy="redact", apply_to_output=True)
        agent = create_agent(ScriptedModel([text]), tools=[], middleware=[middleware])
        run = await agent.astream_events({"messages": [("user", "go")]}, version="v3")
        return "".join([piece async for message in run.messages async for piece in message.text])

    one = filters.redact_tokens(r"https?://\S+", "[REDACTED_URL]")
    ours = [item async for item in Agent(ScriptedModel([text]), filters=[one]).astream("go")]
    assert delivered(ours) == "see [REDACTED_URL] end"
    assert "aaaa" in await langchain()
