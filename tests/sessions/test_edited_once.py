"""A turn that is run again: what input filters have edited is not edited by them once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from modes import Mode
from scenes import asks, call
from sessions.talks import Counter, Spoken

from scallion import Agent, Filter, SQLCheckpointer, approve, filters
from scallion.testing import ScriptedModel

COLOURS = pytest.mark.parametrize("colour", ["invoke", "ainvoke"])


@filters.filter_input
def polite(conversation: Any) -> None:
    """Put something in front of the latest message."""
    conversation.message = f"Please: {conversation.message}"


@filters.filter_input
def price(conversation: Any) -> None:
    """Make every five a fifty."""
    conversation.replace("$5", "$50", where="all")


def seeing(saver: Any, seen: list[list[str]], *around: Filter) -> Agent:
    """An agent that notes what its model is shown."""

    def model(messages: Sequence[BaseMessage]) -> AIMessage:
        seen.append([str(one.text) for one in messages])
        return asks(call("pay", "c1", of="x")) if "pay" in seen[-1][-1] else AIMessage("ok")

    gate = filters.approval({"pay": True})
    return Agent(ScriptedModel(model), tools=[Counter().pay], filters=[*around, gate], checkpointer=saver)


@COLOURS
@one_of_each
def test_a_turn_that_is_run_again_is_shown_to_the_model_as_it_was(database: str, colour: Mode) -> None:
    """Also on the thread of a rerun, in another process, and by an agent that is made anew."""
    seen: list[list[str]] = []
    with SQLCheckpointer(database) as saver:
        Spoken(seeing(saver, seen, polite, price).session("t"), colour).send("refund $5")
    with SQLCheckpointer(database) as saver:
        agent = seeing(saver, seen, polite, price)
        spoken = Spoken(agent.session("t"), colour)
        (turn,) = spoken.see("history")
        rerun = spoken.do("rerun", turn)
        spoken.do("compare_runs", turn, {"same": agent})
        Spoken(rerun.session, colour).do("rerun", rerun.turn)
        assert seen == [["Please: refund $50"]] * 4
        assert not rerun.difference


@COLOURS
@one_of_each
def test_only_the_message_that_is_edited_is_filtered_again(database: str, colour: Mode) -> None:
    seen: list[list[str]] = []
    with SQLCheckpointer(database) as saver:
        spoken = Spoken(seeing(saver, seen, price, polite).session("t"), colour)
        spoken.send([HumanMessage("limit $5"), HumanMessage("refund $5")])
        first, last = spoken.see("history")[0].sent
        spoken.do("edit_message", last.id, "return $5")
        spoken.do("edit_message", first.id, "at most $5")
        assert seen == [
            ["limit $50", "Please: refund $50"],
            ["limit $50", "Please: return $50"],
            ["at most $50", "Please: return $50"],
        ]


def test_another_agents_own_filters_edit_what_is_stored(sql: SQLCheckpointer) -> None:
    """And a filter of the same name may still end the turn."""

    @filters.filter_input
    def short(conversation: Any) -> None:
        conversation.message = str(conversation.message)[:10]

    @filters.filter_input(name="polite")
    def refuses(conversation: Any) -> None:
        filters.break_with("no refunds")

    seen: list[list[str]] = []
    session = seeing(sql, seen, polite).session("t")
    session.send("refund $5")
    agents = {"short": seeing(sql, seen, polite, short), "none": seeing(sql, seen), "no": seeing(sql, seen, refuses)}
    runs = session.compare_runs(session.history[0], agents)
    assert seen == [["Please: refund $5"], ["Please: re"], ["Please: refund $5"]]
    assert runs.answers == {"short": "ok", "none": "ok", "no": "no refunds"}


def test_a_run_that_pauses_goes_on_with_it(mode: Mode, sql: SQLCheckpointer) -> None:
    """And the turn that comes next is filtered."""
    seen: list[list[str]] = []
    spoken = Spoken(seeing(sql, seen, polite).session("t"), mode)
    spoken.send("pay")
    again = Spoken(spoken.do("rerun", spoken.see("history")[0]).session, mode)
    assert again.resume(approve()).answer == "ok"
    assert again.send("refund").answer == "ok"
    texts = [str(one.text) for one in again.see("messages") if one.type == "human"]
    assert texts == ["Please: pay", "Please: refund"]
