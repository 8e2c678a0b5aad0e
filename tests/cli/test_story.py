"""The story of the library: a process asks and ends, others look, decide and carry on."""

import pytest
from tests.cli.command import CLERK, Command

pytestmark = pytest.mark.slow


def test_every_step_in_a_process_of_its_own(there: Command) -> None:
    """Two calls wait; one is approved by a beginning of its id, the other refused, and a last process goes on."""
    asked = there("run", CLERK, "both", "--thread", "t")
    assert asked.status == 3
    assert "may be decided: approve, edit, reject" in asked.out
    assert asked.err == ""  # nothing ran
    waiting = {one["tool"]: one["id"] for one in there("pending", "--json").data["items"]}
    assert set(waiting) == {"pay", "mail"}
    assert there("approve", waiting["pay"][:10], "--by", "ana").out.startswith(f"{waiting['pay']} (pay, thread t)")
    part = there("resume", CLERK, "t", "--json")
    assert part.status == 3
    assert [one["tool"] for one in part.data["approvals"]] == ["mail"]
    assert "paid 7" in there("show", "t").out  # the call that finished has its result, though the other one waits
    assert there("reject", waiting["mail"], "-m", "not now").status == 0
    done = there("resume", CLERK, "t")
    assert done.status == 0
    assert done.out.startswith("Results: paid 7; A person rejected this call")
    assert "not now" in done.out
    shown = there("show", "t", "--json").data
    assert [one["role"] for one in shown["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert shown["session"]["status"] == "idle"
    assert shown["approvals"] == []


def test_the_database_is_named_on_the_command_line(there: Command, monkeypatch) -> None:
    """`--db` before or behind the verb, also for the graph file."""
    monkeypatch.delenv("SCALLION_DB")
    assert there("run", CLERK, "pay", "--thread", "t", "--db", "sqlite:///other.db").status == 3
    assert len(there("--db", "sqlite:///other.db", "pending", "--json").data["items"]) == 1
    assert there("pending").err.startswith("error: there is no database at scallion.db")
