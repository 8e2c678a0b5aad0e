"""The options behind the `?` of a URL, said to the driver of each colour in its own words."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from sqlalchemy.engine import URL

from scallion.errors import ConfigurationError

LIBPQ = frozenset(
    """
    sslmode sslrootcert sslcert sslkey sslcrl sslpassword sslnegotiation ssl_min_protocol_version
    ssl_max_protocol_version target_session_attrs application_name options passfile krbsrvname
    """.split()
)
"""Options of PostgreSQL's own library. asyncpg takes them in a URL only, which SQLAlchemy does not give it."""

ASYNCPG = {
    "statement_cache_size": int,
    "max_cached_statement_lifetime": int,
    "max_cacheable_statement_size": int,
    "prepared_statement_cache_size": int,
    "command_timeout": float,
}
"""What only asyncpg knows, and what it is made of."""

TRUE = ("1", "true", "yes")


def for_sync(url: URL) -> URL:
    """The URL with its options as the sync driver takes them."""
    if url.drivername != "postgresql+asyncpg":
        return url
    kept = {name: value for name, value in _libpq(url).items() if name not in ASYNCPG}
    return url.set(query=kept)


def for_async(url: URL) -> tuple[URL, dict[str, Any]]:
    """The URL with those options that the async driver takes there, and the others as arguments.

    Raises ConfigurationError for what is no number and ought to be one.
    """
    if url.get_driver_name() == "asyncmy" and str(url.query.get("ssl_disabled")).lower() in TRUE:
        return url.difference_update_query(["ssl_disabled"]), {}  # it has no such option, and does without TLS
    if url.drivername != "postgresql+asyncpg":
        return url, {}
    query = _libpq(url)
    arguments = {name: _number(name, query.pop(name), kind) for name, kind in ASYNCPG.items() if name in query}
    if "connect_timeout" in query:  # in seconds; none where it is 0
        arguments["timeout"] = _number("connect_timeout", query.pop("connect_timeout"), float) or None
    if own := {name: query.pop(name) for name in LIBPQ & query.keys()}:
        arguments["dsn"] = f"postgresql://?{urlencode(own, doseq=True)}"
    return url.set(query=query), arguments


def _libpq(url: URL) -> dict[str, Any]:
    """The options, under the names that PostgreSQL's library has for what both drivers know."""
    names = {"ssl": "sslmode", "timeout": "connect_timeout"}
    return {names.get(name, name): value for name, value in url.query.items()}


def _number(name: str, value: Any, kind: type) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ConfigurationError(f"the option {name!r} of the URL is a number") from None
