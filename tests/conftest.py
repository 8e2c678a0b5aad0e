"""Fixtures that all folders share: those of the test kit, with the four modes, and savers."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from scallion import SQLCheckpointer

pytest_plugins = ["scallion.testing.fixtures"]


IN_MEMORY = Path("/dev/shm")
ENOUGH = 4 << 30
"""Bytes: several times what the files of a whole run take."""


def pytest_configure() -> None:
    """Keep the files of the tests in memory where there is room: SQLite has each commit wait for the disk."""
    if IN_MEMORY.is_dir():
        found = os.statvfs(IN_MEMORY)
        if found.f_bavail * found.f_frsize >= ENOUGH and not found.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Half as many again as there are processors: they wait for servers, and for processes of their own."""
    found = yield
    return found if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else found + found // 2


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of each search for garbage: it stays, and is most of what there is."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the schema: a copy is made faster than the schema."""
    path = tmp_path_factory.mktemp("empty") / "agent.db"
    with SQLCheckpointer(f"sqlite:///{path}") as saver:
        saver.setup()
    return path


@pytest.fixture
def sql(tmp_path: Path, empty_database: Path) -> Iterator[SQLCheckpointer]:
    """A saver on an SQLite file of its own."""
    path = shutil.copy(empty_database, tmp_path / "agent.db")
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
