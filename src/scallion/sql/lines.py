"""The file that a thread is exported to: JSON lines, in plain ASCII.

    {"scallion": "thread", "format": 1, ...}     the header
    {...}                                        a record each
    {"end": 41, "digest": "..."}                 how many lines there are before it, and their hash

A file that was cut off, changed or made by a newer program is told from a whole one before anything of it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import Any

from scallion.errors import ConfigurationError, StorageError

FORMAT = 1
"""The form that this program writes, and the newest that it reads."""
IN_MEMORY = 1_000_000
"""How many bytes of a file are held in memory; what is larger lies in a temporary file."""

Record = Mapping[str, Any]
Spool = SpooledTemporaryFile[str]


def spool() -> Spool:
    """A place for a file: closing it deletes it."""
    return SpooledTemporaryFile(IN_MEMORY, "w+", encoding="ascii", errors="replace", newline="\n")


def write(file: Spool, header: Record, records: Iterable[Record]) -> None:
    """Make the file consist of these."""
    file.seek(0)
    file.truncate()
    count, digest = 0, blake2b(digest_size=16)
    for record in chain([{"scallion": "thread", "format": FORMAT, **header}], records):
        line = json.dumps(record) + "\n"
        file.write(line)
        digest.update(line.encode())
        count += 1
    file.write(json.dumps({"end": count, "digest": digest.hexdigest()}) + "\n")


def fill(file: Spool, given: Iterable[str | bytes]) -> None:
    """Add lines that came from elsewhere; empty ones mean nothing. Raises ConfigurationError for what are no lines."""
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"give the lines of an exported thread, as an open file does, not {given!r:.40}")
    for line in map(_decoded, given):
        if stripped := line.strip():
            file.write(stripped + "\n")  # `writelines` would hold all of them in memory


def _decoded(line: str | bytes) -> str:
    if not isinstance(line, str | bytes):
        raise ConfigurationError(f"the lines of an exported thread are texts or bytes, not {type(line).__name__}")
    return line if isinstance(line, str) else line.decode("ascii", "replace")


def read(file: Spool) -> Iterator[str]:
    """The lines from the first one on, each with its end."""
    file.seek(0)
    yield from file


def checked(file: Spool) -> Record:
    """The header of the file. Raises StorageError unless the file is whole and this program reads it."""
    lines = read(file)
    first = next(lines, "")
    header = _header(first)
    count, digest, last = 0, blake2b(digest_size=16), first
    for line in lines:
        digest.update(last.encode())
        count, last = count + 1, line
    end = _parsed(last)
    if count == 0 or "end" not in end:
        raise StorageError("the file of the thread is cut off: its last line is missing")
    if end != {"end": count, "digest": digest.hexdigest()}:
        raise StorageError("the file of the thread is damaged: its last line counts and hashes other lines")
    return header


def _header(line: str) -> Record:
    header = _parsed(line)
    if header.get("scallion") != "thread" or not isinstance(header.get("thread"), str):
        raise StorageError("this is not the file of an exported thread: its first line is not the header")
    if header.get("format") != FORMAT:
        raise StorageError(
            f"the file has format {header.get('format')!r}, and this program reads {FORMAT}: run "
            "`pip install --upgrade scallion`"
        )
    return header


def records(file: Spool) -> Iterator[dict[str, Any]]:
    """The records of a file that was checked."""
    lines = read(file)
    next(lines)
    for line in lines:
        record: dict[str, Any] = json.loads(line)
        if "end" not in record:
            yield record


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
