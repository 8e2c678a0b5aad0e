"""`watch`: the threads that run or wait, as they change; neither langgraph nor langchain is imported."""

from __future__ import annotations

import io
import json
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from scallion.cli.listing import limit_option, session_options
from scallion.cli.options import database, database_option, place
from scallion.cli.output import console, let_go
from scallion.errors import Closed, SchemaError, StorageError, WrongKey

if TYPE_CHECKING:
    from rich.console import Console

    from scallion.cli.waiting import Look, Row, Watched


@click.command()
@click.option("--every", type=click.FloatRange(0.1, 3600), default=2, show_default=True, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Print how it stands now, and end.")
@click.option("--status", type=click.Choice(["running", "paused"]), help="Those in this state.")
@session_options
@limit_option
@database_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each change.")
def watch(every: float, once: bool, as_json: bool, status: Any, **wanted: Any) -> None:
    """Watch the threads that run or wait, until Ctrl-C.

    On a terminal it is a table that is drawn anew. Otherwise, and with --json, each change is a line: a thread that
    began to run or to wait, and what became of it. A database that goes away is waited for.
    """
    with suppress(KeyboardInterrupt):
        try:
            _watch(every, once, as_json, status, wanted)
            sys.stdout.flush()
        except BrokenPipeError:
            let_go()


def _watch(
    every: float, once: bool, as_json: bool, status: Literal["running", "paused"] | None, wanted: dict[str, Any]
) -> None:
    from scallion.cli.waiting import Watched
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        watched = Watched(inbox, status, wanted)
        screen = None if as_json else console()
        if screen is not None and once:
            _print(watched.look(), screen)
        elif screen is not None and screen.is_terminal and not screen.is_dumb_terminal:
            _draw(watched, every, screen)
        else:
            _tell(watched, every, once, as_json)


def _print(look: Look, screen: Console) -> None:
    from scallion.cli.board import board

    screen.print(board(look, screen.width))


def _draw(watched: Watched, every: float, screen: Console) -> None:
    """The table, drawn anew at each look."""
    from rich.live import Live

    from scallion.cli.board import board

    looks = _looks(watched, every)
    look = next(looks)
    with Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(board(look, screen.width, screen.height), refresh=True)
            look = next(looks)


def _tell(watched: Watched, every: float, once: bool, as_json: bool) -> None:
    """A line for each change."""
    from scallion.cli.board import line

    known: Sequence[Row] = ()
    away: datetime | None = None
    for look in _looks(watched, every):
        if look.away != away and look.away is not None:
            click.echo(f"no answer from the database since {look.away:%H:%M:%S}; waiting for it", err=True)
        away = look.away
        for row in () if away else watched.changes(known, look):
            click.echo(json.dumps(row.to_json()) if as_json else line(row))
        known = look.rows
        if once:
            break


def _looks(watched: Watched, every: float) -> Iterator[Look]:
    """One look after another; while the database is away the last one. Raises what no waiting would mend."""
    look = watched.look()
    while True:
        yield look
        _wait(every)
        try:
            look = watched.look()
        except (SchemaError, WrongKey, Closed):
            raise
        except StorageError:
            look = look.without_answer()


def _wait(seconds: float) -> None:
    """Until the next look. Raises BrokenPipeError where whoever read the output has gone: nothing else may tell it."""
    try:
        output = sys.stdout.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return time.sleep(seconds)
    if not hasattr(select, "poll"):
        return time.sleep(seconds)
    poll = select.poll()
    poll.register(output, 0)
    if poll.poll(1000 * seconds):
        raise BrokenPipeError
    return None
