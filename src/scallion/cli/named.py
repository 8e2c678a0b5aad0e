"""The approval that somebody means: by its id, or by a beginning of it that only one has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scallion.errors import UnknownApproval
from scallion.values import Approval, ApprovalStatus

if TYPE_CHECKING:
    from scallion.inbox import Inbox

ANY: tuple[ApprovalStatus | None, ...] = (None,)


def find(inbox: Inbox, name: str, thread: str | None = None) -> Approval:
    """The approval with this id, or the only one whose id begins so: among those that are open, else among all.

    `thread`: only what it asks; copies of a thread have the same ids. Raises UnknownApproval.
    """
    try:
        return inbox.approvals.get(name, thread=thread)
    except UnknownApproval:
        return _by_prefix(inbox, name, thread)


def _by_prefix(inbox: Inbox, name: str, thread: str | None) -> Approval:
    statuses: tuple[ApprovalStatus | None, ...] = ("pending", "decided")
    for searched in (statuses, ANY):
        every = (one for status in searched for one in _all(inbox, status, thread))
        found = {(one.id, one.thread): one for one in every if name and one.id.startswith(name)}
        if len(found) > 1:
            raise UnknownApproval(name, _several(name, list(found.values())))
        if found:
            return next(iter(found.values()))
    raise UnknownApproval(name, f"no approval has the id {name!r}, or one that begins so")


def _several(name: str, found: Sequence[Approval]) -> str:
    if len({one.id for one in found}) == 1:
        threads = ", ".join(sorted(one.thread for one in found)[:5])
        return (
            f"{len(found)} threads have the approval {found[0].id!r}: say with --thread which one is meant ({threads})"
        )
    return f"{len(found)} approvals have an id that begins with {name!r}: give more of it"


def _all(inbox: Inbox, status: ApprovalStatus | None, thread: str | None) -> Iterator[Approval]:
    after = None
    while True:
        page = inbox.approvals.list(status, thread=thread, limit=500, after=after)
        yield from page.items
        after = page.next
        if after is None:
            return
