"""`pending --check`: what a program could not resume as it was shown, before it is deployed."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import CLERK, Command

NEXT = str(Path(__file__).parent / "next_clerk.py")
Ask = Callable[..., list[str]]


@pytest.mark.parametrize("graph", [CLERK, f"{NEXT}:more"])
def test_nothing_changed(here: Command, paused: Ask, graph: str) -> None:
    """The same program, and one with a filter more."""
    paused("both")
    done = here("pending", "--check", graph)
    assert (done.status, done.out) == (0, "no open pause has changed\n")
    assert here("pending", "--check", graph, "--json").data == {"items": []}


@pytest.mark.parametrize(
    ("agent", "tools", "told"),
    [
        ("other_type", {"pay"}, "tool 'pay': argument 'order' is string now, was integer"),
        ("no_mail", {"mail"}, "there is no tool named 'mail' any more"),
        ("stricter", {"pay"}, "filter 'approval' allows only reject now"),
        ("ungated", {"pay", "mail"}, "filter 'approval' is gone"),
    ],
)
def test_what_changed(here: Command, paused: Ask, agent: str, tools: set[str], told: str) -> None:
    """Each with what differs, and exit status 1; `resume` says the same."""
    pay, mail = paused("both")
    done = here("pending", "--check", f"{NEXT}:{agent}", "--json")
    assert done.status == 1
    assert {(one["tool"], one["difference"]) for one in done.data["items"]} == {(tool, told) for tool in tools}
    table = here("pending", "--check", f"{NEXT}:{agent}")
    assert (table.status, told.split()[-1] in table.out) == (1, True)
    for id in (pay, mail):
        assert here("approve", id).status == 0
    refused = here("resume", f"{NEXT}:{agent}", "t").err
    assert told in refused
    assert "scallion resume" not in refused  # which has just failed, and would again
    assert 'on_changed="ask"' in refused
    assert f"scallion cancel t --graph {NEXT}:{agent}\n" in refused
    typed = "/resume\n" * 2
    chatted = here("chat", f"{NEXT}:{agent}", "--thread", "t", typed=typed).err
    assert "/resume goes on" not in chatted
    assert f"scallion cancel t --graph {NEXT}:{agent}\n" in chatted
    assert here("cancel", "t", "--graph", f"{NEXT}:{agent}").status == 0


def test_a_decision_that_still_holds(here: Command, paused: Ask) -> None:
    """A gate that allows less is no change for what it still allows."""
    pay, _ = paused("both")
    here("reject", pay)
    assert here("pending", "--check", f"{NEXT}:stricter").status == 0
    assert here("pending", "--check", f"{NEXT}:other_type").status == 1


def test_what_has_expired(here: Command) -> None:
    """Is checked too as long as the thread waits there, and no longer."""
    old = f"{NEXT}:expiring"

    def changed() -> list[str]:
        return [one["status"] for one in here("pending", "--check", f"{NEXT}:other_type", "--json").data["items"]]

    assert here("run", old, "pay", "--thread", "t").status == 3
    time.sleep(0.1)
    assert changed() == ["expired"]
    assert here("resume", old, "t").status == 0
    assert changed() == []
    assert here("run", old, "pay", "--thread", "t").status == 3
    time.sleep(0.1)
    assert changed() == ["expired"]


def test_only_what_is_asked_for(here: Command, paused: Ask) -> None:
    """Threads of other agents are not this one's, and the other options choose."""
    paused("both", "a")
    paused("pay", "b")
    assert here("pending", "--check", f"{NEXT}:renamed").status == 0
    found = here("pending", "--check", f"{NEXT}:ungated", "--thread", "a", "--tool", "mail", "--json").data["items"]
    assert [(one["thread"], one["tool"]) for one in found] == [("a", "mail")]


def test_many_pages(here: Command, paused: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are looked at."""
    monkeypatch.setattr("scallion.cli.checking.MANY", 1)
    for number in range(3):
        paused("both", f"t{number}")
    assert len(here("pending", "--check", f"{NEXT}:ungated", "--json").data["items"]) == 6


@pytest.mark.parametrize("words", [("--status", "all"), ("--limit", "3"), ("--after", "3")])
def test_what_makes_no_sense(here: Command, words: tuple[str, ...]) -> None:
    assert here("pending", "--check", CLERK, *words).status == 2


def test_an_agent_that_keeps_nothing(here: Command) -> None:
    assert here("pending", "--check", f"{CLERK}:keepless").status == 1
