"""Who somebody is, and how a thread is called: a text, which ints and UUIDs become too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from scallion.errors import ConfigurationError, ThreadError

LONGEST = 255
"""Characters of a name that every database holds."""


def as_text(what: str, given: object) -> str:
    """The name as a text. Raises ConfigurationError for what is none."""
    if not _is_name(given):
        raise ConfigurationError(f"the {what} is a text, an int or a UUID, not {type(given).__name__}")
    return str.__str__(given if isinstance(given, str) else str(given))  # of a text that is an enum's too, the value


def somebody(metadata: Mapping[str, Any], key: str) -> str | None:
    """Who stands there; None for what names nobody."""
    given = metadata.get(key)
    return as_text(key, given) if _is_name(given) and given != "" else None


def check_owner(thread: str, whose: str | None, owner: str | None) -> None:
    """Raise ThreadError where the thread is not the owner's; one of nobody, and a look for nobody, passes."""
    if owner is not None and whose not in (None, owner):
        raise ThreadError(thread, f"thread {thread!r} belongs to another owner")


def _is_name(given: object) -> bool:
    return isinstance(given, str | int | UUID) and not isinstance(given, bool)


def flaw(name: str, longest: int = LONGEST) -> str | None:
    """Why a database could not hold the name; None where each holds it as it is."""
    if len(name) > longest:
        return f"has {len(name)} characters: {longest} are the most that a database holds"
    if "\0" in name:
        return "must not hold a NUL: PostgreSQL cannot store it"
    if name != whole(name):
        return "must not hold half of a surrogate pair: it is no text in UTF-8"
    return None


def whole(name: str) -> str:
    """The text, where half of a surrogate pair is a question mark."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


def user_of(given: object) -> str:
    """Who speaks, as a text. Raises ConfigurationError for what is none, or what no database could hold."""
    user = as_text("user", given)
    if (why := flaw(user)) is not None:
        raise ConfigurationError(f"the user {why}")
    return user
