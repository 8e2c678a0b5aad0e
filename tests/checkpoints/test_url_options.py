"""What stands behind the `?` of a URL means the same to the drivers of both colours, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, make_url, text

from scallion.errors import ConfigurationError, ScallionError
from scallion.inbox import Inbox

asyncpg = pytest.mark.parametrize("database", ["asyncpg"], indirect=True)
asyncmy = pytest.mark.parametrize("database", ["asyncmy"], indirect=True)

SETTINGS = {
    "sslmode=disable": {},
    "ssl=prefer": {},
    "application_name=desk": {"application_name": "desk"},
    "options=-c search_path=x,public": {"search_path": "x,public"},
    "connect_timeout=7": {},
    "timeout=7": {},
    "statement_cache_size=0&prepared_statement_cache_size=0&command_timeout=9": {},
}


def asked(url: str, options: str) -> str:
    pairs = [pair.split("=", 1) for pair in options.split("&")]
    return make_url(url).update_query_pairs([(name, value) for name, value in pairs]).render_as_string(False)


def settings(conn: Connection) -> dict[str, Any]:
    names = ("application_name", "search_path")
    return {name: conn.execute(text(f"SHOW {name}")).scalar() for name in names}


@asyncpg
@pytest.mark.parametrize(("options", "set"), SETTINGS.items(), ids=SETTINGS)
async def test_options_of_postgresql(database: str, options: str, set: dict[str, str]) -> None:
    async with Inbox(asked(database, options)) as inbox:
        assert (await inbox.database.arun(settings)).items() >= set.items()
        assert inbox.database.run(settings).items() >= set.items()


@asyncpg
@pytest.mark.parametrize("name", ["sslmode", "ssl"])
async def test_tls_is_wanted_by_both(database: str, name: str) -> None:
    """The server has none, or one that nobody vouches for."""
    async with Inbox(asked(database, f"{name}=verify-full")) as inbox:
        with pytest.raises(ScallionError):
            await inbox.approvals.alist()
        with pytest.raises(ScallionError):
            inbox.approvals.list()


@asyncmy
async def test_no_tls(database: str) -> None:
    async with Inbox(asked(database, "ssl_disabled=true")) as inbox:
        assert (await inbox.approvals.alist()).items == inbox.approvals.list().items == []


@pytest.mark.parametrize(
    ("database", "option"),
    [("asyncpg", "bogus"), ("asyncmy", "bogus"), ("mariadb", "bogus"), ("asyncmy", "ssl_verify_identity")],
    indirect=["database"],
)
async def test_an_option_that_the_driver_does_not_know(database: str, option: str) -> None:
    """Is named, without its value."""
    async with Inbox(asked(database, f"{option}=S3CRET")) as inbox:
        with pytest.raises(ConfigurationError, match=option) as refused:
            await inbox.approvals.alist()
        assert "S3CRET" not in str(refused.value)


@asyncpg
@pytest.mark.parametrize("option", ["sslmode", "ssl", "command_timeout", "connect_timeout", "statement_cache_size"])
async def test_a_value_that_the_driver_does_not_take(database: str, option: str) -> None:
    async with Inbox(asked(database, f"{option}=S3CRET")) as inbox:
        with pytest.raises(ScallionError) as refused:
            await inbox.approvals.alist()
        assert "S3CRET" not in str(refused.value)


@pytest.mark.parametrize("database", ["mariadb", "asyncmy"], indirect=True)
async def test_a_url_without_a_database(database: str) -> None:
    async with Inbox(make_url(database)._replace(database=None)) as inbox:
        for ask in (inbox.approvals.list, inbox.database.upgrade):
            with pytest.raises(ConfigurationError, match="names no database"):
                ask()
        with pytest.raises(ConfigurationError, match="names no database"):
            await inbox.approvals.alist()
