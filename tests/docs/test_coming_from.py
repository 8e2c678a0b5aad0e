"""The names that the page for newcomers gives are there, unless it says that they are not yet."""

import re
from pathlib import Path

import scallion.tools
from scallion import filters

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
LATER = {"pii", "moderation"}


def test_every_name_of_a_filter_is_there_or_marked() -> None:
    """`filters.name`, and `scallion.tools.name`."""
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"filters\.(\w+)", page))
    assert len(named) > 30
    assert {name for name in named if not hasattr(filters, name)} == LATER
    assert all(
        f"`filters.{name}(...)` (*not yet*)" in page or f"`filters.{name}(check)` (*not yet*)" in page for name in LATER
    )
    assert all(hasattr(scallion.tools, name) for name in re.findall(r"scallion\.tools\.(\w+)", page))
