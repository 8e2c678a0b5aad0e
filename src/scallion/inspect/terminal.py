"""The timeline for a terminal, drawn by rich."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scallion.inspect.bounds import BOUNDS, Bounds
from scallion.inspect.rows import BAR, Line, Tone, lines, title, totals

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from scallion.tracing import Trace

STYLES: Mapping[Tone, str] = {"plain": "", "good": "green", "changed": "cyan", "waiting": "yellow", "bad": "red"}


def timeline(trace: Trace, bounds: Bounds = BOUNDS, *, bars: bool = True) -> RenderableType:
    """The timeline of a trace as something that rich prints: names, bars and durations in columns.

    A narrow terminal has no room for the `bars`.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0), expand=False)
    table.add_column(overflow="fold")
    if bars:
        table.add_column(width=BAR, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for line in lines(trace, bounds):
        label = Padding(_label(line), (0, 0, 0, 2 * line.depth))
        bar = [Text(line.bar, style=STYLES[line.row.tone] or "blue")] if bars else []
        table.add_row(label, *bar, Text(line.took, style="dim"))
    return Group(Text(title(trace), style="bold"), Text(" · ".join(totals(trace)), style="dim"), table)


def _label(line: Line) -> Text:
    from rich.text import Text

    tone = STYLES[line.row.tone]
    weight = "bold " if line.row.kind == "part" else ""
    label = Text(line.label, style=f"{weight}{tone}".strip())
    return label.append(f"  {line.notes}", style=f"not bold {tone or 'dim'}") if line.notes else label
