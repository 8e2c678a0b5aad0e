"""What a process remembers of a database is bounded in bytes, however much it reads and writes."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from scallion.sql import memory
from scallion.sql.saver import SQLCheckpointer

FEW = 1_000_000
"""What the tests let a process remember of anything."""
STORED = 8_000_000


def at(thread: str, id: str | None = None) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id}}


def put(saver: SQLCheckpointer, config: Any, value: Any, n: int) -> Any:
    checkpoint = {**empty_checkpoint(), "id": f"{n:08}", "channel_values": {"x": value}, "channel_versions": {"x": n}}
    return saver.put(config, checkpoint, {"source": "loop", "step": n, "parents": {}}, {"x": n})  # type: ignore[arg-type,typeddict-item]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Tells how many bytes were allocated and are still there."""
    for name in ("MOST", "BLOBS", "SERIES"):
        monkeypatch.setattr(memory, name, FEW)
    tracemalloc.start()
    yield lambda: (gc.collect() and 0) or tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("size", "threads", "as_messages"),
    [(400_000, 1, False), (40_000, 1, False), (400_000, 1, True), (40_000, 8, True)],
)
def test_values_that_change(held: Any, tmp_path: Any, size: int, threads: int, as_messages: bool) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with SQLCheckpointer(url) as writer, SQLCheckpointer(url) as reader:
        configs = {f"t{n}": at(f"t{n}") for n in range(threads)}
        put(writer, at("warm"), "up", 1)
        list(reader.list(at("warm")))
        before = held()
        for n in range(STORED // size // threads):
            for thread, config in configs.items():
                text = random.Random(f"{n} {thread}").randbytes(size // 2).hex()
                value = [HumanMessage(text, id="m")] if as_messages else text
                configs[thread] = put(writer, config, value, n + 1)
        del text, value
        assert held() - before < 2.5 * FEW
        for thread in configs:
            assert len(list(reader.list(at(thread)))) == STORED // size // threads
        assert held() - before < 6 * FEW
