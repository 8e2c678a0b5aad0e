"""The options that many verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DB = "sqlite:///scallion.db"


def use_database(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Make the database that was named the one of this process: graph files read the variable too."""
    if value:
        os.environ["SCALLION_DB"] = value
        ctx.meta["scallion.db"] = value
    return value


def database() -> str:
    """The URL of the database."""
    return os.environ.get("SCALLION_DB") or DEFAULT_DB


def database_option(function: F) -> F:
    """`--db URL`."""
    told = f"The database (default: SCALLION_DB, or {DEFAULT_DB})."
    return click.option("--db", metavar="URL", callback=use_database, expose_value=False, help=told)(function)


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
