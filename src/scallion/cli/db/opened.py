"""What every command of `scallion db` has: the options that say which database, and the database itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import click

from scallion.cli.failure import spoken
from scallion.cli.options import DEFAULT_DB, check_there, keys
from scallion.errors import ScallionError


def opened(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the database of `--db`, close it, and tell errors without a traceback.

    A file that is not there is an error: looking into it would make it.
    """
    return _with_database(command, check_there)


def made(command: Callable[..., None]) -> Callable[..., None]:
    """As `opened`, for a command that makes the database where it is not there."""
    return _with_database(command, lambda url: None)


def _with_database(command: Callable[..., None], check: Callable[[str], None]) -> Callable[..., None]:
    @click.option(
        "--db", "url", envvar="SCALLION_DB", default=DEFAULT_DB, show_default=True, help="URL of the database."
    )
    @click.option("--schema", envvar="SCALLION_SCHEMA", help="The schema of the tables, on a server.")
    @click.option("--prefix", envvar="SCALLION_PREFIX", default="", help="What the names of the tables start with.")
    def run(url: str, schema: str | None, prefix: str, **options: Any) -> None:
        from scallion.sql.engines import Database
        from scallion.sql.tables import tables

        try:
            check(url)
            database = Database(url, tables(prefix, schema or None), key=keys(), auto_upgrade=False)
            try:
                command(database, **options)
            finally:
                database.close()
        except ScallionError as error:
            raise click.ClickException(spoken(error)) from None

    return update_wrapper(run, command)
