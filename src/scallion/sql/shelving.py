"""A session is put away, and given a title by somebody."""

from __future__ import annotations

from sqlalchemy import Connection

from scallion.errors import ConfigurationError
from scallion.sql import marks, names, searching, sessions
from scallion.sql.failures import Work
from scallion.sql.summary import LENGTH
from scallion.sql.tables import Tables
from scallion.sql.view import View


def archive(conn: Connection, t: Tables, thread: str, owner: str | None, *, on: bool) -> bool:
    """Put the session away, or back; False if there is no such session."""
    session = sessions.locked(conn, t, thread, owner)
    if session is not None:
        marks.put(conn, t, session, marks.ARCHIVED, on=on)
    return session is not None


def rename(conn: Connection, t: Tables, thread: str, title: str | None, owner: str | None) -> bool:
    """Give the session this title, or let the messages say it again; False if there is no such session."""
    if sessions.locked(conn, t, thread, owner) is None:
        return False
    session = sessions.claim(conn, t, thread, None, owner).no
    marks.put(conn, t, session, marks.TITLED, on=title is not None)
    if title is not None:
        sealed = t.cipher.seal_text(title, "sessions.title", session)
        searching.again(conn, t, t.sessions.c.no == session, title=sealed)
    return True


def checked(title: object) -> str | None:
    """The title as one line. Raises ConfigurationError for what is none, StorageError as `names.check`."""
    if title is None:
        return None
    line = " ".join(title.split()) if isinstance(title, str) else ""
    if not 0 < len(line) <= LENGTH:
        raise ConfigurationError(f"a title is a text of 1 to {LENGTH} characters, or None")
    names.check("title", line)
    return line


class Shelving(View):
    """Archives and renames the sessions of a database."""

    def archive(self, thread: str) -> bool:
        """Put the session away: listings leave it out unless they are asked for it. False if there is no such session.

        Nothing else changes: it takes messages, and what it asks is pending.
        """
        return self.database.run(self._archive(thread, on=True), write=True)

    async def aarchive(self, thread: str) -> bool:
        """As `archive`."""
        return await self.database.arun(self._archive(thread, on=True), write=True)

    def unarchive(self, thread: str) -> bool:
        """Have listings show the session again; False if there is no such session."""
        return self.database.run(self._archive(thread, on=False), write=True)

    async def aunarchive(self, thread: str) -> bool:
        """As `unarchive`."""
        return await self.database.arun(self._archive(thread, on=False), write=True)

    def rename(self, thread: str, title: str | None) -> bool:
        """Give the session a title of 1 to 80 characters, which stays; False if there is no such session.

        None: the messages say the title again, from the next step on. Raises ConfigurationError for another length.
        """
        return self.database.run(self._rename(thread, title), write=True)

    async def arename(self, thread: str, title: str | None) -> bool:
        """As `rename`."""
        return await self.database.arun(self._rename(thread, title), write=True)

    def _archive(self, thread: str, *, on: bool) -> Work[bool]:
        thread = names.text("thread id", thread)
        return lambda conn: archive(conn, self.database.tables, thread, self.owner, on=on)

    def _rename(self, thread: str, title: str | None) -> Work[bool]:
        thread, title = names.text("thread id", thread), checked(title)
        return lambda conn: rename(conn, self.database.tables, thread, title, self.owner)
