"""The table of conformance in the documentation is what its script finds."""

from __future__ import annotations

import pytest
from benchmarks import conformance


def lines() -> dict[str, str]:
    """The lines of the table on the page, by the name of the saver."""
    page = conformance.PAGE.read_text(encoding="utf-8").partition(conformance.MARK)[2]
    return {line.split(" | ")[0].removeprefix("| "): line for line in page.splitlines() if line.startswith("| `")}


@pytest.mark.parametrize("name", ["`InMemorySaver`", "`SQLCheckpointer`, sqlite, async"])
async def test_the_page_says_what_the_suite_says(name: str) -> None:
    assert lines()[name] == conformance.line(name, await conformance.row(*conformance.savers()[name]))


def test_every_saver_is_in_the_table() -> None:
    assert lines().keys() == conformance.savers().keys()
    assert all(" 8 of 8 " in line for name, line in lines().items() if "SQLCheckpointer" in name)
