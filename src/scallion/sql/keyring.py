"""The keyring: a database knows the key that it is encrypted with, so that a wrong or missing one is noticed at once.

It is looked at when a database is opened and with every write, so that a change of the key reaches whoever runs.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, select, update

from scallion.errors import WrongKey
from scallion.sql.cipher import DECRYPTING
from scallion.sql.prepared import prepared
from scallion.sql.tables import Tables


def check(conn: Connection, t: Tables) -> bool:
    """Whether the keys are those of the database; False if it is empty and has none yet. Raises WrongKey."""
    there = current(conn, t)
    if there is not None or t.cipher.has(None):
        if not t.cipher.has(there):  # what a read saw may be over: only who holds the key turns to it
            require(there, t)
        return True
    if conn.execute(select(t.sessions.c.no).limit(1)).first():
        raise WrongKey("the database holds values that are not encrypted: `scallion db rekey` encrypts them")
    return False


def current(conn: Connection, t: Tables) -> str | None:
    """The id of the key that new values are sealed with; None in a database without keys."""
    found: str | None = conn.execute(select(t.keyring.c.id)).scalar()
    return found


def hold(conn: Connection, t: Tables) -> None:
    """As `require`, for the key that is there, which stays until the transaction ends."""
    found: str | None = conn.execute(select(t.keyring.c.id).with_for_update(read=True)).scalar()
    require(found, t)


def require(there: str | None, t: Tables) -> None:
    """Have new values sealed with the key of this id. Raises WrongKey unless it is given."""
    if t.cipher.turn_to(there):
        return
    if there is None:
        raise WrongKey("the database is not encrypted any more: open it without a key")
    if there.startswith(DECRYPTING):
        raise WrongKey("the database is being decrypted: wait, or run `scallion db rekey --decrypt` again")
    if not t.cipher.ids:
        raise WrongKey("the database is encrypted: give key=..., or set SCALLION_KEY for the commands")
    raise WrongKey(f"the database is encrypted with key {there}, which is not given; given: {', '.join(t.cipher.ids)}")


def begin(conn: Connection, t: Tables, now: Any) -> None:
    """Give an empty database its first key, unless somebody else was first."""
    _add(conn, t, now)
    require(current(conn, t), t)


def put(conn: Connection, t: Tables, now: Any) -> None:
    """From here on new values are sealed with the cipher's own key, by everybody; nobody may write without it."""
    if t.cipher.current is None:
        conn.execute(delete(t.keyring))
    else:
        _add(conn, t, now)
        conn.execute(update(t.keyring).values(id=t.cipher.current, since=now))


def _add(conn: Connection, t: Tables, now: Any) -> None:
    conn.execute(prepared(conn, t).unless_there(t.keyring).values(no=1, id=t.cipher.current, since=now))
