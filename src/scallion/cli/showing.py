"""`show`: a thread as it is stored, without its graph, and what happened in its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from scallion.cli.options import database, database_option, json_option, place
from scallion.cli.output import ago, console, print_json
from scallion.errors import ThreadError
from scallion.inspect.bounds import BOUNDS, Bounds
from scallion.inspect.card import card
from scallion.inspect.conversation import conversation, message_data
from scallion.inspect.escape import one_line
from scallion.inspect.terminal import timeline
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import ShowingSerializer
from scallion.sql.sessions import Session
from scallion.sql.transcript import transcript
from scallion.tracing import Trace
from scallion.values import Approval

if TYPE_CHECKING:
    from rich.console import Console

ABOVE = 6
"""Lines of a terminal that are left for what stands above and below a timeline."""
LEAST = 8
"""Spans that are shown however low the terminal is."""
WIDE = 80
"""Columns from which a timeline has bars."""
ORDINAL = 4
"""Digits of a number of a turn at most; what has more is an id."""


@dataclass(frozen=True)
class Shown:
    """What there is to show of a thread; `messages` and `approvals` are None where only its turns are asked for."""

    session: Session
    traces: Sequence[Trace]
    messages: Sequence[Any] | None = None
    approvals: Sequence[Approval] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        told: dict[str, Any] = {"session": self.session.to_json()}
        if self.messages is not None and self.approvals is not None:
            told |= {"messages": list(map(message_data, self.messages))}
            told |= {"approvals": [one.to_json() for one in self.approvals]}
        return told | {"traces": [one.to_json() for one in self.traces]}


@click.command()
@click.argument("thread")
@click.option("--trace", "traced", is_flag=True, help="What happened in its turns, in place of the conversation.")
@click.option(
    "--turn", metavar="TURN", help="This turn alone: its id, a beginning of it, or its number; -1 is the last."
)
@database_option
@json_option
def show(thread: str, traced: bool, turn: str | None, as_json: bool) -> None:
    """Print a thread: its session, the conversation, what is open, and what happened in its last turn.

    With --trace: the timelines of all turns; with --turn that of one.
    """
    with SQLCheckpointer(database(), serde=ShowingSerializer(), **place()) as saver:
        shown = _read(saver, thread, traced, turn)
    if as_json:
        print_json(shown.to_json())
    else:
        _print(shown)


def _read(saver: SQLCheckpointer, thread: str, traced: bool, turn: str | None) -> Shown:
    session = saver.sessions.get(thread)
    if session is None:
        raise ThreadError(thread, f"there is no thread {thread!r}")
    only_turns = traced or turn is not None
    turns: Sequence[str | None] = [None]
    if only_turns:
        named = saver.sessions.traced(thread)
        turns = named if turn is None else [_named(turn, named)]
    found = (saver.sessions.trace(thread, one) for one in turns)
    shown = Shown(session, [one for one in found if one is not None])
    if only_turns:
        return shown
    return replace(shown, messages=transcript(saver, thread), approvals=_open(saver, thread))


def _open(saver: SQLCheckpointer, thread: str) -> Sequence[Approval]:
    listed = saver.approvals.list
    return [one for status in ("pending", "decided") for one in listed(status, thread=thread, limit=1000).items]


def _named(turn: str, turns: Sequence[str]) -> str:
    """The id of the turn that is meant. Raises BadParameter where there is none, or more than one."""
    number = turn.removeprefix("-")
    if number.isdecimal() and len(number) <= ORDINAL:
        position = int(turn) - (1 if number == turn else 0)
        found = [turns[position]] if int(number) and -len(turns) <= position < len(turns) else []
    else:
        found = [one for one in turns if one == turn] or [one for one in turns if turn and one.startswith(turn)]
    if len(found) != 1:
        told = "several turns begin so" if found else f"it is none of the {len(turns)} turn(s) that have a trace"
        raise click.BadParameter(told, param_hint="--turn")
    return found[0]


def _print(shown: Shown) -> None:
    screen, session = console(), shown.session
    agent = f" · {session.agent}" if session.agent else ""
    click.echo(one_line(f"{session.thread} · {session.status}{agent} · {ago(session.updated)} ago"))
    for part in conversation(shown.messages or ()):
        screen.print(part)
    for approval in shown.approvals or ():
        screen.print(card(approval))
    if shown.messages is None and not shown.traces:
        click.echo("no trace of a turn is kept")
    for trace in shown.traces:
        click.echo()
        bounds = BOUNDS if shown.messages is None else _fitting(screen)
        screen.print(timeline(trace, bounds, bars=screen.width >= WIDE))


def _fitting(screen: Console) -> Bounds:
    """Of a timeline below a conversation as much as a terminal shows at once; through a pipe all of it."""
    return replace(BOUNDS, spans=max(LEAST, screen.height - ABOVE)) if screen.is_terminal else BOUNDS
