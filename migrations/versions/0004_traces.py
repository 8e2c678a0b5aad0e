"""Traces: what happened in a turn, a row for each part of it.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

tables = context.config.attributes["tables"]
p, schema = tables.prefix, tables.schema
BIN = "utf8mb4_bin"


def upgrade() -> None:
    """Make the table, unless a crash on a database without transactional DDL left it there."""
    if context.is_offline_mode() or not sa.inspect(op.get_bind()).has_table(f"{p}traces", schema):
        op.create_table(f"{p}traces", *columns(), schema=schema)


def downgrade() -> None:
    """Drop it again."""
    op.drop_table(f"{p}traces", schema=schema)


def exact(length: int) -> Any:
    own = sa.String(length).with_variant(mysql.VARCHAR(length, collation=BIN), "mysql", "mariadb")
    return own.with_variant(sa.String(length, collation="C"), "postgresql")


def columns() -> list[Any]:
    sessions = f"{schema}.{p}sessions.no" if schema else f"{p}sessions.no"
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    binary = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    return [
        sa.Column("no", number, autoincrement=True, nullable=False),
        sa.PrimaryKeyConstraint("no"),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session"], [sessions], ondelete="CASCADE"),
        sa.Column("turn", exact(64), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint", exact(64), nullable=False),
        sa.Column("data", binary, nullable=False),
        sa.UniqueConstraint("session", "turn", "part", name=f"{p}traces_part"),
    ]
