"""The tables of the books: standing rules, the audit, the outbox."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table

from scallion.sql.columns import exact, number, session_column, text


def rules(metadata: MetaData, prefix: str) -> Table:
    """Standing approvals and denials of tools."""
    return Table(
        f"{prefix}rules",
        metadata,
        Column("no", number(), primary_key=True, autoincrement=True),
        Column("tool", exact(255), nullable=False),
        Column("thread", exact(255)),
        Column("owner", exact(255)),
        Column("verdict", String(16), nullable=False),
        Column("pattern", text(), nullable=False),
        Column("created", BigInteger, nullable=False),
        Column("created_by", exact(255), nullable=False),
        Column("expires", BigInteger),
        Column("left", BigInteger),
        Column("used", BigInteger, nullable=False),
        Column("revoked", BigInteger),
        Column("revoked_by", exact(255)),
        Index(f"{prefix}rules_tool", "tool", "revoked", "no"),
        sqlite_autoincrement=True,
    )


def audit(metadata: MetaData, prefix: str) -> Table:
    """What was decided and done, as a chain of hashes."""
    return Table(
        f"{prefix}audit",
        metadata,
        Column("no", BigInteger, primary_key=True, autoincrement=False),
        Column("at", BigInteger, nullable=False),
        Column("event", String(32), nullable=False),
        Column("thread", exact(255), nullable=False),
        Column("subject", exact(64)),
        Column("by", exact(255)),
        Column("detail", text(), nullable=False),
        Column("hash", exact(64), nullable=False),
        Index(f"{prefix}audit_thread", "thread", "no"),
    )


def audit_head(metadata: MetaData, prefix: str) -> Table:
    """The last number and hash of the audit."""
    return Table(
        f"{prefix}audit_head",
        metadata,
        Column("no", Integer, primary_key=True, autoincrement=False),  # always 1: there is one chain
        Column("last", BigInteger, nullable=False),
        Column("hash", exact(64), nullable=False),
        sqlite_with_rowid=False,
    )


def outbox(metadata: MetaData, prefix: str) -> Table:
    """What somebody is to be told."""
    return Table(
        f"{prefix}outbox",
        metadata,
        Column("no", number(), primary_key=True, autoincrement=True),
        session_column(prefix),
        Column("subject", exact(64), nullable=False),
        Column("event", String(32), nullable=False),
        Column("status", String(16), nullable=False),
        Column("created", BigInteger, nullable=False),
        Column("due", BigInteger),  # null unless it waits
        Column("attempts", Integer, nullable=False),
        Column("delivered", BigInteger),
        Column("error", text()),
        Index(f"{prefix}outbox_due", "due", "no"),
        Index(f"{prefix}outbox_status", "status", "no"),
        Index(f"{prefix}outbox_session", "session", "subject"),
        sqlite_autoincrement=True,
    )
