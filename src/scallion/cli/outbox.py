"""`outbox`, and the options of `sweep --deliver`; neither langgraph nor langchain is imported."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scallion.cli.listing import after_option, document, limit_option, pages
from scallion.cli.options import database, database_option, json_option, place
from scallion.cli.output import ago, print_json, print_table

if TYPE_CHECKING:
    from scallion.notify import Command, Webhook

F = TypeVar("F", bound=Callable[..., Any])
SECRET = "SCALLION_WEBHOOK_SECRET"
MOST = 1_000
"""Notifications that one run sends."""
UNDELIVERED = "undelivered"
STATUSES = (UNDELIVERED, "waiting", "failed", "delivered", "skipped", "all")


@click.command()
@click.argument("id", required=False)
@click.option("--status", type=click.Choice(STATUSES), default=UNDELIVERED, show_default=True, help="Which ones.")
@click.option("--retry", is_flag=True, help="Have what was given up be sent again, or only ID; then list.")
@limit_option
@after_option
@database_option
@json_option
def outbox(id: str | None, status: str, retry: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List the notifications that nobody got yet, the oldest first; `sweep --deliver` sends them."""
    from scallion.inbox import Inbox

    if id is not None and not retry:
        raise click.UsageError("ID is for --retry")
    chosen: dict[str, Any] = {"all": {"status": None}, UNDELIVERED: {}}.get(status, {"status": status})
    with Inbox(database(), **place()) as inbox, pages():
        if retry:
            again = inbox.outbox.retry(id)
            click.echo(f"{again} will be sent again", err=True)
        page = inbox.outbox.list(**chosen, limit=limit, after=after)
    if as_json:
        return print_json(document(page))
    rows = [
        (one.id, one.thread, one.event, one.status, str(one.attempts), one.error or "", ago(one.created_at))
        for one in page.items
    ]
    columns = ("id", "thread", "event", "status", "attempts", "error", "age")
    return print_table(columns, rows, "there is nothing" if status == "all" else f"nothing is {status}", page.next)


def delivery_options(function: F) -> F:
    """`--deliver`, and with what."""
    for name, options in (
        ("--include-args", {"is_flag": True, "help": "Tell descriptions and arguments of the calls too."}),
        ("--unsigned", {"is_flag": True, "help": f"Post without a signature, where {SECRET} is not set."}),
        ("--webhook", {"metavar": "URL", "help": f"Post it there as JSON, signed with {SECRET}."}),
        ("--command", {"metavar": "WORDS", "help": "Run this program with it as JSON on its input; no shell."}),
        ("--deliver", {"is_flag": True, "help": "Send the notifications that are due."}),
    ):
        function = click.option(name, **options)(function)
    return function


def recipient(
    deliver: bool, command: str | None, webhook: str | None, unsigned: bool, include_args: bool
) -> Command | Webhook | None:
    """What the options name; None where nothing is to be sent. Raises BadParameter, ConfigurationError."""
    if not deliver:
        if command or webhook or unsigned or include_args:
            raise click.UsageError("--command, --webhook, --unsigned and --include-args are options of --deliver")
        return None
    if (command is None) == (webhook is None):
        raise click.UsageError("--deliver takes either --command or --webhook")
    return _program(command) if webhook is None else _webhook(webhook, unsigned)


def _program(command: str | None) -> Command:
    import shlex

    from scallion.notify import Command

    try:
        words = shlex.split(command or "")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--command") from error
    if not words:
        raise click.BadParameter("it names no program", param_hint="--command")
    return Command(words)


def _webhook(url: str, unsigned: bool) -> Webhook:
    from scallion.notify import Webhook

    secret = os.environ.get(SECRET) or None
    if (secret is None) != unsigned:
        told = f"set {SECRET}, or say --unsigned" if secret is None else f"{SECRET} is set, so it is signed"
        raise click.BadParameter(told, param_hint="--webhook" if secret is None else "--unsigned")
    return Webhook(url, secret=secret.split(",") if secret else None)
