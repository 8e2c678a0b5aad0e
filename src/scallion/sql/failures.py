"""What a failing database becomes: another try, or an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import DBAPIError

from scallion.errors import StorageError
from scallion.sql import sqlite

ATTEMPTS = 10
"""How often a transaction is tried that the database gives up to end a deadlock."""


@contextmanager
def told(attempt: int) -> Iterator[None]:
    """An error of the database without the statement and its parameters, which may hold anything.

    A transaction that the database gave up for another one's sake is left for the next attempt.
    """
    try:
        yield
    except (DBAPIError, sqlite.Error) as error:
        original: Any = error.orig if isinstance(error, DBAPIError) else error
        if _was_victim(original) and attempt < ATTEMPTS - 1:
            return
        first = str(original).splitlines()[0] if original and str(original) else ""
        raise StorageError(f"the database refused: {type(original).__name__}: {first}") from original
    except UnicodeEncodeError:
        raise StorageError("the database cannot hold a text with half of a surrogate pair") from None
    except OSError as error:
        raise StorageError(
            f"the database cannot be reached: {type(error).__name__}: {error.strerror or error}"
        ) from error


def _was_victim(original: Any) -> bool:
    """Whether the database ended the transaction because of a deadlock or a conflict, so that another try helps."""
    if getattr(original, "sqlstate", None) in ("40001", "40P01"):
        return True
    arguments: Any = getattr(original, "args", ())
    return bool(arguments) and arguments[0] in (1205, 1213)
