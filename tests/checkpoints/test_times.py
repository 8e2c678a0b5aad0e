"""The time of a checkpoint comes back as the same text, whatever stands there; the usual one takes nine bytes."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from scallion.sql.checkpoints import _time
from scallion.sql.encoding import pack
from scallion.sql.saver import SQLCheckpointer

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "input", "step": -1, "parents": {}}
TIMES = [
    "2026-12-01T13:00:00.123456+00:00", "2026-12-01T13:00:00+00:00", "1969-12-31T23:59:59.999999+00:00",
    "0001-01-01T00:00:00+00:00", "2026-12-01T13:00:00Z", "2026-12-01T13:00:00.120+00:00", "2026-12-01T13:00:00",
    "2026-12-01T13:00:00+02:00", "9999-12-31T23:59:59.999999-12:00", "0001-01-01T00:00:00+12:00", "soon", "", None, 0,
    7, 1.5, True, ["x"],
]  # fmt: skip


@pytest.mark.parametrize("time", TIMES, ids=repr)
def test_it_comes_back_as_it_was(saver: SQLCheckpointer, time: Any) -> None:
    new: Any = {**empty_checkpoint(), "ts": time}
    at = saver.put(CONFIG, new, METADATA, {})
    found: Any = saver.get_tuple(at)
    assert (found.checkpoint["ts"], type(found.checkpoint["ts"])) == (time, type(time))


def test_the_usual_one_is_short() -> None:
    assert len(pack(_time(empty_checkpoint()["ts"]))) == 9
