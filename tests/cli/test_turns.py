"""`run`, `resume`, `cancel`, `show` and the listings; exit statuses and JSON."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.clerk import EVIL
from tests.cli.command import CLERK, Command

from scallion import Inbox

Ask = Callable[..., list[str]]


def test_an_answer_is_all_of_the_output(here: Command) -> None:
    """What else is told goes to standard error."""
    done = here("run", CLERK, "hello")
    assert (done.status, done.out) == (0, "You said hello.\n")
    assert done.err.startswith("thread ")


def test_a_turn_as_json(here: Command) -> None:
    """One document, with the same keys always."""
    done = here("run", CLERK, "slow", "--thread", "t", "--json")
    assert done.data["status"] == "completed"
    assert done.data["answer"] == "Results: waited"
    assert [call["name"] for call in done.data["tool_calls"]] == ["slow"]
    assert {"thread", "turn", "usage", "attempts"} < set(done.data)


def test_a_pause_as_json(here: Command) -> None:
    """The approvals in full."""
    done = here("run", CLERK, "pay", "--thread", "t", "--json")
    assert done.status == 3
    (approval,) = done.data["approvals"]
    assert approval["args"] == {"order": 7}
    assert (done.data["status"], done.data["thread"]) == ("paused", "t")


def test_who_asks_and_whose_thread_it_is(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked does not decide; without an option that is whoever is logged in."""
    monkeypatch.setenv("LOGNAME", "bo")
    for words, asked in ((("--user", "ana", "--owner", "shop"), "ana"), ((), "bo")):
        thread = f"of {asked}"
        done = here("run", f"{CLERK}:separate", "pay", "--thread", thread, "--json", *words)
        (approval,) = done.data["approvals"]
        assert (approval["requested_by"], approval["owner"]) == (asked, "shop" if words else None)
        refused = here("approve", approval["id"], "--by", asked)
        assert (refused.status, "asked for this" in refused.err) == (1, True)
        assert here("approve", approval["id"], "--by", "cy").status == 0
    assert "another owner" in here("resume", f"{CLERK}:separate", "of ana", "--owner", "other").err
    assert "another owner" in here("run", f"{CLERK}:separate", "hello", "--thread", "of ana", "--owner", "other").err
    assert here("resume", f"{CLERK}:separate", "of ana", "--owner", "shop").out == "Results: paid 7\n"
    assert here("resume", f"{CLERK}:separate", "of bo").out == "Results: paid 7\n"


def test_resuming_without_a_decision_stays_paused(here: Command, paused: Ask) -> None:
    """And shows what is still open."""
    paused("pay")
    again = here("resume", CLERK, "t")
    assert again.status == 3
    assert "pay" in again.out


def test_a_rejected_call_did_not_run(here: Command, paused: Ask) -> None:
    """And is not shown as one that failed."""
    pay, mail = paused("both")
    here("reject", pay)
    here("respond", mail, "written by hand")
    done = here("resume", CLERK, "t")
    assert sorted(done.err.splitlines()) == ["✓ mail answered by a person", "✗ pay rejected by a person"]


def test_a_database_that_is_not_there(here: Command, place: Path) -> None:
    """Is told by what looks into it, and not made."""
    words = (["pending"], ["sessions"], ["show", "t"], ["approve", "x"], ["cancel", "t"])
    for done in [here("--db", "sqlite:///typo.db", *one) for one in words]:
        assert (done.status, done.out) == (1, "")
        assert done.err == "error: there is no database at typo.db; --db or SCALLION_DB names another one\n"
    assert not (place / "typo.db").exists()


def test_what_was_edited_is_shown(here: Command, paused: Ask) -> None:
    """`show` has the arguments that will run beside those that were asked for."""
    (id,) = paused("pay")
    here("edit", id, "--set", "order=55", "--by", "ana")
    shown = here("show", "t").out
    assert "decided: edit by ana" in shown
    assert '"order": 55' in shown


def test_nothing_to_resume(here: Command) -> None:
    """One line, no traceback, exit status 1."""
    done = here("resume", CLERK, "nowhere")
    assert (done.status, done.out, done.err) == (1, "", "error: there is no thread 'nowhere'\n")


def test_a_message_while_paused(here: Command, paused: Ask) -> None:
    """Is refused, with the way on."""
    paused("pay")
    done = here("run", CLERK, "hello", "--thread", "t")
    assert done.status == 1
    assert done.err.count("\n") == 1
    assert f"scallion resume {CLERK} t" in done.err


def test_a_message_that_waits(here: Command, paused: Ask) -> None:
    """It is told that it does, and answered by the resume."""
    [id] = paused("pay")
    patient = f"{CLERK}:patient"
    assert here("run", patient, "hello", "--thread", "t", "--json").data["queued"] == 1
    again = here("run", patient, "good day", "--thread", "t")
    assert again.status == 3
    assert again.err == "2 message(s) queued: answered when that is decided\n"
    here("approve", id)
    done = here("resume", patient, "t")
    assert (done.status, done.out) == (0, "You said good day.\n")


def test_a_message_that_is_answered_beside(here: Command, paused: Ask) -> None:
    """The answer is all of the output; where it is, and what still waits, is told."""
    paused("pay")
    done = here("run", f"{CLERK}:obliging", "hello", "--thread", "t")
    assert (done.status, done.out) == (0, "You said hello.\n")
    assert done.err.startswith("answered in thread t#")
    assert done.err.endswith("; thread t still waits for a decision\n")
    assert [one["thread"] for one in here("pending", "--json").data["items"]] == ["t"]


def test_a_failing_model(here: Command) -> None:
    """Its text is not told; the thread is left so that it resumes, and the line says how."""
    done = here("run", CLERK, "crash", "--thread", "t")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: the model failed: ValueError; to go on: scallion resume")
    assert "4711" not in done.err


def test_control_characters_are_written_out(here: Command, paused: Ask) -> None:
    """In answers, cards, listings and conversations; JSON escapes them by itself."""
    here("run", CLERK, "evil", "--thread", EVIL)
    paused("unsafe")
    words = (["run", CLERK, "evil"], ["pending"], ["sessions"], ["show", "t"], ["show", EVIL], ["show", EVIL, "--json"])
    for done in [here(*one) for one in words]:
        assert done.status == 0
        assert not set("\x1b\x07\r\x9b\u202e") & set(done.out)
    assert "\\x1b[2J" in here("show", EVIL).out


def test_listings(here: Command, paused: Ask) -> None:
    """Filters, pages, and tables for people."""
    first, second = paused("both", "a"), paused("ask", "b")
    assert {one["id"] for one in here("pending", "--json").data["items"]} == {*first, *second}
    page = here("pending", "--json", "--limit", "1").data
    assert len(page["items"]) == 1
    assert len(here("pending", "--json", "--after", page["next"]).data["items"]) == 2
    assert [one["thread"] for one in here("pending", "--json", "--kind", "question").data["items"]] == ["b"]
    assert second[0] in here("pending", "--thread", "b").out
    assert [one["thread"] for one in here("sessions", "--json").data["items"]] == ["b", "a"]
    with Inbox(os.environ["SCALLION_DB"]) as inbox:
        inbox.sessions.archive("a")
    assert [one["thread"] for one in here("sessions", "--json").data["items"]] == ["b"]
    assert [one["thread"] for one in here("sessions", "--archived", "--json").data["items"]] == ["a"]
    assert "Which colour?" in here("pending").out
    assert here("sessions", "--status", "idle").out == "there are no threads\n"
    assert here("pending", "--after", "x").status == 2


def test_cancelling_with_the_graph(here: Command, paused: Ask) -> None:
    """The thread takes a new message; there is nothing to decide any more."""
    (id,) = paused("pay")
    assert here("cancel", "t", "--graph", CLERK).status == 0
    assert here("approve", id).status == 1
    assert here("run", CLERK, "hello", "--thread", "t").status == 0
    assert here("cancel", "t", "--graph", CLERK).status == 1


def test_cancelling_without_the_graph(here: Command, paused: Ask) -> None:
    """Nobody can decide any more; the turn itself is closed with the graph, or by whoever wants to go on with it."""
    (id,) = paused("pay")
    assert "--graph" in here("cancel", "t").out
    assert here("approve", id).err.startswith(f"error: approval '{id}' is already cancelled")
    assert here("cancel", "t").status == 1
    assert here("cancel", "t", "--graph", CLERK).status == 0


def test_going_on_with_what_was_cancelled(here: Command, paused: Ask) -> None:
    """Closes the turn: there is no card that nobody can decide."""
    for thread in ("a", "b"):
        paused("both", thread)
        here("cancel", thread)
    done = here("resume", CLERK, "a")
    assert (done.status, done.out) == (1, "")
    assert done.err == "error: the turn of thread 'a' was cancelled; it is closed now\n"
    assert here("resume", CLERK, "a").err == "error: thread 'a' has nothing to resume\n"
    chat = here("chat", CLERK, "--thread", "b", typed="/resume\n")
    assert chat.status == 0
    assert "the turn was cancelled; it is closed now\n" in chat.out
    assert "nothing is open" in chat.out
    assert "(a)pprove" not in chat.out


def test_a_card_in_a_narrow_terminal(here: Command, paused: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the whole id."""
    (id,) = paused("pay")
    monkeypatch.setenv("COLUMNS", "40")
    assert id in here("show", "t").out


@pytest.mark.parametrize("verb", ["chat", "run", "resume"])
def test_the_help_says_what_a_graph_is(here: Command, verb: str) -> None:
    """In each verb that takes one."""
    assert "GRAPH is path/to/file.py:agent" in here(verb, "--help").out


def test_an_unknown_thread(here: Command) -> None:
    """Is an error."""
    here("db", "upgrade")
    assert here("show", "nope").err == "error: there is no thread 'nope'\n"


@pytest.mark.parametrize(
    ("target", "status", "told"),
    [
        ("nope.py", 2, "there is no file nope.py"),
        ("no_such.module", 2, "there is no module no_such.module"),
        (f"{CLERK}:nope", 2, "has no attribute 'nope'"),
        (f"{CLERK}:graph", 2, "is a bare LangGraph graph"),
        (f"{CLERK}:number", 2, "is a int"),
        (f"{CLERK}:model", 2, "is a ScriptedModel, not a scallion Agent"),
        ("broken.py", 1, "broken.py failed to load: ModuleNotFoundError: No module named 'not_there' (line 2)"),
        ("asks.py", 1, "asks.py failed to load: ThreadPaused: thread 't' waits for"),
        ("asks.py", 1, "(line 2)"),
    ],
)
def test_what_is_no_agent(here: Command, place: Path, target: str, status: int, told: str) -> None:
    """Says what is wrong with it."""
    (place / "broken.py").write_text("# A comment.\nimport not_there\n")
    (place / "asks.py").write_text("from scallion import ThreadPaused\nraise ThreadPaused('t')\n")
    done = here("run", target, "hello")
    assert done.status == status
    assert told in done.err
    assert "Traceback" not in done.err


def test_an_agent_by_its_module(here: Command, place: Path) -> None:
    """In the working folder, as Python itself would find it; `:agent` may be left out."""
    (place / "broken_not.py").write_text("print('loading')\nfrom tests.cli.clerk import keepless as agent\n")
    done = here("run", "broken_not", "hello", "--json")
    assert done.data["answer"] == "You said hello."
    assert "loading" in done.err


def test_a_database_that_the_graph_file_does_not_read(here: Command) -> None:
    """`--db` is never ignored in silence."""
    assert "does not keep its threads in --db" in here("run", f"{CLERK}:elsewhere", "hi", "--db", "sqlite:///o.db").err


def test_what_keeps_nothing(here: Command) -> None:
    """Answers, but can neither chat nor resume."""
    assert here("run", f"{CLERK}:keepless", "hi").out == "You said hi.\n"
    assert here("chat", f"{CLERK}:keepless").status == 1


@pytest.mark.parametrize(
    "words", [["frob"], ["approve"], ["pending", "--frob"], ["run", CLERK], ["edit", "x", "--set", "y"]]
)
def test_usage(here: Command, paused: Ask, words: list[str]) -> None:
    """Exit status 2."""
    (id,) = paused("pay")
    assert here(*(id if word == "x" else word for word in words)).status == 2


def test_a_database_that_is_none(here: Command) -> None:
    """Is one line as well."""
    done = here("pending", "--db", "nonsense")
    assert done.status == 1
    assert done.err.count("\n") == 1


def test_who_asks_and_how_it_may_be_decided(here: Command, place: Path) -> None:
    """The card names the agent inside, and what follows it the verbs that these calls allow."""
    (place / "office.py").write_text(
        "from scallion import Agent, filters\n"
        "from scallion.testing import ScriptedModel, asks, call\n"
        "def pay(euro: int) -> str:\n"
        "    '''Pay.'''\n"
        "gate = filters.approval({'pay': filters.Policy(allowed=('approve', 'reject'))})\n"
        "model = ScriptedModel([asks(call('pay', euro=3))])\n"
        "inner = Agent(model, tools=[pay], filters=[gate], checkpointer='inherit')\n"
        "model = ScriptedModel([asks(call('clerk', request='pay'))])\n"
        f"agent = Agent(model, tools=[inner.as_tool('clerk', 'Pays.')], checkpointer={os.environ['SCALLION_DB']!r})\n"
    )
    done = here("run", "office.py", "pay", "--thread", "t")
    assert "│ asked in the agent clerk " in done.out
    assert "paused; once decided (approve|reject ID): scallion resume office.py t" in done.out
