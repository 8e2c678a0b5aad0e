"""Fixtures that all folders share: the four modes, and savers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from modes import MODES, Drive, Driver, Mode

from scallion import SQLCheckpointer


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    """Each of invoke, ainvoke, stream and astream."""
    return request.param


@pytest.fixture
def drive(mode: Mode) -> Drive:
    """`drive(agent).start(input, thread=...) -> (result, events)` and `.resume(thread, decisions)`, in each mode."""
    return lambda agent: Driver(agent, mode)


@pytest.fixture
def sql(tmp_path: Path) -> Iterator[SQLCheckpointer]:
    """A saver on an SQLite file of its own."""
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}") as saver:
        yield saver


@pytest.fixture(params=["memory", "sqlite"])
def any_saver(request: pytest.FixtureRequest) -> Any:
    """LangGraph's saver in memory, and ours on SQLite."""
    return InMemorySaver() if request.param == "memory" else request.getfixturevalue("sql")
