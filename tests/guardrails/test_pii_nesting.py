"""`pii` over content of any nesting: nothing of what is found is left, and nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from guardrails.canaries import ANSWERED, BIG, CARD, EMAIL, in_error, in_values, leaks
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from scallion import filters
from scallion.filters.privacy.errors import cleaned_error
from scallion.filters.privacy.stream import PiiStream

GUARD: Any = filters.pii("email", "credit_card")
PLAIN = ["hello", "", "a b", "naïve ☃", 'quo"te\\', "\n", "1", "🙂", "x@y"]
words = st.sampled_from([*PLAIN, EMAIL, ANSWERED, CARD, f"write to {EMAIL}, or {ANSWERED}", f"({CARD})"])
leaves = st.one_of(words, st.sampled_from([None, True, False, 0, 1.5, BIG, -7]))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=12,
)
blocks = st.one_of(
    words.map(lambda text: {"type": "text", "text": text}),
    words.map(lambda text: {"type": "reasoning", "reasoning": text}),
    words.map(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}),
    words.map(lambda text: {"type": "image_url", "image_url": {"url": f"https://e.x/{text}"}}),
    words.map(lambda text: {"type": "text", "text": "see", "annotations": [{"title": text, "url": "https://e.x"}]}),
    values.map(lambda value: {"type": "tool_use", "id": "u", "name": "n", "input": {"v": value}}),
    values.map(lambda value: {"type": "function_call", "call_id": "c", "arguments": json.dumps({"v": value})}),
    values.map(lambda value: {"type": "custom", "anything": value}),
    words,
)


def unread(message: Any) -> str:
    """All of a message but the addresses of pictures, which nobody reads as text."""
    kept = [one for one in message.content if not (isinstance(one, dict) and one.get("type") == "image_url")]
    return repr([kept, message.name, message.additional_kwargs, getattr(message, "artifact", None)])


def shape(value: Any) -> Any:
    """The same with all texts and numbers alike."""
    if isinstance(value, dict):
        return [shape(one) for one in value.values()]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(shape, value)]
    return None


@settings(max_examples=40, deadline=None)
@given(values)
def test_plain_data_keeps_its_shape(value: Any) -> None:
    """Names and numbers are cleaned too; a second time nothing changes; what holds nothing is the same object."""
    walk = GUARD.walk(None)
    cleaned = walk.value(value, "tool_args")
    assert leaks(repr(cleaned).encode()) == []
    assert shape(cleaned) == shape(value)
    assert GUARD.walk(None).value(cleaned, "tool_args") is cleaned
    if not walk.found:
        assert cleaned is value


@settings(max_examples=40, deadline=None)
@given(st.lists(blocks, max_size=5), values, words)
def test_messages_keep_their_blocks(content: list[Any], value: Any, name: str) -> None:
    """Types and order stay, pictures are not touched, and nothing is left anywhere else."""
    call = {"name": "n", "args": {"v": value}, "id": "c", "type": "tool_call"}
    broken = {"name": "n", "args": f'{{"v": "{name}', "id": "d", "error": name, "type": "invalid_tool_call"}
    kwargs = {"reasoning_content": name, "tool_calls": [{"function": {"arguments": json.dumps({"v": value})}}]}
    given_ = [
        HumanMessage(content, name=name),
        AIMessage(content, tool_calls=[call], invalid_tool_calls=[broken], additional_kwargs=kwargs),
        ToolMessage(content, tool_call_id="c", artifact={"v": value}),
    ]
    for message in given_:
        cleaned: Any = GUARD.walk(None).message(message)
        assert [_kind(one) for one in cleaned.content] == [_kind(one) for one in content]
        pictures = [one for one in content if _kind(one) == "image_url"]
        assert [one for one in cleaned.content if _kind(one) == "image_url"] == pictures
        told = (
            unread(cleaned)
            + repr(getattr(cleaned, "tool_calls", ""))
            + repr(getattr(cleaned, "invalid_tool_calls", ""))
        )
        assert leaks(told.encode("utf-8", "surrogatepass")) == []
        assert GUARD.redaction.find(str(cleaned.text)) == []
        assert GUARD.walk(None).message(cleaned) is cleaned


def _kind(block: Any) -> str:
    return block["type"] if isinstance(block, dict) else "str"


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    """The text cut at these places."""
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


cuts = st.lists(st.integers(0, 10_000), max_size=40)


@settings(max_examples=40, deadline=None)
@given(values, cuts, st.booleans(), st.booleans())
def test_arguments_in_pieces_are_those_of_the_whole(value: Any, at: list[int], ascii: bool, odd: bool) -> None:
    """However the JSON text is cut and escaped, what leaves is JSON text of the cleaned arguments."""
    args = {"v": value}
    text = json.dumps(args, ensure_ascii=ascii)
    if odd:
        text = text.replace("@", "\\u0040").replace("/", "\\/")
    mask = PiiStream("pii", GUARD.walk(None), GUARD.redaction.stream)
    out = [mask.args(0, piece) for piece in pieces(text, at)]
    joined = "".join(out) + mask.end().args.get(0, "")
    assert leaks(joined.encode("utf-8", "surrogatepass")) == []
    assert json.loads(joined) == _merged_keys(GUARD.walk(None).value(args, "tool_args"))


def _merged_keys(value: Any) -> Any:
    """Two names that were redacted to one are numbered in the whole, and one name in the pieces."""
    if isinstance(value, dict):
        return {key.removesuffix("_2").removesuffix("_3"): _merged_keys(part) for key, part in value.items()}
    return [_merged_keys(one) for one in value] if isinstance(value, list) else value


@settings(max_examples=40, deadline=None)
@given(st.lists(words, max_size=6), st.lists(words, max_size=4), cuts)
def test_text_and_reasoning_in_pieces_are_whole(said: list[str], thought: list[str], at: list[int]) -> None:
    """`join(pieces) == redact(text)` for each."""
    mask = PiiStream("pii", GUARD.walk(None), GUARD.redaction.stream)
    text, thoughts = " ".join(said), " ".join(thought)
    spoken = [mask.text(piece) for piece in pieces(text, at)]
    reasoned = [mask.reasoning(piece) for piece in pieces(thoughts, at)]
    rest = mask.end()
    assert "".join(spoken) + rest.text == GUARD.redaction.redact(text)[0]
    assert "".join(reasoned) + rest.reasoning == GUARD.redaction.redact(thoughts)[0]


@dataclass
class Row:
    """A record of a tool."""

    who: str
    cards: tuple[int, ...]


def test_objects_of_tools_are_cleaned_by_their_fields() -> None:
    """Models of pydantic, dataclasses, named and plain tuples, sets, bytes."""
    value = {
        "documents": [Document(f"Ask {EMAIL}", metadata={"from": ANSWERED})],
        "row": Row(EMAIL, (BIG, 1)),
        "set": {EMAIL, "x"},
        "bytes": EMAIL.encode(),
        "other": object,
    }
    cleaned = GUARD.walk(None).value(value, "tool_results")
    assert leaks(repr(cleaned).encode()) == []
    assert cleaned["documents"][0].page_content == "Ask [REDACTED_EMAIL]"
    assert cleaned["row"] == Row("[REDACTED_EMAIL]", ("[REDACTED_CREDIT_CARD]", 1))
    assert cleaned["other"] is object
    assert value["row"].who == EMAIL


@pytest.mark.parametrize("number", [BIG, float(BIG), Decimal(BIG), Decimal(f"{BIG}.00")], ids=repr)
@pytest.mark.parametrize("document", [True, False])
def test_a_card_is_one_in_whatever_number_it_stands(number: Any, document: bool) -> None:
    """As of a table, where an integer column with a gap is one of floats."""
    value = f'{{"card": {number}, "n": 1.0}}' if document else {"card": number, "n": 1.0}
    cleaned = GUARD.walk(None).value(value, "tool_results")
    assert (json.loads(cleaned) if document else cleaned) == {"card": "[REDACTED_CREDIT_CARD]", "n": 1.0}


@pytest.mark.parametrize("kind", ["int64", "float64", "uint64"])
def test_a_card_is_one_in_a_number_of_numpy(kind: str) -> None:
    number = getattr(pytest.importorskip("numpy"), kind)(BIG)
    assert GUARD.walk(None).value([number], "tool_results") == ["[REDACTED_CREDIT_CARD]"]


def test_a_card_is_one_in_a_decimal_with_an_exponent() -> None:
    assert GUARD.walk(None).value(Decimal("4.11111111111111100E+15"), "tool_results") == "[REDACTED_CREDIT_CARD]"


@pytest.mark.parametrize("number", [1.5, float("nan"), float("inf"), -0.0, 1e300, Decimal("1.5"), Decimal("sNaN"), 7.0])
def test_another_number_is_the_same(number: Any) -> None:
    assert GUARD.walk(None).value(number, "tool_results") is number


class Odd(Exception):
    """Its text is made of what it was given otherwise."""

    def __init__(self, code: int, *, who: str) -> None:
        self.who = who
        self.response = {"body": [who]}
        self.holder = object()
        super().__init__(code)

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.who}"


class Stubborn(Exception):
    """Its text cannot be changed."""

    def __str__(self) -> str:
        return f"never {EMAIL}"


@pytest.mark.parametrize(
    "error",
    [
        Odd(7, who=EMAIL),
        Stubborn(),
        OSError(2, "no such file", EMAIL),
        UnicodeDecodeError("utf-8", EMAIL.encode(), 0, 1, "bad"),
        json.JSONDecodeError("bad", f'{{"{EMAIL}', 2),
        ExceptionGroup("two", [ValueError(EMAIL), Odd(1, who="x")]),
        KeyError((EMAIL, BIG)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_class(error: Exception) -> None:
    """With attributes, notes, causes and contexts, and without what was found."""
    error.add_note(f"for {ANSWERED}")
    outer = RuntimeError("outer")
    outer.__cause__ = error
    cleaned = cleaned_error(outer, lambda one: GUARD.walk(None).value(one, "output"))
    assert in_error(cleaned) == []
    assert isinstance(cleaned.__cause__, type(error))


class Quiet(Exception):
    """Its text is clean, and what it holds is not."""

    __slots__ = ("_who",)

    def __init__(self, who: Any) -> None:
        super().__init__("502")
        self._who = who


class Answer:
    """An object that an error may hold."""

    text = EMAIL


class Whole(BaseModel):
    """What is validated."""

    amount: int


def raises(step: Callable[[], Any]) -> BaseException:
    """The error that the step raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        step()
    return caught.value


def hides() -> None:
    """Raises an error that hides its context."""
    try:
        raise ValueError(EMAIL)
    except ValueError:
        raise KeyError("hidden") from None


@pytest.mark.parametrize(
    "step",
    [
        lambda: json.loads(f'{{"email": "{EMAIL}", oops'),
        lambda: subprocess.run([sys.executable, "-c", f"print('{EMAIL}'); exit(1)"], capture_output=True, check=True),
        lambda: Whole.model_validate({"amount": "x" * 100 + f" {EMAIL} " + "y" * 100}),
        hides,
    ],
)
def test_what_an_error_holds_beside_its_text_is_clean(step: Callable[[], Any]) -> None:
    """Attributes, what it was validated from, a hidden context, and the values that a traceback leads to."""
    error = raises(step)
    cleaned = cleaned_error(error, lambda one: GUARD.walk(None).value(one, "output"))
    assert in_error(cleaned) == []
    assert in_values([cleaned.__context__, getattr(cleaned, "errors", str)()]) == []
    assert cleaned.__traceback__ is None


def test_slots_and_objects_of_errors_are_looked_at() -> None:
    """What cannot be looked into is left out."""
    clean = lambda one: GUARD.walk(None).value(one, "output")  # noqa: E731
    cleaned: Any = cleaned_error(Quiet(EMAIL), clean)
    assert (type(cleaned), str(cleaned), cleaned._who) == (Quiet, "502", "[REDACTED_EMAIL]")
    assert not hasattr(cleaned_error(Quiet(Answer()), clean), "_who")
    group: Any = cleaned_error(ExceptionGroup(f"to {EMAIL}", [Quiet(EMAIL)]), clean)
    assert in_error(group) == []
    assert group.exceptions[0]._who == "[REDACTED_EMAIL]"


def test_an_error_that_holds_nothing_is_itself() -> None:
    """But for its traceback."""
    error = raises(lambda: [][1])
    assert cleaned_error(error, lambda one: GUARD.walk(None).value(one, "output")) is error
    assert error.__traceback__ is None


def failing(attempts: int) -> None:
    """Raises an error that came of as many others, each of which is the cause and the context of the next."""
    try:
        if attempts == 0:
            raise ValueError(EMAIL)
        failing(attempts - 1)
    except Exception as error:
        raise RuntimeError(f"attempt {attempts}") from error


@pytest.mark.parametrize("attempts", [12, 500])
def test_each_error_of_a_chain_is_cleaned_once(attempts: int) -> None:
    """What is cause and context of another is the same error in the copy; a chain is not looked at without end."""
    looked: list[Any] = []

    def clean(value: Any) -> Any:
        looked.append(value)
        return GUARD.walk(None).value(value, "output")

    error = raises(lambda: failing(attempts))
    cleaned: Any = cleaned_error(error, clean)
    assert len(looked) < 20 * 100
    assert in_error(cleaned) == []
    assert cleaned.__cause__ is cleaned.__context__
    assert str(cleaned.__cause__) == f"attempt {attempts - 1}"


def test_errors_that_cause_each_other_are_cleaned() -> None:
    """What leads back to an error ends there."""
    first, second = ValueError(EMAIL), KeyError(ANSWERED)
    group = ExceptionGroup("both", [first, second])
    first.__cause__, second.__context__ = second, group
    cleaned = cleaned_error(first, lambda one: GUARD.walk(None).value(one, "output"))
    assert in_error(cleaned) == []
    assert isinstance(cleaned.__cause__, KeyError)
