"""Whatever is done to threads, two savers of one database give what LangGraph's saver in memory gives."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import in_memory
from checkpoints.kinds import told
from checkpoints.test_storage import message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import add_messages
from sqlalchemy import delete

from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import StrictSerializer

EXAMPLES = int(os.environ.get("SCALLION_TEST_EXAMPLES", "15"))
Key = tuple[str, str, str]
"""Thread, namespace and id of a checkpoint."""


class Whole(InMemorySaver):
    """LangGraph's saver, with what it lacks."""

    def keep(self, stays: Callable[[Key], bool]) -> None:
        """Only these checkpoints; the others' children have no parent."""
        gone = {key for key in self.all() if not stays(key)}
        for thread, ns, id in gone:
            del self.storage[thread][ns][id]
            self.writes.pop((thread, ns, id), None)
        for thread, ns, id in self.all():
            *stored, parent = self.storage[thread][ns][id]
            self.storage[thread][ns][id] = (*stored, None if (thread, ns, parent) in gone else parent)  # type: ignore[assignment]

    def all(self) -> list[Key]:
        """All checkpoints, in the order in which they were stored."""
        return sorted(((t, ns, id) for t, of in self.storage.items() for ns in of for id in of[ns]), key=lambda k: k[2])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.storage[target_thread_id] = copy.deepcopy(self.storage[source_thread_id])
        for table in (self.writes, self.blobs):
            found = {key: value for key, value in table.items() if key[0] == source_thread_id}
            table.update({(target_thread_id, *key[1:]): copy.deepcopy(value) for key, value in found.items()})  # type: ignore[attr-defined]

    def prune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        newest = {(thread, ns): id for thread, ns, id in self.all()}
        self.keep(lambda key: key[0] not in thread_ids or newest[key[:2]] == key[2])

    def delete_for_runs(self, run_ids: Any) -> None:
        self.keep(lambda key: self.serde.loads_typed(self.storage[key[0]][key[1]][key[2]][1])["run_id"] not in run_ids)


def place(key: Key | tuple[str, str]) -> Any:
    """The config of a checkpoint, or of a namespace."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return {"configurable": dict(zip(names, key, strict=False))}


class World:
    """The same threads in two savers of one database and in memory; each saver's values are objects of its own."""

    def __init__(self, ours: list[SQLCheckpointer]) -> None:
        self.ours = ours
        self.theirs = Whole(serde=StrictSerializer())
        self.count = 0
        self.held: list[tuple[Key, dict[str, Any]]] = []

    @property
    def savers(self) -> Iterator[BaseCheckpointSaver[Any]]:
        """Where each thing is done: in memory, and in one of the savers."""
        yield self.theirs
        yield self.ours[self.count % 2]

    def do(self, what: str, a: int, b: int) -> None:
        """One step."""
        self.count += 1
        keys = self.theirs.all()
        if what in LISTS:
            self.put(what, a, b, keys)
        elif not keys:
            return
        elif what == "write":
            self.write(keys[a % len(keys)], b)
        elif what == "in place":
            self.change(a, b)
        else:
            for saver in self.savers:
                getattr(self, what)(saver, keys[a % len(keys)][0], b)

    def put(self, what: str, a: int, b: int, keys: list[Key]) -> None:
        """A new checkpoint after the newest, or any other, with another list."""
        parent = keys[-1 - (a // 4) % len(keys) if a % 4 == 0 else -1] if keys else ("t", "", None)
        thread, ns = parent[:2] if b % 5 else ("tu"[a % 2], ("", "sub")[b % 2])
        is_new = (thread, ns) != parent[:2] or parent[2] is None
        id = f"{self.count:05}"
        before = [self.values(saver, None if is_new else parent) for saver in self.savers]  # type: ignore[arg-type]
        for saver, (values, versions) in zip(self.savers, before, strict=True):
            changed = {"messages": LISTS[what](values.get("messages", []), a, b)} if a % 7 else {"note": "n" * (a + b)}
            new = {name: f"{self.count:032}.{name}" for name in changed}
            checkpoint: Any = {**empty_checkpoint(), "id": id, "ts": id, "channel_values": {**values, **changed}}
            checkpoint["channel_versions"] = {**versions, **new}
            config = place((thread, ns)) if is_new else place(parent)  # type: ignore[arg-type]
            metadata: Any = {"source": "loop", "step": b % 3, "parents": {}, "run_id": f"run{b % 4}"}
            saver.put(config, checkpoint, metadata, new)
            if saver is self.theirs:
                self.held.append(((thread, ns, id), checkpoint["channel_values"]))
            else:
                self.live = checkpoint["channel_values"]

    def values(self, saver: Any, key: Key | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the next step starts from: read, or the very objects that were stored last."""
        if key is None:
            return {}, {}
        found = saver.get_tuple(place(key))
        values = found.checkpoint["channel_values"]
        if self.held and self.held[-1][0] == key and self.count % 3:
            values = self.held[-1][1] if saver is self.theirs else self.live
        return values, found.checkpoint["channel_versions"]

    def change(self, a: int, b: int) -> None:
        """Change a message in place after it was stored."""
        for values in (self.held[-1][1], self.live) if self.held else ():
            if held := messages(values.get("messages", [])):
                held[a % len(held)].additional_kwargs["seen"] = b % 2 == 1 or b

    def write(self, key: Key, n: int) -> None:
        """What a task wrote, perhaps again, perhaps more of it."""
        task = n % 3
        rows: list[Any] = [
            ("messages", [message(n)]),
            ("note", n),
            ("__resume__", n),
            ("__error__", str(n)),
            ("note", None),
        ]
        for saver in self.savers:
            saver.put_writes(place(key), rows[n % 4 : 1 + n], f"task{task}", f"~{9 - task}")

    def copied(self, saver: Any, thread: str, b: int) -> None:
        saver.copy_thread(thread, f"copy{self.count}")

    def pruned(self, saver: Any, thread: str, b: int) -> None:
        saver.prune([thread])

    def deleted(self, saver: Any, thread: str, b: int) -> None:
        saver.delete_thread(thread)

    def rid(self, saver: Any, thread: str, b: int) -> None:
        saver.delete_for_runs([f"run{b % 4}"])

    def check(self, *options: dict[str, Any]) -> None:
        """Each thread and namespace is the same for all, however it is asked for."""
        asked = self.ours[(self.count // 2) % 2]
        for key in {key[:2] for key in self.theirs.all()}:
            for chosen in options:
                ours, theirs = (list(saver.list(place(key), **chosen)) for saver in (asked, self.theirs))
                assert [shape(one) for one in ours] == [shape(one) for one in theirs]
            for one in self.ours:
                assert shape(one.get_tuple(place(key))) == shape(self.theirs.get_tuple(place(key)))

    def check_all(self) -> None:
        """At the end: with every option, each checkpoint by its id, and by a saver that remembers nothing."""
        middle = place(("t", "", f"{self.count // 2:05}"))
        self.check(
            {}, {"filter": {"step": 1}}, {"filter": {"run_id": "run1"}, "limit": 1}, {"before": middle, "limit": 3}
        )
        fresh = SQLCheckpointer(self.ours[0].database.engine)
        for saver in (fresh, *self.ours):
            assert {tuple(one.config["configurable"].values()) for one in saver.list(None)} == {*self.theirs.all()}
        for key in self.theirs.all():
            assert shape(fresh.get_tuple(place(key))) == shape(self.theirs.get_tuple(place(key)))


def shape(found: Any) -> Any:
    """A checkpoint with the types of all its parts; the order of channels means nothing."""
    if found is None:
        return None
    checkpoint = {name: part for name, part in found.checkpoint.items() if name != "channel_values"}
    values = {name: told(part) for name, part in found.checkpoint["channel_values"].items()}
    writes = [(task, channel, told(value)) for task, channel, value in found.pending_writes]
    return values, checkpoint, found.metadata, found.parent_config, writes


def merged(values: list[Any], *new: Any) -> list[Any]:
    """As a graph's reducer would; what is no message is dropped."""
    return add_messages(messages(values), list(new))  # type: ignore[arg-type, return-value]


def messages(values: list[Any]) -> list[Any]:
    """Those that are messages."""
    return [one for one in values if isinstance(one, BaseMessage)]


def edited(values: list[Any], a: int, make: Callable[[str], Any]) -> list[Any]:
    """With a message that has the id of one of them."""
    ids = [one.id for one in messages(values)]
    return merged(values, make(ids[a % len(ids)])) if ids else values


LISTS: dict[str, Callable[[list[Any], int, int], list[Any]]] = {
    "append": lambda values, a, b: merged(values, message(40 + a), message(90 + b)),
    "again": lambda values, a, b: [*values, *values[: a % 3]],
    "edit": lambda values, a, b: edited(values, a, lambda id: HumanMessage("x" * b, id=id)),
    "remove": lambda values, a, b: edited(values, a, lambda id: RemoveMessage(id=id)),
    "trim": lambda values, a, b: values[-(a % 9 + 1) :],
    "turn": lambda values, a, b: values[b % 5 :] + values[: b % 5],
    "overwrite": lambda values, a, b: [message(n) for n in range(a % 20, a % 20 + b % 30)],
    "clear": lambda values, a, b: [],
    "mixed": lambda values, a, b: [*values, {"role": "user", "content": "y" * b}, (a, b)] if a % 5 == 0 else values,
}
OTHERS = ("write", "write", "in place", "in place", "copied", "pruned", "rid", "deleted")
step = st.tuples(
    st.sampled_from([*LISTS, "append", "append", "append", *OTHERS]), st.integers(0, 40), st.integers(0, 40)
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(step, min_size=5, max_size=20))
def test_it_is_as_in_memory(migrated: Path, steps: list[tuple[str, int, int]]) -> None:
    engine = in_memory(migrated)
    with closing(engine.raw_connection()):
        compare(World([SQLCheckpointer(engine), SQLCheckpointer(engine)]), steps)
    engine.dispose()


def compare(world: World, steps: list[tuple[str, int, int]]) -> None:
    """Do the steps, and look after each."""
    for step in steps:
        world.do(*step)
        world.check({"limit": 3})
    world.check_all()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@settings(max_examples=max(3, EXAMPLES // 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=5, max_size=20))
def test_it_is_as_in_memory_on_a_server(saver: SQLCheckpointer, steps: list[tuple[str, int, int]]) -> None:
    engine = saver.database.engine
    saver.setup()
    with engine.begin() as conn:
        conn.execute(delete(saver.database.tables.sessions))
    compare(World([SQLCheckpointer(engine), SQLCheckpointer(engine)]), steps)
