"""Lists of sessions: order, filters that add up, and pages that are whole while others write."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from benchmarks.many import fill
from checkpoints.databases import sync_kinds
from langgraph.checkpoint.base import empty_checkpoint

from scallion.errors import ConfigurationError
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.sessions import Session

THREADS, PAUSED = 60, 6
steps = count()


def touch(saver: SQLCheckpointer, thread: str) -> None:
    """Write a checkpoint: the thread is made, or used again."""
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saver.put(config, empty_checkpoint(), {"source": "loop", "step": next(steps)}, {})  # type: ignore[arg-type]


def walked(saver: SQLCheckpointer, between: Any = lambda: None, limit: int = 7, **asked: Any) -> list[Session]:
    """All pages; `between` is called after each."""
    found: list[Session] = []
    after = None
    while True:
        page = saver.sessions.list(limit=limit, after=after, **asked)
        assert len(page.items) <= limit
        found += page.items
        if (after := page.next) is None:
            return found
        between()


def names(found: list[Session]) -> list[str]:
    return [one.thread for one in found]


FILTERS: list[dict[str, Any]] = [
    {},
    {"status": "paused"},
    {"owner": "u3"},
    {"tag": "tag2"},
    {"agent": "desk"},
    {"agent": "other"},
    {"search": "parcel 1"},
    {"status": "paused", "owner": "u10"},
    {"tag": "tag1", "owner": "u8", "search": "8"},
    {"tag": "tag1", "search": "t5 parcel"},
    {"tag": "tag1", "agent": "desk", "status": "idle"},
]


@sync_kinds
def test_filters_and_order_add_up(saver: SQLCheckpointer) -> None:
    fill(saver, THREADS, PAUSED)
    every = saver.sessions.list(limit=THREADS).items
    assert len(every) == THREADS
    for order in ("updated", "created"):
        for asked in FILTERS:
            wanted = sorted(
                (one for one in every if fits(one, **asked)), key=lambda one: -getattr(one, order).timestamp()
            )
            assert names(walked(saver, order=order, **asked)) == names(wanted), (order, asked)


def fits(one: Session, search: str = "", tag: str | None = None, **equal: str) -> bool:
    words = f"{one.thread} {one.title}".lower().split()
    is_found = all(any(word.startswith(part) for word in words) for part in search.split())
    return is_found and tag in (None, *one.tags) and all(getattr(one, name) == equal[name] for name in equal)


@sync_kinds
@pytest.mark.parametrize("asked", [{}, {"tag": "tag0"}, {"owner": None}], ids=str)
@pytest.mark.parametrize("order", ["updated", "created"])
def test_pages_are_whole_while_others_write(saver: SQLCheckpointer, order: str, asked: dict[str, Any]) -> None:
    """Nothing comes twice, and what nobody touches is not left out."""
    fill(saver, THREADS, PAUSED)
    touched: set[str] = set()
    turns = count()

    def write() -> None:
        number = next(turns)
        for thread in (f"t{1 + 11 * number % THREADS}", f"new{number}"):
            touch(saver, thread)
            saver.sessions.tag(thread, "tag0")
            touched.add(thread)

    before = set(names(saver.sessions.list(limit=THREADS, **asked).items))
    seen = names(walked(saver, write, limit=4, order=order, **asked))
    assert len(seen) == len(set(seen))
    assert before - touched <= set(seen)
    assert touched


@sync_kinds
def test_a_tag_has_the_time_of_its_session(saver: SQLCheckpointer) -> None:
    for thread in ("a", "b", "c"):
        touch(saver, thread)
        assert saver.sessions.tag(thread, "red", "old")
    touch(saver, "a")
    saver.copy_thread("b", "copy")
    assert names(walked(saver, tag="red")) == names(walked(saver)) == ["copy", "a", "c", "b"]
    assert names(walked(saver, tag="red", order="created")) == ["copy", "c", "b", "a"]
    saver.sessions.tag("a", "blue")
    touch(saver, "a")
    assert names(walked(saver, tag="old")) == ["copy", "c", "b"]
    assert {one.thread: one.tags for one in walked(saver)} == {"a": ("blue",)} | dict.fromkeys(
        ["b", "c", "copy"], ("old", "red")
    )
    saver.sessions.tag("a")
    assert saver.sessions.get("a").tags == ()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "after", ["", "x", 5, "updated.1", "updated.1.2.3", "created.1.2", "1.2", "updated.-1.2", "updated.²." + "1"]
)
def test_what_is_no_cursor_is_refused(saver: SQLCheckpointer, after: Any) -> None:
    with pytest.raises(ConfigurationError, match="`after` is not the `next`"):
        saver.sessions.list(after=after)
    with pytest.raises(ConfigurationError, match="`after` is not the `next`"):
        saver.approvals.list(after="updated.1.2" if after == 5 else str(after))


@pytest.mark.parametrize("asked", [{"order": "title"}, {"order": "no"}, {"status": "asleep"}, {"limit": 0}], ids=str)
def test_what_there_is_not_is_refused(saver: SQLCheckpointer, asked: Any) -> None:
    (name,) = asked
    with pytest.raises(ConfigurationError, match=f"`{name}`"):
        saver.sessions.list(**asked)
    if name != "order":
        with pytest.raises(ConfigurationError, match=f"`{name}`"):
            saver.approvals.list(**asked)
