"""The ledger gives what one step asks in the order of the calls, however the calls came to ask."""

from __future__ import annotations

import time
from typing import Any

from checkpoints.databases import sync_kinds
from scenes import Desk, asks, call

from scallion import Agent, SQLCheckpointer, filters
from scallion.approvals import payload
from scallion.testing import ScriptedModel

CALLS = 5


def backwards(asked: dict[str, Any]) -> bool:
    """Gate every call, the last one first."""
    time.sleep(0.03 * (CALLS - asked["args"]["order"]))
    return True


def paused(saver: SQLCheckpointer, thread: str) -> None:
    """A thread that asks about one batch of calls."""
    model = ScriptedModel([asks(*[call("refund", order=number) for number in range(CALLS)])])
    agent = Agent(model, tools=Desk().tools, filters=[filters.approval(when=backwards)], checkpointer=saver)
    agent.invoke("Refund them", thread=thread)


def listed(saver: SQLCheckpointer, limit: int, **wanted: Any) -> list[list[tuple[str, int]]]:
    """Thread and order of what each page has."""
    found, after = [], None
    while True:
        page = saver.approvals.list(limit=limit, after=after, **wanted)
        found.append([(one.thread, one.args["order"]) for one in page.items])
        if (after := page.next) is None:
            return found


@sync_kinds
def test_a_page_has_the_calls_of_a_reply_in_their_order(saver: SQLCheckpointer) -> None:
    """Those of each thread; which thread comes first is as before."""
    for thread in "ab":
        paused(saver, thread)
    assert listed(saver, 50) == [[(thread, number) for thread in "ab" for number in range(CALLS)]]
    assert listed(saver, 50, thread="b", status=None) == [[("b", number) for number in range(CALLS)]]


@sync_kinds
def test_pages_that_split_a_batch_lose_nothing(saver: SQLCheckpointer) -> None:
    """The order is that within each page."""
    paused(saver, "a")
    pages = listed(saver, 2)
    assert [len(page) for page in pages] == [2, 2, 1]
    assert all(page == sorted(page) for page in pages)
    assert sorted(one for page in pages for one in page) == [("a", number) for number in range(CALLS)]


def test_a_place_from_elsewhere_that_is_none_stands_behind() -> None:
    """An imported thread may say anything."""
    for bound in ({}, {"place": None}, {"place": ["x"]}, {"place": 7}):
        assert payload.placed(bound) == ()
    assert payload.placed({"place": [0, 2]}) == (0, 2)
