"""`sweep`: what is to be done now and then; neither langgraph nor langchain is imported."""

from __future__ import annotations

from typing import Any

import click

from scallion.cli.failure import DONE, ERROR
from scallion.cli.options import database, database_option, json_option, place
from scallion.cli.outbox import MOST, delivery_options, recipient
from scallion.cli.output import print_json


@click.command()
@click.option("--thread", metavar="THREAD", help="Only what this thread asks.")
@delivery_options
@database_option
@json_option
def sweep(thread: str | None, as_json: bool, include_args: bool, **options: Any) -> int:
    """End what has expired, escalate what is to be escalated, and with --deliver tell somebody what waits.

    To be run now and then. A thread whose requests have expired goes on with `resume`. Exit status 1 if something was
    not delivered.
    """
    from scallion.inbox import Inbox

    to = recipient(**options, include_args=include_args)
    if to is not None and thread is not None:
        raise click.UsageError("--deliver sends what is due of all threads: leave --thread out")
    with Inbox(database(), **place()) as inbox:
        swept = inbox.approvals.sweep(thread=thread)
        delivered = to and inbox.outbox.deliver(to, include_args=include_args, limit=MOST)
    told = delivered.to_json() if delivered else None
    if as_json:
        print_json(swept.to_json() | ({"delivery": told} if told else {}))
    else:
        click.echo(f"{swept.expired} expired, {swept.escalated} escalated, {swept.overdue} overdue and still open")
        if told:
            click.echo("{sent} told, {skipped} skipped, {failed} failed, {given_up} of them given up".format(**told))
    return ERROR if told and told["failed"] else DONE
