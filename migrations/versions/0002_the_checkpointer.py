"""The keyring, which names the keys of a database, and indexes for every way to list sessions and approvals.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

tables = context.config.attributes["tables"]
p, schema = tables.prefix, tables.schema
BIN = "utf8mb4_bin"


def upgrade() -> None:
    """Add what is missing."""
    keyring()
    session_tags()
    for name, (table, columns) in INDEXES.items():
        index(name, table, columns)
    drop_index("session_tags_tag", "session_tags")


def downgrade() -> None:
    """Drop it again."""
    op.drop_table(f"{p}keyring", schema=schema)
    index("session_tags_tag", "session_tags", ["tag", "session"])
    for name, (table, _) in INDEXES.items():
        drop_index(name, table)
    for table, column in TIMES:
        op.drop_column(f"{p}{table}", column, schema=schema)


INDEXES = {
    "sessions_created": ("sessions", ["created", "no"]),
    "sessions_status_created": ("sessions", ["status", "created", "no"]),
    "sessions_owner_created": ("sessions", ["owner", "created", "no"]),
    "session_tags_created": ("session_tags", ["tag", "created", "session"]),
    "session_tags_updated": ("session_tags", ["tag", "updated", "session"]),
    "approvals_open": ("approvals", ["session", "status", "no"]),
    "approvals_tool": ("approvals", ["tool", "status", "no"]),
    "approvals_kind": ("approvals", ["kind", "status", "no"]),
}
TIMES = (("session_tags", "created"), ("session_tags", "updated"), ("sessions", "tag_count"))
"""Columns for tags: the times of their session, and how many there are."""


def exact(length: int) -> Any:
    own = sa.String(length).with_variant(mysql.VARCHAR(length, collation=BIN), "mysql", "mariadb")
    return own.with_variant(sa.String(length, collation="C"), "postgresql")


def create(name: str, *parts: Any, **options: Any) -> None:
    """One table, unless a crash on a database without transactional DDL left it there."""
    if context.is_offline_mode() or not sa.inspect(op.get_bind()).has_table(f"{p}{name}", schema):
        op.create_table(f"{p}{name}", *parts, schema=schema, **options)


def keyring() -> None:
    create(
        "keyring",
        sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", exact(32), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("no"),
        sqlite_with_rowid=False,
    )


def there(find: str, table: str) -> list[str]:
    """The names of the columns or indexes that a table has; of none, where only SQL is printed."""
    if context.is_offline_mode():
        return []
    inspector = sa.inspect(op.get_bind())
    return [one["name"] for one in getattr(inspector, find)(f"{p}{table}", schema)]


def index(name: str, table: str, columns: list[str]) -> None:
    if f"{p}{name}" not in there("get_indexes", table):
        op.create_index(f"{p}{name}", f"{p}{table}", columns, schema=schema)


def drop_index(name: str, table: str) -> None:
    if context.is_offline_mode() or f"{p}{name}" in there("get_indexes", table):
        op.drop_index(f"{p}{name}", f"{p}{table}", schema=schema)


def session_tags() -> None:
    for table, column in TIMES:
        if column not in there("get_columns", table):
            kind = sa.Integer() if column == "tag_count" else sa.BigInteger()
            op.add_column(f"{p}{table}", sa.Column(column, kind, server_default="0", nullable=False), schema=schema)
    s = sa.table(f"{p}sessions", *map(sa.column, ("no", "created", "updated", "tag_count")), schema=schema)
    g = sa.table(f"{p}session_tags", *map(sa.column, ("session", "created", "updated")), schema=schema)
    times = {
        name: sa.select(s.c[name]).where(s.c.no == g.c.session).scalar_subquery() for name in ("created", "updated")
    }
    op.execute(sa.update(g).values(times))
    count = sa.select(sa.func.count()).select_from(g).where(g.c.session == s.c.no).scalar_subquery()
    op.execute(sa.update(s).values(tag_count=count))
