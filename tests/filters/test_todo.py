"""`todo`: one list, written by one call at a time, kept from turn to turn and over a pause."""

from __future__ import annotations

from typing import Any

import pytest
from modes import Drive
from scenes import Desk, asks, call, results

from scallion import Agent, ConfigurationError, SQLCheckpointer, edit, filters
from scallion.filters.todo import PROMPT
from scallion.testing import ScriptedModel

PLAN = [{"content": "look", "status": "in_progress"}, {"content": "mail", "status": "pending"}]
DONE = [{**one, "status": "completed"} for one in PLAN]


def writes(todos: Any, id: str = "c1") -> dict[str, Any]:
    return call("write_todos", id, todos=todos)


def test_the_list_is_kept_and_read(drive: Drive, sql: SQLCheckpointer) -> None:
    model = ScriptedModel([asks(writes(PLAN)), "Begun.", asks(writes(DONE, "c2")), "Done.", "Nothing."])
    agent = Agent(model, filters=[filters.todo()], checkpointer=sql)
    first, _ = drive(agent).start("Look and mail.", thread="t")
    assert first.filter_state["todo"]["todos"] == PLAN
    assert '"status": "in_progress"' in results(first.messages)[0]
    second, _ = drive(agent).start("Go on.", thread="t")
    third, _ = drive(agent).start("And now?", thread="t")
    assert second.filter_state["todo"]["todos"] == third.filter_state["todo"]["todos"] == DONE


def test_two_lists_at_once_are_both_refused(drive: Drive) -> None:
    """Each would replace the other. A call of another tool beside them runs."""
    desk = Desk()
    batch = asks(writes(PLAN, "c1"), call("look", "c2", order=7), writes(DONE, "c3"))
    model = ScriptedModel([batch, asks(writes(PLAN, "c4")), "Good."])
    result, _ = drive(Agent(model, tools=desk.tools, filters=[filters.todo()])).start("Look and mail.")
    first, looked, second, taken = results(result.messages)
    assert first == second
    assert "more than once" in first
    assert looked == "order 7 is here"
    assert taken.startswith("the list is now")
    assert result.filter_state["todo"]["todos"] == PLAN


def test_two_lists_under_one_id_are_both_refused() -> None:
    """Ids that are not unique are made so behind the filters."""
    model = ScriptedModel([asks(writes(PLAN), writes(DONE)), "Sorry."])
    result = Agent(model, filters=[filters.todo()]).invoke("Look.")
    assert result.filter_state["todo"]["todos"] == []


@pytest.mark.parametrize("todos", [[{"content": "look", "status": "begun"}], [{"status": "pending"}], "look"])
def test_a_list_that_is_none_is_an_error_that_the_model_reads(todos: Any) -> None:
    model = ScriptedModel([asks(writes(todos)), "Sorry."])
    result = Agent(model, filters=[filters.todo()]).invoke("Look.")
    assert "error" in results(result.messages)[0]
    assert result.filter_state["todo"]["todos"] == []


def test_the_list_outlives_a_pause(drive: Drive, sql: SQLCheckpointer) -> None:
    gate = filters.approval({"refund": True})
    batch = asks(writes(PLAN), call("refund", "c2", order=1))
    agent = Agent(ScriptedModel([batch, "Done."]), tools=Desk().tools, filters=[filters.todo(), gate], checkpointer=sql)
    result, _ = drive(agent).finish("Refund.", thread="t")
    assert result.filter_state["todo"]["todos"] == PLAN


def test_a_list_that_a_person_edits_is_the_one_that_is_kept(sql: SQLCheckpointer) -> None:
    filters_ = [filters.todo(), filters.approval({"write_todos": True})]
    agent = Agent(ScriptedModel([asks(writes(PLAN)), "Done."]), filters=filters_, checkpointer=sql)
    agent.invoke("Look and mail.", thread="t")
    result = agent.resume("t", edit({"todos": DONE}))
    assert result.filter_state["todo"]["todos"] == DONE


def test_the_front_of_what_the_model_reads_never_changes(sql: SQLCheckpointer) -> None:
    """So the provider's prompt cache holds from round to round, and from turn to turn."""
    rounds = [asks(writes(PLAN)), asks(call("look", "c2", order=1)), asks(writes(DONE, "c3")), "Done.", "Yes."]
    model = ScriptedModel(rounds)
    agent = Agent(model, tools=Desk().tools, filters=[filters.todo()], checkpointer=sql, system_prompt="Be kind.")
    agent.invoke("Look and mail.", thread="t")
    agent.invoke("Sure?", thread="t")
    for before, now in zip(model.calls, model.calls[1:], strict=False):
        assert now[: len(before)] == before
    assert model.calls[0][0].text == f"Be kind.\n\n{PROMPT}"
    assert all(sent["tools"] == model.settings[0]["tools"] for sent in model.settings)


def test_without_a_prompt_nothing_is_said() -> None:
    model = ScriptedModel(["Hello."])
    Agent(model, filters=[filters.todo(prompt=None)]).invoke("Hi")
    assert [one.type for one in model.calls[0]] == ["human"]


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="filter 'plan'"):
        filters.todo(name="plan", description="")
