"""What somebody has said of a session beside its tags: that it is archived, that its title was given.

A mark is a tag of a reserved name, so that it goes wherever the session goes; no listing shows it among the tags.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from scallion.errors import ConfigurationError
from scallion.sql.prepared import prepared
from scallion.sql.tables import Tables

Mark = Literal["scallion:archived", "scallion:titled"]
RESERVED = "scallion:"
ARCHIVED: Mark = "scallion:archived"
TITLED: Mark = "scallion:titled"


def is_mark(tag: str) -> bool:
    """Whether the tag is none of a user's."""
    return tag.startswith(RESERVED)


def check(tags: Collection[str]) -> None:
    """Raise ConfigurationError for a tag that a user cannot give."""
    if not all(tags):
        raise ConfigurationError("a tag is a text that is not empty")
    if reserved := next(filter(is_mark, tags), None):
        raise ConfigurationError(f"tags that begin with {RESERVED!r} are reserved: {reserved!r}")


def of_users(t: Tables) -> ColumnElement[bool]:
    """Whether a tag is a user's."""
    return ~t.session_tags.c.tag.startswith(RESERVED, autoescape=True)


def lacks(t: Tables, mark: Mark) -> ColumnElement[bool]:
    """Whether the session of the row does not have the mark.

    It is looked up row by row, so that a page is read in the order of an index: PostgreSQL would make a join of NOT
    EXISTS, and takes IS NULL for rare.
    """
    tags = t.session_tags.alias("marks")
    found = select(tags.c.tag).where(tags.c.session == t.sessions.c.no, tags.c.tag == mark)
    return func.coalesce(found.scalar_subquery(), "") != mark


def every(conn: Connection, t: Tables, session: int) -> list[str]:
    """The tags of the session, its marks among them."""
    return sorted(conn.execute(select(t.session_tags.c.tag).where(t.session_tags.c.session == session)).scalars())


def is_titled(conn: Connection, t: Tables, session: int) -> bool:
    """Whether the title was given: it does not follow the messages any more."""
    return bool(prepared(conn, t).mark.rows(conn, of=session, named=TITLED))


def put(conn: Connection, t: Tables, session: int, mark: Mark, *, on: bool) -> None:
    """Give a session that is locked the mark, or take it away."""
    g, s = t.session_tags.c, t.sessions.c
    conn.execute(delete(t.session_tags).where(and_(g.session == session, g.tag == mark)))
    if on:
        times = select(s.no, s.created, s.updated).where(s.no == session)
        row = conn.execute(times).one()
        conn.execute(insert(t.session_tags).values(session=session, tag=mark, created=row.created, updated=row.updated))
    count(conn, t, session)


def count(conn: Connection, t: Tables, session: int) -> None:
    """Bring the number of tags up to date, marks included."""
    g = t.session_tags.c
    number = select(func.count()).where(g.session == session).scalar_subquery()
    conn.execute(update(t.sessions).where(t.sessions.c.no == session).values(tag_count=number))
