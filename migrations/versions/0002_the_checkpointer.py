"""The keyring: which keys a database is encrypted with.

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


def downgrade() -> None:
    """Drop it again."""
    op.drop_table(f"{p}keyring", schema=schema)


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
        sa.Column("id", exact(16), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
