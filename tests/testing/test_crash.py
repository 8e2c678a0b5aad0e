"""Crashes at a named point, in each mode; what ran; pauses that are decided on the way; a clock that is moved."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from processes import processes
from scenes import Desk, asks, call

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    InvalidDecision,
    ModelError,
    SQLCheckpointer,
    approve,
    edit,
    filters,
    pause,
    reject,
    respond,
)
from scallion.testing import (
    Clock,
    Driver,
    Recording,
    ScriptedModel,
    approve_with,
    assert_called_once,
    crash_at,
    executions,
)


def pays(messages: list[Any]) -> Any:
    """Play the model: pay twice, one call after the other, then answer."""
    results = [one.text for one in messages if one.type == "tool"]
    return asks(call("pay", f"c{len(results)}", euros=5 + len(results))) if len(results) < 2 else " / ".join(results)


def till(saver: Any, **options: Any) -> Agent:
    def pay(euros: int) -> str:
        """Pay out."""
        return f"paid {euros}"

    return Agent(ScriptedModel(pays), tools=[pay], checkpointer=saver, **options)


@pytest.mark.parametrize(
    ("point", "nth", "again"),
    [
        ("before model", 2, ["pay 6"]),
        ("after model", 1, ["pay 5", "pay 6"]),
        ("before tool", 2, ["pay 6"]),
        ("after tool", 2, ["pay 6"]),
        ("before write", 1, ["pay 5", "pay 6"]),
        ("after write", 3, None),
    ],
)
def test_a_turn_goes_on_from_where_it_crashed(
    drive: Drive, any_saver: Any, point: Any, nth: int, again: list[str] | None
) -> None:
    """The block ends with the crash, and nothing catches it; what was stored is not done again."""
    with crash_at(point, nth, saver=any_saver) as crash:
        drive(till(any_saver)).start("pay", thread="t")
        raise AssertionError("the crash did not end the block")
    assert (crash.crashed, crash.seen) == (True, nth)
    with executions() as ran:
        driver = drive(till(any_saver))
        try:
            result, _ = driver.resume("t")
        except Exception:  # nothing of the turn was stored
            assert point == "before write"
            result, _ = driver.start("pay", thread="t")
    assert isinstance(result, Completed)
    assert result.answer == "paid 5 / paid 6"
    assert again is None or [f"{one.tool} {one.args['euros']}" for one in ran] == again


def test_only_the_named_tool_crashes(sql: SQLCheckpointer) -> None:
    with executions() as ran, crash_at("before tool", tool="refund", saver=sql):
        model = ScriptedModel([asks(call("look", order=1), call("refund", "c2", order=1))])
        Agent(model, tools=Desk().tools, checkpointer=sql).invoke("go", thread="t")
    assert [one.tool for one in ran] in (["look"], [])  # they run at the same time


def test_a_block_without_a_crash_fails() -> None:
    """A test of a crash that never came would show nothing; an error of the block's own is not hidden."""
    with pytest.raises(AssertionError, match=r"'before tool' was reached 0 time\(s\), not 1"), crash_at("before tool"):
        Agent(ScriptedModel(["hi"])).invoke("hi")
    with pytest.raises(KeyError), crash_at("before tool"):
        raise KeyError
    with pytest.raises(ConfigurationError, match="before model, after model"):
        crash_at("before lunch")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="counts from 1"):
        crash_at("before tool", 0)


def _killed(url: str) -> None:
    with crash_at("after tool", 2, kill=True):
        till(SQLCheckpointer(url)).invoke("pay", thread="t")


def test_a_process_can_be_killed_for_real(tmp_path: Path) -> None:
    """Its lease is not given back, and is free all the same where the process was of this machine."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    process = processes.Process(target=_killed, args=(url,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with SQLCheckpointer(url) as saver, executions() as ran:
        assert till(saver).recover("t").answer == "paid 5 / paid 6"
    assert_called_once(ran, "pay", euros=6)


def test_called_once_counts_executions(drive: Drive) -> None:
    """Not the messages: a rejected call has a result too, and a call before a pause is not one more behind it."""
    desk = Desk()
    calls = [call("look", order=1), call("refund", "c2", order=2), call("mail", "c3", to="ana")]
    gate = filters.approval({"refund": True, "mail": True})
    agent = Agent(ScriptedModel([asks(*calls), "done"]), tools=desk.tools, filters=[gate], checkpointer=InMemorySaver())
    with executions() as ran:
        decide = {"refund": edit({"order": 3}), "mail": reject("no")}
        result, _ = drive(agent).finish("go", thread="t", decision=decide)
    assert result.answer == "done"
    assert sorted(desk.ran) == ["look 1", "refund 3"]
    assert_called_once(ran, "look")
    assert_called_once(ran, "refund", order=3)
    with pytest.raises(AssertionError, match="mail ran 0 times, not once; what ran: look, refund"):
        assert_called_once(ran, "mail")
    with pytest.raises(AssertionError, match="refund ran once, with no euros, order=3"):
        assert_called_once(ran, desk.refund(), order=2, euros=1)


async def test_pauses_are_decided_on_the_way() -> None:
    """By a mapping, a function or one decision; in an asynchronous test too; never without an end."""

    def ask(question: str) -> str:
        """Ask."""
        return str(pause(question).message)

    def agent(replies: Any) -> Agent:
        tools = [*Desk().tools, ask]
        gate = filters.approval({"refund": True})
        return Agent(ScriptedModel(replies), tools=tools, filters=[gate], checkpointer=InMemorySaver())

    asked: list[str] = []

    def by_kind(approval: Any) -> Any:
        asked.append(approval.kind)
        return approve() if approval.kind == "tool_call" else respond("blue")

    def script(messages: list[Any]) -> Any:
        calls = asks(call("refund", order=1), call("ask", "c2", question="which?"))
        return calls if messages[-1].type == "human" else messages[-1].text

    for mode in ("invoke", "astream"):
        assert approve_with(agent(script), "go", by_kind, mode=mode).answer == "blue"
    assert sorted(asked) == ["question", "question", "tool_call", "tool_call"]
    decide = {"refund": approve(), None: lambda approval: respond(approval.kind)}
    assert approve_with(agent(script), "go", decide, mode="ainvoke").answer == "question"
    with pytest.raises(AssertionError, match="question of ask waits for a decision, and there is one for refund"):
        approve_with(agent(script), "go", {"refund": approve()})
    with pytest.raises(AssertionError, match="waits for a decision, and there is one for nothing"):
        approve_with(agent(script), "go", {})
    with pytest.raises(InvalidDecision):
        approve_with(agent(script), "go", approve())
    with pytest.raises(AssertionError, match="still pauses after it was resumed 3 times: tool_call of refund"):
        approve_with(
            agent(lambda messages: asks(call("refund", f"c{len(messages)}", order=1))), "go", approve(), most=3
        )
    with pytest.raises(ConfigurationError, match="invoke, ainvoke, stream, astream"):
        Driver(agent(script), "run")  # type: ignore[arg-type]


def test_time_passes_where_it_is_told_to(tmp_path: Path) -> None:
    clock = Clock()
    gate = filters.approval({"refund": filters.Policy(allowed=("approve",), expires_in=3600)})
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}", clock=clock) as saver:
        model = ScriptedModel([asks(call("refund", order=1)), "done"])
        agent = Agent(model, tools=Desk().tools, filters=[gate], checkpointer=saver)
        agent.invoke("go", thread="t")
        [pending] = saver.approvals.list().items
        assert pending.created_at == clock.now
        clock.forward(hours=2)
        assert agent.resume("t").messages[-2].status == "error"
    with pytest.raises(ValueError, match="aware"):
        Clock(clock.now.replace(tzinfo=None))


def test_waits_of_filters_take_no_time(drive: Drive) -> None:
    """A retry waits as long as it says, by the clock."""
    clock = Clock()
    begun = clock.now
    model = ScriptedModel([ConnectionError("gone"), ConnectionError("gone"), "ok"])
    retry = filters.retry_model(initial_delay=600, jitter=0, max_delay=3600, max_seconds=7200)
    with clock.skipping_waits():
        result, _ = drive(Agent(model, filters=[retry])).start("hi")
    assert isinstance(result, Completed)
    assert clock.waits == [600, 1200]
    assert (clock.now - begun).total_seconds() == 1800


def test_what_passes_is_recorded(drive: Drive, memory: InMemorySaver) -> None:
    """Requests, replies, pauses and errors, in the three chains; the place in the list says what is seen."""
    outer, inner = Recording("outer"), Recording("inner")
    gate = filters.approval({"refund": True})
    model = ScriptedModel([asks(call("refund", order=1)), "done"])
    agent = Agent(model, tools=Desk().tools, filters=[outer, gate, inner], checkpointer=memory)
    result, _ = drive(agent).finish("go", thread="t")
    assert [one.paused for one in outer.turns] == [True, False]
    assert outer.turns[-1].reply == result.replace(filter_state=outer.turns[-1].reply.filter_state)
    assert [one.request.messages[-1].text for one in outer.chats] == ["go", "refunded 1"]
    assert [one.paused for one in outer.calls] == [True, False]
    [reached] = inner.calls
    assert reached.reply.message.text == "refunded 1"
    failing = Agent(ScriptedModel([ValueError("no")]), filters=[outer])
    outer.clear()
    with pytest.raises(ModelError):
        drive(failing).start("hi")
    assert [type(one.error).__name__ for one in outer.chats] == ["ModelError"]


def test_a_clock_of_a_place_counts_the_time_that_passes() -> None:
    """And not what the clocks on the walls there say, which skip an hour and have one twice."""
    clock = Clock(datetime(2030, 3, 30, 12, tzinfo=ZoneInfo("Europe/Berlin")))
    assert clock.now.tzinfo is UTC
    clock.forward(hours=24)
    assert clock.now == datetime(2030, 3, 31, 11, tzinfo=UTC)
    clock.now = datetime(2030, 10, 26, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    clock.forward(hours=24)
    assert clock.now == datetime(2030, 10, 27, 10, tzinfo=UTC)
