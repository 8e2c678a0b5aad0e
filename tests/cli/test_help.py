"""What `--help` says to somebody who knows nothing yet."""

from __future__ import annotations

import pytest
from tests.cli.command import Command

DECIDING = ("approve", "edit", "reject", "respond", "happened", "rerun", "stop")


@pytest.mark.parametrize("group", ["", "rules", "audit", "db"])
def test_no_verb_of_a_list_is_cut_short(here: Command, group: str) -> None:
    """In eighty columns, which is what there is without a terminal."""
    listed = here(*group.split(), "--help").out
    assert "..." not in listed.partition("\n\n")[2]


@pytest.mark.parametrize("verb", DECIDING)
def test_a_decision_is_not_taken_for_the_run(here: Command, verb: str) -> None:
    """Nothing runs by it: it says which verb goes on."""
    assert "The decision is recorded; `scallion resume` goes on with it." in " ".join(here(verb, "--help").out.split())
