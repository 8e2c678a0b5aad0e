"""The database that the environment names: SCALLION_DB, SCALLION_SCHEMA, SCALLION_PREFIX and SCALLION_KEY."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scallion.errors import StorageError

DEFAULT_DB = "sqlite:///scallion.db"


def place() -> dict[str, Any]:
    """Schema and prefix of the tables and the keys of what is in them, as Inbox and SQLCheckpointer take them."""
    named = {"schema": os.environ.get("SCALLION_SCHEMA") or None, "prefix": os.environ.get("SCALLION_PREFIX", "")}
    return named | {"key": keys()}


def keys() -> list[str] | None:
    """The keys in SCALLION_KEY, with commas between them; None where there are none.

    They never come from an option: what is typed is kept, and seen by others.
    """
    return [key for key in os.environ.get("SCALLION_KEY", "").split(",") if key.strip()] or None


def database(url: str | None = None) -> str:
    """This URL, or that of the environment. Raises StorageError for a file that is not there: looking would make it."""
    url = url or os.environ.get("SCALLION_DB") or DEFAULT_DB
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
