"""`python -m benchmarks.conformance`: LangGraph's own conformance suite on its savers and on ours, as a table.

The suite tests async methods. Sync ones are tested too, by a subclass that answers async calls with them. The table is
written into `docs/checkpointer.md`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from sqlalchemy import create_engine, make_url, text

from scallion import SQLCheckpointer

PAGE = Path(__file__).parents[1] / "docs" / "checkpointer.md"
MARK = "<!-- the table below is written by `python -m benchmarks.conformance` -->"
CAPABILITIES = (
    "put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs", "copy_thread", "prune",
)  # fmt: skip
SERVERS = {
    "postgresql": os.environ.get("SCALLION_TEST_POSTGRES_URL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"),
    "mysql": os.environ.get("SCALLION_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1:3306/mysql"),
}
Opened = Callable[[], AbstractAsyncContextManager[Any]]


@contextmanager
def _database(driver: str) -> Iterator[str]:
    """The URL of a new database: a file, or one on a server."""
    if driver == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/store.db"
        return
    home, name = make_url(SERVERS[driver.split("+")[0]]), f"scallion_suite_{uuid4().hex[:12]}"
    admin = create_engine(home, isolation_level="AUTOCOMMIT")
    with admin.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield home.set(drivername=driver, database=name).render_as_string(False)
    finally:
        with admin.connect() as conn:
            conn.execute(text(f"DROP DATABASE {name}" + (" WITH (FORCE)" if driver.startswith("postgresql") else "")))
        admin.dispose()


def ours(url: str) -> Opened:
    """Our saver on a new database."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        with _database(url) as place:
            async with SQLCheckpointer(place, auto_upgrade=True) as saver:
                yield saver

    return opened


def theirs(driver: str, connect: Callable[[str], Any]) -> Opened:
    """A saver of LangGraph, which `connect` opens on the place that LangGraph names in its own way."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        with _database(driver) as url:
            plain = url.removeprefix("sqlite:///").replace("+psycopg", "")
            manager = connect(plain)
            if hasattr(manager, "__aenter__"):
                async with manager as saver:
                    await saver.setup()
                    yield saver
            else:
                with manager as saver:
                    saver.setup()
                    yield saver

    return opened


@asynccontextmanager
async def _in_memory() -> AsyncIterator[Any]:
    from langgraph.checkpoint.memory import InMemorySaver

    yield InMemorySaver()


def savers() -> dict[str, tuple[Opened, bool]]:
    """Every saver by its name in the table, and whether its sync methods are meant."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    psycopg = "postgresql+psycopg"
    found: dict[str, tuple[Opened, bool]] = {
        "`InMemorySaver`": (_in_memory, False),
        "`SqliteSaver`": (theirs("sqlite", SqliteSaver.from_conn_string), True),
        "`AsyncSqliteSaver`": (theirs("sqlite", AsyncSqliteSaver.from_conn_string), False),
        "`PostgresSaver`": (theirs(psycopg, PostgresSaver.from_conn_string), True),
        "`AsyncPostgresSaver`": (theirs(psycopg, AsyncPostgresSaver.from_conn_string), False),
    }
    for driver in ("sqlite", psycopg, "postgresql+asyncpg", "mysql+pymysql", "mysql+asyncmy"):
        for is_sync in (True, False):
            found[f"`SQLCheckpointer`, {driver}, {'sync' if is_sync else 'async'}"] = ours(driver), is_sync
    return found


def sync_side(kind: type[BaseCheckpointSaver[Any]]) -> type[BaseCheckpointSaver[Any]]:
    """The class with async methods that call the sync ones, as far as it has these."""

    def made(name: str) -> Any:
        async def call(self: Any, *args: Any, **options: Any) -> Any:
            return getattr(self, name)(*args, **options)

        async def each(self: Any, *args: Any, **options: Any) -> Any:
            for one in self.list(*args, **options):
                yield one

        return each if name == "list" else call

    own = [name for name in CAPABILITIES if getattr(kind, name, None) is not getattr(BaseCheckpointSaver, name, None)]
    return type(kind.__name__, (kind,), {f"a{name}": made(name) for name in own})


async def row(opened: Opened, is_sync: bool) -> list[str]:
    """What the suite says of each capability: tests passed of all, or that there is none."""

    async def fresh() -> AsyncIterator[Any]:
        async with opened() as saver:
            if is_sync:
                saver.__class__ = sync_side(type(saver))
            yield saver

    report = await validate(checkpointer_test(name="saver")(fresh))
    return [_cell(report.results.get(name)) for name in CAPABILITIES]


def _cell(result: Any) -> str:
    if result is None or not result.detected:
        return "none"
    return f"{result.tests_passed}/{result.tests_passed + result.tests_failed}"


def line(name: str, cells: list[str]) -> str:
    """A line of the table: how many capabilities are whole, then each."""
    whole = sum(len(set(cell.split("/"))) == 1 and cell != "none" for cell in cells)
    return "| " + " | ".join([name, f"{whole} of {len(CAPABILITIES)}", *cells]) + " |"


async def table() -> str:
    """The whole table in Markdown."""
    head = ["", "whole", *(f"`{name}`" for name in CAPABILITIES)]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for name, (opened, is_sync) in savers().items():
        print(name, file=sys.stderr)
        lines.append(line(name, await row(opened, is_sync)))
    return "\n".join(lines)


def main() -> None:
    """Run everything, and rewrite the table of the page."""
    found = asyncio.run(table())
    print(found)
    before, _, after = PAGE.read_text().partition(MARK)
    rest = after.lstrip("\n").split("\n\n", 1)[1] if "\n\n" in after.lstrip("\n") else ""
    PAGE.write_text(f"{before}{MARK}\n\n{found}\n\n{rest}")


if __name__ == "__main__":
    main()
