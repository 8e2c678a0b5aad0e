"""Panels: what somebody clicks is decided once, in the database, and the turn goes on without the kernel waiting."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from scallion import (
    Agent,
    Approval,
    Completed,
    ConfigurationError,
    Inbox,
    Paused,
    Policy,
    ScallionError,
    SQLCheckpointer,
    ThreadError,
    approve,
    edit,
    filters,
    pause,
    reject,
)
from scallion.notebook import Panel, panel
from scallion.notebook.cards import decision
from scallion.testing import Clock, ScriptedModel, asks, call

WAIT = 60
"""Seconds until a test gives up."""


def clerk(messages: list[BaseMessage]) -> AIMessage:
    """Asks for the refunds that the message names, then repeats the results."""
    if isinstance(messages[-1], ToolMessage):
        return AIMessage(" ".join(str(one.text) for one in messages if isinstance(one, ToolMessage)))
    calls = [
        {"name": "refund", "args": {"order": int(order), "amount": 5.0}, "id": f"call-{order}"}
        for order in str(messages[-1].text).split()
    ]
    return AIMessage("I ask.", tool_calls=calls)


class Desk:
    """An agent with one sensitive tool; `ran` has its executions, `gate` holds them up while it is not set."""

    def __init__(self, url: str, **options: Any) -> None:
        self.ran: list[tuple[int, float]] = []
        self.gate = threading.Event()
        self.gate.set()

        def refund(order: int, amount: float) -> str:
            """Give money back."""
            self.gate.wait(WAIT)
            self.ran.append((order, amount))
            return f"refunded {order}: {amount}"

        policy = options.pop("policy", True)
        saver = options.pop("saver", None) or SQLCheckpointer(url)
        self.agent = Agent(
            ScriptedModel(clerk, chunk_size="word"),
            tools=[refund],
            filters=[filters.approval({"refund": policy})],
            checkpointer=saver,
            **options,
        )

    def paused(self, message: str = "1", thread: str = "t") -> Paused:
        """A turn that waits."""
        result = self.agent.invoke(message, thread=thread)
        assert isinstance(result, Paused)
        return result


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database."""
    return f"sqlite:///{tmp_path / 'panel.db'}"


@pytest.fixture
def desk(url: str) -> Iterator[Desk]:
    """The agent."""
    made = Desk(url)
    yield made
    made.agent.checkpointer.close()


def shown(one: Panel, place: int = 0) -> dict[str, Any]:
    """What the browser was sent of a card."""
    cards = [part for part in one._view.parts if "card" in part]
    return cards[place]


def click(one: Panel, kind: str, place: int = 0, card: dict[str, Any] | None = None, **more: Any) -> None:
    """What the browser sends when somebody clicks; `card` is one that was drawn before."""
    part = card or shown(one, place)
    message = {"do": "decide", "key": part["key"], "seen": part["seen"], "kind": kind, "nonce": object(), **more}
    one._view._handle_custom_msg({**message, "nonce": "n"}, [])


def until(condition: Callable[[], bool]) -> None:
    """Wait for what happens in the background."""
    asked = threading.Event()
    for _ in range(WAIT * 50):
        if condition():
            return
        asked.wait(0.02)
    raise AssertionError("it did not happen")


def ended(one: Panel) -> bool:
    """Whether the turn is over, and the browser knows it."""
    return one._view.state["phase"] == "done"


def trail(one: Panel) -> list[str]:
    """The entries of all trails."""
    return [entry["text"] for part in one._view.parts for entry in part.get("trail", ())]


def test_approve_goes_on(desk: Desk) -> None:
    """And the next cell sees what came of it."""
    desk.paused()
    one = panel(desk.agent, "t", by="ana")
    assert repr(one) == "Panel('t', open, 1 to decide)"
    assert one.result is None
    click(one, "approve")
    until(lambda: ended(one))
    assert isinstance(one.result, Completed)
    assert one.result.answer == "refunded 1: 5.0"
    assert trail(one)[-1] == "refunded 1: 5.0"
    assert desk.ran == [(1, 5.0)]
    assert shown(one)["card"]["verdict"] == "approve by ana"
    assert repr(one) == "Panel('t', done, 0 to decide)"


def test_nothing_waits_for_the_turn(desk: Desk) -> None:
    """A click comes back at once, and the panel can be looked at while the turn runs."""
    desk.paused()
    desk.gate.clear()
    one = panel(desk.agent, "t")
    click(one, "approve")
    until(lambda: one.is_running)
    one.refresh()
    assert one._view.state["phase"] == "running"
    assert one.result is None
    click(one, "approve")
    desk.gate.set()
    until(lambda: not one.is_running)
    assert desk.ran == [(1, 5.0)]
    assert one.error is None


def test_a_second_click_decides_nothing(desk: Desk) -> None:
    """Neither while the first is in flight nor behind it, and nothing is told as an error."""
    desk.paused("1 2")
    one = panel(desk.agent, "t")
    drawn = shown(one)
    for _ in range(5):
        click(one, "approve", card=drawn)
    click(one, "reject", card=drawn)
    until(lambda: one.approvals[0].status == "decided")
    click(one, "reject", card=drawn)
    click(one, "approve", place=1)
    until(lambda: ended(one))
    assert sorted(desk.ran) == [(1, 5.0), (2, 5.0)]
    assert not any(part.get("told") or part.get("problems") for part in one._view.parts)
    assert one.error is None


def test_an_edit_runs_as_edited(desk: Desk) -> None:
    """Through the form."""
    desk.paused()
    one = panel(desk.agent, "t")
    click(one, "edit", filled={"fields": {"order": {"keep": True}, "amount": {"text": "2.5"}}})
    until(lambda: ended(one))
    assert desk.ran == [(1, 2.5)]


def test_an_edit_that_changes_nothing_approves(desk: Desk) -> None:
    """The model is told of no edit."""
    desk.paused()
    one = panel(desk.agent, "t")
    click(one, "edit", filled={"fields": {"order": {"keep": True}, "amount": {"keep": True}}})
    until(lambda: ended(one))
    assert one.approvals[0].decision == approve()


def test_what_changes_something_is_an_edit() -> None:
    """5 in the place of 5.0 does; and where only an edit is allowed, it is one."""
    number = {"type": "number"}
    schema = {"type": "object", "properties": {"order": number, "amount": number}, "required": ["order", "amount"]}
    args = {"order": 1, "amount": 5.0}
    asked = Approval("a", "t", "tool_call", args=args, args_schema=schema, allowed=("approve", "edit"))
    kept = {"order": {"keep": True}, "amount": {"keep": True}}
    assert decision(asked, "edit", {"fields": kept}, None)[0] == approve()
    assert decision(asked.replace(allowed=("edit",)), "edit", {"fields": kept}, None)[0] == edit(args)
    typed, _ = decision(asked, "edit", {"fields": {**kept, "amount": {"text": "5"}}}, None)
    assert typed is not None
    assert repr(typed.args) == "{'order': 1, 'amount': 5}"


@pytest.mark.parametrize("text", ["much", ""])
def test_what_cannot_be_is_told_at_its_field(desk: Desk, text: str) -> None:
    """And nothing is stored: the card can be decided as before."""
    desk.paused()
    one = panel(desk.agent, "t")
    click(one, "edit", filled={"fields": {"order": {"keep": True}, "amount": {"text": text}}})
    until(lambda: bool(shown(one)["problems"]))
    assert shown(one)["problems"] == {"/amount": "a number is needed"}
    assert shown(one)["heard"] == "n"
    assert desk.agent.session("t").pending[0].votes == ()
    assert one.approvals[0].status == "pending"
    click(one, "approve")
    until(lambda: ended(one))
    assert desk.ran == [(1, 5.0)]


def test_the_rules_are_those_of_decide(url: str) -> None:
    """What the schema of the tool refuses is told at the field too, in the words of `decide`."""

    def order(count: int, size: str) -> str:
        """Order something."""
        return f"{count} {size}"

    from typing import Annotated, Literal

    from pydantic import Field

    order.__annotations__ |= {"count": Annotated[int, Field(ge=1, le=9)], "size": Literal["s", "m"]}
    script = [AIMessage("", tool_calls=[{"name": "order", "args": {"count": 3, "size": "s"}, "id": "c"}]), "done"]
    agent = Agent(ScriptedModel(script), tools=[order], filters=[filters.approval({"order": True})], checkpointer=url)
    agent.invoke("x", thread="t")
    one = panel(agent, "t")
    click(one, "edit", filled={"fields": {"count": {"text": "10"}, "size": {"choice": 1}}})
    until(lambda: bool(shown(one)["problems"]))
    assert shown(one)["problems"] == {"/count": "is not of maximum 9"}
    agent.checkpointer.close()


def test_reject_with_a_reason(desk: Desk) -> None:
    """Which the model reads."""
    desk.paused()
    one = panel(desk.agent, "t")
    click(one, "reject", text="too much")
    until(lambda: ended(one))
    assert isinstance(one.result, Completed)
    assert "too much" in one.result.answer
    assert desk.ran == []


def test_only_what_is_allowed(url: str) -> None:
    """No button and no form for the rest; who sends it all the same is refused."""
    desk = Desk(url, policy=Policy(allowed=("approve", "reject")))
    desk.paused()
    one = panel(desk.agent, "t")
    assert shown(one)["card"]["allowed"] == ["approve", "reject"]
    assert shown(one)["card"]["forms"] == {}
    click(one, "edit", filled={"fields": {"order": {"keep": True}, "amount": {"text": "1"}}})
    until(lambda: bool(shown(one)["problems"]))
    assert shown(one)["problems"] == {"": "'edit' is not allowed here; allowed: approve, reject"}
    desk.agent.checkpointer.close()


def test_somebody_else_was_first(desk: Desk) -> None:
    """It is told who and what; the turn goes on when somebody says so."""
    desk.paused()
    one = panel(desk.agent, "t", by="ana")
    desk.agent.checkpointer.approvals.decide(one.approvals[0].id, reject("no"), by="eve")
    click(one, "approve")
    until(lambda: bool(shown(one)["told"]))
    assert "reject by eve" in shown(one)["told"]
    assert shown(one)["card"]["verdict"] == "reject by eve: no"
    assert shown(one)["card"]["allowed"] == []
    until(lambda: one._view.state["goes_on"])  # it is sent behind the cards
    assert desk.ran == []
    one._view._handle_custom_msg({"do": "go on"}, [])
    until(lambda: ended(one))
    assert desk.ran == []


def test_somebody_else_went_on(desk: Desk) -> None:
    """Then there is nothing to go on with."""
    desk.paused()
    one = panel(desk.agent, "t")
    desk.agent.resume("t", approve(), by="eve")
    click(one, "approve")
    until(lambda: bool(shown(one)["told"]))
    assert shown(one)["card"]["status"] == "used"
    assert shown(one)["card"]["verdict"] == "approve by eve"
    assert not one._view.state["goes_on"]
    assert desk.ran == [(1, 5.0)]


def test_what_is_decided_elsewhere_is_seen_when_it_is_looked_at(desk: Desk) -> None:
    """`refresh` is the button too; nothing goes on by itself."""
    desk.paused()
    one = panel(desk.agent, "t")
    desk.agent.session("t").decide(approve(), by="eve")
    one._view._handle_custom_msg({"do": "refresh"}, [])
    until(lambda: one._view.state["goes_on"])
    assert desk.ran == []
    one.go_on()
    until(lambda: ended(one))
    assert desk.ran == [(1, 5.0)]


@pytest.mark.parametrize("message", [{"do": "refresh"}, {"do": "go on"}, {"do": "stop"}])
def test_what_changes_nothing_is_answered(desk: Desk, message: dict[str, str]) -> None:
    """The browser is sent something: otherwise it would say that no kernel answers."""
    desk.paused()
    one = panel(desk.agent, "t")
    sent: list[str] = []
    one._view.observe(lambda change: sent.append(change["name"]))
    one._view._handle_custom_msg(message, [])
    until(lambda: bool(sent))
    assert {one._view.traits()[name].metadata.get("sync") for name in sent} == {True}
    assert one._view.state["told"] == "1 to decide"


def test_what_has_expired(url: str) -> None:
    """It is told, and cannot be decided."""
    clock = Clock(datetime(2026, 1, 1, tzinfo=UTC))
    desk = Desk(url, policy=Policy(expires_in=60), saver=SQLCheckpointer(url, clock=clock))
    desk.paused()
    one = panel(desk.agent, "t")
    clock.forward(seconds=61)
    click(one, "approve")
    until(lambda: bool(shown(one)["told"]))
    assert shown(one)["card"]["status"] == "expired"
    assert shown(one)["card"]["allowed"] == []
    desk.agent.checkpointer.close()


def test_a_quorum(url: str) -> None:
    """A vote is no decision; the second one is."""
    desk = Desk(url, policy=Policy(quorum=2))
    desk.paused()
    one, other = panel(desk.agent, "t", by="ana"), panel(desk.agent, "t", by="eve")
    click(one, "approve")
    until(lambda: shown(one)["heard"] is not None)
    assert any("1 voted so far" in fact for fact in shown(one)["card"]["facts"])
    assert one.approvals[0].status == "pending"
    click(other, "approve")
    until(lambda: ended(other))
    assert desk.ran == [(1, 5.0)]
    desk.agent.checkpointer.close()


def test_the_next_pause_is_on_the_same_panel(url: str) -> None:
    """What it asks comes below what was decided."""
    asked: list[BaseMessage | str] = [
        AIMessage("", tool_calls=[{"name": "ask", "args": {"what": what}, "id": what}]) for what in ("a", "b")
    ]

    def ask(what: str) -> str:
        """Ask a person."""
        return str(pause(f"what is {what}?").message)

    agent = Agent(ScriptedModel([*asked, "thanks"]), tools=[ask], filters=[filters.approval()], checkpointer=url)
    agent.invoke("x", thread="t")
    one = agent.session("t").panel()
    assert shown(one)["card"]["asks"] == "what is a?"
    click(one, "respond", text="  ")
    until(lambda: bool(shown(one)["problems"]))
    click(one, "respond", text="one")
    until(lambda: isinstance(one.result, Paused) and not one.is_running)
    assert shown(one, 1)["card"]["asks"] == "what is b?"
    click(one, "respond", place=1, text="two")
    until(lambda: ended(one))
    assert [len(part) for part in one._view.parts if "card" in part] == [6, 6]
    agent.checkpointer.close()


def test_an_error_is_told_and_can_be_gone_on_from(desk: Desk, url: str) -> None:
    """The decision stays; the panel says what happened."""

    class Broken(Exception):
        pass

    def breaks(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage) and not broken:
            broken.append(1)
            raise Broken("the provider is away")
        return clerk(messages)

    broken: list[int] = []
    agent = Agent(
        ScriptedModel(breaks),
        tools=desk.agent.tools,
        filters=[filters.approval({"refund": True})],
        checkpointer=url,
    )
    agent.invoke("1", thread="e")
    one = panel(agent, "e")
    click(one, "approve")
    until(lambda: one._view.state["phase"] == "failed")
    assert one._view.state["told"].startswith("ModelError")
    assert one._view.state["goes_on"]
    other = panel(agent, "e")  # the notebook was opened anew
    assert other._view.state == {"phase": "open", "told": "the turn failed, and can be gone on with", "goes_on": True}
    one._view._handle_custom_msg({"do": "go on"}, [])
    until(lambda: ended(one))
    assert one.error is None
    assert desk.ran == [(1, 5.0)]
    other._view._handle_custom_msg({"do": "go on"}, [])
    until(lambda: other._view.state["phase"] == "failed")
    assert other._view.state["told"].startswith("NotPaused")
    assert not other._view.state["goes_on"]
    agent.checkpointer.close()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_a_tool_that_wants_to_end_the_process(url: str, kind: type[BaseException]) -> None:
    """Ends the turn alone: the panel says so, a cell that waits goes on, and so can the turn."""
    ran: list[int] = []

    def leave() -> str:
        """Leave."""
        ran.append(1)
        if len(ran) == 1:
            raise kind(1)
        return "stayed"

    gate = filters.approval({"leave": True})
    agent = Agent(ScriptedModel([asks(call("leave")), "done"]), tools=[leave], filters=[gate], checkpointer=url)
    await agent.ainvoke("x", thread="t")
    one = panel(agent, "t")
    click(one, "approve")
    with pytest.raises(ScallionError, match=f"a tool or a filter raised {kind.__name__}") as caught:
        await asyncio.wait_for(_waited(one), WAIT)
    assert isinstance(caught.value.__cause__, kind)
    until(lambda: one._view.state["phase"] == "failed")
    assert one._view.state["told"] == f"ScallionError: a tool or a filter raised {kind.__name__}"
    assert one._view.state["goes_on"]
    one.go_on()
    until(lambda: ended(one))
    assert one.error is None
    agent.checkpointer.close()


def test_a_click_while_the_turn_goes_on(desk: Desk) -> None:
    """Decides nothing, but is answered: the card can be used when the turn has paused again."""
    desk.paused("1 2")
    one = panel(desk.agent, "t")
    click(one, "approve")
    until(lambda: one.approvals[0].status == "decided")
    desk.gate.clear()
    one.go_on()
    until(lambda: one.is_running)
    click(one, "reject", place=1)
    until(lambda: shown(one, 1)["heard"] == "n")
    until(lambda: one._view.state["told"] == "going on: decide when it has paused")
    assert one.approvals[1].status == "pending"
    desk.gate.set()
    until(lambda: not one.is_running)
    until(lambda: one._view.state["told"] == "1 to decide")
    click(one, "approve", place=1)
    until(lambda: ended(one))
    assert sorted(desk.ran) == [(1, 5.0), (2, 5.0)]


def test_stop(desk: Desk) -> None:
    """A turn that was stopped goes on where it was."""
    desk.paused("1 2")
    one = panel(desk.agent, "t")
    click(one, "approve", place=1)
    until(lambda: one.approvals[1].status == "decided")
    desk.gate.clear()
    click(one, "approve")
    until(lambda: one.is_running and bool(one._view.trail))
    one._view._handle_custom_msg({"do": "stop"}, [])
    desk.gate.set()
    until(lambda: one._view.state["phase"] in ("stopped", "done"))
    if one.result is None:
        assert one._view.state["goes_on"]
        one.go_on()
        until(lambda: ended(one))
    assert sorted(desk.ran) == [(1, 5.0), (2, 5.0)]


def test_the_inbox_of_a_database(desk: Desk, url: str) -> None:
    """All threads; a decision is stored, and nothing goes on."""
    desk.paused(thread="t-1")
    desk.paused(thread="t-2")
    with Inbox(url) as inbox:
        one = panel(inbox, by="ana")
        assert len(one.approvals) == 2
        assert [approval.thread for approval in panel(inbox, "t-2").approvals] == ["t-2"]
        click(one, "approve")
        until(lambda: one.approvals[0].status == "decided")
        assert desk.ran == []
        assert not one._view.state["goes_on"]
        with pytest.raises(ConfigurationError, match="an inbox has no agent"):
            one.go_on()
    assert isinstance(desk.agent.resume("t-1"), Completed)


def test_an_option_that_is_not_there_is_refused_at_once(desk: Desk) -> None:
    """Not when somebody has decided."""
    with pytest.raises(TypeError, match="there is no option 'bogus'"):
        panel(desk.agent, "t", bogus=1)


async def test_a_cell_may_wait(desk: Desk) -> None:
    """`await panel` gives the result, or raises."""
    await desk.agent.ainvoke("1", thread="t")
    one = panel(desk.agent, "t")
    waiting = asyncio.ensure_future(_waited(one))
    await asyncio.sleep(0)
    assert not waiting.done()
    click(one, "approve")
    result = await asyncio.wait_for(waiting, WAIT)
    assert result.answer == "refunded 1: 5.0"
    assert await one is result


async def test_a_later_turn_asks_on_a_finished_panel(desk: Desk) -> None:
    """What waits is told again, and waited for."""
    await desk.agent.ainvoke("1", thread="t")
    one = panel(desk.agent, "t")
    click(one, "approve")
    first = await asyncio.wait_for(_waited(one), WAIT)
    await desk.agent.ainvoke("2", thread="t")
    one.refresh()
    assert repr(one) == "Panel('t', open, 1 to decide)"
    assert one._view.state["told"] == "1 to decide"
    waiting = asyncio.ensure_future(_waited(one))
    await asyncio.sleep(0)
    assert not waiting.done()
    click(one, "approve", place=1)
    assert (await asyncio.wait_for(waiting, WAIT)).turn != first.turn
    assert sorted(desk.ran) == [(1, 5.0), (2, 5.0)]


async def _waited(one: Panel) -> Any:
    return await one


def test_what_a_panel_is_for(desk: Desk) -> None:
    """Anything else is refused, with what to give."""
    with pytest.raises(ConfigurationError, match=r"panel\(agent, thread\)"):
        panel(desk.agent)
    with pytest.raises(ConfigurationError, match="not str"):
        panel("sqlite:///a.db")
    with pytest.raises(ConfigurationError, match="an inbox runs none"):
        panel(desk.agent.checkpointer, env=1)
    with pytest.raises(ConfigurationError, match="has its thread"):
        panel(desk.agent.session("t"), "other")
    stranger = Agent(ScriptedModel(["x"]), checkpointer=InMemorySaver())
    with pytest.raises(ConfigurationError, match="SQLCheckpointer"):
        panel(stranger, "t")
    for source in (desk.agent, desk.agent.checkpointer):
        with pytest.raises(ThreadError, match="there is no thread 'nobody'"):
            panel(source, "nobody")
    assert panel(desk.agent.session("nobody")).approvals == []


def test_what_stands_in_the_file(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards without buttons, escaped; the buttons are an output of their own."""
    import IPython.display

    told: list[dict[str, Any]] = []
    monkeypatch.setattr(IPython.display, "publish_display_data", told.append)
    result = desk.paused()
    one = panel(desk.agent, "t")
    one._ipython_display_()
    still, buttons = told
    assert "refund" in still["text/html"]
    assert "refund" in still["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in buttons
    assert one._view.token in still["text/html"]
    assert result.approvals[0].id == one.approvals[0].id


def test_without_the_extra(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    from scallion.notebook.widget import _widget_class

    _widget_class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ConfigurationError, match=r"scallion\[notebook\]"):
        panel(desk.agent.session("t"))
    _widget_class.cache_clear()
