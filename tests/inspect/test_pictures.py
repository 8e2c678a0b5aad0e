"""What each value shows of itself in a notebook, from real agents and a real database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from tests.inspect.scenery import BEGAN, asked, decided, refund_trace
from tests.inspect.wellformed import Page, read

from scallion import Agent, Completed, Paused, SQLCheckpointer, approve, edit, filters, reject
from scallion.inspect import to_html, to_text
from scallion.inspect.card import facts
from scallion.inspect.graph import way
from scallion.session import Difference
from scallion.session.turns import Turn
from scallion.testing import ScriptedModel
from scallion.tracing import Trace
from scallion.values import Vote


def refund(order: int, amount: float, note: str = "") -> str:
    """Give the money of an order back."""
    return f"{amount} for order {order} is on its way"


def clerk(messages: Any) -> AIMessage:
    """Asks for a refund where somebody says so."""
    last = messages[-1]
    if last.type == "human" and "refund" in last.text:
        call = {"name": "refund", "args": {"order": 1042, "amount": 189.0}, "id": f"c{len(messages)}"}
        return AIMessage("I ask for it.", tool_calls=[call])
    return AIMessage("Done." if last.type == "tool" else f"You said: {last.text}")


def agent_on(saver: Any, **options: Any) -> Agent:
    """An agent that asks before it pays."""
    onion = [filters.safeguard(["bomb"]), filters.retry_model(), filters.approval({"refund": True})]
    return Agent(ScriptedModel(clerk), tools=[refund], filters=onion, checkpointer=saver, **options)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """It keeps its threads in a file."""
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}") as saver:
        yield agent_on(saver)


def shown(value: Any) -> tuple[Page, str]:
    """What a notebook is given, read, and the text beside it."""
    bundle = value._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/html"] == to_html(value)
    assert bundle["text/plain"] == to_text(value)
    return read(bundle["text/html"]), bundle["text/plain"]


def test_paused(agent: Agent) -> None:
    """What waits, as a card; the text says the same."""
    paused = agent.invoke("refund 1042", thread="t-1")
    assert isinstance(paused, Paused)
    (one,) = paused.approvals
    page, text = shown(paused)
    assert page.text.startswith("Paused thread t-1 1 approval refund pending The agent wants to call refund.")
    assert "argument value order 1042 amount 189.0" in page.text
    assert f"id {one.id}" in page.text
    assert text.splitlines()[:9] == [
        "Paused · thread t-1 · 1 approval",
        "refund · pending",
        "  The agent wants to call refund.",
        "  {",
        '    "order": 1042,',
        '    "amount": 189.0',
        "  }",
        f"  id {one.id}",
        "  thread t-1 · may be decided: approve, edit, reject, respond",
    ]


def test_who_may_decide_is_told_while_it_pends() -> None:
    """Not of what is decided, used, expired or withdrawn: nobody may any more. Who has voted stays."""
    rules = {"deciders": ("ana", "bo"), "not_requester": True, "quorum": 2, "expires_at": BEGAN}
    vote = Vote("ana", approve(), BEGAN)
    waits = [
        "thread t-1 · may be decided: approve, edit, reject",
        "by ana or bo",
        "not by who asked for it",
        "2 people have to decide the same; 1 voted so far, 1 of them the same",
        "vote: approve by ana",
        "expires 2026-11-30T12:00:00+00:00",
    ]
    assert list(facts(asked(**rules, votes=(vote,))))[1:] == waits
    for status in ("decided", "used", "superseded", "cancelled"):
        assert list(facts(decided(**rules, votes=(vote,)).replace(status=status)))[1:] == ["thread t-1", waits[4]]
    expired = list(facts(asked(status="expired", **rules)))[1:]
    assert expired == ["thread t-1", "expired 2026-11-30T12:00:00+00:00"]


def test_completed(agent: Agent) -> None:
    """The answer, the counts, the conversation with the call and what came of it; and the timeline if there is one."""
    agent.invoke("refund 1042", thread="t-1")
    done = agent.resume("t-1", approve())
    assert isinstance(done, Completed)
    page, text = shown(done)
    assert page.text.startswith("Completed thread t-1 2 model calls 1 tool call tokens ")
    assert "4 messages user refund 1042 assistant I ask for it. refund (order=1042, amount=189.0) success" in page.text
    assert text.splitlines()[1] == "Done."
    traced = done.replace(trace=refund_trace())
    assert "Turn turn-1 completed" in shown(traced)[0].text
    assert "retry ×2" in shown(traced)[1]


def test_a_recorded_trace(agent: Agent) -> None:
    """As a real turn leaves it, over a pause: with the result, and read back from the database."""
    session = agent.session("t-1")
    session.send("refund 1042")
    done = session.resume(edit({"order": 1042, "amount": 20.0}), by="ana")
    told = [re.sub(r"\s*[━ ]*(after )?[\d.]+ m?s$", "", line).strip() for line in to_text(done.trace).splitlines()]
    assert [re.sub(r"  2026.* UTC|  \d+ in, \d+ out|  \d{4}-[^·]*UTC", "", line) for line in told[2:]] == [
        "▸ part 1 · paused",
        "↻ attempt 1  paused",
        "◆ scripted",
        "○ approval  paused",
        "? refund  edit by ana · amount: 189.0 → 20.0",
        "▸ part 2 · completed",
        "↻ attempt 1",
        "○ approval  edit · changed_request · args: amount changed",
        "● refund",
        "◆ scripted",
    ]
    assert to_text(session.trace()) == to_text(done.trace)
    read(to_html(session.trace()))
    assert way(done.trace) == ["__start__", "chat", "tool", "tool", "chat", "__end__"]


def test_an_edit_shows_what_it_changed(agent: Agent) -> None:
    """Each argument before and after; those that are the same say so."""
    agent.invoke("refund 1042", thread="t-1")
    agent.resume("t-1", edit({"order": 1042, "amount": 20.0, "note": "half"}), by="ana")
    (one,) = agent.checkpointer.approvals.list(None).items
    page, _ = shown(one)
    assert 'argument asked approved order 1042 unchanged amount 189.0 20.0 note – "half" edit by ana' in page.text
    assert [tag for tag, _ in page.elements if tag in ("del", "ins")] == ["del", "ins", "del", "ins"]


def test_a_rejection_says_why() -> None:
    """On one line, under the arguments."""
    page, text = shown(decided(decision=reject("too\nmuch")))
    assert "reject by ana: too much" in page.text
    assert text.splitlines()[-1] == "  used: reject by ana: too much"


def test_session(agent: Agent) -> None:
    """Its turns, the last one open, with what people decided; what waits is a card."""
    session = agent.session("t-1", user="ana")
    session.send("hello")
    session.send("refund 1042")
    page, text = shown(session)
    assert page.text.startswith("Session t-1 paused hello agent agent ")
    folded = [attributes for _, attributes in page.elements if attributes.get("class") == "sca-fold sca-turn"]
    assert ["open" in attributes for attributes in folded] == [False, True]
    assert "refund pending" in page.text
    assert text.splitlines()[:3] == [
        "Session t-1 · paused · hello · 4 messages",
        "completed hello → You said: hello",
        "paused    refund 1042",
    ]
    session.resume(approve(), by="bob")
    page, text = shown(session)
    assert "approve by bob" in page.text
    assert "refund pending" not in page.text
    assert text.splitlines()[2] == "completed refund 1042 → Done."


def test_a_session_that_is_not_there(agent: Agent) -> None:
    """It says so."""
    page, text = shown(agent.session("nobody"))
    assert page.text == "Session nobody no turns yet"
    assert text == "Session nobody"


def test_a_session_of_another_saver() -> None:
    """Without a history of turns it shows the conversation and what waits."""
    session = agent_on(InMemorySaver()).session("t-1")
    session.send("refund 1042")
    page, text = shown(session)
    assert "user refund 1042" in page.text
    assert "refund pending" in page.text
    assert "user: refund 1042" in text


def test_turn_state_step_difference(agent: Agent) -> None:
    """The parts of a session."""
    session = agent.session("t-1", user="ana")
    session.send("hello world")
    session.send("refund 1042")
    session.resume(approve(), by="bob")
    first, second = session.history
    page, text = shown(second)
    assert page.text.startswith(f"Turn {second.id} completed")
    assert "approve by bob" in page.text
    assert text.splitlines()[-1] == "  asked refund: approve by bob"
    page, text = shown(session.at(first))
    assert page.text.startswith("Step ")
    assert "2 messages user hello world" in page.text
    assert "user: hello world" in text
    assert shown(session.checkpoints[0])[1].startswith("Step -1 · ")
    other = session.fork(at=first)
    other.rewind(before=other.history[0])
    other.send("hello moon")
    page, text = shown(session.compare(first, other.history[0]))
    assert "a b user hello world user hello moon" in page.text
    assert [t for t, _ in page.elements if t in ("del", "ins")] == ["del", "ins", "del", "ins"]
    assert text.splitlines()[:2] == ["- user: hello world", "- assistant: You said: hello world"]
    assert "the same" in shown(session.compare(first, first))[0].text


def test_runs_beside_each_other(agent: Agent) -> None:
    """What other agents made of the same turn; the text is that of `repr`."""
    session = agent.session("t-1")
    session.send("hello")
    terse = Agent(ScriptedModel(lambda messages: "Hi."), name="terse", checkpointer=agent.checkpointer)
    found = session.compare_runs(session.history[0], {"same": agent, "terse": terse})
    page, text = shown(found)
    assert page.text == (
        "t-1 (original) same terse completed assistant You said: hello completed assistant You said: hello "
        "completed assistant Hi."
    )
    assert text == repr(found)
    page, text = shown(found["terse"])
    assert page.text.startswith("Rerun completed t-1 (original) ")
    assert "user hello assistant You said: hello assistant Hi. safeguard entered true safeguard" in page.text
    assert text == repr(found["terse"])


def test_agent(agent: Agent) -> None:
    """The onion as boxes in boxes, tools, limits, the graph."""
    page, text = shown(agent)
    assert page.text.startswith(
        "Agent agent 3 filters keeps its threads around the turn safeguard loop around the chat "
        "safeguard retry_model model around the tool approval tool 1 tool refund Give the money of an order back."
    )
    assert "limits of a turn: 50 model calls, 100 tool calls" in page.text
    assert text.splitlines() == [
        "Agent agent",
        "  turn: safeguard > loop",
        "  chat: safeguard > retry_model > model",
        "  tool: approval > tool",
        "  tools: refund",
        "  limits: 50 model calls, 100 tool calls",
    ]


def test_listings(agent: Agent) -> None:
    """`saver.approvals` shows what pends, `saver.sessions` what was used last; a page says if there is more."""
    for name in "abc":
        agent.invoke("refund 1042", thread=name)
    saver = agent.checkpointer
    page, text = shown(saver.approvals)
    assert page.text.count("The agent wants to call refund.") == 3
    assert text.splitlines()[0].startswith("pending refund · thread a · ")
    page, text = shown(saver.sessions)
    assert page.text.startswith("thread status created updated agent title")
    assert text.splitlines()[0].startswith("thread=c · status=paused")
    page, text = shown(saver.sessions.list(limit=1))
    assert "there are more: after=" in page.text
    assert "there are more: after=" in text
    assert shown(saver.sessions.get("a"))[1].startswith("thread=a")
    assert shown(saver.sessions.list(status="failed"))[1] == "nothing here"
    saver.approvals.decide(saver.approvals.list(thread="a").items[0].id, approve(), by="ana")
    assert " decided a " in shown(saver.audit.list(limit=1))[0].text


async def test_in_a_loop_that_runs(agent: Agent) -> None:
    """As in a notebook, where nothing can be awaited while a value is shown."""
    session = agent.session("t-1")
    await session.asend("hello")
    assert "You said: hello" in shown(session)[0].text
    assert "t-1" in shown(agent.checkpointer.sessions)[1]


def test_repr_is_short() -> None:
    """A conversation of 400 messages is one line; long texts are cut."""
    messages = [HumanMessage("x" * 500, id=str(n)) for n in range(400)]
    done = Completed(AIMessage("y" * 5000), messages, thread="t", turn="u")
    counts = "attempts=1, tool_calls=0, messages=400"
    assert repr(done) == f"Completed(answer='{'y' * 198}…, thread='t', turn='u', {counts})"
    paused = Paused([asked(args={"text": "z" * 5000})], messages, "t", "u")
    assert repr(paused) == "Paused(approvals=['refund a1'], thread='t', turn='u', messages=400, queued=0)"
    assert len(repr(paused.approvals[0])) < 700
    assert repr(refund_trace()) == "Trace(thread='t-1', turn='turn-1', parts=2, spans=12, approvals=1)"
    assert repr(Trace(None, "u")) == "Trace(thread=None, turn='u', parts=0, spans=0, approvals=0)"


def test_the_repr_of_an_approval_tells_what_is_not_as_usual() -> None:
    """Its status always; what binds it never."""
    assert repr(asked(bound={"secret": 1}, created_at=None)) == (
        "Approval(id='a1', thread='t-1', kind='tool_call', status='pending', tool='refund', "
        "args={'order': 1042, 'amount': 189.0}, allowed=('approve', 'edit', 'reject'), "
        "description='The agent wants to call refund.', path=('approval',))"
    )


def test_large_values_make_small_pictures() -> None:
    """Long texts, long conversations, many calls, arguments without end: what is left out is counted."""
    calls = [{"name": f"tool{n}", "args": {f"k{m}": "v" * 900 for m in range(50)}, "id": f"c{n}"} for n in range(200)]
    messages: list[Any] = [HumanMessage("x" * 100_000)] + [AIMessage("y" * 5000, tool_calls=calls) for _ in range(400)]
    messages += [ToolMessage("r" * 100_000, tool_call_id=f"c{n}") for n in range(200)]
    done = Completed(AIMessage("z" * 100_000), messages, thread="t", turn="u", filter_state={"a": {"b": "s" * 99_000}})
    page, text = shown(done)
    assert len(to_html(done)) < 500_000
    assert "messages left out, 601 in all" in page.text
    assert "more characters" in page.text
    assert len(text) < 2000
    many = Paused([asked(str(n), args={"a": "b" * 9000}) for n in range(500)], messages, "t", "u")
    assert len(to_html(many)) < 500_000
    assert len(to_text(many)) < 40_000


def test_what_has_no_picture() -> None:
    """It is refused by its type alone."""
    with pytest.raises(TypeError, match="str has no picture"):
        to_html("secret")


def test_a_card_says_where_it_was_asked() -> None:
    """Agents are not taken for filters, nor filters for agents; one alone needs no word, one agent does."""
    assert list(facts(asked()))[2:] == []
    told = "filters there, the outermost first: retry › approval › usage"
    assert list(facts(asked(path=("retry", "approval", "usage"))))[2:] == [told]
    inside = asked(path=("clerk", "teller", "retry", "approval", "usage"), bound={"agents": 2})
    assert list(facts(inside))[2:] == ["asked in the agent clerk › teller", told]
    assert list(facts(asked(path=("clerk",), bound={"agents": 1})))[2:] == ["asked in the agent clerk"]
    node = asked(path=("clerk", "approval"), bound={"depth": 1})
    assert list(facts(node))[2:] == ["asked within clerk › approval"]


def test_parts_and_calls_of_one_message_that_are_left_out_are_counted() -> None:
    """In the picture and in the text; the same for the result of a call and for what a turn asked."""
    parts = [{"type": "text", "text": f"part {n}"} for n in range(70)]
    calls = [{"name": "look", "args": {}, "id": f"c{n}"} for n in range(90)]
    ai, result = AIMessage(parts, tool_calls=calls), ToolMessage(parts[:53], tool_call_id="c0")
    html = to_html(Completed(AIMessage("x"), [ai, result]))
    assert [f"{n} not shown" in html for n in ("20 parts", "3 parts", "40 calls")] == [True, True, True]
    asking = tuple(asked(str(n)) for n in range(22))
    turn = Turn("u", "t", "completed", (), [ai], asking, None, BEGAN, BEGAN, "x")
    assert [f"{n} not shown" in to_text(turn) for n in ("70 calls", "2 approvals")] == [True, True]
    assert "5 states not shown" in to_html(Difference([], (None, None), {f"s{n}": (1, 2) for n in range(55)}))
