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
SCHEMA_HELP = "The schema of its tables, on a server (default: SCALLION_SCHEMA)."
PREFIX_HELP = "What the names of its tables start with (default: SCALLION_PREFIX)."


def _use(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Make what was named that of this process: graph files read the variable too."""
    if value:
        os.environ[f"SCALLION_{str(param.name).upper()}"] = value
        ctx.meta[f"scallion.{param.name}"] = value


def place() -> dict[str, Any]:
    """Schema and prefix of the tables and the keys of what is in them, as Inbox and SQLCheckpointer take them."""
    named = {"schema": os.environ.get("SCALLION_SCHEMA") or None, "prefix": os.environ.get("SCALLION_PREFIX", "")}
    return named | {"key": keys()}


def keys() -> list[str] | None:
    """The keys in SCALLION_KEY, with commas between them; None where there are none.

    They never come from an option: what is typed is kept, and seen by others.
    """
    return [key for key in os.environ.get("SCALLION_KEY", "").split(",") if key.strip()] or None


def database() -> str:
    """The URL of the database. Raises StorageError for a file that is not there: looking into it would make it."""
    url = os.environ.get("SCALLION_DB") or DEFAULT_DB
    check_there(url)
    return url


def check_there(url: str) -> None:
    """Raise StorageError where it names the file of an SQLite database, and that is not there."""
    if is_missing(url):
        raise StorageError(f"there is no database at {_file(url)}; --db or SCALLION_DB names another one")


def is_missing(url: str) -> bool:
    """Whether it names the file of an SQLite database, and that is not there."""
    file = _file(url)
    return file is not None and not Path(file).exists()


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
    """`--db URL`, `--schema NAME` and `--prefix TEXT`."""
    for name, metavar, told in (
        ("prefix", "TEXT", PREFIX_HELP),
        ("schema", "NAME", SCHEMA_HELP),
        ("db", "URL", DB_HELP),
    ):
        function = click.option(f"--{name}", metavar=metavar, callback=_use, expose_value=False, help=told)(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


PLACES = ("thread_id", "checkpoint_id", "checkpoint_ns")
"""What of a config says where a graph goes on: that is what the verb is told otherwise."""


def _configurable(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """The pairs by key; a value is JSON where it is some, or else a text."""
    from scallion.cli.editing import json_or_text

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter("give it as KEY=VALUE")
        if key in PLACES:
            raise click.BadParameter(f"{key} is not given like this: the graph goes on where THREAD stands")
        found[key] = json_or_text(value)
    return found


def configurable_option(function: F) -> F:
    """`--configurable KEY=VALUE`."""
    told = 'What the graph reads from its config; JSON where it is some (42 is a number, "42" a text). May be repeated.'
    return click.option("--configurable", metavar="KEY=VALUE", multiple=True, callback=_configurable, help=told)(
        function
    )


def by_option(function: F) -> F:
    """`--by NAME`."""
    told = "Who decides (default: the login name)."
    return click.option("--by", metavar="NAME", default=login_name, show_default=False, help=told)(function)


def requester_options(function: F) -> F:
    """`--user NAME` and `--owner NAME`."""
    told = "Who asks (default: the login name): a policy may say that they do not decide."
    function = click.option("--user", metavar="NAME", default=login_name, show_default=False, help=told)(function)
    return owner_option(function)


def owner_option(function: F) -> F:
    """`--owner NAME`."""
    return click.option("--owner", metavar="NAME", help="Whose thread it is; another owner's is refused.")(function)


def login_name() -> str:
    """The name of whoever is logged in; a number where the system knows no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
