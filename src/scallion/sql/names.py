"""Names that every database holds alike, so that a thread can be moved from one to another.

What one of them would refuse, or cut, is refused everywhere, before anything is written. What is no text becomes one
or is refused, before anything is compared with it: to MySQL the number 7 and the text "7 of 9" are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scallion.approvals import naming
from scallion.approvals.deciders import check_name
from scallion.errors import ConfigurationError, StorageError

LENGTHS = {
    "checkpoint namespace": 512, "checkpoint id": 64, "run_id": 64, "task id": 64, "approval id": 64, "turn id": 64,
    "tag": 100, "kind": 32, "type of a value": 32, "title": 1_000, "preview": 1_000, "task path": 100_000,
}  # fmt: skip
"""How many characters a database holds of these; 255 of all others."""
KEYS = ("thread id", "owner", "tag")
"""What is told apart by its name alone: none of them ends in a space, which MariaDB and MySQL do not compare."""


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
    if type(given) is str:
        check(what, given)
        return given
    found = naming.as_text(what, given)
    check(what, found)
    return found


def optional(what: str, given: object) -> str | None:
    """As `text`, where None is none."""
    return None if given is None else text(what, given)


def somebody(metadata: Mapping[str, Any], key: str) -> str | None:
    """Who stands there: the name as `text`, or None for what names nobody. Raises StorageError as `text`."""
    found = naming.somebody(metadata, key)
    return None if found is None else text(key, found)


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
    length = LENGTHS.get(what, naming.LONGEST)
    if what in KEYS and isinstance(name, str) and name.endswith(" "):
        raise StorageError(f"the {what} must not end in a space: to MariaDB it is the same name without it")
    if name is None or (type(name) is str and len(name) <= length and name.isascii() and "\0" not in name):
        return
    if not isinstance(name, str):
        raise StorageError(f"the {what} is no text, but {type(name).__name__}")
    if (flaw := naming.flaw(name, length)) is not None:
        raise StorageError(f"the {what} {flaw}")


def fitting(name: str | None, length: int = 255) -> str | None:
    """The name as a database can hold it, where the exact one is kept elsewhere."""
    return name and naming.whole(name.replace("\0", "?"))[:length]
