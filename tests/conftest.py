"""Fixtures that all folders share: the four modes, and savers."""

from __future__ import annotations

import shutil
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


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the schema: a copy is made faster than the schema."""
    path = tmp_path_factory.mktemp("empty") / "agent.db"
    SQLCheckpointer(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def sql(tmp_path: Path, empty_database: Path) -> Iterator[SQLCheckpointer]:
    """A saver on an SQLite file of its own."""
    path = tmp_path / "agent.db"
    for part in empty_database.parent.iterdir():  # the write-ahead log too, if it is still there
        shutil.copy(part, path.with_name(part.name))
    with SQLCheckpointer(f"sqlite:///{path}") as saver:
        yield saver


@pytest.fixture
def memory() -> InMemorySaver:
    """LangGraph's saver, where it does not matter which one keeps the thread."""
    return InMemorySaver()


@pytest.fixture(params=["memory", "sqlite"])
def any_saver(request: pytest.FixtureRequest) -> Any:
    """LangGraph's saver in memory, and ours on SQLite."""
    return InMemorySaver() if request.param == "memory" else request.getfixturevalue("sql")
