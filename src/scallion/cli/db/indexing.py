"""`index`: what is said in the threads, for those who search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scallion.cli.db.opened import opened

if TYPE_CHECKING:
    from scallion.sql.engines import Database


@click.command()
@click.option("--all", "all_of_it", is_flag=True, help="Read every thread again, also those that seem to be indexed.")
@opened
def index(database: Database, all_of_it: bool) -> None:
    """Have searches find all that was said by now. They would do that first themselves.

    It may be interrupted, and run beside all else. With --all after an upgrade during which programs of the version
    before were still writing.
    """
    from scallion.sql.views import Sessions

    click.echo(f"{Sessions(database).index(all=all_of_it)} thread(s) indexed")
