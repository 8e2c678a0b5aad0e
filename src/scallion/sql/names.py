"""Names that every database holds alike, so that a thread can be moved from one to another.

What one of them would refuse, or cut, is refused everywhere, before anything is written. What is no text becomes one
or is refused, before anything is compared with it: to MySQL the number 7 and the text "7 of 9" are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from scallion.approvals.deciders import check_name
from scallion.errors import ConfigurationError, StorageError

LENGTHS = {
    "checkpoint namespace": 512, "checkpoint id": 64, "run_id": 64, "task id": 64, "approval id": 64, "tag": 100,
    "kind": 32, "type of a value": 32, "title": 1_000, "preview": 1_000, "task path": 100_000,
    "text to look for": 10_000,
}  # fmt: skip
"""How many characters a database holds of these; 255 of all others."""


class Address(NamedTuple):
    """What a config names: a namespace of a thread, and there a checkpoint, or None for the newest."""

    thread: str
    ns: str
    checkpoint: str | None


def address(config: Mapping[str, Any]) -> Address:
    """Where the config points. Raises ConfigurationError, StorageError as `text`."""
    place = configurable(config)
    return Address(
        text("thread id", place.get("thread_id")),
        optional("checkpoint namespace", place.get("checkpoint_ns")) or "",
        optional("checkpoint id", place.get("checkpoint_id")),
    )


def configurable(config: object) -> Mapping[str, Any]:
    """What a config says of the place; nothing where it has no such part. Raises ConfigurationError."""
    place = config.get("configurable") or {} if isinstance(config, Mapping) else None
    if not isinstance(place, Mapping):
        raise ConfigurationError('a config is a mapping such as {"configurable": {"thread_id": "t-1"}}')
    return place


def text(what: str, given: object) -> str:
    """The name as a text, which ints and UUIDs become too.

    Raises ConfigurationError for anything else, StorageError for what a database could not hold.
    """
    if isinstance(given, int | UUID) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str):
        raise ConfigurationError(f"the {what} is a text, an int or a UUID, not {type(given).__name__}")
    check(what, given)
    return str.__str__(given)  # of a text that is an enum's too, the value


def optional(what: str, given: object) -> str | None:
    """As `text`, where None is none."""
    return None if given is None else text(what, given)


def somebody(metadata: Mapping[str, Any], key: str) -> str | None:
    """Who stands there: the name as `text`, or None for what names nobody. Raises StorageError as `text`."""
    given = metadata.get(key)
    is_name = isinstance(given, str | int | UUID) and not isinstance(given, bool) and given != ""
    return text(key, given) if is_name else None


def person(what: str, given: object) -> str:
    """As `text`, of somebody who acts. Raises ConfigurationError also for what names nobody, as "" or "ana " do."""
    if isinstance(given, str):
        check_name(what, given)
    return text(what, given)


def texts(what: str, given: object) -> list[str]:
    """As `text`, of several; one alone is not meant letter by letter."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigurationError(f"give a list, though it be of one {what}, not {type(given).__name__}")
    return [text(what, one) for one in given]


def check(what: str, name: object) -> None:
    """Raise StorageError, saying which name it is, where a database could not hold it; None is no name."""
    length = LENGTHS.get(what, 255)
    if name is None:
        return
    if not isinstance(name, str):
        raise StorageError(f"the {what} is no text, but {type(name).__name__}")
    if len(name) > length:
        raise StorageError(f"the {what} has {len(name)} characters: {length} are the most that a database holds")
    if "\0" in name:
        raise StorageError(f"the {what} must not hold a NUL: PostgreSQL cannot store it")
    if name != whole(name):
        raise StorageError(f"the {what} must not hold half of a surrogate pair: it is no text in UTF-8")


def fitting(name: str | None, length: int = 255) -> str | None:
    """The name as a database can hold it, where the exact one is kept elsewhere."""
    return name and whole(name.replace("\0", "?"))[:length]


def whole(name: str) -> str:
    """The text, where half of a surrogate pair is a question mark."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()
