"""The keyring: a database knows which keys it is encrypted with, so that a wrong or missing one is noticed at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, delete, select

from scallion.errors import WrongKey
from scallion.sql.prepared import prepared
from scallion.sql.tables import Tables


def check(conn: Connection, t: Tables) -> bool:
    """Whether the keys are those of the database; False if the first of them is to be added. Raises WrongKey."""
    there, given = require(conn, t), t.cipher.ids
    if given and not there and conn.execute(select(t.sessions.c.no).limit(1)).first():
        raise WrongKey("the database holds values that are not encrypted: `scallion db rekey` encrypts them")
    return not given or given[0] in there


def require(conn: Connection, t: Tables) -> Collection[str]:
    """The ids of the keys that values are encrypted with. Raises WrongKey unless each of them is given."""
    there, given = list(conn.execute(select(t.keyring.c.id)).scalars()), t.cipher.ids
    missing = sorted(set(there) - set(given))
    if missing and not given:
        raise WrongKey("the database is encrypted: give key=..., or set SCALLION_KEY for the commands")
    if missing:
        raise WrongKey(f"the database is encrypted with {_told(missing)}, which is not given ({_told(given)} is)")
    return there


def add(conn: Connection, t: Tables, now: Any) -> None:
    """Write down that new values are sealed with the first key."""
    if t.cipher.ids:
        conn.execute(prepared(conn, t).unless_there(t.keyring).values(id=t.cipher.ids[0], since=now))


def keep_only(conn: Connection, t: Tables) -> None:
    """Forget all keys but the first: nothing is sealed with them any more."""
    conn.execute(delete(t.keyring).where(t.keyring.c.id.not_in(list(t.cipher.ids[:1]))))


def _told(ids: Collection[str]) -> str:
    return f"key {', '.join(ids)}" if len(ids) == 1 else f"keys {', '.join(ids)}"
