"""`sweep`: what time does to approvals, written down; neither langgraph nor langchain is imported."""

from __future__ import annotations

import click

from scallion.cli.options import database, database_option, json_option, place
from scallion.cli.output import print_json


@click.command()
@click.option("--thread", metavar="THREAD", help="Only what this thread asks.")
@database_option
@json_option
def sweep(thread: str | None, as_json: bool) -> None:
    """End what has expired, and escalate what is to be escalated.

    To be run now and then. A thread whose requests have expired goes on with `resume`.
    """
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        swept = inbox.approvals.sweep(thread=thread)
    if as_json:
        return print_json(swept.to_json())
    return click.echo(f"{swept.expired} expired, {swept.escalated} escalated, {swept.overdue} overdue and still open")
