"""`db rekey`, and the other commands on a database that is encrypted."""

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import Command

Ask = Callable[..., list[str]]


@pytest.fixture
def key_file(place: Path) -> Path:
    """A file with a new key."""
    file = place / "new.key"
    file.write_text(secrets.token_urlsafe(32) + "\n")
    return file


def test_a_key_is_changed(here: Command, paused: Ask, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From none to one and back: with a wrong or missing key nothing is listed or decided."""
    (id,) = paused("pay")
    assert here("db", "rekey", "--new-key-file", "new.key").out == "1 thread(s) encrypted with the new key\n"
    refused = here("pending")
    assert refused.status == 1
    assert "the database is encrypted: give key=..., or set SCALLION_KEY" in refused.err
    monkeypatch.setenv("SCALLION_KEY", secrets.token_urlsafe(32))
    assert "is not given" in here("sessions").err
    monkeypatch.setenv("SCALLION_KEY", key_file.read_text())
    assert [one["id"] for one in here("pending", "--json").data["items"]] == [id]
    assert here("approve", id).status == 0
    assert here("db", "check").out == "the schema fits\n"
    assert here("db", "rekey", "--decrypt").out == "1 thread(s) decrypted\n"
    monkeypatch.delenv("SCALLION_KEY")
    assert here("pending", "--status", "decided", "--json").data["items"][0]["decision"] == {"type": "approve"}


def test_the_schema_needs_no_key(here: Command, paused: Ask, key_file: Path) -> None:
    paused("pay")
    here("db", "rekey", "--new-key-file", "new.key")
    assert here("db", "upgrade").status == 0
    assert here("db", "current").status == 0


@pytest.mark.parametrize("options", [[], ["--new-key-file", "new.key", "--decrypt"]], ids=["neither", "both"])
def test_one_of_the_two(here: Command, key_file: Path, options: list[str]) -> None:
    here("db", "upgrade")
    done = here("db", "rekey", *options)
    assert done.status == 2
    assert "give either --new-key-file or --decrypt" in done.err


def test_a_bad_key_is_not_told(here: Command, paused: Ask, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused("pay")
    key_file.write_text("hunter2")
    for done in (here("db", "rekey", "--new-key-file", "new.key"), here("pending")):
        assert "hunter2" not in done.err
    monkeypatch.setenv("SCALLION_KEY", "hunter2")
    told = here("pending").err
    assert "a key is 32 random bytes" in told
    assert "hunter2" not in told
