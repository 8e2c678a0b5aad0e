"""The notebook of restarts, in two kernels: nothing but the database goes from one to the other."""

import pytest
from tests.notebooks.conftest import Kernel


def the_same_conversation(kernel: Kernel, database: str) -> None:
    """It begins in one kernel, and goes on in another one."""
    first = kernel("05_across_restarts", "first")
    assert first["setup"] == f"'{database}'"
    assert first["talk"] == "'Good day, Mira. You have told me 2 thing(s).'"
    assert first["letter"] == "'paused'"
    second = kernel("05_across_restarts", "second")
    assert second["setup"] == f"'{database}'"
    assert "mira | Mira's letters | paused | 6 messages | ['letters', 'spring']" in second["found"]
    assert second["search"] == "['mira']\n['mira']\n"
    assert second["history"].endswith("('send_letter', {'to': 'Bob', 'text': 'Mira says hello.'})")
    assert second["decide"] == "Dear Mira, your letter is sent to Bob."
    assert second["on"] == "'Good day, Mira. You have told me 4 thing(s).'"
    assert second["who"] == "[('send_letter', 'approve', 'ana')]"
    assert second["export"] == "4 Mira's letters\n'Good day, Mira. You have told me 5 thing(s).'"
    assert second["clean"] == "(None, 'idle')"


@pytest.mark.parametrize("bare_database", ["file", "postgresql"], indirect=True)
def test_on_the_database_that_answers(kernel: Kernel, bare_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALLION_DB", bare_database)
    the_same_conversation(kernel, bare_database.partition("+")[0].partition(":")[0])


def test_on_a_file_where_none_answers(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALLION_DB", "postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    the_same_conversation(kernel, "sqlite")
