"""The official suite, for the async methods and, through an adapter, for the sync ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from checkpoints.databases import everywhere
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.conformance import checkpointer_test, validate

from scallion.sql.saver import SQLCheckpointer

BASE = {"put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5}
EXTENDED = {"delete_for_runs": 7, "copy_thread": 8, "prune": 8}


class SyncSide(SQLCheckpointer):
    """Answers async calls with the sync methods, so that the suite tests those."""

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        for found in self.list(config, **options):
            yield found

    async def aput(self, *args: Any) -> Any:
        return self.put(*args)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        self.put_writes(*args, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, **options: Any) -> None:
        self.prune(thread_ids, **options)


@everywhere
@pytest.mark.parametrize("kind", [SQLCheckpointer, SyncSide])
async def test_every_capability_passes(database: str, kind: type[SQLCheckpointer]) -> None:
    @checkpointer_test(name=kind.__name__)
    async def fresh() -> AsyncIterator[SQLCheckpointer]:
        async with kind(database, auto_upgrade=True) as saver:
            yield saver

    report = await validate(fresh)
    failures = [failure for result in report.results.values() for failure in result.failures or []]
    assert failures == []
    passed = {name: result.tests_passed for name, result in report.results.items() if result.detected}
    assert passed == BASE | EXTENDED
