"""What is said about an error: one line, without a traceback and without texts of a conversation."""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

import click

from scallion.errors import AlreadyDecided, ConfigurationError, ScallionError, SchemaError
from scallion.inspect.escape import one_line

DONE, ERROR, PAUSED = 0, 1, 3
"""The exit statuses; click's own for wrong usage is 2."""


def failed(text: str) -> int:
    """Say it on standard error and return the exit status."""
    click.echo(f"error: {one_line(text)}", err=True)
    return ERROR


def describe(error: Exception) -> str:
    """The text of our own errors; where an unexpected one happened, as its text may hold anything."""
    if os.environ.get("SCALLION_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, AlreadyDecided) and error.at is not None:
        return f"{error}, {error.at.isoformat(timespec='seconds')}"
    if isinstance(error, ScallionError):
        return spoken(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"unexpected {type(error).__name__}{place}; set SCALLION_TRACEBACK=1 to see all of it"


def spoken(error: ScallionError) -> str:
    """The text of an error of ours; what it says of arguments, in the words of the command line."""
    if not isinstance(error, ConfigurationError | SchemaError):
        return str(error)
    return re.sub(r"\b(prefix|schema)=(\.\.\.)?", r"--\1", str(error))
