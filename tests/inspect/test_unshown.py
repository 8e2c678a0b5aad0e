"""A value on the last line of a cell never fails the cell: what cannot be drawn says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from tests.inspect.scenery import asked, decided
from tests.inspect.wellformed import read

from scallion import Agent, Completed, SQLCheckpointer, respond
from scallion.testing import ScriptedModel


class Mute:
    """A value of somebody else."""

    def __str__(self) -> str:
        raise RuntimeError("secret")

    def __bool__(self) -> bool:
        raise RuntimeError("secret")

    __repr__ = __str__


def test_a_database_that_is_away(tmp_path: Path) -> None:
    """A session and the listings tell the error in one line."""
    saver = SQLCheckpointer(f"sqlite:///{tmp_path / 'gone.db'}")
    session = Agent(ScriptedModel(lambda _: AIMessage("Hello.")), checkpointer=saver).session("t-1")
    session.send("hello")
    saver.close()
    for value in (session, saver.approvals, saver.sessions):
        bundle: Any = value._repr_mimebundle_()
        assert set(bundle) == {"text/plain"}
        assert "\ncould not be shown: " in bundle["text/plain"]


@pytest.mark.parametrize(
    "usage",
    [{"seconds": float("nan")}, {"seconds": float("inf")}, {"input_tokens": "5", "model_calls": "1", "seconds": "2"}],
)
def test_counts_that_are_no_numbers(usage: dict[str, Any]) -> None:
    """Of providers or filters: a number is told as it is, what is none is left out."""
    bundle = Completed(AIMessage("Done."), [], usage=usage)._repr_mimebundle_()
    assert "Done." in read(bundle["text/html"]).text


def test_values_of_somebody_else() -> None:
    """They are shown by their type, and what is beside them is shown."""
    done = Completed(AIMessage("Done."), [], parsed=Mute())._repr_mimebundle_()
    assert 'parsed "(Mute)"' in read(done["text/html"]).text
    approval = asked(args={"odd": Mute(), "to": "ann"})
    bundle = approval._repr_mimebundle_()
    assert '"ann"' in bundle["text/plain"]
    assert 'odd "(Mute)" to "ann"' in read(bundle["text/html"]).text
    assert "args=(dict)" in repr(approval)


def test_a_number_of_too_many_digits() -> None:
    """Python writes no more than 4300: neither `repr` nor the picture fails, and nothing of it is told by the error."""
    assert "args=(dict)" in repr(asked(args={"n": 10**5000}))
    assert asked(args={"n": 10**5000})._repr_mimebundle_()
    assert decided(decision=respond({"n": 10**5000}))._repr_mimebundle_()
