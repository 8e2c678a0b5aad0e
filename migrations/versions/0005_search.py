"""Search: the words of each session, how much of it they are of, and which sessions are not up to date.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

tables = context.config.attributes["tables"]
p, schema = tables.prefix, tables.schema
BIN = "utf8mb4_bin"

INDEXES = {
    "sessions_unindexed": ("sessions", ["unindexed", "no"]),
    "words_word": ("words", ["word", "session"]),
}


def upgrade() -> None:
    """Add what is missing. Nothing is indexed yet: whoever searches first does it, or `scallion db index`."""
    if "unindexed" not in there("get_columns", "sessions"):
        column = sa.Column("unindexed", sa.BigInteger(), server_default="1")
        op.add_column(f"{p}sessions", column, schema=schema)
    create("words", "word", sa.Column("word", exact(64), nullable=False), sa.Column("item", sa.BigInteger()))
    create("indexed", None, sa.Column("seen", binary(), nullable=False))
    for name, (table, columns) in INDEXES.items():
        if f"{p}{name}" not in there("get_indexes", table):
            op.create_index(f"{p}{name}", f"{p}{table}", columns, schema=schema)


def downgrade() -> None:
    """Drop it again."""
    op.drop_index(f"{p}sessions_unindexed", f"{p}sessions", schema=schema)
    for table in ("words", "indexed"):
        op.drop_table(f"{p}{table}", schema=schema)
    op.drop_column(f"{p}sessions", "unindexed", schema=schema)


def exact(length: int) -> Any:
    own = sa.String(length).with_variant(mysql.VARCHAR(length, collation=BIN), "mysql", "mariadb")
    return own.with_variant(sa.String(length, collation="C"), "postgresql")


def binary() -> Any:
    return sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")


def create(name: str, key: str | None, *columns: Any) -> None:
    """A table of sessions, unless a crash on a database without transactional DDL left it there."""
    if not context.is_offline_mode() and sa.inspect(op.get_bind()).has_table(f"{p}{name}", schema):
        return
    sessions = f"{schema}.{p}sessions.no" if schema else f"{p}sessions.no"
    op.create_table(
        f"{p}{name}",
        sa.Column("session", sa.BigInteger(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("session", *filter(None, [key])),
        sa.ForeignKeyConstraint(["session"], [sessions], ondelete="CASCADE"),
        schema=schema,
        sqlite_with_rowid=False,
    )


def there(find: str, table: str) -> list[str]:
    """The names of the columns or indexes that a table has; of none, where only SQL is printed."""
    if context.is_offline_mode():
        return []
    inspector = sa.inspect(op.get_bind())
    return [one["name"] for one in getattr(inspector, find)(f"{p}{table}", schema)]
