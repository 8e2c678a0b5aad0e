"""Whose things are seen: a saver, an inbox and a view can be narrowed to one owner, and never widened again."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from scallion.errors import ConfigurationError, ThreadError
from scallion.sql import names

if TYPE_CHECKING:
    from scallion.sql.views import Approvals, Sessions


class Owned:
    """Holds approvals and sessions, of everybody or of one owner."""

    owner: str | None = None
    """Whose threads these are; None: everybody's."""
    approvals: Approvals
    sessions: Sessions

    def for_owner(self, owner: str) -> Self:
        """The same for the threads of `owner` alone, on the same connections.

        Others' threads, and those without an owner, are unknown to it; to write into one raises ThreadError. To close
        the one closes both. Raises ConfigurationError if it is bound to another owner already.
        """
        narrowed = copy(self)
        narrowed.owner = narrow(self.owner, owner)
        narrowed.approvals = self.approvals.for_owner(owner)
        narrowed.sessions = self.sessions.for_owner(owner)
        return narrowed


def narrow(bound: str | None, owner: Any) -> str:
    """The owner to bind to. Raises ConfigurationError for what names none, and if bound to another one."""
    if not isinstance(owner, str) or not owner:
        raise ConfigurationError("an owner is named by a text that is not empty")
    names.check("owner", owner)
    if bound not in (None, owner):
        raise ConfigurationError("this is bound to one owner, and another one is named")
    return owner


def admit(thread: str, owner: str | None, bound: str | None) -> None:
    """Raise ThreadError unless whoever is bound to `bound` may write into the thread of `owner`."""
    if bound is not None and owner != bound:
        raise ThreadError(thread, f"thread {thread!r} belongs to another owner, or to nobody")
