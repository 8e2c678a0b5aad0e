"""Where the decisions of a panel go: to one thread of an agent, which goes on, or to the inbox of a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from scallion.agent import Agent
from scallion.errors import ConfigurationError, ThreadError, UnknownApproval
from scallion.options import CallOptions, checked
from scallion.session import Session
from scallion.values import Approval, Decision

MANY = 200
"""The cards of an inbox at most."""


class Desk(Protocol):
    """What a panel asks."""

    name: str
    goes_on: bool
    """Whether a turn goes on when all is decided."""

    def asked(self) -> Sequence[Approval]:
        """What is open, decided or not."""

    def now(self, approval: Approval) -> Approval:
        """How that approval stands, open or not."""

    def decide(self, approval: Approval, decision: Decision, by: str | None) -> None:
        """Store the decision; raises as `saver.approvals.decide`."""

    def has_failed(self) -> bool:
        """Whether a turn that failed is there to go on with."""

    def stream(self) -> Iterator[Any]:
        """The rest of the turn."""


class ThreadDesk:
    """One thread of an agent."""

    goes_on = True

    def __init__(self, session: Session, options: CallOptions) -> None:
        self.name = session.thread
        self._session = session
        self._options = options
        self._ledger = getattr(session.agent.checkpointer, "approvals", None)
        if self._ledger is None:
            raise ConfigurationError("a panel keeps decisions in the database: build the agent with a SQLCheckpointer")

    def asked(self) -> Sequence[Approval]:
        """What the pause asks."""
        return self._session.asked

    def now(self, approval: Approval) -> Approval:
        """From the ledger."""
        return _now(self._ledger, approval)

    def decide(self, approval: Approval, decision: Decision, by: str | None) -> None:
        """Through the session, so that the gate sees an edit."""
        self._session.decide(approval.id, decision, by=by)

    def has_failed(self) -> bool:
        """As the session says."""
        return self._session.status == "failed"

    def stream(self) -> Iterator[Any]:
        """With what was decided."""
        return self._session.stream_resume(**self._options)


class InboxDesk:
    """What pends in a database, or on one thread of it; who goes on with it is another process."""

    goes_on = False

    def __init__(self, inbox: Any, thread: str | None) -> None:
        self.name = thread or "inbox"
        self._ledger = inbox.approvals
        self._thread = thread

    def asked(self) -> Sequence[Approval]:
        """What pends."""
        found: Sequence[Approval] = self._ledger.list(thread=self._thread, limit=MANY).items
        return found

    def now(self, approval: Approval) -> Approval:
        """From the ledger."""
        return _now(self._ledger, approval)

    def decide(self, approval: Approval, decision: Decision, by: str | None) -> None:
        """In the ledger."""
        self._ledger.decide(approval.id, decision, by=by, thread=approval.thread)

    def has_failed(self) -> bool:
        """No turn is gone on with here."""
        return False

    def stream(self) -> Iterator[Any]:
        """Nothing: there is no agent."""
        return iter(())


def desk(source: Any, thread: str | None, options: CallOptions) -> Desk:
    """The desk for an Agent and a thread, a Session, or a saver or Inbox.

    Raises ConfigurationError for others, and ThreadError for the name of a thread that is not there.
    """
    checked(options)
    if isinstance(source, Agent):
        if thread is None:
            raise ConfigurationError("a panel of an agent is that of a thread: panel(agent, thread)")
        owner, user = options.get("owner"), options.get("user")
        made = ThreadDesk(source.session(thread, owner=owner, user=user), options)
        _there(source.checkpointer, thread)
        return made
    if isinstance(source, Session):
        if thread not in (None, source.thread):
            raise ConfigurationError("a session has its thread: give panel(session) alone")
        return ThreadDesk(source, options)
    if not hasattr(source, "approvals"):
        raise ConfigurationError(
            f"a panel is for an Agent, a Session, a saver or an Inbox, not {type(source).__name__}"
        )
    if options:
        raise ConfigurationError(
            f"{', '.join(sorted(options))} belong to a turn, and an inbox runs none: give an Agent"
        )
    if thread is not None:
        _there(source, thread)
    return InboxDesk(source, thread)


def _there(place: Any, thread: str) -> None:
    """A name that was typed may be misspelt: an empty panel would say that nothing waits."""
    if place.sessions.get(thread) is None:
        raise ThreadError(thread, f"there is no thread {thread!r}")


def _now(ledger: Any, approval: Approval) -> Approval:
    try:
        found: Approval = ledger.get(approval.id, thread=approval.thread)
    except UnknownApproval:  # the thread was deleted
        return approval.replace(status="cancelled")
    return found
