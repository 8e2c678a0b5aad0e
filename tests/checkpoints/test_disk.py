"""SQLite files that cannot be opened, read, written or found: what is told, and that nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from checkpoints.graphs_that_ask import Loop
from langchain_core.messages import HumanMessage
from langgraph.types import Command
from sqlalchemy import event

from scallion.errors import StorageError
from scallion.inbox import Inbox
from scallion.sql.saver import SQLCheckpointer

CONFIG: Any = {"configurable": {"thread_id": "t"}}
LARGE = "x" * 500_000


@pytest.fixture
def file(tmp_path: Path, migrated: Path) -> Path:
    """A database with a paused thread."""
    path = tmp_path / "agent.db"
    path.write_bytes(migrated.read_bytes())
    with SQLCheckpointer(f"sqlite:///{path}") as saver:
        Loop(saver).graph.invoke({"messages": [HumanMessage("pay")]}, CONFIG)
    return path


def check_nothing_is_lost(saver: SQLCheckpointer) -> None:
    """The thread is paused as before, and goes on."""
    graph = Loop(saver).graph
    open_now = {one.id for one in graph.get_state(CONFIG).interrupts}
    assert len(open_now) == 2
    assert open_now <= {one.id for one in saver.approvals.list(thread="t").items}
    while found := graph.get_state(CONFIG).interrupts:
        graph.invoke(Command(resume={one.id: "yes" for one in found}), CONFIG)
    assert graph.get_state(CONFIG).values["messages"][-1].text == "done"
    assert saver.approvals.list(thread="t").items == []


class Disk:
    """A saver whose file may have only so many pages."""

    def __init__(self, file: Path) -> None:
        self.saver = SQLCheckpointer(f"sqlite:///{file}")
        self.pages = 1 << 30
        event.listen(self.saver.database.engine, "begin", self._limit)

    def _limit(self, conn: Any) -> None:
        conn.connection.dbapi_connection.execute(f"PRAGMA max_page_count={self.pages}")


@pytest.fixture
def disk(file: Path) -> Iterator[Disk]:
    made = Disk(file)
    with made.saver:
        yield made


def test_a_full_disk(disk: Disk, file: Path) -> None:
    disk.pages = 1  # as many as there are
    with pytest.raises(StorageError, match=rf"{file}.*full.*SQLITE_FULL"):
        Loop(disk.saver).graph.invoke({"messages": [HumanMessage(LARGE)]}, CONFIG)
    with pytest.raises(StorageError, match="full"):
        Loop(disk.saver).graph.invoke({"messages": [HumanMessage(LARGE)]}, {"configurable": {"thread_id": "new"}})
    assert len(Loop(disk.saver).graph.get_state(CONFIG).interrupts) == 2
    disk.pages = 1 << 30
    check_nothing_is_lost(disk.saver)


async def test_a_full_disk_in_async_calls(disk: Disk) -> None:
    disk.pages = 1
    with pytest.raises(StorageError, match="SQLITE_FULL"):
        await Loop(disk.saver).graph.ainvoke({"messages": [HumanMessage(LARGE)]}, CONFIG)
    disk.pages = 1 << 30
    check_nothing_is_lost(disk.saver)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_a_file_that_may_not_grow(file: Path) -> None:
    """A limit on the size of files, in a process of its own: writes fail in the middle of the log."""
    script = (
        "import resource, sys; from checkpoints.test_disk import *\n"
        "with SQLCheckpointer(f'sqlite:///{sys.argv[1]}') as saver:\n"
        "    graph = Loop(saver).graph; graph.get_state(CONFIG)\n"
        "    size = os.path.getsize(sys.argv[1])\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))\n"
        "    try: graph.invoke({'messages': [HumanMessage(LARGE)]}, CONFIG)\n"
        "    except StorageError as error: print(error)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "    check_nothing_is_lost(saver)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)], env=_env(), capture_output=True, text=True, check=False
    )
    assert str(file) in done.stdout, done.stderr
    assert "full" in done.stdout
    assert done.returncode == 0, done.stderr


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("make", [SQLCheckpointer, Inbox])
def test_a_directory_that_is_not_there(tmp_path: Path, make: Any) -> None:
    with make(f"sqlite:///{tmp_path}/none/agent.db") as used, pytest.raises(StorageError) as refused:
        used.sessions.list()
    assert f"{tmp_path}/none/agent.db cannot be opened: there is no directory {tmp_path}/none; make it" in str(
        refused.value
    )


def test_a_directory_in_the_place_of_the_file(tmp_path: Path) -> None:
    with SQLCheckpointer(f"sqlite:///{tmp_path}") as saver, pytest.raises(StorageError, match="it is a directory"):
        saver.sessions.list()


@pytest.mark.parametrize(
    "content", [b"This is a text, and long enough to be read as one." * 20, b"SQLite format 3\0" * 99]
)
def test_a_file_of_another_kind(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes(content)
    with SQLCheckpointer(f"sqlite:///{path}") as saver, pytest.raises(StorageError, match=f"{path}: it is "):
        saver.sessions.list()
    assert path.read_bytes() == content


def test_a_damaged_file(file: Path) -> None:
    whole = file.read_bytes()
    page = 4096
    file.write_bytes(whole[:page] + os.urandom(len(whole) - page))
    with SQLCheckpointer(f"sqlite:///{file}") as saver, pytest.raises(StorageError, match=f"{file}: it is damaged"):
        saver.sessions.list()
    file.write_bytes(whole)
    with SQLCheckpointer(f"sqlite:///{file}") as saver:
        check_nothing_is_lost(saver)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_file_that_was_deleted_while_it_was_open(file: Path, replaced: bool, is_async: bool) -> None:
    whole = file.read_bytes()
    with SQLCheckpointer(f"sqlite:///{file}") as saver:
        graph = Loop(saver).graph
        graph.get_state(CONFIG)
        for one in file.parent.glob("agent.db*"):
            one.unlink()
        if replaced:
            file.write_bytes(whole)
        for _ in range(2):
            with pytest.raises(StorageError, match=f"{file} was deleted or replaced"):
                (await saver.sessions.alist()) if is_async else saver.sessions.list()
    file.write_bytes(whole)
    with SQLCheckpointer(f"sqlite:///{file}") as saver:
        check_nothing_is_lost(saver)


def test_the_working_folder_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SQLCheckpointer("sqlite:///agent.db") as saver:
        assert saver.sessions.list().items == []
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert saver.sessions.list().items == []
    assert (tmp_path / "agent.db").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_what_may_only_be_read(file: Path) -> None:
    """In a process without the rights of the superuser, to whom everything is permitted."""
    script = (
        "import sys; from checkpoints.test_disk import *\n"
        "file = Path(sys.argv[1]); os.geteuid() or os.setuid(int(sys.argv[2]))\n"
        "for one, mode in ((file, 0o444), (file.parent, 0o555)):\n"
        "    one.chmod(mode)\n"
        "    with SQLCheckpointer(f'sqlite:///{file}') as saver:\n"
        "        try: Loop(saver).graph.invoke({'messages': [HumanMessage('pay')]}, CONFIG)\n"
        "        except StorageError as error: print(error)\n"
        "    one.chmod(0o755)\n"
    )
    with TemporaryDirectory() as folder:  # others may not enter the folder of pytest
        copy = Path(folder) / file.name
        copy.write_bytes(file.read_bytes())
        owner = os.geteuid() or 65534
        for one in (copy.parent, copy):
            os.chown(one, owner, -1)
        words = [sys.executable, "-c", script, str(copy), str(owner)]
        done = subprocess.run(words, env=_env(), capture_output=True, text=True, check=False)
        told = done.stdout.splitlines()
        assert [str(copy) in line for line in told] == [True, True], done.stderr
        assert "may only be read" in told[0]
        with SQLCheckpointer(f"sqlite:///{copy}") as saver:
            check_nothing_is_lost(saver)


def test_a_connection_that_may_only_read(file: Path) -> None:
    with SQLCheckpointer(f"sqlite:///file:{file}?mode=ro&uri=true") as saver:
        assert len(Loop(saver).graph.get_state(CONFIG).interrupts) == 2
        with pytest.raises(StorageError, match="it may only be read"):
            Loop(saver).graph.invoke({"messages": [HumanMessage("pay")]}, CONFIG)
    with SQLCheckpointer(f"sqlite:///{file}") as saver:
        check_nothing_is_lost(saver)
