"""The options that many verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from scallion.errors import StorageError

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DB = "sqlite:///scallion.db"
DB_HELP = f"The database (default: SCALLION_DB, or {DEFAULT_DB})."


def use_database(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Make the database that was named the one of this process: graph files read the variable too."""
    if value:
        os.environ["SCALLION_DB"] = value
        ctx.meta["scallion.db"] = value
    return value


def database() -> str:
    """The URL of the database. Raises StorageError for a file that is not there: looking into it would make it."""
    url = os.environ.get("SCALLION_DB") or DEFAULT_DB
    file = _file(url)
    if file is not None and not Path(file).exists():
        raise StorageError(f"there is no database at {file}; --db or SCALLION_DB names another one")
    return url


def _file(url: str) -> str | None:
    """The file of an SQLite database; None for every other database, and for what is no URL."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parts = make_url(url)
    except ArgumentError:  # told by whoever opens it
        return None
    name = parts.database or ":memory:"
    return None if parts.get_backend_name() != "sqlite" or name.startswith((":memory:", "file:")) else name


def database_option(function: F) -> F:
    """`--db URL`."""
    return click.option("--db", metavar="URL", callback=use_database, expose_value=False, help=DB_HELP)(function)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def by_option(function: F) -> F:
    """`--by NAME`."""
    told = "Who decides (default: the login name)."
    return click.option("--by", metavar="NAME", default=login_name, show_default=False, help=told)(function)


def login_name() -> str:
    """The name of whoever is logged in; a number where the system knows no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
