"""Ids that are no texts: an int or a UUID is its text, on every database; anything else is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from operator import attrgetter
from typing import Any
from uuid import UUID

import pytest
from checkpoints.databases import everywhere
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.types import Interrupt

from scallion import respond
from scallion.errors import ConfigurationError, ScallionError
from scallion.sql.saver import SQLCheckpointer

NUMBERS = [7, 0, UUID(int=0)]
NAMES = ["7 of 9", "7", "abc", "00000000-0000-0000-0000-000000000000 is nil"]
"""What a database may take for these numbers, where it compares a text with one."""
NO_IDS = [b"7", 7.0, True, ["7"], {"7": 7}]

Call = tuple[str, Callable[[Any], tuple[Any, ...]], dict[str, Any]]


def at(thread: Any, **place: Any) -> Any:
    return {"configurable": {"thread_id": thread, **place}}


def fresh(id: Any) -> Any:
    return {**empty_checkpoint(), "id": id}


def one(*given: Any) -> Callable[[Any], tuple[Any, ...]]:
    return lambda id: (id, *given)


SOURCE: Any = {"source": "input", "step": -1, "parents": {}}
READS: list[Call] = [
    ("status", one(), {}),
    ("get_tuple", lambda id: (at(id),), {}),
    ("get_tuple", lambda id: (at("abc", checkpoint_ns=id),), {}),
    ("get_tuple", lambda id: (at("abc", checkpoint_id=id),), {}),
    ("list", lambda id: (at(id),), {}),
    ("list", lambda id: (at("abc", checkpoint_ns=id),), {}),
    ("list", lambda id: (at("abc", checkpoint_id=id),), {}),
    ("sessions.get", one(), {}),
    ("sessions.export", one(), {}),
    ("sessions.tag", one("new"), {}),
    ("sessions.delete", one(), {}),
    ("approvals.get", one(), {}),
    ("approvals.get", lambda id: ("7-abc",), {"thread": None}),
    ("approvals.decide", one(respond("yes")), {}),
    ("approvals.decide", lambda id: ("7-abc", respond("yes")), {"thread": None}),
    ("approvals.decide_all", lambda id: ({id: respond("yes")} if id.__hash__ else {b"7": respond("yes")},), {}),
    ("approvals.withdraw", one(), {}),
    ("approvals.withdraw", lambda id: ("7-abc",), {"thread": None}),
    ("approvals.answers", one(), {}),
    ("approvals.close", one("cancelled"), {}),
    ("command_for", one(), {}),
    ("delete_thread", one(), {}),
    ("delete_for_runs", lambda id: ([id],), {}),
    ("prune", lambda id: ([id],), {}),
    ("prune", lambda id: ([id],), {"strategy": "delete"}),
    ("copy_thread", one("new"), {}),
    *(("sessions.list", lambda id: (), {name: None}) for name in ("tag", "agent", "search")),
    *(("approvals.list", lambda id: (), {name: None}) for name in ("thread", "tool", "kind")),
]
"""What reads or changes that which is there: the method, its arguments, and by name what is None or the id."""
WRITES: list[Call] = [
    ("put", lambda id: (at(id, checkpoint_ns=""), fresh("1"), SOURCE, {}), {}),
    ("put", lambda id: (at("new", checkpoint_ns=id), fresh("1"), SOURCE, {}), {}),
    ("put", lambda id: (at("new", checkpoint_ns="", checkpoint_id=id), fresh("1"), SOURCE, {}), {}),
    ("put", lambda id: (at("new", checkpoint_ns=""), fresh(id), SOURCE, {}), {}),
    ("put_writes", lambda id: (at(id, checkpoint_ns="", checkpoint_id="1"), [("a", 1)], "task"), {}),
    ("put_writes", lambda id: (at("new", checkpoint_ns=id, checkpoint_id="1"), [("a", 1)], "task"), {}),
    ("put_writes", lambda id: (at("new", checkpoint_ns="", checkpoint_id=id), [("a", 1)], "task"), {}),
    ("put_writes", lambda id: (at("new", checkpoint_ns="", checkpoint_id="1"), [("a", 1)], id), {}),
    ("copy_thread", lambda id: ("abc", id), {}),
]
NO_LISTS: list[Call] = [("delete_for_runs", one(), {}), ("prune", one(), {"strategy": "delete"})]


def filled(saver: SQLCheckpointer) -> None:
    """Threads, each with a run, a question, an answer and a tag whose names are alike."""
    for name in NAMES:
        if name != "7":
            stored = saver.put(at(name, checkpoint_ns=""), fresh(f"{name[:30]} 1"), {**SOURCE, "run_id": name}, {})
            saver.put_writes(stored, [("__interrupt__", [Interrupt("what?", id=f"7-{name}")])], "task")
            saver.sessions.tag(name, name)
    saver.approvals.decide("7-7 of 9", respond("no"))


def everything(saver: SQLCheckpointer) -> dict[str, list[str]]:
    return {one.thread: list(saver.sessions.export(one.thread)) for one in saver.sessions.list().items}


async def called(on: Any, call: Call, id: Any, *, is_async: bool) -> Any:
    """What the call gives, or the error that it raises."""
    path, arguments, named = call
    head, _, verb = path.rpartition(".")
    method = attrgetter(head)(on) if head else on
    try:
        given = {name: value or id for name, value in named.items()}
        result = getattr(method, f"a{verb}" if is_async else verb)(*arguments(id), **given)
        if isinstance(result, AsyncIterator):
            return [item async for item in result]
        return await result if is_async else list(result) if isinstance(result, Iterator) else result
    except ScallionError as error:
        return type(error), str(error)


@everywhere
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_number_means_its_text_and_nothing_else(saver: SQLCheckpointer, is_async: bool) -> None:
    filled(saver)
    before = everything(saver)
    for call in READS:
        for number in NUMBERS:
            found = await called(saver, call, number, is_async=is_async)
            assert found == await called(saver, call, str(number), is_async=is_async), (call[0], number)
        assert everything(saver) == before, call[0]
    await saver.aclose()


@everywhere
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_no_id_is_refused(saver: SQLCheckpointer, is_async: bool) -> None:
    filled(saver)
    before = everything(saver)
    for call in [*READS, *WRITES]:
        optional = bool(call[2]) or "checkpoint_" in str(call[1](None)) or call[1](None) == ()
        for id in [*NO_IDS, *([] if optional else [None])]:
            kind, told = await called(saver, call, id, is_async=is_async)
            assert kind is ConfigurationError, (call[0], id)
            assert type(id).__name__ in told or "bytes" in told
    for call in NO_LISTS:
        for lists in ("7", b"7", None, 7):
            kind, _ = await called(saver, call, lists, is_async=is_async)
            assert kind is ConfigurationError, (call[0], lists)
    assert everything(saver) == before
    await saver.aclose()


@everywhere
def test_what_was_written_by_number_is_found_by_its_text(saver: SQLCheckpointer) -> None:
    nil = UUID(int=0)
    for id in (42, nil):
        stored = saver.put(at(id, checkpoint_ns=id), fresh(id), {**SOURCE}, {})
        saver.put_writes(stored, [("a", 1)], id)  # type: ignore[arg-type]
        assert stored == at(str(id), checkpoint_ns=str(id), checkpoint_id=str(id))
        assert saver.get_tuple(at(id, checkpoint_ns=id, checkpoint_id=id)) == saver.get_tuple(stored) is not None
        (found,) = saver.list(at(id))
        assert found.pending_writes == [(str(id), "a", 1)]
        assert saver.sessions.tag(id, 7)  # type: ignore[arg-type]
    assert [one.thread for one in saver.sessions.list(tag=7).items] == [str(nil), "42"]  # type: ignore[arg-type]
    lines = list(saver.sessions.export(42))  # type: ignore[arg-type]
    assert saver.sessions.load(lines, 43) == "43"  # type: ignore[arg-type]
    saver.prune([42, nil], strategy="delete")  # type: ignore[list-item]
    assert [one.thread for one in saver.sessions.list().items] == ["43"]
