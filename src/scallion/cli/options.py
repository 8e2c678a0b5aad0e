"""The options that many verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from scallion.sql.environment import DEFAULT_DB as DEFAULT_DB
from scallion.sql.environment import check_there as check_there
from scallion.sql.environment import database as database
from scallion.sql.environment import is_missing as is_missing
from scallion.sql.environment import keys as keys
from scallion.sql.environment import place as place

F = TypeVar("F", bound=Callable[..., Any])

DB_HELP = f"The database (default: SCALLION_DB, or {DEFAULT_DB})."
SCHEMA_HELP = "The schema of its tables, on a server (default: SCALLION_SCHEMA)."
PREFIX_HELP = "What the names of its tables start with (default: SCALLION_PREFIX)."


def _use(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Make what was named that of this process: graph files read the variable too."""
    if value:
        os.environ[f"SCALLION_{str(param.name).upper()}"] = value
        ctx.meta[f"scallion.{param.name}"] = value


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
