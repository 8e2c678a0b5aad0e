"""The third column of the table in `docs/guarantees.md` says what the neighbours do: they are run and compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.hitl.neighbours import TRIED

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| promise")
]


def row(words: str) -> list[str]:
    """The row of that promise."""
    (found,) = [one for one in ROWS if one[0].startswith(words)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("words", TRIED)
def test_what_a_neighbour_does_is_what_the_table_says(words: str) -> None:
    assert row(words)[2] == TRIED[words]()


def test_every_row_says_where_it_is_tested() -> None:
    """In files that are there."""
    assert len(ROWS) > 10
    for one in ROWS:
        assert len(one) == 3, one
        for file in re.findall(r"`(tests/[^`]+)`", one[1]):
            assert (PAGE.parents[1] / file).is_file(), file
