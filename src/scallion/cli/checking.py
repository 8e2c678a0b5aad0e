"""`pending --check`: the open pauses that a program could not resume as they were shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from scallion.approvals.forms import EXPIRED
from scallion.cli.failure import DONE, ERROR
from scallion.cli.output import print_json, print_table
from scallion.cli.standing import standing
from scallion.cli.target import load
from scallion.errors import ConfigurationError
from scallion.inspect.card import heading
from scallion.values import Approval, ApprovalStatus, Decision

if TYPE_CHECKING:
    from scallion.agent import Agent
    from scallion.sql.sessions import Page

MANY = 500
"""How many rows a page has."""
OPEN: tuple[ApprovalStatus, ...] = ("pending", "decided")


def check(target: str, wanted: Mapping[str, Any], as_json: bool) -> int:
    """Print what differs between the open pauses of the agent at `target` and the agent; 1 where something does."""
    agent = load(target, keeps=True)
    if not hasattr(agent.checkpointer, "sessions"):
        raise ConfigurationError(f"{target} keeps no decisions: build it with checkpointer=SQLCheckpointer(...)")
    found = list(changed(agent, wanted))
    if as_json:
        print_json({"items": [one.to_json() | {"difference": difference} for one, difference in found]})
    else:
        rows = [(one.id, one.thread, heading(one), difference) for one, difference in found]
        print_table(("id", "thread", "about", "what changed"), rows, "no open pause has changed")
    return ERROR if found else DONE


def changed(agent: Agent, wanted: Mapping[str, Any]) -> Iterator[tuple[Approval, str]]:
    """What `resume` would refuse, or ask again: each with the difference. Graphs that a tool runs are not looked at."""
    threads = set(_paused(agent))
    for one in _waiting(agent, wanted):
        if one.thread in threads:
            decision = Decision(EXPIRED) if one.status == "expired" else one.decision
            difference = agent.stack.difference(one, decision)
            if difference is not None:
                yield one, difference


def _waiting(agent: Agent, wanted: Mapping[str, Any]) -> Iterator[Approval]:
    """What is open, and what has expired and its thread waits there still, to go on with that."""
    for status in OPEN:
        yield from _approvals(agent, status, wanted)
    for thread, those in groupby(_approvals(agent, "expired", wanted), key=attrgetter("thread")):
        asked = {one.id for one in standing(agent, thread).approvals}
        yield from (one for one in those if one.id in asked)


def _paused(agent: Agent) -> Iterator[str]:
    """The threads of the agent, by its name, that wait."""
    sessions = _every(agent.checkpointer.sessions.list, agent=agent.name, status="paused", archived=None)
    return (one.thread for one in sessions)


def _approvals(agent: Agent, status: ApprovalStatus, wanted: Mapping[str, Any]) -> Iterator[Approval]:
    return _every(agent.checkpointer.approvals.list, status=status, **wanted)


def _every(listing: Callable[..., Page[Any]], **wanted: Any) -> Iterator[Any]:
    """What is on all pages of a listing."""
    after = None
    while True:
        page = listing(**wanted, limit=MANY, after=after)
        yield from page.items
        if (after := page.next) is None:
            return
