"""The tables, as SQLAlchemy Core objects.

    sessions      one row per thread: what a listing shows, the head, the counts
    session_tags  the tags of a session, with its times, so that one tag is listed in order
    checkpoints   one row per checkpoint: shared form (an item), its numbers, metadata
    items         content-addressed values, numbered per session, shared by its checkpoints and writes
    entries       per list channel an append-only log of items; a version of the list is a few ranges of it
    writes        one row per task and checkpoint: the task's pending writes
    approvals     one row per question to a person, with its decision
    keyring       the id of the key that values are encrypted with; empty where nothing is

Instants are microseconds since 1970 in UTC: exact, ordered and alike in every database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    VARBINARY,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeEngine

from scallion.errors import ConfigurationError
from scallion.sql.cipher import PLAIN, Cipher

EXACT = "utf8mb4_bin"
"""MySQL compares texts without case by default; ids differ in case."""


@dataclass(frozen=True, eq=False)
class Tables:
    """All tables under one prefix in one schema (None: the connection's own); `version_table` is Alembic's.

    `cipher` seals the values in them.
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
    cipher: Cipher = PLAIN

    @property
    def version_table(self) -> str:
        """The table that holds the schema's revision."""
        return f"{self.prefix}scallion_version"


# MySQL's own types come with its whole dialect, which takes longer to import than a history to load.
class _LongBlob(LargeBinary):
    pass


class _LongText(Text):
    pass


@compiles(_LongBlob, "mysql", "mariadb")
def _long_blob(element: _LongBlob, compiler: Any, **options: Any) -> str:
    return "LONGBLOB"


@compiles(_LongText, "mysql", "mariadb")
def _long_text(element: _LongText, compiler: Any, **options: Any) -> str:
    return f"LONGTEXT COLLATE {EXACT}"


def exact(length: int) -> TypeEngine[str]:
    """A text that is compared and ordered byte by byte."""
    own = String(length).with_variant(String(length, collation=EXACT), "mysql", "mariadb")
    return own.with_variant(String(length, collation="C"), "postgresql")


def number() -> TypeEngine[int]:
    """A big integer key; SQLite counts only plain INTEGER keys up by itself."""
    return BigInteger().with_variant(Integer(), "sqlite")


def binary() -> TypeEngine[bytes]:
    """Bytes of any length; MySQL's plain BLOB ends at 64 KB."""
    return LargeBinary().with_variant(_LongBlob(), "mysql", "mariadb")


def text() -> TypeEngine[str]:
    """A text of any length."""
    return Text().with_variant(_LongText(), "mysql", "mariadb")


def digest() -> TypeEngine[bytes]:
    """The 16 bytes of a hash; MySQL indexes only bytes of a bounded length."""
    return LargeBinary().with_variant(VARBINARY(16), "mysql", "mariadb")


@lru_cache
def tables(prefix: str = "", schema: str | None = None) -> Tables:
    """The tables whose names start with `prefix`, in `schema`. Raises ConfigurationError for what is no such name."""
    _check_names(prefix, schema)
    metadata = MetaData(schema=schema)  # foreign keys without a schema mean this one too
    return Tables(
        prefix,
        schema,
        metadata,
        sessions=_sessions(metadata, prefix),
        session_tags=_session_tags(metadata, prefix),
        items=_items(metadata, prefix),
        checkpoints=_checkpoints(metadata, prefix),
        entries=_entries(metadata, prefix),
        writes=_writes(metadata, prefix),
        approvals=_approvals(metadata, prefix),
        keyring=_keyring(metadata, prefix),
    )


def _check_names(prefix: str, schema: str | None) -> None:
    """Names of databases end at 63 bytes, and the longest of ours (with what a server adds) needs half of them."""
    if not isinstance(prefix, str) or not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]{0,31})?", prefix, re.ASCII):
        raise ConfigurationError("prefix= is at most 32 letters, digits and underscores, not beginning with a digit")
    if schema is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", str(schema), re.ASCII):
        raise ConfigurationError("schema= is at most 63 letters, digits, _ and -, not beginning with a digit")


def _session_column(prefix: str, primary_key: bool = False) -> Column[int]:
    owner = ForeignKey(f"{prefix}sessions.no", ondelete="CASCADE")
    return Column("session", BigInteger, owner, nullable=False, primary_key=primary_key)


def _sessions(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}sessions",
        metadata,
        Column("no", number(), primary_key=True, autoincrement=True),
        Column("thread", exact(255), nullable=False),
        Column("created", BigInteger, nullable=False),
        Column("updated", BigInteger, nullable=False),
        Column("status", String(16), nullable=False),
        Column("progress", String(16), nullable=False),
        Column("owner", exact(255)),
        Column("agent", exact(255)),
        Column("title", text()),
        Column("preview", text()),
        Column("message_count", Integer, nullable=False),
        Column("pending_count", Integer, nullable=False),
        Column("open_count", Integer, nullable=False),
        Column("bytes", BigInteger, nullable=False),
        Column("head", exact(64)),
        Column("generation", Integer, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("item_count", BigInteger, nullable=False),
        Column("tag_count", Integer, nullable=False, server_default="0"),
        UniqueConstraint("thread", name=f"{prefix}sessions_thread"),
        Index(f"{prefix}sessions_updated", "updated", "no"),
        Index(f"{prefix}sessions_status", "status", "updated", "no"),
        Index(f"{prefix}sessions_owner", "owner", "updated", "no"),
        Index(f"{prefix}sessions_created", "created", "no"),
        Index(f"{prefix}sessions_status_created", "status", "created", "no"),
        Index(f"{prefix}sessions_owner_created", "owner", "created", "no"),
        sqlite_autoincrement=True,  # a number must not come back: caches and cursors know sessions by it
    )


def _session_tags(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}session_tags",
        metadata,
        _session_column(prefix, primary_key=True),
        Column("tag", exact(100), primary_key=True),
        Column("created", BigInteger, nullable=False, server_default="0"),
        Column("updated", BigInteger, nullable=False, server_default="0"),
        Index(f"{prefix}session_tags_created", "tag", "created", "session"),
        Index(f"{prefix}session_tags_updated", "tag", "updated", "session"),
        sqlite_with_rowid=False,
    )


def _items(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}items",
        metadata,
        _session_column(prefix, primary_key=True),
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
        _session_column(prefix, primary_key=True),
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
        _session_column(prefix, primary_key=True),
        Column("channel", exact(255), primary_key=True),
        Column("pos", BigInteger, primary_key=True, autoincrement=False),
        Column("item", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _writes(metadata: MetaData, prefix: str) -> Table:
    return Table(
        f"{prefix}writes",
        metadata,
        _session_column(prefix, primary_key=True),
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
        _session_column(prefix),
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
        UniqueConstraint("session", "id", name=f"{prefix}approvals_session"),
        Index(f"{prefix}approvals_id", "id"),
        Index(f"{prefix}approvals_status", "status", "no"),
        Index(f"{prefix}approvals_owner", "owner", "status", "no"),
        Index(f"{prefix}approvals_open", "session", "status", "no"),
        Index(f"{prefix}approvals_tool", "tool", "status", "no"),
        Index(f"{prefix}approvals_kind", "kind", "status", "no"),
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
