"""Leases, votes, effects, standing rules, the audit, the outbox, and messages that wait for a pause to end.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

tables = context.config.attributes["tables"]
p, schema = tables.prefix, tables.schema
BIN = "utf8mb4_bin"


def upgrade() -> None:
    """Add what is missing."""
    for table, columns in added().items():
        for column in columns:
            if column.name not in there("get_columns", table):
                op.add_column(f"{p}{table}", column, schema=schema)
    for table, (parts, options) in created().items():
        create(table, *parts, **options)
    for name, (table, columns) in INDEXES.items():
        if f"{p}{name}" not in there("get_indexes", table):
            op.create_index(f"{p}{name}", f"{p}{table}", columns, schema=schema)


def downgrade() -> None:
    """Drop it again."""
    op.drop_index(f"{p}approvals_expires", f"{p}approvals", schema=schema)
    for table in created():
        op.drop_table(f"{p}{table}", schema=schema)
    for table, columns in added().items():
        for column in columns:
            op.drop_column(f"{p}{table}", column.name, schema=schema)


INDEXES = {
    "approvals_expires": ("approvals", ["status", "expires", "no"]),
    "rules_tool": ("rules", ["tool", "revoked", "no"]),
    "audit_thread": ("audit", ["thread", "no"]),
    "outbox_due": ("outbox", ["due", "no"]),
    "outbox_status": ("outbox", ["status", "no"]),
    "outbox_session": ("outbox", ["session", "subject"]),
    "inbound_session": ("inbound", ["session", "no"]),
}


def exact(length: int) -> Any:
    own = sa.String(length).with_variant(mysql.VARCHAR(length, collation=BIN), "mysql", "mariadb")
    return own.with_variant(sa.String(length, collation="C"), "postgresql")


def text() -> Any:
    return sa.Text().with_variant(mysql.LONGTEXT(collation=BIN), "mysql", "mariadb")


def binary() -> Any:
    return sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")


def number() -> Any:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def counted() -> list[Any]:
    return [sa.Column("no", number(), autoincrement=True, nullable=False), sa.PrimaryKeyConstraint("no")]


def session(*key: str) -> list[Any]:
    """The column, its foreign key, and the primary key that begins with it."""
    name = f"{schema}.{p}sessions.no" if schema else f"{p}sessions.no"
    own = [
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session"], [name], ondelete="CASCADE"),
    ]
    return [*own, sa.PrimaryKeyConstraint("session", *key)] if key else own


def added() -> dict[str, list[Any]]:
    return {
        "sessions": [
            sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
            sa.Column("holder", exact(255)),
            sa.Column("held_since", sa.BigInteger()),
            sa.Column("held_until", sa.BigInteger()),
            sa.Column("asked_to_stop", sa.BigInteger()),
        ],
        "approvals": [sa.Column("escalated", exact(255)), sa.Column("on_expire", exact(255))],
    }


def created() -> dict[str, tuple[list[Any], dict[str, bool]]]:
    """Each table: its parts and options."""
    keyed, numbered = {"sqlite_with_rowid": False}, {"sqlite_autoincrement": True}
    return {
        "votes": (
            [
                *session("approval", "by"),
                sa.Column("approval", exact(64), nullable=False),
                sa.Column("by", exact(255), nullable=False),
                sa.Column("decision", text(), nullable=False),
                sa.Column("at", sa.BigInteger(), nullable=False),
            ],
            keyed,
        ),
        "effects": (
            [
                *session("call", "attempt"),
                sa.Column("call", exact(64), nullable=False),
                sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
                sa.Column("args", exact(64), nullable=False),
                sa.Column("key", exact(64), nullable=False),
                sa.Column("tool", exact(255), nullable=False),
                sa.Column("status", sa.String(16), nullable=False),
                sa.Column("fence", sa.BigInteger(), nullable=False),
                sa.Column("begun", sa.BigInteger(), nullable=False),
                sa.Column("ended", sa.BigInteger()),
                sa.Column("result", binary()),
            ],
            keyed,
        ),
        "rules": (
            [
                *counted(),
                sa.Column("tool", exact(255), nullable=False),
                sa.Column("thread", exact(255)),
                sa.Column("owner", exact(255)),
                sa.Column("verdict", sa.String(16), nullable=False),
                sa.Column("pattern", text(), nullable=False),
                sa.Column("created", sa.BigInteger(), nullable=False),
                sa.Column("created_by", exact(255), nullable=False),
                sa.Column("expires", sa.BigInteger()),
                sa.Column("left", sa.BigInteger()),
                sa.Column("used", sa.BigInteger(), nullable=False),
                sa.Column("revoked", sa.BigInteger()),
                sa.Column("revoked_by", exact(255)),
            ],
            numbered,
        ),
        "audit": (
            [
                sa.Column("no", sa.BigInteger(), autoincrement=False, nullable=False),
                sa.PrimaryKeyConstraint("no"),
                sa.Column("at", sa.BigInteger(), nullable=False),
                sa.Column("event", sa.String(32), nullable=False),
                sa.Column("thread", exact(255), nullable=False),
                sa.Column("subject", exact(64)),
                sa.Column("by", exact(255)),
                sa.Column("detail", text(), nullable=False),
                sa.Column("hash", exact(64), nullable=False),
            ],
            {},
        ),
        "audit_head": (
            [
                sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
                sa.PrimaryKeyConstraint("no"),
                sa.Column("last", sa.BigInteger(), nullable=False),
                sa.Column("hash", exact(64), nullable=False),
            ],
            keyed,
        ),
        "outbox": (
            [
                *counted(),
                *session(),
                sa.Column("subject", exact(64), nullable=False),
                sa.Column("event", sa.String(32), nullable=False),
                sa.Column("status", sa.String(16), nullable=False),
                sa.Column("created", sa.BigInteger(), nullable=False),
                sa.Column("due", sa.BigInteger()),
                sa.Column("attempts", sa.Integer(), nullable=False),
                sa.Column("delivered", sa.BigInteger()),
                sa.Column("error", text()),
            ],
            numbered,
        ),
        "inbound": (
            [
                *counted(),
                *session(),
                sa.Column("created", sa.BigInteger(), nullable=False),
                sa.Column("by", exact(255)),
                sa.Column("message", binary(), nullable=False),
            ],
            numbered,
        ),
    }


def create(name: str, *parts: Any, **options: Any) -> None:
    """One table, unless a crash on a database without transactional DDL left it there."""
    if context.is_offline_mode() or not sa.inspect(op.get_bind()).has_table(f"{p}{name}", schema):
        op.create_table(f"{p}{name}", *parts, schema=schema, **options)


def there(find: str, table: str) -> list[str]:
    """The names of the columns or indexes that a table has; of none, where only SQL is printed."""
    if context.is_offline_mode():
        return []
    inspector = sa.inspect(op.get_bind())
    return [one["name"] for one in getattr(inspector, find)(f"{p}{table}", schema)]
