"""`sessions --search` and `db index`."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage
from sessions.talks import tell
from tests.cli.command import Command

from scallion import SQLCheckpointer


def test_search_and_index(here: Command) -> None:
    with SQLCheckpointer("sqlite:///threads.db") as saver:
        tell(saver, "t-1", HumanMessage("Where is my parcel?"), AIMessage("In the \x1b[31m depot."))
        tell(saver, "t-2", HumanMessage("Hello"))
    assert here("db", "index").out == "2 thread(s) indexed\n"
    assert here("db", "index").out == "0 thread(s) indexed\n"
    assert here("db", "index", "--all").out == "2 thread(s) indexed\n"
    (found,) = here("sessions", "--search", "depot parcel", "--json").data["items"]
    assert (found["thread"], found["found"]) == ("t-1", "Where is my parcel?")
    shown = here("sessions", "--search", "depot").out
    assert "found" in shown.splitlines()[0]
    assert "depot." in shown
    assert "\x1b" not in shown
    assert here("sessions", "--search", "nowhere").out == "there are no threads\n"
    assert here("sessions", "--search", " ".join(f"w{n}" for n in range(60))).status == 1
