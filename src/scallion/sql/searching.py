"""Search: which sessions have all the words that somebody looks for, and where these were said.

What is seldom is fetched, what is in many threads is looked up thread by thread in the order of the listing: either
ends after a page. All words are looked for as beginnings, in an index of the words of each session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, func, literal, select, tuple_, update

from scallion.errors import ConfigurationError
from scallion.sql import words
from scallion.sql.cipher import ITEM
from scallion.sql.tables import Tables

MOST = 50
"""How many words one may look for at once."""
SELDOM = 2_000
"""Words that no more rows have are fetched with their sessions."""
LAST = "\U0010ffff"
"""Comes after every character of a word."""


def asked(text: str) -> list[str] | None:
    """The words to look for; None for a blank text, which looks for nothing. Raises ConfigurationError for too many.

    A text without a word in it, as "?!", is found nowhere.
    """
    found = words.asked(text)
    if len(found) > MOST:
        raise ConfigurationError(f"a search is for {MOST} words at most, not for {len(found)}")
    return found if text.strip() else None


def is_behind(conn: Connection, t: Tables, owner: str | None, after: int) -> bool:
    """Whether a session after the number `after` is not indexed as it is."""
    s = t.sessions.c
    query = select(s.no).where(s.unindexed == 1, s.no > after)
    if owner is not None:
        query = query.where(s.owner == owner)
    return conn.execute(query.order_by(s.no).limit(1)).first() is not None


def narrowed(conn: Connection, t: Tables, query: Select[Any], looked_for: Sequence[str]) -> Select[Any]:
    """The query of sessions for those alone that have all of these words."""
    s = t.sessions.c
    found: set[int] | None = None if looked_for else set()
    for word in looked_for:
        few = _few(conn, t, word)
        if few is None:
            query = query.where(_has(t, word))
        else:
            found = few if found is None else found & few
    return query if found is None else query.where(s.no.in_(sorted(found)))


def _begins(t: Tables, word: str) -> ColumnElement[bool]:
    return t.words.c.word.between(word, word + LAST)


def _few(conn: Connection, t: Tables, word: str) -> set[int] | None:
    """The sessions that have such a word; None if they are many."""
    rows = conn.execute(select(t.words.c.session).where(_begins(t, word)).limit(SELDOM + 1)).scalars().all()
    return set(rows) if len(rows) <= SELDOM else None


def _has(t: Tables, word: str) -> ColumnElement[bool]:
    """Whether the session of the row has such a word: looked up row by row, as a server would read all of them."""
    one = select(literal(1)).where(t.words.c.session == t.sessions.c.no, _begins(t, word)).limit(1)
    return one.correlate(t.sessions).scalar_subquery().is_not(None)


def passages(conn: Connection, t: Tables, nos: Sequence[int], looked_for: Sequence[str]) -> dict[int, str]:
    """By session: where the longest of these words was said first. Nothing where only its name or title has it."""
    if not nos or not looked_for:
        return {}
    from scallion.sql import spoken  # a listing does without

    word = max(looked_for, key=len)
    w, i = t.words.c, t.items.c
    first = select(w.session, func.min(w.item)).where(w.session.in_(nos), w.item.is_not(None), _begins(t, word))
    places = [tuple(row) for row in conn.execute(first.group_by(w.session))]
    if not places:
        return {}
    query = select(i.session, i.id, i.type, i.data).where(tuple_(i.session, i.id).in_(places))
    stored = [(no, type, t.cipher.open(bytes(data), ITEM, no, id)) for no, id, type, data in conn.execute(query)]
    said = {no: spoken.stored(type, data) for no, type, data in stored}
    return {no: found for no, text in said.items() if (found := spoken.passage(text, word)) is not None}


def forget(conn: Connection, t: Tables, session: int) -> None:
    """Have no word of a session that is locked stay: it is indexed anew."""
    for table in (t.words, t.indexed):
        conn.execute(delete(table).where(table.c.session == session))
    again(conn, t, t.sessions.c.no == session)


def anew(conn: Connection, t: Tables, owner: str | None) -> None:
    """Have all sessions, or those of `owner`, indexed again from their beginning, whatever their rows say."""
    s = t.sessions.c
    mine = select(s.no) if owner is None else select(s.no).where(s.owner == owner)
    conn.execute(delete(t.indexed).where(t.indexed.c.session.in_(mine)))
    again(conn, t, None if owner is None else s.owner == owner)


def again(conn: Connection, t: Tables, which: ColumnElement[bool] | None = None, **changes: Any) -> None:
    """Have these sessions indexed again, with these changes of their rows; None: all of them.

    What somebody reads of them at this moment, to index it, is out of date.
    """
    query = update(t.sessions).values(unindexed=1, version=t.sessions.c.version + 1, **changes)
    conn.execute(query if which is None else query.where(which))
