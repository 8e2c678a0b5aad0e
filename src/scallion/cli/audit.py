"""`scallion audit`: what was decided and done, and whether it is still what was written down then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scallion.cli.failure import DONE, ERROR
from scallion.cli.listing import after_option, document, limit_option, pages
from scallion.cli.options import database, database_option, json_option, place
from scallion.cli.output import print_json, print_table
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scallion.approvals.chain import Entry, Verified


@click.group()
def audit() -> None:
    """What was decided and done, as one chain of hashes."""


@audit.command("list")
@click.option("--thread", help="Rows about this thread.")
@click.option("--event", help="Rows of this kind, as decided, withdrawn or effect_done.")
@limit_option
@after_option
@database_option
@json_option
def listing(after: str | None, as_json: bool, **wanted: Any) -> None:
    """List the rows, the newest first."""
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox, pages():
        page = inbox.audit.list(after=after, **wanted)
    if as_json:
        return print_json(document(page))
    rows = [_row(one) for one in page.items]
    columns = "no", "at", "event", "thread", "about", "by", "detail"
    return print_table(columns, rows, "nothing was written down", page.next)


def _row(one: Entry) -> Sequence[str]:
    told = ", ".join(f"{key} {value}" for key, value in one.detail.items() if key not in ("args", "answer"))
    at = one.at.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
    return str(one.no), at, one.event, one.thread, (one.subject or "")[:12], one.by or "", told


@audit.command()
@click.option("-o", "--output", "file", type=click.File("w", encoding="utf-8"), default="-", help="The file to write.")
@click.option("--after", metavar="HEAD", help="The rows behind this head only, as a file or `verify` gave it.")
@database_option
def export(file: Any, after: str | None) -> None:
    """Write the audit as JSON lines. `audit verify FILE` checks them without a database."""
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        for line in inbox.audit.export(after=after):
            file.write(line)


@audit.command()
@click.argument("files", nargs=-1, type=click.File("rb"), metavar="[FILE]...")
@click.option("--since", metavar="HEAD", help="A head that was remembered: what was there then has to be there.")
@database_option
@json_option
def verify(files: Sequence[Any], since: str | None, as_json: bool) -> int:
    """Check the chain of the database, or of exported files. No row may have been changed, taken out, put in or moved.

    Of several files each has to go on where the one before it ends. Exit status 1: something does not fit.
    """
    found = _of_files(files, since) if files else _of_database(since)
    if as_json:
        print_json(found.to_json())
    elif found.is_whole:
        click.echo(f"whole: {found.rows} row(s), head {found.head}")
    else:
        click.echo(one_line(f"broken at row {found.broken}: {found.problem}: {found.reason}"))
    return DONE if found.is_whole else ERROR


def _of_database(since: str | None) -> Verified:
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        return inbox.audit.verify(since=since)


def _of_files(files: Sequence[Any], since: str | None) -> Verified:
    from scallion.approvals.chain import verify

    whole = verify(files[0], since=since)
    for file in files[1:]:
        if not whole.is_whole:
            break
        found = verify(file, since=whole.head)
        whole = found if not found.is_whole else found.behind(whole)
    return whole
