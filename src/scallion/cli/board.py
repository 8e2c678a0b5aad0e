"""What `watch` draws on a terminal: a table that fits it, and a line below that says how it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from scallion.cli.output import ago
from scallion.cli.waiting import Look, Row
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

ROOM = 3
"""Lines that are no row: the names of the columns, the line below, and that of the cursor."""


class Column(NamedTuple):
    """A column: its name, its text, and how wide a terminal must be to have it."""

    name: str
    text: Callable[[Row], str]
    from_width: int = 0


COLUMNS = (
    Column("thread", lambda row: row.session.thread),
    Column("status", lambda row: row.state, 50),
    Column("since", lambda row: ago(row.since, row.now)),
    Column("waits for", lambda row: row.waits_for),
    Column("held by", lambda row: row.session.holder or "", 70),
    Column("agent", lambda row: row.session.agent or "", 90),
    Column("owner", lambda row: row.session.owner or "", 110),
    Column("title", lambda row: row.session.title or "", 110),
)
SHORT = ("status", "since")
"""Columns that are never cut."""

STYLES = {"paused": "", "running": "dim", "interrupted": "red"}


def board(look: Look, width: int, height: int | None = None) -> RenderableType:
    """The rows, one a line, as far as they fit into the height of a terminal; None: all of them, once."""
    from rich.console import Group
    from rich.table import Table

    columns = [one for one in COLUMNS if width >= one.from_width]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(_cut(column.name), no_wrap=column.name in SHORT)
    shown = look.rows if height is None else look.rows[: max(1, height - ROOM)]
    for row in shown:
        table.add_row(*(_cut(one_line(column.text(row))) for column in columns), style=STYLES[row.state])
    told = _below(look, len(shown)) + ("" if height is None else f" · {look.now.astimezone():%H:%M:%S} · Ctrl-C ends")
    below = _cut(told, style="red" if look.away else "dim")
    return Group(table, below) if look.rows else below


def _cut(text: str, style: str = "") -> Text:
    """The text on one line, whatever is there for it."""
    from rich.text import Text

    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _below(look: Look, shown: int) -> str:
    """How many there are of each, or that nobody knows."""
    if look.away:
        return f"no answer from the database since {look.away:%H:%M:%S}"
    counts = [f"{number} {state}" for state, number in _counted(look.rows)]
    told = ", ".join(counts) or "nothing runs or waits"
    if len(look.rows) > shown:
        told += f", {len(look.rows) - shown} not shown"
    elif look.more:
        told += ", and more"
    return told


def _counted(rows: Sequence[Row]) -> list[tuple[str, int]]:
    states = [row.state for row in rows]
    return [(state, states.count(state)) for state in dict.fromkeys(states)]


def line(row: Row) -> str:
    """A change as a line of text."""
    told = [f"{row.now.astimezone():%H:%M:%S}", row.session.thread, row.state]
    told += [f"for {row.waits_for}"] if row.waits_for else []
    told += [f"held by {row.session.holder}"] if row.session.holder else []
    return one_line(" ".join(told))
