"""What a listing knows of a session, and what is done to it as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, cast

from scallion.bridge import call, enter_async
from scallion.errors import ThreadError
from scallion.filters.masking import cleaner
from scallion.session.held import Held


class Record(Held):
    """The row of a session; all of it needs a SQLCheckpointer."""

    @property
    def row(self) -> Any:
        """What `saver.sessions.get` gives: status, title, owner, tags, times, counts; None where there is no thread."""
        return self._now(self._row)

    async def arow(self) -> Any:
        """As `row`."""
        return await enter_async(self._row)

    @property
    def status(self) -> str | None:
        """ "idle", "running", "paused" or "failed"; None where there is no thread."""
        return cast("str | None", self._part("status"))

    @property
    def title(self) -> str | None:
        """The title: the beginning of the first message, or what `rename` gave it."""
        return cast("str | None", self._part("title"))

    @property
    def tags(self) -> Sequence[str]:
        """The tags."""
        return self._part("tags") or ()

    @property
    def owner(self) -> str | None:
        """Whose thread it is: as it was said first."""
        return cast("str | None", self._part("owner"))

    def tag(self, *tags: str) -> None:
        """Give it exactly these tags, as the guards leave them. Raises ThreadError where there is no thread."""
        self._now(self._change, "tag", *map(self._guarded, tags))

    async def atag(self, *tags: str) -> None:
        """As `tag`."""
        await enter_async(self._change, "tag", *map(self._guarded, tags))

    @property
    def archived(self) -> bool:
        """Whether it was put away."""
        return bool(self._part("archived"))

    def rename(self, title: str | None) -> None:
        """Give it a title of 1 to 80 characters, which stays; None: the messages say it again, from the next step on.

        What a guard takes out of texts is taken out of it. Raises ThreadError where there is no thread,
        ConfigurationError for another length.
        """
        self._now(self._change, "rename", self._guarded(title))

    async def arename(self, title: str | None) -> None:
        """As `rename`."""
        await enter_async(self._change, "rename", self._guarded(title))

    def archive(self) -> None:
        """Put it away: listings leave it out unless they are asked for it. Raises ThreadError if there is no thread."""
        self._now(self._change, "archive")

    async def aarchive(self) -> None:
        """As `archive`."""
        await enter_async(self._change, "archive")

    def unarchive(self) -> None:
        """Have listings show it again. Raises ThreadError where there is no thread."""
        self._now(self._change, "unarchive")

    async def aunarchive(self) -> None:
        """As `unarchive`."""
        await enter_async(self._change, "unarchive")

    def delete(self) -> None:
        """Delete the thread with all that belongs to it; no error where there is none."""
        self._saver.sessions.delete(self.thread)

    async def adelete(self) -> None:
        """As `delete`."""
        await self._saver.sessions.adelete(self.thread)

    def export(self) -> Iterator[str]:
        """The whole thread as the lines of a file. Raises StorageError where there is no thread."""
        lines: Iterator[str] = self._saver.sessions.export(self.thread)
        return lines

    def aexport(self) -> AsyncIterator[str]:
        """As `export`."""
        lines: AsyncIterator[str] = self._saver.sessions.aexport(self.thread)
        return lines

    def load(self, exported: Iterable[str | bytes]) -> None:
        """Store an exported thread under this name. Raises StorageError where there is one already."""
        self._saver.sessions.load(exported, thread=self.thread)

    async def aload(self, exported: Any) -> None:
        """As `load`; it also takes what `aexport` gives."""
        await self._saver.sessions.aload(exported, thread=self.thread)

    def _guarded(self, text: str | None) -> str | None:
        """What no table may hold taken out. Raises Blocked where a guard lets nothing of it pass."""
        clean = cleaner(self._agent.filters)
        return text if clean is None else cast("str | None", clean(text))

    def _part(self, name: str) -> Any:
        return getattr(self.row, name, None)

    def _change(self, verb: str, *given: Any) -> None:
        sessions = self._saver.sessions
        if not call(getattr(sessions, verb), getattr(sessions, f"a{verb}"), self.thread, *given):
            raise ThreadError(self.thread, f"there is no thread {self.thread!r}")
