"""Decisions from the command line: refused before anything is stored, and correctable."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.cli.command import CLERK, Command

from scallion import SQLCheckpointer
from scallion.cli.named import find
from scallion.errors import UnknownApproval
from scallion.sql.sessions import Page
from scallion.values import Approval

Ask = Callable[..., list[str]]


def test_the_second_decision(here: Command, paused: Ask) -> None:
    """Is told who was first, and when."""
    (id,) = paused("pay")
    assert here("approve", id, "--by", "ana").status == 0
    second = here("reject", id, "--by", "bo")
    assert second.status == 1
    assert f"approval '{id}' is already decided: approve by ana, 20" in second.err
    assert here("pending", "--status", "decided", "--json").data["items"][0]["decided_by"] == "ana"


def test_a_beginning_of_an_id(here: Command, paused: Ask) -> None:
    """Is enough where only one has it."""
    ids = paused("both")
    ambiguous = here("approve", "")
    assert ambiguous.status == 1
    prefix = next(ids[0][:length] for length in range(1, 33) if not ids[1].startswith(ids[0][:length]))
    assert here("approve", prefix, "--json").data["id"] == ids[0]
    assert "no approval has the id 'xyz'" in here("approve", "xyz").err


class Shelf:
    """As much of an inbox as a look-up asks for: one open approval for each id, and closed ones."""

    def __init__(self, *ids: str, closed: Sequence[str] = ()) -> None:
        self.approvals = self
        self._open = [Approval(id, "t", "question") for id in ids]
        self._closed = [Approval(id, "t", "question", status="used") for id in closed]

    def get(self, id: str, *, thread: str | None) -> Approval:
        """The exact one."""
        found = [one for one in [*self._open, *self._closed] if one.id == id]
        if not found:
            raise UnknownApproval(id)
        return found[0]

    def list(self, status: str | None, *, thread: str | None, limit: int, after: str | None) -> Page[Approval]:
        """One a page."""
        wanted = [one for one in [*self._open, *self._closed] if status in (None, one.status)]
        place = int(after or 0)
        return Page(wanted[place : place + 1], str(place + 1) if place + 1 < len(wanted) else None)


def test_a_beginning_that_two_have() -> None:
    """Is refused; open approvals come before closed ones, and a whole id before a beginning."""
    shelf = Shelf("abc1", "abc2", "abd", "abd4", closed=["abc3", "x1"])
    with pytest.raises(UnknownApproval, match="2 approvals have an id that begins with 'abc': give more of it"):
        find(shelf, "abc")
    assert [find(shelf, name).id for name in ("abc2", "abd", "x", "abc3")] == ["abc2", "abd", "x1", "abc3"]
    assert find(Shelf("abc1", closed=["abc3"]), "abc").id == "abc1"


def test_a_copied_thread(here: Command, paused: Ask) -> None:
    """Has approvals of the same ids; which one is meant is asked, not guessed."""
    (id,) = paused("pay")
    with SQLCheckpointer(os.environ["SCALLION_DB"]) as saver:
        saver.copy_thread("t", "copy")
    for name in (id, id[:6]):
        refused = here("approve", name)
        assert (refused.status, "--thread which one is meant (copy, t)" in refused.err) == (1, True)
    assert here("approve", id[:6], "--thread", "copy").status == 0
    assert here("approve", id, "--thread", "nobody").status == 1
    assert [one["thread"] for one in here("pending", "--json").data["items"]] == ["t"]
    assert here("withdraw", id, "--thread", "copy").status == 0
    assert here("withdraw", id, "--thread", "t").status == 1
    assert here("reject", id, "--thread", "t").status == 0
    assert [one["thread"] for one in here("pending", "--json").data["items"]] == ["copy"]


def test_a_bad_edit_can_be_corrected(here: Command, paused: Ask) -> None:
    """What does not fit the tool is refused without quoting it; then a good one is taken."""
    (id,) = paused("pay")
    for args in ('{"order": "secret"}', '{"order": 8, "secret": 1}', "secret", "[7]", "{}"):
        bad = here("edit", id, "--args", args)
        assert (bad.status, bad.out) == (1, "")
        assert "secret" not in bad.err.replace("'secret'", "")
    assert here("respond", id, "no").err == "error: 'respond' is not allowed here; allowed: approve, edit, reject\n"
    good = here("edit", id, "--args", '{"order": 8}', "--json").data
    assert good["decision"] == {"type": "edit", "args": {"order": 8}}
    assert "paid 8" in here("resume", CLERK, "t").out


def test_single_arguments(here: Command, paused: Ask) -> None:
    """`--set` keeps the others; what the schema calls a text stays one."""
    (id,) = paused("pay")
    done = here("edit", id, "--set", "reason=42", "--set", "order=9", "--json")
    assert done.data["decision"]["args"] == {"order": 9, "reason": "42"}


def test_arguments_from_standard_input(here: Command, paused: Ask) -> None:
    """`--args -`."""
    (id,) = paused("pay")
    assert here("edit", id, "--args", "-", "--json", typed='{"order": 3}').data["decision"]["args"] == {"order": 3}


def test_the_editor(here: Command, paused: Ask, place: Path, editor: Callable[..., None]) -> None:
    """Is opened on what was shown, and again on what could not be taken, until it fits."""
    (id,) = paused("pay")
    editor("{order: 1}", '{"order": "x"}', '{"order": 5}')
    done = here("edit", id, "--json", typed="y\n\n")
    assert "the arguments are not JSON (line 1, column 2)" in done.err
    assert "order is not of type 'integer'" in done.err
    assert json.loads((place / "given.json").read_text()) == {"order": "x"}
    assert here("pending", "--status", "decided", "--json").data["items"][0]["decision"]["args"] == {"order": 5}


def test_giving_up_in_the_editor(here: Command, paused: Ask, editor: Callable[..., None]) -> None:
    """Leaves the approval open; so does having no editor at all."""
    (id,) = paused("pay")
    assert here("edit", id).status == 2
    editor("nonsense")
    done = here("edit", id, "--json", typed="n\n")
    assert (done.status, done.out) == (1, "")
    assert done.err.count("the arguments are not JSON") == 1
    assert done.err.endswith("error: nothing was decided\n")
    assert len(here("pending", "--json").data["items"]) == 1


def test_a_question_is_answered(here: Command, paused: Ask) -> None:
    """`respond`."""
    (id,) = paused("ask")
    assert here("approve", id).status == 1
    assert here("respond", id, "blue", "-m", "red").status == 2
    assert here("respond", id, "-m", "blue").status == 0
    assert here("resume", CLERK, "t").out == "Results: blue\n"


def test_a_decision_is_taken_back(here: Command, paused: Ask) -> None:
    """Until it was used."""
    (id,) = paused("pay")
    assert here("withdraw", id).status == 1
    here("approve", id)
    assert here("withdraw", id, "--json").data["status"] == "pending"
    assert here("reject", id, "no", "-m", "never").status == 2
    assert here("reject", id, "too dear", "--json").data["decision"]["message"] == "too dear"
    here("resume", CLERK, "t")
    assert here("withdraw", id).status == 1


def test_whose_name_it_is(here: Command, paused: Ask, monkeypatch) -> None:
    """The login name, unless another one is given."""
    monkeypatch.setenv("LOGNAME", "mira")
    (id,) = paused("pay")
    assert here("approve", id, "--json").data["decided_by"] == "mira"
