"""What is found in public corpora, beside LangChain's detectors in the same run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.personal_data import CORPORA, SHARED, VECTORS, ours, policies, score, theirs, vectors
from guardrails.redactions import cut, places, redaction, streamed
from hypothesis import given, settings

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not SHARED.exists(), reason="needs the folder shared")]

STREAMS = [*map(json.loads, (VECTORS / "stream_redaction.jsonl").read_text().splitlines())] if SHARED.exists() else []
MORE_FALSE = {"formats, IPv6": {"leading whitespace is invalid"}}
"""Findings that count as false there as the format speaks of whole texts: `::1` behind two spaces is an address."""


@pytest.mark.parametrize("name", CORPORA)
def test_never_more_misses_than_langchain_and_fewer_where_it_misses(name: str) -> None:
    """And no false hits that it does not have. Host names alone are no URLs for either."""
    rows = CORPORA[name]()
    mine, other = score(rows, ours), score(rows, theirs)
    assert set(mine.missed) <= set(other.missed)
    assert set(mine.false) - set(other.false) <= MORE_FALSE.get(name, set())
    if other.missed and name != "formats, host name":
        assert len(mine.missed) < len(other.missed)


def test_the_vectors_are_found_exactly() -> None:
    """Place by place; the one that differs is a decision of docs/guardrails.md."""
    found = score(vectors(), ours)
    assert set(found.wrong) == {"email-012"} <= policies()


@pytest.mark.parametrize("row", STREAMS, ids=lambda row: row["id"])
@settings(max_examples=25, deadline=None)
@given(places)
def test_streams_of_the_vectors(row: dict[str, Any], places: list[int]) -> None:
    """Every chunking gives the redaction of the whole text, no secret in it, and looks-alike are as they were."""
    one = redaction(*("api_key" if kind == "private_key" else kind for kind in row["kinds"]))
    text, found = streamed(one, cut(row["text"], places))
    assert (text, found) == one.redact(row["text"])
    assert not [secret for secret in row["secrets"] if secret in text]
    assert found or (text == row["text"] and not row["secrets"])
