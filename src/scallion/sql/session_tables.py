"""The tables of sessions: what a listing shows of them, and what a search finds them by."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, UniqueConstraint

from scallion.sql.columns import binary, exact, number, session_column, text
from scallion.sql.words import LONGEST


def sessions(metadata: MetaData, prefix: str) -> Table:
    """One row per thread."""
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
        Column("fence", BigInteger, nullable=False, server_default="0"),
        Column("holder", exact(255)),
        Column("held_since", BigInteger),
        Column("held_until", BigInteger),
        Column("asked_to_stop", BigInteger),
        Column("unindexed", BigInteger, server_default="1"),  # null where `words` has all that is said in it
        UniqueConstraint("thread", name=f"{prefix}sessions_thread"),
        Index(f"{prefix}sessions_updated", "updated", "no"),
        Index(f"{prefix}sessions_status", "status", "updated", "no"),
        Index(f"{prefix}sessions_owner", "owner", "updated", "no"),
        Index(f"{prefix}sessions_created", "created", "no"),
        Index(f"{prefix}sessions_status_created", "status", "created", "no"),
        Index(f"{prefix}sessions_owner_created", "owner", "created", "no"),
        Index(f"{prefix}sessions_unindexed", "unindexed", "no"),
        sqlite_autoincrement=True,  # a number must not come back: caches and cursors know sessions by it
    )


def session_tags(metadata: MetaData, prefix: str) -> Table:
    """The tags of a session, with its times."""
    return Table(
        f"{prefix}session_tags",
        metadata,
        session_column(prefix, primary_key=True),
        Column("tag", exact(100), primary_key=True),
        Column("created", BigInteger, nullable=False, server_default="0"),
        Column("updated", BigInteger, nullable=False, server_default="0"),
        Index(f"{prefix}session_tags_created", "tag", "created", "session"),
        Index(f"{prefix}session_tags_updated", "tag", "updated", "session"),
        sqlite_with_rowid=False,
    )


def words(metadata: MetaData, prefix: str) -> Table:
    """The words of a session, each once."""
    return Table(
        f"{prefix}words",
        metadata,
        session_column(prefix, primary_key=True),
        Column("word", exact(LONGEST), primary_key=True),
        Column("item", BigInteger),  # where it was said first; null where that is no item, as the title
        Index(f"{prefix}words_word", "word", "session"),
        sqlite_with_rowid=False,
    )


def indexed(metadata: MetaData, prefix: str) -> Table:
    """How much of a session its words are of."""
    return Table(
        f"{prefix}indexed",
        metadata,
        session_column(prefix, primary_key=True),
        Column("seen", binary(), nullable=False),
        sqlite_with_rowid=False,
    )
