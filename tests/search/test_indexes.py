"""The indexes on small catalogues."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langchain_core.tools import StructuredTool, tool

from scallion import ConfigurationError
from scallion.search import Entry, HybridIndex, KeywordIndex, RegexIndex, ToolIndex, VectorIndex, entry

DESK = [
    Entry("canvas_create_edge", "Connect two nodes."),
    Entry("canvas_create_node", "Put a node on the board."),
    Entry("sendEmail", "Write to a customer.", ("recipient", "The address to write to.")),
    Entry("get_weather", "Tell the forecast.", ("latitude", "Degrees north.", "longitude")),
    Entry("refund_order", "Give the money back."),
    Entry("天气查询", "查询某个城市的天气预报"),
]


class Toy(Embeddings):
    """Two directions: money and everything else."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Money first."""
        return [1.0, 0.0] if any(word in text for word in ("money", "cash", "refund")) else [0.0, 1.0]


def made(kind: Callable[..., ToolIndex]) -> ToolIndex:
    """An index of the desk."""
    return kind(DESK, **({"embeddings": Toy()} if kind in (VectorIndex, HybridIndex) else {}))


KINDS = [KeywordIndex, RegexIndex, VectorIndex, HybridIndex]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create edge", "canvas_create_edge"),
        ("send emails", "sendEmail"),
        ("SENDING E-MAIL to somebody", "sendEmail"),
        ("recipient", "sendEmail"),
        ("degrees north", "get_weather"),
        ("longitude", "get_weather"),
        ("refunding orders", "refund_order"),
        ("城市天气", "天气查询"),
        ("城", "天气查询"),
    ],
)
def test_words_are_found(query: str, first: str) -> None:
    """In names, descriptions and parameters, in any form, in Chinese too."""
    assert made(KeywordIndex).search(query, 5)[0] == first


def test_two_words_of_each_name_find_it() -> None:
    """Names with underscores were one word in a neighbour, and "create edge" found nothing."""
    names = [
        f"{area}_{verb}_{thing}" for area in ("canvas", "crm") for verb in ("add", "drop") for thing in ("edge", "row")
    ]
    index = KeywordIndex([Entry(name, "Does what it says.") for name in names])
    for name in names:
        area, verb, thing = name.split("_")
        assert name in index.search(f"{verb} {thing}", 5)
        assert index.search(f"{area} {verb} {thing}", 5)[0] == name


@pytest.mark.parametrize(
    "query", ["knit a pullover", "the of and", "", "?!", "knit a pullover, and report on the wool"]
)
def test_nothing_fits_is_an_answer(query: str) -> None:
    """A word in common with a long query is not enough where many tools have it."""
    reports = [Entry(f"report_{number}", "Write a report.") for number in range(10)]
    assert KeywordIndex([*DESK, *reports]).search(query, 5) == []
    assert len(KeywordIndex([*DESK, *reports]).search("a report", 20)) == 10
    if "report" in query:
        assert KeywordIndex([*DESK, *reports], min_score=0).search(query, 5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_catalogues_are_searched_too(size: int) -> None:
    """Where a word is in every tool it tells nothing, but it still finds."""
    entries = [Entry(f"mail_{number}", "Send a letter.", ("subject",)) for number in range(size)]
    for query in ("letter", "send mail", "subject"):
        assert len(KeywordIndex(entries).search(query, 5)) == size


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_catalogue_has_nothing(kind: Callable[..., Any]) -> None:
    """Nor does an empty query find anything."""
    assert list(kind([]).search("mail", 5)) == []
    assert list(made(kind).search("", 5)) == []


ALL = [made(kind) for kind in KINDS]


@given(query=st.text(max_size=60), limit=st.integers(1, 6))
def test_whatever_a_model_asks(query: str, limit: int) -> None:
    """The answer is known names, each once, and not too many."""
    for index in ALL:
        found = list(index.search(query, limit))
        assert len(found) == len(set(found)) <= limit
        assert set(found) <= {one.name for one in DESK}


def test_an_expression_finds_names_first() -> None:
    """Then descriptions; in the order of the alphabet."""
    index = made(RegexIndex)
    assert index.search("create_(edge|node)", 5) == ["canvas_create_edge", "canvas_create_node"]
    assert index.search("ORDER|write", 5) == ["refund_order", "sendEmail"]
    assert index.search("order|write|node", 2) == ["canvas_create_node", "refund_order"]
    assert index.search("天气", 5) == ["天气查询"]


@pytest.mark.parametrize("query", ["(", "a{2", "(?<=x)y", r"(a)\1", "[z-a]", "a{5000}"])
def test_an_invalid_expression_is_a_text(query: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What the engine does not take is looked for as it stands, and nothing is printed."""
    index = RegexIndex([*DESK, Entry("odd", f"Has {query} in it.")])
    assert index.search(query, 5) == ["odd"]
    assert capfd.readouterr() == ("", "")


def test_case_can_matter() -> None:
    """An option of the index."""
    assert RegexIndex(DESK, case_sensitive=True).search("sendemail", 5) == []
    assert RegexIndex(DESK).search("sendemail", 5) == ["sendEmail"]


def test_no_expression_is_slow() -> None:
    """Python's own engine needs more than a minute for this one: `(a+)+$` against thirty a's and a b."""
    index = RegexIndex([Entry("x", "a" * 30 + "b")] * 50)
    begun = time.process_time()
    assert index.search("^(a+)+$", 5) == []
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("module", "kind"),
    [("re2", RegexIndex), ("numpy", VectorIndex), ("wordllama", VectorIndex), ("wordllama", HybridIndex)],
)
def test_a_missing_extra_is_named(module: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    from scallion.search import vector

    vector._wordllama.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=r"pip install 'scallion\[search\]'"):
        kind(DESK)


def test_embeddings_of_ones_own() -> None:
    """Any of langchain-core's; what is too far away does not fit."""
    index = VectorIndex(DESK, embeddings=Toy(), min_score=0.5)
    assert index.search("cash, please", 5) == ["refund_order"]
    assert VectorIndex(DESK, embeddings=Toy(), min_score=1.1).search("cash", 5) == []


def test_the_small_embeddings_know_other_words() -> None:
    """Offline; no word of the query is in the tool."""
    index = VectorIndex(DESK)
    assert index.search("reimburse a purchase", 1) == ["refund_order"]
    assert index.search("Will it rain? I am going out.", 1) == ["get_weather"]


def test_words_and_meaning_together() -> None:
    """What either knows is found; what both know comes first."""
    index = HybridIndex(DESK, embeddings=Toy(), min_meaning=0.5)
    assert index.search("cash", 5) == ["refund_order"]
    assert set(index.search("cash for the recipient", 5)) == {"refund_order", "sendEmail"}
    assert index.search("money order", 5)[0] == "refund_order"
    assert HybridIndex(DESK, embeddings=Toy(), min_meaning=2).search("knit a pullover", 5) == []


@tool
def lookup(order: int, note: str = "") -> str:
    """Look an order up."""
    return ""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (lookup, Entry("lookup", "Look an order up.", ("order", "note"))),
        (
            {
                "type": "function",
                "function": {"name": "a", "description": "b", "parameters": {"properties": {"c": {}}}},
            },
            Entry("a", "b", ("c",)),
        ),
        (
            {"name": "a", "inputSchema": {"type": "dict", "properties": {"c": {"type": "float", "description": "d"}}}},
            Entry("a", "", ("c", "d")),
        ),
        ({"name": "a", "description": None, "parameters": None}, Entry("a")),
        ({"name": "a", "parameters": {"properties": ["c"]}}, Entry("a")),
        (
            {"name": "a", "parameters": {"properties": {"c": "text", "d": {"description": 3}}}},
            Entry("a", "", ("c", "d")),
        ),
        ({"name": "a", "input_schema": "none"}, Entry("a")),
        ({"type": "web_search_20250305"}, None),
    ],
)
def test_tools_are_read_in_any_form(given: Any, found: Entry | None) -> None:
    """A schema may be none that JSON Schema knows, or be missing."""
    assert entry(given) == found


def test_a_tool_with_a_schema_of_its_own() -> None:
    """As tools from MCP have it."""
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": "Where."}}}
    remote = StructuredTool(name="w", description="Weather.", args_schema=schema, func=print)
    assert entry(remote) == Entry("w", "Weather.", ("city", "Where."))


def test_the_small_embeddings_leave_the_logging_of_the_program_alone() -> None:
    """`wordllama` sets the root logger to INFO where it is imported."""
    code = (
        "import logging; from scallion.search.vector import SmallEmbeddings; SmallEmbeddings(); "
        "print(logging.getLogger().level, logging.getLogger().handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "30 []\n"
