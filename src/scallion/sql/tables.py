"""The tables, as SQLAlchemy Core objects.

    sessions      one row per thread: what a listing shows, the head, the counts
    session_tags  the tags of a session, with its times, so that one tag is listed in order
    checkpoints   one row per checkpoint: shared form (an item), its numbers, metadata
    items         content-addressed values, numbered per session, shared by its checkpoints and writes
    entries       per list channel an append-only log of items; a version of the list is a few ranges of it
    writes        one row per task and checkpoint: the task's pending writes
    approvals     one row per question to a person, with its decision
    keyring       the id of the key that values are encrypted with; empty where nothing is
    votes         where several have to decide: what each of them said
    effects       per attempt at a tool call that must not be made twice: what came of it, if that is known
    rules         standing approvals and denials of tools
    audit         what was decided and done, as a chain of hashes: rows are only added
    audit_head    the last number and hash of the audit
    outbox        what somebody is to be told, until that has been done
    inbound       messages that came while their thread was paused
    traces        what happened in a turn: one row for each part, up to a pause or the end
    words         per session the words that a search finds it by
    indexed       how much of a session these are of

Instants are microseconds since 1970 in UTC: exact, ordered and alike in every database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    literal_column,
)

from scallion.errors import ConfigurationError
from scallion.sql import bookkeeping, session_tables
from scallion.sql.cipher import PLAIN, Cipher
from scallion.sql.columns import binary, digest, exact, number, session_column, text


@dataclass(frozen=True, eq=False)
class Tables:
    """All tables under one prefix in one schema (None: the connection's own); `version_table` is Alembic's.

    `cipher` seals the values in them. `tells`: whether what is asked goes into the outbox too.
    """

    prefix: str
    schema: str | None
    metadata: MetaData
    sessions: Table
    session_tags: Table
    checkpoints: Table
    items: Table
    entries: Table
    writes: Table
    approvals: Table
    keyring: Table
    votes: Table
    effects: Table
    rules: Table
    audit: Table
    audit_head: Table
    outbox: Table
    inbound: Table
    traces: Table
    words: Table
    indexed: Table
    cipher: Cipher = PLAIN
    tells: bool = False

    @property
    def belonging(self) -> list[Table]:
        """Those whose rows belong to a session."""
        return [table for table in self.metadata.tables.values() if "session" in table.c]

    @property
    def version_table(self) -> str:
        """The table that holds the schema's revision."""
        return f"{self.prefix}scallion_version"


@lru_cache
def tables(prefix: str = "", schema: str | None = None, tells: bool = False) -> Tables:
    """The tables whose names start with `prefix`, in `schema`. `tells`: as there.

    Raises ConfigurationError for what is no such name.
    """
    _check_names(prefix, schema)
    metadata = MetaData(schema=schema)  # foreign keys without a schema mean this one too
    return Tables(
        prefix,
        schema,
        metadata,
        sessions=session_tables.sessions(metadata, prefix),
        session_tags=session_tables.session_tags(metadata, prefix),
        items=_items(metadata, prefix),
        checkpoints=_checkpoints(metadata, prefix),
        entries=_entries(metadata, prefix),
        writes=_writes(metadata, prefix),
        approvals=_approvals(metadata, prefix),
        keyring=_keyring(metadata, prefix),
        votes=_votes(metadata, prefix),
        effects=_effects(metadata, prefix),
        rules=bookkeeping.rules(metadata, prefix),
        audit=bookkeeping.audit(metadata, prefix),
        audit_head=bookkeeping.audit_head(metadata, prefix),
        outbox=bookkeeping.outbox(metadata, prefix),
        inbound=_inbound(metadata, prefix),
        traces=_traces(metadata, prefix),
        words=session_tables.words(metadata, prefix),
        indexed=session_tables.indexed(metadata, prefix),
        tells=tells,
    )


def _check_names(prefix: str, schema: str | None) -> None:
    """Names of databases end at 63 bytes, and the longest of ours (with what a server adds) needs half of them."""
    if not isinstance(prefix, str) or not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]{0,31})?", prefix, re.ASCII):
        raise ConfigurationError("prefix= is at most 32 letters, digits and underscores, not beginning with a digit")
    if schema is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", str(schema), re.ASCII):
        raise ConfigurationError("schema= is at most 63 letters, digits, _ and -, not beginning with a digit")


def _items(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}items",
        metadata,
        session_column(prefix, primary_key=True),
        Column("id", BigInteger, primary_key=True, autoincrement=False),
        Column("hash", digest(), nullable=False),
        Column("type", String(32), nullable=False),
        Column("data", binary(), nullable=False),
        UniqueConstraint("session", "hash", name=f"{prefix}items_hash"),
    )


def _checkpoints(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}checkpoints",
        metadata,
        session_column(prefix, primary_key=True),
        Column("ns", exact(512), primary_key=True),
        Column("id", exact(64), primary_key=True),
        Column("parent", exact(64)),
        Column("form", BigInteger, nullable=False),
        Column("leaves", binary(), nullable=False),
        Column("metadata", text(), nullable=False),
        Column("run", exact(64)),
        Index(f"{prefix}checkpoints_run", "run", sqlite_where=literal_column("run IS NOT NULL")),
        sqlite_with_rowid=False,
    )


def _entries(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}entries",
        metadata,
        session_column(prefix, primary_key=True),
        Column("channel", exact(255), primary_key=True),
        Column("pos", BigInteger, primary_key=True, autoincrement=False),
        Column("item", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _writes(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}writes",
        metadata,
        session_column(prefix, primary_key=True),
        Column("ns", exact(512), primary_key=True),
        Column("checkpoint", exact(64), primary_key=True),
        Column("task", exact(64), primary_key=True),
        Column("path", text(), nullable=False),
        Column("leaves", binary(), nullable=False),
        sqlite_with_rowid=False,
    )


def _approvals(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}approvals",
        metadata,
        Column("no", number(), primary_key=True, autoincrement=True),
        session_column(prefix),
        Column("id", exact(64), nullable=False),
        Column("ns", exact(512), nullable=False),
        Column("checkpoint", exact(64), nullable=False),
        Column("root", exact(64), nullable=False),
        Column("task", exact(64), nullable=False),
        Column("status", String(16), nullable=False),
        Column("kind", String(32), nullable=False),
        Column("owner", exact(255)),
        Column("requested_by", exact(255)),
        Column("tool", exact(255)),
        Column("payload", text(), nullable=False),
        Column("created", BigInteger, nullable=False),
        Column("expires", BigInteger),
        Column("decision", text()),
        Column("decided_by", exact(255)),
        Column("decided", BigInteger),
        Column("escalated", exact(255)),
        Column("on_expire", exact(255)),  # null: it is then expired
        UniqueConstraint("session", "id", name=f"{prefix}approvals_session"),
        Index(f"{prefix}approvals_id", "id"),
        Index(f"{prefix}approvals_status", "status", "no"),
        Index(f"{prefix}approvals_owner", "owner", "status", "no"),
        Index(f"{prefix}approvals_open", "session", "status", "no"),
        Index(f"{prefix}approvals_tool", "tool", "status", "no"),
        Index(f"{prefix}approvals_kind", "kind", "status", "no"),
        Index(f"{prefix}approvals_expires", "status", "expires", "no"),
        sqlite_autoincrement=True,
    )


def _keyring(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}keyring",
        metadata,
        Column("no", Integer, primary_key=True, autoincrement=False),  # always 1: there is one key
        Column("id", exact(32), nullable=False),
        Column("since", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _votes(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}votes",
        metadata,
        session_column(prefix, primary_key=True),
        Column("approval", exact(64), primary_key=True),
        Column("by", exact(255), primary_key=True),
        Column("decision", text(), nullable=False),
        Column("at", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _effects(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}effects",
        metadata,
        session_column(prefix, primary_key=True),
        Column("call", exact(64), primary_key=True),
        Column("attempt", Integer, primary_key=True, autoincrement=False),
        Column("args", exact(64), nullable=False),  # a digest of the tool and its arguments
        Column("key", exact(64), nullable=False),  # what the tool is given to be told apart by
        Column("tool", exact(255), nullable=False),
        Column("status", String(16), nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("begun", BigInteger, nullable=False),
        Column("ended", BigInteger),
        Column("result", binary()),
        sqlite_with_rowid=False,
    )


def _inbound(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}inbound",
        metadata,
        Column("no", number(), primary_key=True, autoincrement=True),
        session_column(prefix),
        Column("created", BigInteger, nullable=False),
        Column("by", exact(255)),
        Column("message", binary(), nullable=False),
        Index(f"{prefix}inbound_session", "session", "no"),
        sqlite_autoincrement=True,
    )


def _traces(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}traces",
        metadata,
        Column("no", number(), primary_key=True, autoincrement=True),
        session_column(prefix),
        Column("turn", exact(64), nullable=False),
        Column("part", Integer, nullable=False),
        Column("fence", BigInteger, nullable=False),  # of the lease that it was recorded under
        Column("ended", BigInteger, nullable=False),
        Column("checkpoint", exact(64), nullable=False),  # where the thread stood then
        Column("data", binary(), nullable=False),
        UniqueConstraint("session", "turn", "part", name=f"{prefix}traces_part"),
    )
