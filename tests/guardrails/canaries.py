"""Looking for what must not be anywhere: in the files of a database, in errors with their causes."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from langchain_core.load import dumps
from scenes import whole

EMAIL = "canary.ana@raw-leak.example.com"
CARD = "4111 1111 1111 1111"
ANSWERED = "canary.bob@raw-leak.example.org"
"""What the model says of itself."""
CALLED = "canary.cat@raw-leak.example.net"
"""What the model calls a tool with."""
FETCHED = "canary.dan@raw-leak.example.info"
"""What a tool gives."""
BIG = 5555555555554444
"""A card number as a number."""
CANARIES = (EMAIL, CARD, ANSWERED, CALLED, FETCHED, str(BIG))
MARK = "raw-leak"


def forms(canary: str) -> set[bytes]:
    """How a text may stand in a file."""
    escaped = json.dumps(canary)[1:-1]
    return {canary.encode(), canary.encode("utf-16-le"), canary.encode().hex().encode(), escaped.encode()}


def leaks(data: bytes, canaries: Iterable[str] = CANARIES) -> list[str]:
    """Which of them are in the data."""
    return [one for one in canaries if any(form in data for form in forms(one))]


def in_files(folder: Path) -> list[str]:
    """Which of them are in a file of the folder, write-ahead logs too."""
    return sorted({leak for path in folder.rglob("*") if path.is_file() for leak in leaks(path.read_bytes())})


def dumped(url: str) -> bytes:
    """Every table of a PostgreSQL database, as `pg_dump` copies it."""
    import psycopg

    parts: list[bytes] = []
    with psycopg.connect(url.replace("+psycopg", "")) as conn:
        names = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (name,) in names:
            with conn.cursor().copy(f'COPY "{name}" TO STDOUT') as copy:
                parts += [bytes(part) for part in copy]
    return b"".join(parts)


def in_values(values: Iterable[Any]) -> list[str]:
    """Which of them are in what was yielded, in any form in which it can be shown."""
    return sorted({leak for value in values for leak in leaks(_shown(value))})


def _shown(value: Any) -> bytes:
    return (whole(value) + str(value) + dumps(value, ensure_ascii=False)).encode("utf-8", "surrogatepass")


def in_error(error: BaseException) -> list[str]:
    """Which of them are in an error as a log would print it, its causes included, or in what it holds."""
    told = "".join(traceback.format_exception(error))
    held: list[Any] = []
    seen: BaseException | None = error
    while seen is not None:
        held += [seen.args, vars(seen), getattr(seen, "__notes__", ())]
        seen = seen.__cause__ or seen.__context__
    return leaks((told + repr(held)).encode("utf-8", "surrogatepass"))
