"""Kinds of columns that are alike in every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import VARBINARY, BigInteger, Column, ForeignKey, Integer, LargeBinary, String, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeEngine

EXACT = "utf8mb4_bin"
"""MySQL compares texts without case by default; ids differ in case."""


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


def session_column(prefix: str, primary_key: bool = False) -> Column[int]:
    """The session that a row belongs to, and is deleted with."""
    owner = ForeignKey(f"{prefix}sessions.no", ondelete="CASCADE")
    return Column("session", BigInteger, owner, nullable=False, primary_key=primary_key)
