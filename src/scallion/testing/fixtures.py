"""Fixtures for pytest: `pytest_plugins = ["scallion.testing.fixtures"]` in the topmost `conftest.py`.

Nothing else of this package imports pytest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from scallion.errors import ConfigurationError
from scallion.sql.saver import SQLCheckpointer
from scallion.testing.clock import Clock
from scallion.testing.executions import Executions
from scallion.testing.executions import executions as watching
from scallion.testing.model import ScriptedModel
from scallion.testing.modes import MODES, Drive, Driver, Mode
from scallion.testing.replay import ReplayModel

RECORD = "SCALLION_RECORD"
"""The environment variable that has `cassette` record anew."""
LONGEST = 150
"""Bytes of a file's name that are those of the test's; few file systems take more than 255."""
_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed: what its models had left then says nothing."""
    report = yield
    if report.when == "call" and not report.passed:
        item.stash[_failed] = True
    return report


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    """Each of invoke, ainvoke, stream and astream."""
    chosen: Mode = request.param
    return chosen


@pytest.fixture
def drive(mode: Mode) -> Drive:
    """`drive(agent).start(input, thread=...) -> (result, events)` and `.resume(thread, decisions)`, in each mode."""
    return lambda agent: Driver(agent, mode)


@pytest.fixture
def scripted_model(request: pytest.FixtureRequest) -> Iterator[Callable[..., ScriptedModel]]:
    """`scripted_model(replies, ...)`: strict, and at the end of the test each reply has to have been asked for."""
    made: list[ScriptedModel] = []

    def make(replies: Any, **fields: Any) -> ScriptedModel:
        made.append(ScriptedModel(replies, **{"strict": True, **fields}))
        return made[-1]

    yield make
    _check_done(request, made)


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Callable[..., ReplayModel]]:
    """`cassette(make)`: a ReplayModel of the test's own file in the folder `cassettes` beside the test's module.

    With SCALLION_RECORD set to 1 it is recorded anew from `make()`, a function that gives the real model, which nothing
    calls otherwise. `name=`: behind that of the test, for a test with several. The rest as for ReplayModel.
    """
    made: list[ReplayModel] = []

    def play(make: Callable[[], BaseChatModel], *, name: str | None = None, **options: Any) -> ReplayModel:
        path = _path(request.node, name)
        if _records():
            made.append(ReplayModel(path, records=make(), again=True, **options))
        elif path.exists():
            made.append(ReplayModel(path, **options))
        else:
            raise ConfigurationError(f"there is no cassette {path}: run the test once with {RECORD}=1 to record it")
        return made[-1]

    yield play
    _check_done(request, made)


@pytest.fixture
def executions() -> Iterator[Executions]:
    """What tools ran in the test, for `assert_called_once(executions, tool, ...)`."""
    with watching() as ran:
        yield ran


@pytest.fixture
def clock() -> Clock:
    """The clock of `sqlite_saver`, which stands still until it is moved: `clock.forward(hours=2)`."""
    return Clock()


@pytest.fixture
def sqlite_saver(tmp_path: Path, clock: Clock) -> Iterator[SQLCheckpointer]:
    """A SQLCheckpointer on a file of the test's own, by `clock`."""
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}", clock=clock) as saver:
        yield saver


def _records() -> bool:
    return os.environ.get(RECORD, "").lower() not in ("", "0", "false", "no")


def _path(test: pytest.Item, name: str | None) -> Path:
    """A file of this test alone: no other test of the module has it, whatever either is called."""
    classes = [one.name for one in test.listchain() if isinstance(one, pytest.Class)]
    named = ".".join([*classes, test.name, *([name] if name is not None else [])])
    return test.path.parent / "cassettes" / test.path.stem / f"{_file_name(named)}.json"


def _file_name(named: str) -> str:
    """The name as that of a file; where something of it is lost, a hash tells it from others."""
    plain = re.sub(r"[^\w.-]+", "_", named).strip("_")
    if plain == named and len(plain.encode()) <= LONGEST:
        return plain
    return f"{plain.encode()[:LONGEST].decode(errors='ignore')}-{sha256(named.encode()).hexdigest()[:8]}"


def _check_done(request: pytest.FixtureRequest, models: list[Any]) -> None:
    if request.node.stash.get(_failed, False):
        return
    problems = [problem for one in models for problem in one.problems()]
    if problems:
        pytest.fail("; ".join(problems), pytrace=False)
