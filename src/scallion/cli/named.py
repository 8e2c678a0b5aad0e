"""The approval that somebody means: by its id, or by a beginning of it that only one has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scallion.errors import UnknownApproval
from scallion.values import Approval, ApprovalStatus

if TYPE_CHECKING:
    from scallion.inbox import Inbox

ANY: tuple[ApprovalStatus | None, ...] = (None,)


def find(inbox: Inbox, name: str) -> Approval:
    """The approval with this id, or the only one whose id begins so: among those that are open, else among all.

    Raises UnknownApproval.
    """
    try:
        return inbox.approvals.get(name)
    except UnknownApproval:
        return _by_prefix(inbox, name)


def _by_prefix(inbox: Inbox, name: str) -> Approval:
    statuses: tuple[ApprovalStatus | None, ...] = ("pending", "decided")
    for searched in (statuses, ANY):
        found = {one.id: one for status in searched for one in _all(inbox, status) if name and one.id.startswith(name)}
        if len(found) > 1:
            raise UnknownApproval(name, f"{len(found)} approvals have an id that begins with {name!r}: give more of it")
        if found:
            return next(iter(found.values()))
    raise UnknownApproval(name, f"no approval has the id {name!r}, or one that begins so")


def _all(inbox: Inbox, status: ApprovalStatus | None) -> Iterator[Approval]:
    after = None
    while True:
        page = inbox.approvals.list(status, limit=500, after=after)
        yield from page.items
        after = page.next
        if after is None:
            return
