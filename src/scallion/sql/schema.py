"""The schema's version: asked with a plain SELECT, changed by Alembic, which is imported only for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, column, inspect, select, table, text

from scallion.errors import SchemaError
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0002"
"""The revision that this program reads and writes."""

LOCK = 0x5CA1110
"""The number of the advisory lock that upgrades of one database take."""


def current(conn: Connection, t: Tables) -> str | None:
    """The database's revision; None before the first upgrade."""
    if not inspect(conn).has_table(t.version_table):
        return None
    version = table(t.version_table, column("version_num"))
    revision: str | None = conn.execute(select(version.c.version_num)).scalar()
    return revision


def check(conn: Connection, t: Tables) -> None:
    """Raise SchemaError, naming the command that helps, unless the database fits this program."""
    revision = current(conn, t)
    if revision == HEAD:
        return
    if revision is None:
        check_free(conn, t)
        raise SchemaError(f"the database has no schema yet (needs {HEAD}): run `scallion db upgrade`, or call setup()")
    if revision < HEAD:
        raise SchemaError(f"the database is at {revision}, older than {HEAD}: run `scallion db upgrade`")
    raise SchemaError(
        f"the database is at {revision}, newer than {HEAD} of this program: run `pip install --upgrade scallion`"
    )


def check_free(conn: Connection, t: Tables) -> None:
    """Raise SchemaError if a database without a revision has tables of our names: they must not be touched."""
    inspector = inspect(conn)
    taken = sorted(set(inspector.get_table_names()) & t.metadata.tables.keys())
    if not taken:
        return
    names = ", ".join(taken)
    if any(_missing(inspector.get_columns(name), t.metadata.tables[name]) for name in taken):
        raise SchemaError(f"tables of another program have the names of ours ({names}): give yours a prefix=...")
    if len(taken) < len(t.metadata.tables):
        raise SchemaError(
            f"the database is half made ({names} without the others): drop these, or give new ones a prefix=..."
        )
    raise SchemaError(
        f"the tables are there ({names}), but not their revision: if they are Scallion's, run "
        f"`scallion db stamp {HEAD}`, otherwise give yours a prefix=..."
    )


def check_tables(conn: Connection, t: Tables) -> None:
    """Raise SchemaError, naming what is missing, unless the tables are those of this program."""
    inspector = inspect(conn)
    there = set(inspector.get_table_names())
    missing = sorted(t.metadata.tables.keys() - there)
    for name in sorted(t.metadata.tables.keys() & there):
        missing += [f"{name}.{part}" for part in _missing(inspector.get_columns(name), t.metadata.tables[name])]
    if missing:
        raise SchemaError(
            f"the database says that it is at {HEAD}, but has no {', '.join(missing)}: its tables are of another "
            "program or version; restore them, or give new ones a prefix=..."
        )


def _missing(columns: Iterable[Mapping[str, Any]], ours: Table) -> list[str]:
    there = {column["name"] for column in columns}
    return [column.name for column in ours.columns if column.name not in there]


def upgrade(conn: Connection, t: Tables, revision: str = "head") -> None:
    """Bring the database up to `revision`. Any number of processes may call this at once; each migration runs once."""
    from alembic import command

    with _locked(conn):
        found = current(conn, t)
        if found is not None and found > HEAD:
            check(conn, t)
        if found is None:
            check_free(conn, t)
        command.upgrade(config(conn, t), revision)


def stamp(conn: Connection, t: Tables, revision: str = "head") -> None:
    """Write down that the database is at `revision` without migrating it."""
    from alembic import command

    with _locked(conn):
        command.stamp(config(conn, t), revision)


def script(t: Tables, dialect: str) -> None:
    """Print the SQL that brings an empty database of this dialect up to date."""
    from alembic import command

    settings = config(None, t)
    settings.attributes["dialect"] = dialect
    command.upgrade(settings, "head", sql=True)


def config(conn: Connection | None, t: Tables) -> Config:
    """Alembic's settings, without an ini file; the connection carries the lock and the transaction."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(location()).replace("%", "%%"))
    settings.attributes.update(connection=conn, tables=t)
    return settings


def location() -> Path:
    """The directory of the migrations: inside the wheel, or at the top of the repository."""
    package = Path(__file__).parents[1]
    shipped = package / "_migrations"
    return shipped if shipped.is_dir() else package.parents[1] / "migrations"


@contextmanager
def _locked(conn: Connection) -> Iterator[None]:
    """One upgrade at a time; SQLite's BEGIN IMMEDIATE is such a lock already."""
    name = conn.dialect.name
    if name == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    if name not in ("mysql", "mariadb"):
        yield
        return
    conn.execute(text("SELECT get_lock(concat('scallion ', database()), 120)"))
    try:
        yield
        conn.execute(text("COMMIT"))  # who waits for the lock must see the revision
    finally:
        conn.execute(text("SELECT release_lock(concat('scallion ', database()))"))
