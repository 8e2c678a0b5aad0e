"""`scallion db export` and `import`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.command import CLERK, Command


def test_a_paused_thread_goes_to_another_database(here: Command, paused: Callable[..., list[str]], place: Path) -> None:
    (id,) = paused("pay")
    assert here("approve", id, "--by", "ana").status == 0
    other = f"sqlite:///{place / 'other.db'}"
    assert here("db", "export", "t", "-o", "thread.jsonl").out == ""
    assert here("db", "import", "thread.jsonl", "--db", other).out == "t\n"
    (moved,) = here("pending", "--status", "decided", "--db", other, "--json").data["items"]
    assert (moved["id"], moved["decided_by"]) == (id, "ana")
    assert "paid" in here("resume", CLERK, "t").out


def test_standard_streams_and_another_name(here: Command, paused: Callable[..., list[str]]) -> None:
    paused("pay")
    lines = here("db", "export", "t").out
    assert here("db", "import", "-", "--as", "copy", typed=lines).out == "copy\n"
    assert {one["thread"] for one in here("sessions", "--json").data["items"]} == {"t", "copy"}
    again = here("db", "import", "-", typed=lines)
    assert (again.status, again.out) == (1, "")
    assert "the thread 't' exists" in again.err


def test_what_is_no_thread_is_told_in_one_line(here: Command, paused: Callable[..., list[str]], place: Path) -> None:
    paused("pay")
    (place / "notes").write_bytes(b"hello \xff\n")
    refused = here("db", "import", "notes")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "not the file of an exported thread" in refused.err
    missing = here("db", "export", "nobody", "-o", "out")
    assert (missing.status, (place / "out").exists()) == (1, False)
    assert "there is no thread 'nobody'" in missing.err
