"""The schema's version: asked with a plain SELECT, changed by Alembic, which is imported only for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Inspector, Table, UniqueConstraint, column, inspect, select, table, text
from sqlalchemy.exc import DBAPIError, NoSuchTableError
from sqlalchemy.schema import CreateSchema

from scallion.errors import ConfigurationError, SchemaError
from scallion.sql.tables import Tables, tables

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0005"
"""The revision that this program reads and writes."""

LOCK = 0x5CA1110
"""The seed of the advisory locks that upgrades take: one for each set of tables, so that others need not wait."""

WAIT = 120
"""How many seconds an upgrade waits for another one of the same tables."""


def current(conn: Connection, t: Tables) -> str | None:
    """The database's revision; None before the first upgrade. Raises ConfigurationError if no database is named."""
    if t.schema is None and conn.dialect.name in ("mysql", "mariadb") and conn.dialect.default_schema_name is None:
        raise ConfigurationError("the URL names no database: mysql+pymysql://user:password@host/name")
    inspector = inspect(conn)
    is_there = inspector.has_table(t.version_table, schema=t.schema)
    if conn.dialect.name == "sqlite" or not is_there:
        _check_case(conn, t, inspector)
    if not is_there:
        return None
    version = table(t.version_table, column("version_num"), schema=t.schema)
    revision: str | None = conn.execute(select(version.c.version_num)).scalar()
    return revision


def _check_case(conn: Connection, t: Tables, inspector: Inspector) -> None:
    """Raise SchemaError where a prefix is there that differs from ours in the case of letters only.

    To SQLite they are one, and MySQL, which tells the tables apart, takes the names of their constraints for one.
    """
    if conn.dialect.name == "postgresql" or not _has_schema(conn, t):
        return
    same = [one for one in inspector.get_table_names(schema=t.schema) if one.lower() == t.version_table.lower()]
    if same and t.version_table not in same:
        other = same[0].removesuffix(tables("").version_table)
        raise SchemaError(
            f"there are tables with the prefix {other!r}, which to this database is the same as {t.prefix!r}: write it "
            "like that, or give another prefix=..."
        )


def check(conn: Connection, t: Tables) -> None:
    """Raise SchemaError, naming the command that helps, unless the database fits this program."""
    revision = current(conn, t)
    if revision == HEAD:
        return
    upgrade = _command(t, "upgrade")
    if revision is None:
        if check_free(conn, t):
            raise SchemaError(f"an upgrade of the database was begun and did not end: run {upgrade} again")
        raise SchemaError(f"the database has no schema yet (needs {HEAD}): run {upgrade}, or call setup()")
    if revision < HEAD:
        raise SchemaError(f"the database is at {revision}, older than {HEAD}: run {upgrade}")
    raise SchemaError(
        f"the database is at {revision}, newer than {HEAD} of this program: run `pip install --upgrade scallion`"
    )


def is_ours(name: str | None, prefix: str = "") -> bool:
    """Whether a table of that name is Scallion's, where its tables have this prefix.

    For the migrations of a program that shares the database: what is ours they must not drop.
    """
    t = tables(prefix)
    ours = {t.version_table, *t.metadata.tables}
    return name in ours | {one.lower() for one in ours}  # MySQL keeps names like that on some systems


def _command(t: Tables, verb: str) -> str:
    """The command line for these tables."""
    where = [f" --{name} {value}" for name, value in (("schema", t.schema), ("prefix", t.prefix)) if value]
    return f"`scallion db {verb}{''.join(where)}`"


def check_free(conn: Connection, t: Tables) -> bool:
    """Raise SchemaError if a database without a revision has tables of our names: they must not be touched.

    They may be there where an upgrade was interrupted, which leaves an empty table for the revision; then True.
    """
    inspector = inspect(conn)
    names = set(inspector.get_table_names(schema=t.schema)) if _has_schema(conn, t) else set[str]()
    taken = {one.name: one for one in t.metadata.tables.values() if one.name in names}
    if not taken:
        return False
    told = ", ".join(sorted(taken))
    if t.version_table in names:
        return True
    if any(_missing_columns(inspector, one) for one in taken.values()):
        raise SchemaError(f"tables of another program have the names of ours ({told}): give yours a prefix=...")
    if len(taken) < len(t.metadata.tables):
        raise SchemaError(
            f"the database is half made ({told} without the others): drop these, or give new ones a prefix=..."
        )
    raise SchemaError(
        f"the tables are there ({told}), but not their revision: if they are Scallion's, run "
        f"{_command(t, f'stamp {HEAD}')}, otherwise give yours a prefix=..."
    )


def check_tables(conn: Connection, t: Tables) -> None:
    """Raise SchemaError, naming what is missing, unless tables, columns and indexes are those of this program."""
    inspector = inspect(conn)
    there = set(inspector.get_table_names(schema=t.schema))
    missing = sorted(one.name for one in t.metadata.tables.values() if one.name not in there)
    for one in sorted(t.metadata.tables.values(), key=lambda one: one.name):
        if one.name in there:
            missing += [f"{one.name}.{part}" for part in _missing_columns(inspector, one)]
            missing += [f"index {name}" for name in _missing_indexes(inspector, one)]
    if missing:
        raise SchemaError(
            f"the database says that it is at {HEAD}, but has no {', '.join(missing)}: its tables are of another "
            "program or version; restore them, or give new ones a prefix=..."
        )


def _missing_columns(inspector: Inspector, ours: Table) -> list[str]:
    there = {column["name"] for column in inspector.get_columns(ours.name, schema=ours.schema)}
    return [column.name for column in ours.columns if column.name not in there]


def _missing_indexes(inspector: Inspector, ours: Table) -> list[str]:
    found = [*inspector.get_indexes(ours.name, ours.schema), *inspector.get_unique_constraints(ours.name, ours.schema)]
    there = {one["name"] for one in found}
    unique = [str(one.name) for one in ours.constraints if isinstance(one, UniqueConstraint)]
    return sorted({*unique, *(str(one.name) for one in ours.indexes)} - there)


def upgrade(conn: Connection, t: Tables, revision: str = "head") -> None:
    """Bring the database up to `revision`. Any number of processes may call this at once; each migration runs once.

    One that was interrupted is taken up where it ended: migrations leave alone what is there.
    """
    from alembic import command

    with _locked(conn, t), _refusals():
        _make_schema(conn, t)
        found = current(conn, t)
        if found is not None and found > HEAD:
            check(conn, t)
        if found is None:
            check_free(conn, t)
        command.upgrade(config(conn, t), revision)


def stamp(conn: Connection, t: Tables, revision: str = "head") -> None:
    """Write down that the database is at `revision` without migrating it."""
    from alembic import command

    with _locked(conn, t), _refusals():
        command.stamp(config(conn, t), revision)


@contextmanager
def _refusals() -> Iterator[None]:
    """What Alembic refuses is told as an error of ours: a revision that there is not, or one that is not true."""
    from alembic.util import CommandError

    try:
        yield
    except CommandError as error:
        known = sorted(file.name.partition("_")[0] for file in location().glob("versions/[0-9]*.py"))
        raise SchemaError(f"{error} (there are base, {', '.join(known)} and head)") from None
    except NoSuchTableError as error:
        raise SchemaError(
            f"the database has no table {error}, though its revision says so: if it is empty, run "
            "`scallion db stamp base`, then upgrade"
        ) from None


def _has_schema(conn: Connection, t: Tables) -> bool:
    return t.schema is None or inspect(conn).has_schema(t.schema)


def _make_schema(conn: Connection, t: Tables) -> None:
    """Create the schema if it is missing. Raises SchemaError where that is not allowed."""
    if t.schema is None or _has_schema(conn, t):
        return
    if conn.dialect.name == "postgresql":  # whoever makes other tables in it holds another lock
        _wait(conn, t.schema)
    try:
        conn.execute(CreateSchema(t.schema, if_not_exists=True))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        why = type(error.orig).__name__
        raise SchemaError(f"there is no schema {t.schema!r}, and it cannot be made ({why}): create it") from error.orig


def script(t: Tables, dialect: str, since: str | None = None) -> None:
    """Print the SQL that brings a database of this dialect from `since` (None: an empty one) up to date."""
    from alembic import command

    settings = config(None, t)
    settings.attributes["dialect"] = dialect
    with _refusals():
        command.upgrade(settings, f"{since}:head" if since else "head", sql=True)


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
def _locked(conn: Connection, t: Tables) -> Iterator[None]:
    """One upgrade of these tables at a time; SQLite's BEGIN IMMEDIATE is such a lock already."""
    name = conn.dialect.name
    if name == "postgresql":
        schema = t.schema or conn.execute(text("SELECT current_schema()")).scalar()
        _wait(conn, f"{schema}.{t.version_table}")
    with _named_lock(conn, t) if name in ("mysql", "mariadb") else nullcontext():
        yield


def _wait(conn: Connection, what: str) -> None:
    """Take PostgreSQL's advisory lock of that name until the transaction ends."""
    conn.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:what, :seed))"), {"what": what, "seed": LOCK})


@contextmanager
def _named_lock(conn: Connection, t: Tables) -> Iterator[None]:
    """MariaDB's lock, of a name that is at most 64 characters long."""
    name = "concat('scallion ', md5(concat(coalesce(:schema, database(), ''), '.', :table)))"
    own = {"schema": t.schema, "table": t.version_table}
    if conn.execute(text(f"SELECT get_lock({name}, {WAIT})"), own).scalar() != 1:
        raise SchemaError(f"another upgrade of these tables has been running for {WAIT} s: wait for it, or end it")
    try:
        yield
        conn.execute(text("COMMIT"))  # who waits for the lock must see the revision
    finally:
        if not conn.invalidated:  # with the connection the lock is gone
            conn.execute(text(f"SELECT release_lock({name})"), own)
