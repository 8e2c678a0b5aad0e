"""`show`: a thread as it is stored, without its graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from scallion.cli.options import database, database_option, json_option, place
from scallion.cli.output import ago, console, print_json
from scallion.errors import ThreadError
from scallion.inspect.card import card
from scallion.inspect.conversation import conversation, message_data
from scallion.inspect.escape import one_line
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import ShowingSerializer
from scallion.sql.sessions import Session
from scallion.sql.transcript import transcript
from scallion.values import Approval


@click.command()
@click.argument("thread")
@database_option
@json_option
def show(thread: str, as_json: bool) -> None:
    """Print a thread: its session, the conversation, and the approvals that are open."""
    with SQLCheckpointer(database(), serde=ShowingSerializer(), **place()) as saver:
        session = saver.sessions.get(thread)
        if session is None:
            raise ThreadError(thread, f"there is no thread {thread!r}")
        messages = transcript(saver, thread)
        approvals = [
            approval
            for status in ("pending", "decided")
            for approval in saver.approvals.list(status, thread=thread, limit=1000).items
        ]
    if as_json:
        data = {"messages": list(map(message_data, messages)), "approvals": [one.to_json() for one in approvals]}
        print_json({"session": session.to_json(), **data})
    else:
        _print(session, messages, approvals)


def _print(session: Session, messages: Sequence[Any], approvals: Sequence[Approval]) -> None:
    screen = console()
    agent = f" · {session.agent}" if session.agent else ""
    click.echo(one_line(f"{session.thread} · {session.status}{agent} · {ago(session.updated)} ago"))
    for part in conversation(messages):
        screen.print(part)
    for approval in approvals:
        screen.print(card(approval))
