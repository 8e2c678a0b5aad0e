"""Detectors of a user's own: expressions run by RE2, and functions."""

from __future__ import annotations

import re
import sys
import time
import traceback
from typing import Any

import pytest
from guardrails.redactions import KEY, cut, places, streamed, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from scallion.errors import ConfigurationError
from scallion.pii import Redaction, Rule

PATTERNS = {
    "ssn": r"\b\d{3}-\d{2}-\d{4}\b",
    "employee": r"(?i)emp-[0-9]{2,5}",
    "digits": r"1111|[0-9]{2}x",
    "words": r"the( the)* end|xx?",
    "line": r"(?m)^the$",
    "tail": r"com\w*",
}
extra = st.sampled_from(["123-45-6789", "EMP-12", "emp-", "the", " end", "xx", "com", "1111", "\n", " ", "ſ", "\x0b"])
rules = st.lists(
    st.one_of(
        st.sampled_from([Rule(kind, detector=pattern) for kind, pattern in PATTERNS.items()]),
        st.sampled_from([Rule("email"), Rule("email", "mask"), Rule("credit_card"), Rule("ip", "hash"), Rule("url")]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda rule: rule.type,
)


@settings(max_examples=120, deadline=None)
@given(st.lists(extra | texts, max_size=8).map("".join), rules, places)
def test_expressions_in_streams_are_as_in_the_whole(text: str, rules: list[Rule], places: list[int]) -> None:
    """Beside built-in types, cut anywhere; and nothing is found twice."""
    one = Redaction(rules, key=KEY)
    whole = one.redact(text)
    assert streamed(one, cut(text, places)) == whole
    assert streamed(one, text) == whole
    assert one.redact(whole[0]) == (whole[0], [])


def test_an_expression_is_held_back_no_longer_than_it_can_match() -> None:
    """Nothing of a text without a start, and all from a start on."""
    stream = Redaction([Rule("ssn", detector=PATTERNS["ssn"])]).stream()
    assert stream.push("the number is ") == "the number is "
    assert (stream.push("123-45"), stream.held) == ("", 6)
    assert (stream.push("-678"), stream.held) == ("", 10)
    assert stream.push("9 ok. ") == "[REDACTED_SSN] ok. "


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=a)b", "no look-ahead"),
        (r"(a)\1", "no references"),
        ("a{2000}", "no repeats above 1000"),
        ("[", "missing ]"),
        (r"\pL{3}", "module re has to read it"),
        ("a*", "empty text"),
        ("(?i)é", "both cases"),
    ],
)
def test_what_an_expression_cannot_be(pattern: str, why: str) -> None:
    """An error that names the type and says what to do, when the redaction is made."""
    with pytest.raises(ConfigurationError, match=rf"pii: rule 'mine': .*{re.escape(why)}"):
        Redaction([Rule("mine", detector=pattern)])


def test_expressions_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And say so; built-in types do not."""
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ConfigurationError, match=r"'mine'.*scallion\[pii\]"):
        Redaction([Rule("mine", detector="a")])
    assert Redaction([Rule("email")]).redact("ana@example.com")[0] == "[REDACTED_EMAIL]"


def test_an_expression_that_takes_others_for_ever_takes_no_time() -> None:
    """`(a|a)+$` on many a's: seconds for the module re at 28 of them."""
    begun = time.process_time()
    assert Redaction([Rule("mine", detector="(a|a)+$")]).find("a" * 4_000 + "!") == []
    assert time.process_time() - begun < 1


def ssn(text: str) -> Any:
    """As the guides of other libraries write it."""
    return [
        {"text": found[0], "start": found.start(), "end": found.end()} for found in re.finditer(PATTERNS["ssn"], text)
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(extra | texts, max_size=6).map("".join), places)
def test_functions_see_the_whole_text(text: str, places: list[int]) -> None:
    """A stream gives all at its end; what a function finds in a replacement does not count."""
    one = Redaction([Rule("ssn", detector=ssn), Rule("upper", detector=uppers), Rule("email")])
    whole = one.redact(text)
    assert streamed(one, cut(text, places)) == whole
    plain = Redaction([Rule("upper", detector=uppers), Rule("email")])
    once = plain.redact(text)[0]
    assert plain.redact(once) == (once, [])


def uppers(text: str) -> Any:
    """Capitals, of which replacements are full."""
    return (found.span() for found in re.finditer("[A-Z]+", text))


@pytest.mark.parametrize("shape", [tuple, list, lambda span: {"start": span[0], "end": span[1], "value": "née"}])
def test_functions_count_in_characters(shape: Any) -> None:
    """Pairs, or mappings that may say what stands there."""
    one = Redaction([Rule("name", detector=lambda text: [shape((3, 6))])])
    assert one.redact("ça née à")[0] == "ça [REDACTED_NAME] à"


BAD = [
    None, 5, "ab", {"start": 0, "end": 1}, [None], [(1,)], [(2, 1)], [(1, 1)], [(-1, 2)], [(0, 99)], [(0.0, 1.0)],
    [(True, 2)],
    [{"begin": 0, "end": 1}], [{"start": "0", "end": 1}], [{"start": 0, "end": 2, "text": "other"}], ["ab"],
]  # fmt: skip


@pytest.mark.parametrize("given", BAD, ids=repr)
def test_a_bad_place_fails(given: Any) -> None:
    """It is an error that names the type, and holds nothing of the text; in a stream, too."""
    one = Redaction([Rule("mine", detector=lambda text: given)])
    for run in (one.find, one.redact, lambda text: streamed(one, [text])):
        with pytest.raises(ValueError, match="pii: the detector of 'mine' gave") as failed:
            run("a secret")
        assert "secret" not in "".join(traceback.format_exception(failed.value, chain=True)).replace(
            'run("a secret")', ""
        )


def test_a_function_that_raises_fails() -> None:
    """Its error may hold the text, so that it is not the cause, nor the context."""

    def detect(text: str) -> Any:
        raise RuntimeError(f"cannot read {text}")

    with pytest.raises(ValueError, match="pii: the detector of 'mine' raised RuntimeError") as failed:
        Redaction([Rule("mine", detector=detect)]).redact("a secret")
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


def test_an_async_function_is_refused() -> None:
    """Where it is one to the eye it is refused when it is given, a coroutine when it comes."""

    async def detect(text: str) -> list[tuple[int, int]]:
        return []

    with pytest.raises(ConfigurationError, match="make it a def"):
        Rule("mine", detector=detect)
    with pytest.raises(ValueError, match="gave no list of places"):
        Redaction([Rule("mine", detector=lambda text: detect(text))]).redact("a text")
