"""What a caller gets wrong is told as an error of Scallion's, without a password in it."""

from __future__ import annotations

import sys
import traceback
from datetime import datetime
from typing import Any

import pytest

from scallion import Agent, values
from scallion.errors import ConfigurationError, InvalidDecision, ScallionError, StorageError
from scallion.inbox import Inbox
from scallion.sql.saver import SQLCheckpointer
from scallion.testing import ScriptedModel

URLS = {
    "postgresql//u:S3CRET@h/db": "not the URL",
    "postgresql:/u:S3CRET": "not the URL",
    "nonsense": "'nonsense' is not the URL",
    "postgres://u:S3CRET@h/db": r"postgresql\+psycopg://",
    "postgresql+nope://u:S3CRET@h/db": r"postgresql\+psycopg://",
    "postgresql+psycopg://u:S3CRET@h:abc/db": "port",
    "oracle://u:S3CRET@h/db": "oracledb",
    "mysql://u:S3CRET@h/db": r"pip install 'scallion\[mysql\]', and write mysql\+pymysql://",
    "postgresql+psycopg2://u:S3CRET@h/db": r"pip install 'scallion\[postgres\]', and write postgresql\+psycopg://",
    "mysql+aiomysql://u:S3CRET@h/db": r"pip install 'scallion\[mysql\]', and write mysql\+asyncmy://",
    "sqlite://S3CRET.db": "three slashes: sqlite:///",
}


@pytest.mark.parametrize(("url", "said"), URLS.items(), ids=URLS)
def test_a_wrong_url_is_told_without_its_password(url: str, said: str) -> None:
    for make in (SQLCheckpointer, Inbox):
        with pytest.raises(ConfigurationError, match=said) as refused:
            make(url)
        assert "S3CRET" not in "".join(traceback.format_exception_only(refused.value))
        assert refused.value.__suppress_context__


def test_a_clock_without_a_zone() -> None:
    agent = Agent(ScriptedModel(["ok"]), checkpointer=SQLCheckpointer("sqlite://", clock=datetime.now))
    with pytest.raises(ConfigurationError, match=r"of a clock= too, as datetime.now\(UTC\)"):
        agent.invoke("hello", thread="t")


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("postgresql+psycopg://u:S3CRET@h/db", "psycopg", "postgres"),
        ("mysql+pymysql://u:S3CRET@h/db", "pymysql", "mysql"),
    ],
)
def test_a_missing_driver_is_told(url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'scallion\[{extra}\]'") as refused:
        SQLCheckpointer(url)
    assert "S3CRET" not in str(refused.value)


DEAD = ["postgresql+psycopg", "postgresql+asyncpg", "mysql+asyncmy", "mysql+pymysql"]


@pytest.mark.parametrize("driver", DEAD)
async def test_a_server_that_is_not_there(driver: str) -> None:
    inbox = Inbox(f"{driver}://u:S3CRET@127.0.0.1:9/db")
    with pytest.raises(StorageError) as refused:
        await inbox.approvals.alist()
    assert "S3CRET" not in str(refused.value)
    with pytest.raises(StorageError):
        inbox.approvals.list()


def test_a_shared_database_in_memory(database: str) -> None:
    with SQLCheckpointer("sqlite:///file:refusals?mode=memory&uri=true") as saver:
        assert saver.sessions.list().items == []


@pytest.mark.parametrize("wrong", [{"after": "x"}, {"after": "1.2.3"}, {"after": "-1"}, {"after": "9" * 40}])
@pytest.mark.parametrize("view", ["approvals", "sessions"])
def test_a_cursor_that_is_none(saver: SQLCheckpointer, view: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="after"):
        getattr(saver, view).list(**wrong)


async def test_a_kind_that_there_is_not(saver: SQLCheckpointer) -> None:
    with pytest.raises(ConfigurationError, match="`kind` is one of None, 'tool_call', 'question'"):
        saver.approvals.list(kind="tool")
    with pytest.raises(ConfigurationError, match="`kind`"):
        await saver.approvals.alist(None, kind="tool")


@pytest.mark.parametrize("wrong", ["user_id", b"user_id", {"user_id": 1}, 7, ("user_id", None)])
def test_metadata_keys_that_are_no_list_of_texts(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="key of configurable"):
        SQLCheckpointer("sqlite://", metadata_keys=wrong)


@pytest.mark.parametrize("limit", [0, -1, None])
@pytest.mark.parametrize("view", ["approvals", "sessions"])
def test_a_page_of_no_size(saver: SQLCheckpointer, view: str, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        getattr(saver, view).list(limit=limit)


@pytest.mark.parametrize("database", ["file", "postgresql", "asyncpg", "mariadb", "asyncmy"], indirect=True)
async def test_half_of_a_surrogate_pair(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        for ask in (
            lambda: saver.sessions.get("\ud800"),
            lambda: saver.approvals.list(thread="\ud800"),
            lambda: saver.approvals.decide("\ud800", values.approve(), by="\ud800"),
            lambda: saver.get_tuple({"configurable": {"thread_id": "\ud800"}}),
        ):
            with pytest.raises(ScallionError):
                ask()
        with pytest.raises(ScallionError):
            await saver.sessions.aget("\ud800")
        await saver.aclose()


@pytest.mark.parametrize("wrong", ["approve", None, {"type": "allow"}, values.approve])
def test_what_is_no_decision(saver: SQLCheckpointer, wrong: Any) -> None:
    with pytest.raises(
        InvalidDecision, match=r"a decision is approve\(\), edit\(args\), reject\(\), respond\(message\)"
    ):
        saver.approvals.decide("id", wrong)


AT: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda saver: saver.get_tuple(None),
        lambda saver: saver.get_tuple("t"),
        lambda saver: saver.get_tuple({"configurable": "t"}),
        lambda saver: saver.put_writes(None, [], "task"),
        lambda saver: list(saver.list("t")),
        lambda saver: list(saver.list(AT, before="1")),
        lambda saver: list(saver.list(AT, limit="1")),
        lambda saver: list(saver.list(AT, filter="loop")),
        lambda saver: saver.approvals.decide_all(None),
    ],
)
def test_a_place_or_a_choice_that_is_none(sql: SQLCheckpointer, wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong(sql)
