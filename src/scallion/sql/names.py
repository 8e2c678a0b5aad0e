"""Names that every database holds alike, so that a thread can be moved from one to another.

What one of them would refuse, or cut, is refused everywhere, before anything is written.
"""

from __future__ import annotations

from scallion.errors import StorageError


def check(what: str, name: object, length: int = 255) -> None:
    """Raise StorageError, saying which name it is, where a database could not hold it. What is no text is no name."""
    if not isinstance(name, str) or (len(name) <= length and name.isascii() and "\0" not in name):
        return
    if len(name) > length:
        raise StorageError(f"the {what} has {len(name)} characters: {length} are the most that a database holds")
    if "\0" in name:
        raise StorageError(f"the {what} must not hold a NUL: PostgreSQL cannot store it")
    if name != _whole(name):
        raise StorageError(f"the {what} must not hold half of a surrogate pair: it is no text in UTF-8")


def fitting(name: str | None, length: int = 255) -> str | None:
    """The name as a database can hold it, where the exact one is kept elsewhere."""
    return name and _whole(name.replace("\0", "?"))[:length]


def _whole(name: str) -> str:
    return name.encode("utf-8", "replace").decode()
