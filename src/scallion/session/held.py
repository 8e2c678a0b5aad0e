"""What a session holds: an agent, and which thread of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from scallion.approvals.naming import as_text, user_of
from scallion.bridge import call, enter_sync
from scallion.errors import ConfigurationError
from scallion.filters.filter import NEEDS_SAVER
from scallion.loop.platform import CHECKPOINTER
from scallion.options import this_thread
from scallion.session.inside import Inside

if TYPE_CHECKING:
    from scallion.agent import Agent

T = TypeVar("T")


class Held:
    """One thread of one agent, and for whom it is looked at."""

    def __init__(
        self, agent: Agent, inside: Inside, thread: str, *, owner: str | None = None, user: str | None = None
    ) -> None:
        if agent.checkpointer is None:
            raise ConfigurationError(f"session() needs a checkpointer: {NEEDS_SAVER}")
        self.thread = this_thread(thread, {})
        self._agent = agent
        self._inside = inside
        self._threads = inside.threads
        self._owner = None if owner is None else as_text("owner", owner)
        self._user = None if user is None else user_of(user)
        self._seen = _narrowed(agent.checkpointer, self._owner)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.thread!r})"

    @property
    def agent(self) -> Agent:
        """The agent that runs its turns."""
        return self._agent

    @property
    def _saver(self) -> Any:
        """The checkpointer, of which only the owner's threads are seen. Raises ConfigurationError for one of others."""
        if not hasattr(self._seen, "trail"):
            raise ConfigurationError("this checkpointer keeps no history of turns: give a SQLCheckpointer")
        return self._seen

    @property
    def _config(self) -> dict[str, Any]:
        """LangGraph's config for looking at the thread."""
        return {"configurable": {"thread_id": self.thread, "checkpoint_ns": "", CHECKPOINTER: self._seen}}

    def _row(self) -> Any:
        """What a listing has of the thread; None where there is none."""
        sessions = self._saver.sessions
        return call(sessions.get, sessions.aget, self.thread)

    def _now(self, work: Callable[..., T], *args: Any) -> T:
        """What `work` gives, from a sync caller."""
        with enter_sync():
            return work(*args)


def _narrowed(saver: Any, owner: str | None) -> Any:
    if owner is None:
        return saver
    if not hasattr(saver, "for_owner"):
        raise ConfigurationError("owner= needs a SQLCheckpointer: this checkpointer does not know whose threads are")
    return saver.for_owner(owner)
