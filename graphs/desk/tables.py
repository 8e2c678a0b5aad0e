"""The desk's own SQLite tables: orders, refunds, and an outbox in place of a mail server.

Amounts are integer cents here. The database is the file `SCALLION_DESK_DB` (default `refund_desk.db`), made and filled
with a few orders when it is first used.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

SCHEMA = """
create table if not exists orders (
    id integer primary key, customer text not null, email text not null, item text not null,
    cents integer not null, ordered_on text not null
);
create table if not exists refunds (
    id integer primary key, order_id integer not null references orders (id), cents integer not null check (cents > 0),
    reason text not null, made_at text not null default current_timestamp
);
create table if not exists outbox (
    id integer primary key, recipient text not null, subject text not null, body text not null,
    sent_at text not null default current_timestamp
);
"""

ORDERS = [
    (1041, "Bo Lindqvist", "bo@example.com", "Cast-iron pan", 4_500, "2026-11-02"),
    (1042, "Mira Okafor", "mira@example.com", "Espresso machine", 18_900, "2026-11-12"),
    (1043, "Teun de Wit", "teun@example.com", "Linen apron", 3_250, "2026-11-18"),
    (1044, "Ana Ruiz", "ana@example.com", "Chef's knife", 7_999, "2026-11-21"),
]


@contextmanager
def connect() -> Iterator[sqlite3.Connection]:
    """A connection whose writes are committed at the end, all or none."""
    path = os.environ.get("SCALLION_DESK_DB", "refund_desk.db")
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("pragma foreign_keys = on")
        connection.executescript(SCHEMA)
        with connection:
            connection.execute("begin immediate")
            connection.executemany("insert or ignore into orders values (?, ?, ?, ?, ?, ?)", ORDERS)
            yield connection


def orders() -> list[sqlite3.Row]:
    """Every order with `refunded`, the cents that were given back so far."""
    with connect() as connection:
        return connection.execute(_ORDERS + " order by orders.id").fetchall()


def order(order_id: int) -> sqlite3.Row:
    """One order, as in `orders`; LookupError if there is none."""
    with connect() as connection:
        return _order(connection, order_id)


def refund(order_id: int, cents: int | None, reason: str) -> tuple[int, int]:
    """Give back `cents`, or all that is left: the number of the refund and its cents.

    ValueError if that is more than what is left.
    """
    with connect() as connection:
        found = _order(connection, order_id)
        left = found["cents"] - found["refunded"]
        cents = left if cents is None else cents
        if not 0 < cents <= left:
            raise ValueError(f"order {order_id} has {euros(left)} left to refund, not {euros(cents)}")
        row = (order_id, cents, reason)
        cursor = connection.execute("insert into refunds (order_id, cents, reason) values (?, ?, ?)", row)
        return int(cursor.lastrowid or 0), cents


def send(recipient: str, subject: str, body: str) -> int:
    """Put an e-mail into the outbox: its number there."""
    with connect() as connection:
        row = (recipient, subject, body)
        cursor = connection.execute("insert into outbox (recipient, subject, body) values (?, ?, ?)", row)
        return int(cursor.lastrowid or 0)


def euros(cents: int) -> str:
    """The amount for people, such as `189.00 EUR`."""
    return f"{cents / 100:.2f} EUR"


_ORDERS = """
    select orders.*, coalesce((select sum(cents) from refunds where order_id = orders.id), 0) as refunded from orders
"""


def _order(connection: sqlite3.Connection, order_id: int) -> sqlite3.Row:
    found: sqlite3.Row | None = connection.execute(_ORDERS + " where orders.id = ?", (order_id,)).fetchone()
    if found is None:
        raise LookupError(f"there is no order {order_id}")
    return found
