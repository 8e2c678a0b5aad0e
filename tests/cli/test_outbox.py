"""`outbox` and `sweep --deliver`: what somebody is to be told, from the shell."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command
from tests.cli.test_light import loaded
from tests.hitl.test_notify import SECRET, is_genuine, serving
from tests.hitl.test_outbox import ask

from scallion import SQLCheckpointer

KEEP = f'{sys.executable} -c \'import sys; open("told", "a").write(sys.stdin.read() + chr(10))\''


NOTHING = "0 expired, 0 escalated, 0 overdue and still open\n"


@pytest.fixture(autouse=True)
def _asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two approvals that somebody is to be told of."""
    monkeypatch.delenv("SCALLION_WEBHOOK_SECRET", raising=False)
    with SQLCheckpointer(f"sqlite:///{place}/threads.db", outbox=True) as saver:
        ask(saver, 2)


def told(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "told").read_text().splitlines()]


def test_a_program_is_told(here: Command, place: Path) -> None:
    rows = here("outbox", "--json").data["items"]
    assert [row["status"] for row in rows] == ["waiting"] * 2
    done = here("sweep", "--deliver", "--command", KEEP, "--json")
    assert (done.status, done.data["delivery"]) == (0, {"sent": 2, "skipped": 0, "failed": 0, "given_up": 0})
    assert [one["id"] for one in told(place)] == [row["id"] for row in rows]
    assert not any("args" in one for one in told(place))
    assert "nothing is undelivered" in here("outbox").out
    assert len(here("outbox", "--status", "delivered", "--json").data["items"]) == 2


def test_with_arguments_on_request(here: Command, place: Path) -> None:
    here("sweep", "--deliver", "--command", KEEP, "--include-args")
    assert sorted(one["args"]["order"] for one in told(place)) == [4711, 4712]


def test_a_webhook_is_signed_with_what_the_environment_has(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALLION_WEBHOOK_SECRET", f"{SECRET},other")
    with serving() as server:
        done = here("sweep", "--deliver", "--webhook", server.url)
    assert (done.status, done.out) == (0, f"{NOTHING}2 told, 0 skipped, 0 failed, 0 of them given up\n")
    for _, headers, body in server.got:
        assert is_genuine(headers, body, b"k" * 32)
        assert is_genuine(headers, body, b"other")


def test_what_fails_is_an_error_and_is_listed(here: Command) -> None:
    with serving(500) as server:
        done = here("sweep", "--deliver", "--webhook", f"{server.url}/?token=x", "--unsigned")
    assert done.status == 1
    assert done.out == f"{NOTHING}0 told, 0 skipped, 2 failed, 0 of them given up\n"
    shown = here("outbox")
    assert shown.out.count("HTTP 500") == 2
    assert "token" not in done.out + done.err + shown.out


def test_what_was_given_up_is_sent_again(here: Command, place: Path) -> None:
    def fail(notification: Any) -> None:
        raise ValueError

    with SQLCheckpointer(f"sqlite:///{place}/threads.db") as saver:
        saver.outbox.deliver(fail, attempts=1)
    assert "failed" in here("outbox").out
    id = here("outbox", "--json").data["items"][1]["id"]
    assert here("outbox", "--retry", id).err == "1 will be sent again\n"
    assert (here("outbox", id).status, here("outbox", "--retry", "1-x").status) == (2, 1)
    again = here("outbox", "--retry", "--json")
    assert again.err == "1 will be sent again\n"
    assert [row["status"] for row in again.data["items"]] == ["waiting"] * 2
    assert here("sweep", "--deliver", "--command", KEEP).status == 0


def test_pages(here: Command) -> None:
    first = here("outbox", "--limit", "1", "--json").data
    second = here("outbox", "--limit", "1", "--after", first["next"], "--json").data
    assert first["items"][0]["id"] != second["items"][0]["id"]
    assert here("outbox", "--after", "x").status == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--deliver"],
        ["--webhook", "https://example.com"],
        ["--include-args"],
        ["--deliver", "--webhook", "https://example.com", "--command", "true"],
        ["--deliver", "--webhook", "https://example.com"],
        ["--deliver", "--command", ""],
        ["--deliver", "--command", "true", "--thread", "t"],
        ["--deliver", "--command", "echo 'open"],
    ],
)
def test_what_is_missing_or_too_much_is_told(here: Command, words: list[str]) -> None:
    done = here("sweep", *words)
    assert done.status == 2
    assert here("outbox", "--json").data["items"][0]["attempts"] == 0


def test_unsigned_is_not_said_where_there_is_a_secret(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALLION_WEBHOOK_SECRET", "s3cret")
    done = here("sweep", "--deliver", "--webhook", "https://example.com", "--unsigned")
    assert (done.status, "s3cret" in done.err) == (2, False)
    done = here("sweep", "--deliver", "--webhook", "http://example.com/?t=s3cret")
    assert (done.status, "https://" in done.err, "s3cret" in done.err) == (1, True, False)


@pytest.mark.parametrize("words", [["outbox", "--json"], ["sweep", "--deliver", "--command", shlex.join(["true"])]])
def test_neither_langgraph_nor_langchain_is_loaded(words: list[str]) -> None:
    assert loaded(*words) == {"sqlalchemy"}
