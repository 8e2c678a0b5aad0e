"""`outbox`: what somebody is to be told, and sending it, in both colours."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection

from scallion.bridge import call, enter_async, enter_sync, wait
from scallion.errors import ConfigurationError
from scallion.notify import NotDelivered, Notification
from scallion.sql import names, outbox, sessions
from scallion.sql.clock import read, to_micros
from scallion.sql.engines import Database
from scallion.sql.failures import Work
from scallion.sql.outbox import UNDELIVERED, Delivery, DeliveryStatus, Taken
from scallion.sql.sessions import Page
from scallion.sql.view import View

log = logging.getLogger("scallion")
Recipient = Callable[[Notification], Any]
"""What a notification is sent with: a function, `def` or `async def`, a Command or a Webhook."""

SECOND = 1_000_000
FIRST, LAST = 15, 6 * 3600
"""Seconds from the first attempt to the second, and at most between two."""
PATIENT = 300
"""Seconds that the sending may take where nothing says so."""
LONGEST = 1_000
"""So many characters of a reason are kept."""
IN_A_ROW = 5
"""After so many failures in a row the rest is left for later: nobody seems to be there."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of the notifications: how many were sent, skipped as nobody needs them any more, and failed.

    `given_up`: how many of those that failed are not tried again.
    """

    sent: int = 0
    skipped: int = 0
    failed: int = 0
    given_up: int = 0

    def to_json(self) -> dict[str, int]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Outbox(View):
    """The notifications of a database, which a saver made with `outbox=True` writes."""

    def list(
        self,
        status: DeliveryStatus | Sequence[DeliveryStatus] | None = UNDELIVERED,
        *,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Delivery]:
        """One page of notifications, the oldest first, by default those that nobody got; `None` means all.

        `after`: `next` of the page before.
        """
        return self.database.run(self._list(status, limit, after))

    async def alist(
        self,
        status: DeliveryStatus | Sequence[DeliveryStatus] | None = UNDELIVERED,
        *,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Delivery]:
        """As `list`."""
        return await self.database.arun(self._list(status, limit, after))

    def deliver(self, to: Recipient, *, limit: int = 100, include_args: bool = False, attempts: int = 15) -> Delivered:
        """Send what is due, at most `limit` notifications; what came of it.

        `to`: called with each, and done when it returns; what it raises is a failure, which is tried again after 15
        seconds, then twice that, and so on, up to six hours; after `attempts` it is given up, which `list` shows.
        Sent is at least once: a process that dies in between sends it again, under the same id.
        `include_args`: tell description and arguments of the calls too. Any number of processes may do this at once.
        """
        with enter_sync():
            return self._deliver(to, limit, include_args, attempts)

    async def adeliver(
        self, to: Recipient, *, limit: int = 100, include_args: bool = False, attempts: int = 15
    ) -> Delivered:
        """As `deliver`; what is no coroutine function is called in a thread."""
        return await enter_async(self._deliver, to, limit, include_args, attempts)

    def retry(self, id: str | None = None) -> int:
        """Have what was given up be due again, from its first attempt on; how many that are.

        `id`: only this one, as `list` shows it; 0 if it was not given up. Raises ConfigurationError if there is none.
        """
        return self.database.run(self._retry(id), write=True)

    async def aretry(self, id: str | None = None) -> int:
        """As `retry`."""
        return await self.database.arun(self._retry(id), write=True)

    def _list(
        self, status: DeliveryStatus | Sequence[DeliveryStatus] | None, limit: int, after: str | None
    ) -> Work[Page[Delivery]]:
        chosen = outbox.STATUSES if status is None else [status] if isinstance(status, str) else status
        return lambda conn: outbox.page(conn, self.database.tables, chosen, owner=self.owner, limit=limit, after=after)

    def _retry(self, id: str | None) -> Work[int]:
        return lambda conn: outbox.retry(conn, self.database.tables, self._now(conn), self.owner, id)

    def _deliver(self, to: Recipient, limit: int, include_args: bool, attempts: int) -> Delivered:
        _check(to, limit, attempts)
        hold = int(2 * getattr(to, "timeout", PATIENT / 2) + 60) * SECOND
        counts = dict.fromkeys(("sent", "skipped", "failed", "given_up"), 0)
        in_a_row = 0
        for taken in self._taken(limit, hold, include_args):
            became = self._sent(to, taken, attempts)
            counts[became] += 1
            in_a_row = in_a_row + 1 if became in ("failed", "given_up") else 0
            if in_a_row == IN_A_ROW:
                break
        return Delivered(**counts | {"failed": counts["failed"] + counts["given_up"]})

    def _taken(self, limit: int, hold: int, include_args: bool) -> Iterator[Taken]:
        """What is to be sent, each taken when it is its turn: its time runs from then on."""
        left = limit
        while left and (found := self._run(self._due(left))):
            for no, seen in found:
                taken = self._run(self._take(no, seen, hold, include_args), write=True)
                if taken is not None:
                    left -= 1
                    yield taken

    def _sent(self, to: Recipient, taken: Taken, attempts: int) -> str:
        """What becomes of it: the name of a count."""
        if taken.notification is None:
            return "skipped"
        try:
            call(_call, _acall, to, taken.notification)
        except Exception as error:
            told = names.fitting(str(error), LONGEST) if isinstance(error, NotDelivered) else type(error).__name__
            last = taken.attempts >= attempts
            log.warning("a notification was not delivered: %s", told)
            self._run(self._failed(taken, told or "", last), write=True)
            return "given_up" if last else "failed"
        self._run(self._delivered(taken), write=True)
        return "sent"

    def _run(self, work: Work[Any], **options: bool) -> Any:
        return call(self.database.run, self.database.arun, work, **options)

    def _due(self, limit: int) -> Work[Sequence[tuple[int, int]]]:
        def work(conn: Connection) -> Sequence[tuple[int, int]]:
            now = to_micros(read(conn, self.database.clock))  # MariaDB uses no index up to a time that its clock says
            return outbox.due(conn, self.database.tables, now, limit, self.owner)

        return work

    def _take(self, no: int, seen: int, hold: int, include_args: bool) -> Work[Taken | None]:
        return lambda conn: outbox.take(
            conn, self.database.tables, no, seen, self._now(conn), hold, include_args=include_args
        )

    def _delivered(self, taken: Taken) -> Work[None]:
        return lambda conn: outbox.delivered(conn, self.database.tables, taken.no, self._now(conn))

    def _failed(self, taken: Taken, error: str, last: bool) -> Work[None]:
        pause = _pause(taken.attempts)

        def work(conn: Connection) -> None:
            again = None if last else self._now(conn) + pause
            outbox.failed(conn, self.database.tables, taken, error, again)

        return work


def _check(to: Any, limit: int, attempts: Any) -> None:
    if not callable(to):
        raise ConfigurationError("what delivers is a function, a Command or a Webhook")
    sessions.check_limit(limit)
    if not isinstance(attempts, int) or attempts < 1:
        raise ConfigurationError("`attempts` must be at least 1")


def _pause(attempts: int) -> int:
    """Microseconds until the next attempt: twice as long each time, and a part of that by chance."""
    longest = min(LAST, FIRST * 2 ** min(attempts - 1, 30))
    return int(longest * random.uniform(0.75, 1.25) * SECOND)


def _call(to: Recipient, notification: Notification) -> None:
    found = to(notification)
    if inspect.isawaitable(found):
        wait(found)


async def _acall(to: Recipient, notification: Notification) -> None:
    is_async = inspect.iscoroutinefunction(to) or inspect.iscoroutinefunction(type(to).__call__)
    found = to(notification) if is_async else await asyncio.to_thread(to, notification)
    if inspect.isawaitable(found):
        await found


class Telling:
    """Gives the outbox; for whoever has a database and an owner."""

    database: Database
    owner: str | None

    @property
    def outbox(self) -> Outbox:
        """What somebody is to be told; written where the saver was made with `outbox=True`."""
        return Outbox(self.database, self.owner)
