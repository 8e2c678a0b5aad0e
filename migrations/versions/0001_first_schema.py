"""The first schema: sessions, tags, items, checkpoints, entries, writes, approvals.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

tables = context.config.attributes["tables"]
p, schema = tables.prefix, tables.schema
BIN = "utf8mb4_bin"


def upgrade() -> None:
    """Create every table."""
    sessions()
    session_tags()
    items()
    checkpoints()
    entries()
    writes()
    approvals()


def downgrade() -> None:
    """Drop every table."""
    for name in ("approvals", "writes", "entries", "checkpoints", "items", "session_tags", "sessions"):
        op.drop_table(f"{p}{name}", schema=schema)


def exact(length: int) -> Any:
    own = sa.String(length).with_variant(mysql.VARCHAR(length, collation=BIN), "mysql", "mariadb")
    return own.with_variant(sa.String(length, collation="C"), "postgresql")


def number() -> Any:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def binary() -> Any:
    return sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")


def text() -> Any:
    return sa.Text().with_variant(mysql.LONGTEXT(collation=BIN), "mysql", "mariadb")


def digest() -> Any:
    return sa.LargeBinary().with_variant(mysql.VARBINARY(16), "mysql", "mariadb")


def session() -> Any:
    sessions = f"{schema}.{p}sessions" if schema else f"{p}sessions"
    return sa.Column("session", sa.BigInteger(), sa.ForeignKey(f"{sessions}.no", ondelete="CASCADE"), nullable=False)


def create(name: str, *parts: Any, **options: Any) -> None:
    """One table, unless a crash on a database without transactional DDL left it there."""
    if context.is_offline_mode() or not sa.inspect(op.get_bind()).has_table(f"{p}{name}", schema):
        op.create_table(f"{p}{name}", *parts, schema=schema, **options)


def index(name: str, table: str, columns: list[str], **options: Any) -> None:
    """One index, unless it is there."""
    there = [] if context.is_offline_mode() else sa.inspect(op.get_bind()).get_indexes(f"{p}{table}", schema)
    if f"{p}{name}" not in [one["name"] for one in there]:
        op.create_index(f"{p}{name}", f"{p}{table}", columns, schema=schema, **options)


def sessions() -> None:
    create(
        "sessions",
        sa.Column("no", number(), autoincrement=True, nullable=False),
        sa.Column("thread", exact(255), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("progress", sa.String(16), nullable=False),
        sa.Column("owner", exact(255), nullable=True),
        sa.Column("agent", exact(255), nullable=True),
        sa.Column("title", text(), nullable=True),
        sa.Column("preview", text(), nullable=True),
        sa.Column("message_count", sa.Integer(), nullable=False),
        sa.Column("pending_count", sa.Integer(), nullable=False),
        sa.Column("open_count", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("head", exact(64), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("item_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("no"),
        sa.UniqueConstraint("thread", name=f"{p}sessions_thread"),
        sqlite_autoincrement=True,
    )
    index("sessions_owner", "sessions", ["owner", "updated", "no"])
    index("sessions_status", "sessions", ["status", "updated", "no"])
    index("sessions_updated", "sessions", ["updated", "no"])


def session_tags() -> None:
    create(
        "session_tags",
        session(),
        sa.Column("tag", exact(100), nullable=False),
        sa.PrimaryKeyConstraint("session", "tag"),
        sqlite_with_rowid=False,
    )
    index("session_tags_tag", "session_tags", ["tag", "session"])


def items() -> None:
    create(
        "items",
        session(),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", digest(), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("data", binary(), nullable=False),
        sa.PrimaryKeyConstraint("session", "id"),
        sa.UniqueConstraint("session", "hash", name=f"{p}items_hash"),
    )


def checkpoints() -> None:
    create(
        "checkpoints",
        session(),
        sa.Column("ns", exact(512), nullable=False),
        sa.Column("id", exact(64), nullable=False),
        sa.Column("parent", exact(64), nullable=True),
        sa.Column("form", sa.BigInteger(), nullable=False),
        sa.Column("leaves", binary(), nullable=False),
        sa.Column("metadata", text(), nullable=False),
        sa.Column("run", exact(64), nullable=True),
        sa.PrimaryKeyConstraint("session", "ns", "id"),
        sqlite_with_rowid=False,
    )
    index("checkpoints_run", "checkpoints", ["run"], sqlite_where=sa.text("run IS NOT NULL"))


def entries() -> None:
    create(
        "entries",
        session(),
        sa.Column("channel", exact(255), nullable=False),
        sa.Column("pos", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("item", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session", "channel", "pos"),
        sqlite_with_rowid=False,
    )


def writes() -> None:
    create(
        "writes",
        session(),
        sa.Column("ns", exact(512), nullable=False),
        sa.Column("checkpoint", exact(64), nullable=False),
        sa.Column("task", exact(64), nullable=False),
        sa.Column("path", text(), nullable=False),
        sa.Column("leaves", binary(), nullable=False),
        sa.PrimaryKeyConstraint("session", "ns", "checkpoint", "task"),
        sqlite_with_rowid=False,
    )


def approvals() -> None:
    create(
        "approvals",
        sa.Column("no", number(), autoincrement=True, nullable=False),
        session(),
        sa.Column("id", exact(64), nullable=False),
        sa.Column("ns", exact(512), nullable=False),
        sa.Column("checkpoint", exact(64), nullable=False),
        sa.Column("root", exact(64), nullable=False),
        sa.Column("task", exact(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("owner", exact(255), nullable=True),
        sa.Column("requested_by", exact(255), nullable=True),
        sa.Column("tool", exact(255), nullable=True),
        sa.Column("payload", text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.Column("decision", text(), nullable=True),
        sa.Column("decided_by", exact(255), nullable=True),
        sa.Column("decided", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("no"),
        sa.UniqueConstraint("session", "id", name=f"{p}approvals_session"),
        sqlite_autoincrement=True,
    )
    index("approvals_id", "approvals", ["id"])
    index("approvals_owner", "approvals", ["owner", "status", "no"])
    index("approvals_status", "approvals", ["status", "no"])
