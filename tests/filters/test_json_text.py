"""JSON in the text of a model: every value comes back equal from wherever it stands, and nothing is guessed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.utils.json import parse_json_markdown

from scallion.filters.schema.json_text import NoJSON, mend, parse, preferred, search

SHARED = Path(__file__).parents[3] / "shared" / "data"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["```", "```json\n[1]\n```", "~~~", "a // b", "/* */", "{", "]", '"', "\\", "<think>", "True,]", "'"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))
containers = st.lists(values, max_size=4) | st.dictionaries(texts, values, max_size=4)
prose = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="[]{}`~<"), max_size=20)
layouts = st.sampled_from([{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}])


def found(text: str) -> list[Any]:
    """The values that are meant."""
    return [one.value for one in preferred(search(text))]


def same(got: Any, value: Any) -> bool:
    """Equal in JSON, where 1 is neither 1.0 nor true."""
    return json.dumps(got) == json.dumps(value)


@given(values, layouts)
def test_bare(value: Any, layout: dict[str, Any]) -> None:
    """Defect 22: also where a text in it holds a fence."""
    text = json.dumps(value, **layout)
    assert same(parse(f" \n{text}\t"), value)
    assert same(found(text), [value])


@given(values, layouts, prose, st.sampled_from(["```json\n", "```\n", "```JSON ", "~~~\n"]), prose)
@example({"a": "use ```json fences```"}, {}, "Here:", "```json\n", "")
def test_in_a_fence(value: Any, layout: dict[str, Any], before: str, fence: str, after: str) -> None:
    """Whatever is around it, whatever it holds, and also where the fence is not closed."""
    text = json.dumps(value, **layout)
    closing = "\n" + fence[:3]
    assert same(found(f"{before}\n{fence}{text}{closing}\n{after}"), [value])
    assert same(found(f"x {fence}{text}"), [value])


@given(containers, layouts, prose, prose)
def test_in_prose(value: Any, layout: dict[str, Any], before: str, after: str) -> None:
    """A block between words."""
    assert same(found(f"x{before} {json.dumps(value, **layout)} {after}x"), [value])


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """With the one error that there is."""
    with contextlib.suppress(NoJSON):
        assert all(same(parse(json.dumps(one)), one) for one in found(text))


@given(containers, layouts)
def test_mending_leaves_json_as_it_is(value: Any, layout: dict[str, Any]) -> None:
    """What is inside of strings is never touched."""
    text = json.dumps(value, **layout)
    assert mend(text) == text


MENDED = {
    "a comma too many": ('{"a": [1, 2, ], }', {"a": [1, 2]}),
    "constants of Python": ('{"a": True, "b": [None, False]}', {"a": True, "b": [None, False]}),
    "quotes of Python": ("""{'a': 'it\\'s "so"', 'b': "it's"}""", {"a": 'it\'s "so"', "b": "it's"}),
    "comments": ('{"a": 1, // one, {\n "b": "//" /* two */}', {"a": 1, "b": "//"}),
    "a comment behind the last comma": ('{"a": 1, /* no more */ }', {"a": 1}),
    "line ends in a string (SO-10)": ('{"a": "one\ntwo\tx\r"}', {"a": "one\ntwo\tx\r"}),
}


@pytest.mark.parametrize(("text", "value"), MENDED.values(), ids=MENDED)
def test_what_can_mean_one_thing_only_is_mended(text: str, value: Any) -> None:
    """In prose and in a fence; strictly read it is refused."""
    assert found(text) == found(f"So:\n```json\n{text}\n```") == [value]
    with pytest.raises(NoJSON):
        parse(text)


REFUSED = {
    "cut off": '{"items": [{"a": 1}, {"a": 2}',
    "cut off in a fence": '```json\n{"items": [{"a": 1}, {"a',
    "broken around whole parts": '{"items": [{"a": 1} {"a": 2}]}',
    "not a number": '{"a": NaN}',
    "infinity": "[-Infinity]",
    "too large for a number": "[1e400]",
    "half a pair": '{"a": "\\ud83d"}',
    "half a pair as a key": '{"\\udc00": 1}',
    "half a pair as it is": '{"a": "\ud83d"}',
    "half a pair as it is in a key": '{"\udc00": 1}',
    "half a pair as it is in a fence": '```json\n{"a": ["\ud83d"]}\n```',
    "a pair in two halves": '["\ud83d\ude00"]',
    "a pair of a half as it is and an escape": '["\ud83d\\ude00"]',
    "half a pair in JSON that is mended": "{'a': '\ud83d',}",
    "words": "I cannot help with that.",
    "blank": " \n",
    "empty": "",
    "a fence with code": "```python\nprint({x})\n```",
    "deep": "[" * 100_000,
    "deep and closed": "[" * 100_000 + "]" * 100_000,
    "many comments": "{'a': " + "/*" * 50_000,
    "many quotes": '{"' * 50_000,
    "many fences": "```" * 50_000,
    "many braces": "{a " * 50_000,
    "many broken blocks": "[1 2] " * 20_000,
    "many open texts in fences": '```"\\"' * 20_000,
    "many digits": "1" * 100_000,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text: str) -> None:
    """Nothing is completed, and no part is taken for the whole; a text that is made to be slow is not."""
    with pytest.raises(NoJSON):
        search(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the answer is empty"),
        ("I cannot.", "Expecting value at line 1, column 1"),
        ('So:\n{"a": 1 "b": 2}', "Expecting ',' delimiter at line 2, column 9"),
        ('```json\n{"a": "b', "Unterminated string starting at at line 2, column 7"),
        ('So: {"a": NaN}', "NaN is no number of JSON"),
        ("So: " + "[" * 100_000, "nested too deeply"),
    ],
)
def test_why_it_is_refused(text: str, told: str) -> None:
    """SO-10: in words that help, with the place in the text."""
    with pytest.raises(NoJSON) as refusal:
        search(text)
    assert told in str(refusal.value)


CHOSEN = {
    "citations (SO-08)": ('As said in [1], {"a": 1} [2].', [{"a": 1}]),
    "an array of objects (SO-08)": ('Here: [{"name": "A"}, {"name": "B"}]', [[{"name": "A"}, {"name": "B"}]]),
    "an array alone": ("The numbers: [1, 2]", [[1, 2]]),
    "thought before": ('<think>{"a": 0}?</think>\n{"a": 1}', [{"a": 1}]),
    "a fence beside a block": ('Not {"a": 0} but\n```json\n{"a": 1}\n```', [{"a": 1}]),
    "a fence in a block (SO-06)": ('So: {"a": "```json\\n[0]\\n```"}', [{"a": "```json\n[0]\n```"}]),
    "braces of prose": ('Use {braces} :{ then {"a": 1}', [{"a": 1}]),
    "two": ('{"a": 1} or {"a": 2}', [{"a": 1}, {"a": 2}]),
    "a scalar in a fence": ("```\n42\n```", [42]),
    "behind a fence of code": ("```python\nx = 3\n```\n42\n```json\n7\n```", [7]),
    "in a fence behind a word": ('```\nSo: {"a": 1}\n```', [{"a": 1}]),
    "a byte order mark": ('\ufeff{"a": 1}', [{"a": 1}]),
}


@pytest.mark.parametrize(("text", "values"), CHOSEN.values(), ids=CHOSEN)
def test_which_is_meant(text: str, values: list[Any]) -> None:
    """Fences rather than blocks, blocks rather than marks of prose; where two are left, both."""
    assert found(text) == values


def test_langchain_takes_less() -> None:
    """What the neighbour's parser makes of the same answers."""
    for text in ('Use {braces} then: {"a": 1}', "```JSON\n[1]\n```  \n", '{"a": 1,}'):
        with pytest.raises(ValueError, match=r"JSON|json|Expecting"):
            parse_json_markdown(text)
        assert len(found(text)) == 1


@pytest.mark.shared
def test_answers_of_models() -> None:
    """All of them right, where LangChain's parser is wrong on nearly half."""
    rows = [json.loads(line) for line in (SHARED / "vectors/llm_json.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows if not _as_expected(row, lambda text: _only(found(text)))] == []
    assert sum(not _as_expected(row, parse_json_markdown) for row in rows) >= len(rows) // 3


def _only(values: list[Any]) -> Any:
    (value,) = values
    return value


def _as_expected(row: dict[str, Any], read: Any) -> bool:
    try:
        return same({"value": read(row["raw"])}, row["expect"])
    except Exception:
        return row["expect"] == {"error": True}


@pytest.mark.shared
def test_the_json_test_suite() -> None:
    """What must be taken is, what must be refused is, and what is free does not crash; bytes that are no UTF-8 too."""
    wrong = []
    files = sorted((SHARED / "json-parsing/JSONTestSuite/test_parsing").glob("*.json"))
    for file in files:
        try:
            parse(file.read_bytes().decode())
            taken = True
        except (NoJSON, UnicodeDecodeError):
            taken = False
        if file.name[0] != "i" and taken != (file.name[0] == "y"):
            wrong.append(file.name)
    assert len(files) == 318
    assert wrong == []
