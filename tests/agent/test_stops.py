"""A turn that is stopped from outside, at any place, leaves a thread that takes a message, and one that resumes."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from tests.loop.scripts import WAIT, Log, asks, assert_valid, call, history, results, told, waited

from scallion import (
    Agent,
    Completed,
    NotPaused,
    Paused,
    ThreadBusy,
    ThreadError,
    Token,
    ToolFinished,
    ToolStarted,
    approve,
    around_turn,
    filters,
)
from scallion.holding import running
from scallion.testing import ScriptedModel


def script(messages: Any) -> Any:
    """One call for each user message, then an answer."""
    last = messages[-1]
    return asks(call("send", f"c{len(messages)}", text=last.text)) if last.type == "human" else "all is done here"


@pytest.fixture(params=["plain", "with a turn filter"])
def onion(request: pytest.FixtureRequest) -> list[Any]:
    """The filters: none, or one around the turn."""
    passes = around_turn(name="passes")(lambda request, state, next: next(request))
    return [] if request.param == "plain" else [passes]


def takes_a_message(agent: Agent) -> list[str]:
    """The thread takes a new message in either colour, over a valid history."""
    done = agent.invoke("again", thread="t")
    assert isinstance(done, Completed)
    assert_valid(history(agent, "t"))
    done = asyncio.run(agent.ainvoke("and again", thread="t"))
    assert isinstance(done, Completed)
    assert_valid(history(agent, "t"))
    return told(history(agent, "t"))


STOPS = [ToolStarted, ToolFinished, Token]


@pytest.mark.parametrize("kind", STOPS, ids=lambda kind: kind.__name__)
def test_a_reader_that_breaks_out_of_the_loop(any_saver: Any, onion: list[Any], kind: type) -> None:
    log = Log()
    agent = Agent(ScriptedModel(script), tools=[log.tool("send")], filters=onion, checkpointer=any_saver)
    stream = agent.stream("go", thread="t")
    for event in stream:
        if isinstance(event, kind):
            break
    stream.close()
    takes_a_message(agent)
    assert log.count("send go") <= 1


@pytest.mark.parametrize("kind", STOPS, ids=lambda kind: kind.__name__)
def test_a_reader_that_goes_away_is_noticed_by_garbage_collection(any_saver: Any, kind: type) -> None:
    agent = Agent(ScriptedModel(script), tools=[Log().tool("send")], checkpointer=any_saver)
    stream = agent.stream("go", thread="t")
    for event in stream:
        if isinstance(event, kind):
            break
    del stream, event
    gc.collect()
    takes_a_message(agent)


@pytest.mark.parametrize("kind", STOPS, ids=lambda kind: kind.__name__)
def test_an_async_reader_that_closes_the_stream(any_saver: Any, onion: list[Any], kind: type) -> None:
    agent = Agent(ScriptedModel(script), tools=[Log().tool("send")], filters=onion, checkpointer=any_saver)

    async def read() -> None:
        stream = agent.astream("go", thread="t")
        async for event in stream:
            if isinstance(event, kind):
                break
        await stream.aclose()

    asyncio.run(read())
    takes_a_message(agent)


def test_an_async_reader_that_is_cancelled(any_saver: Any) -> None:
    agent = Agent(ScriptedModel(script), tools=[Log().tool("send")], checkpointer=any_saver)

    async def read() -> None:
        async for event in agent.astream("go", thread="t"):
            if isinstance(event, ToolStarted):
                asyncio.current_task().cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(read())
    takes_a_message(agent)


def test_a_stream_that_nobody_reads_does_nothing() -> None:
    model = ScriptedModel(script)
    agent = Agent(model, tools=[Log().tool("send")], checkpointer=InMemorySaver())
    agent.stream("go", thread="t").close()
    asyncio.run(agent.astream("go", thread="t").aclose())
    assert model.calls == []
    takes_a_message(agent)


def until_cancelled() -> None:
    """Stay in the tool until the reader of the stream has gone away."""
    here, deadline = next(iter(running._turns.values())), time.monotonic() + WAIT
    while not here.cancelled and time.monotonic() < deadline:
        time.sleep(0.001)


def left_in_its_tool(saver: Any, colour: str, onion: list[Any]) -> tuple[Agent, Log]:
    """An agent whose stream was closed while its tool was running; the tool then finished its effect."""
    log, started = Log(), threading.Event()

    @tool
    def send(text: str) -> str:
        """Send."""
        if not started.is_set():
            started.set()
            until_cancelled()
        log.append(text)
        return f"send did {text}"

    agent = Agent(ScriptedModel(script), tools=[send], filters=onion, checkpointer=saver)

    async def read() -> None:
        stream = agent.astream("go", thread="t", durability="sync")
        async for event in stream:
            if isinstance(event, ToolStarted):
                await asyncio.to_thread(waited, started)
                break
        await stream.aclose()

    if colour == "async":
        asyncio.run(read())
        return agent, log
    stream = agent.stream("go", thread="t", durability="sync")
    for event in stream:
        if isinstance(event, ToolStarted):
            waited(started)
            break
    stream.close()
    return agent, log


def test_a_stream_that_is_closed_while_a_tool_runs_lets_it_finish_and_keeps_its_result(
    any_saver: Any, onion: list[Any]
) -> None:
    agent, log = left_in_its_tool(any_saver, "sync", onion)
    assert log == ["go"]
    takes_a_message(agent)
    assert results(history(agent, "t"))["c1"] == "send did go"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_stream_that_is_closed_while_a_tool_runs_can_be_recovered(any_saver: Any, colour: str) -> None:
    agent, _ = left_in_its_tool(any_saver, colour, [])
    done = agent.recover("t")
    assert isinstance(done, Completed)
    assert told(history(agent, "t")) == ["user: go", "model: send", "tool: send did go", "model: all is done here"]


def test_a_tool_that_finished_in_a_closed_stream_is_not_run_again_by_recover(any_saver: Any) -> None:
    agent, log = left_in_its_tool(any_saver, "sync", [])
    agent.recover("t")
    assert log == ["go"]


class Held:
    """A tool that waits for ever: it says that it started, and holds until it is released or cancelled."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.release = threading.Event()
        self.ended = Log()

    def tool(self) -> Any:
        @tool
        async def send(text: str) -> str:
            """Send."""
            self.started.set()
            if text == "go":
                await asyncio.to_thread(waited, self.release)
            self.ended.append(text)
            return f"send did {text}"

        return send

    def agent(self, **parts: Any) -> Agent:
        return Agent(ScriptedModel(script), tools=[self.tool()], **{"checkpointer": InMemorySaver(), **parts})


@pytest.mark.parametrize("verb", ["ainvoke", "astream"])
def test_a_cancelled_task_leaves_a_thread_that_takes_a_message(any_saver: Any, onion: list[Any], verb: str) -> None:
    held = Held()
    agent = held.agent(filters=onion, checkpointer=any_saver)

    async def run() -> None:
        async def read() -> None:
            async for _ in agent.astream("go", thread="t"):
                pass

        task = asyncio.ensure_future(read() if verb == "astream" else agent.ainvoke("go", thread="t"))
        await asyncio.to_thread(waited, held.started)
        task.cancel()
        held.release.set()  # only the thread that waits is let go: the task is cancelled already
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert held.ended == []
    takes_a_message(agent)
    assert held.ended == ["again", "and again"]


def test_a_cancelled_task_can_be_recovered(any_saver: Any) -> None:
    held = Held()
    agent = held.agent(checkpointer=any_saver)

    async def run() -> None:
        task = asyncio.ensure_future(agent.ainvoke("go", thread="t", durability="sync"))
        await asyncio.to_thread(waited, held.started)
        task.cancel()
        held.release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        done = await agent.arecover("t")
        assert isinstance(done, Completed)

    asyncio.run(run())
    assert held.ended == ["go"]
    assert_valid(history(agent, "t"))


def test_a_timeout_around_a_turn_is_a_cancellation(any_saver: Any) -> None:
    held = Held()
    agent = held.agent(checkpointer=any_saver)

    async def run() -> None:
        try:
            async with asyncio.timeout(None) as limit:
                task = asyncio.ensure_future(asyncio.to_thread(waited, held.started))
                task.add_done_callback(lambda _: limit.reschedule(0))
                await agent.ainvoke("go", thread="t")
        finally:
            held.release.set()

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    takes_a_message(agent)


@pytest.mark.parametrize("where", ["model", "tool", "next model"])
@pytest.mark.parametrize("verb", ["invoke", "stream"])
def test_ctrl_c_leaves_a_thread_that_takes_a_message(any_saver: Any, onion: list[Any], where: str, verb: str) -> None:
    pressed = [True]

    def press(here: str) -> None:
        if here == where and pressed:
            pressed.clear()
            raise KeyboardInterrupt

    def model(messages: Any) -> Any:
        press("model" if messages[-1].type == "human" else "next model")
        return script(messages)

    @tool
    def send(text: str) -> str:
        """Send."""
        press("tool")
        return f"send did {text}"

    agent = Agent(ScriptedModel(model), tools=[send], filters=onion, checkpointer=any_saver)
    with pytest.raises(KeyboardInterrupt):
        list(agent.stream("go", thread="t")) if verb == "stream" else agent.invoke("go", thread="t")
    takes_a_message(agent)


def test_ctrl_c_in_a_tool_can_be_recovered(any_saver: Any) -> None:
    pressed, log = [True], Log()

    @tool
    def send(text: str) -> str:
        """Send."""
        if pressed.pop():
            pressed.append(False)
            raise KeyboardInterrupt
        pressed.append(False)
        log.append(text)
        return "sent"

    agent = Agent(ScriptedModel(script), tools=[send], checkpointer=any_saver)
    with pytest.raises(KeyboardInterrupt):
        agent.invoke("go", thread="t", durability="sync")
    assert isinstance(agent.recover("t"), Completed)
    assert log == ["go"]


def test_cancel_of_an_idle_thread_says_that_there_was_nothing(drive: Drive, any_saver: Any) -> None:
    agent = Agent(ScriptedModel(["ok", "ok"]), checkpointer=any_saver)
    assert agent.cancel("never seen") is False
    drive(agent).start("go", thread="t")
    assert agent.cancel("t") is False
    assert asyncio.run(agent.acancel("t")) is False


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_cancel_of_a_paused_thread_answers_its_calls_and_closes_its_approvals(
    sql: Any, onion: list[Any], colour: str
) -> None:
    log = Log()
    agent = Agent(
        ScriptedModel(script),
        tools=[log.tool("send")],
        filters=[*onion, filters.approval({"send": True})],
        checkpointer=sql,
    )
    paused = agent.invoke("go", thread="t")
    assert isinstance(paused, Paused)
    assert (agent.cancel("t") if colour == "sync" else asyncio.run(agent.acancel("t"))) is True
    assert results(history(agent, "t")) == {"c1": "cancelled"}
    assert [one.status for one in sql.approvals.list(None, thread="t").items] == ["cancelled"]
    with pytest.raises(NotPaused):
        agent.resume("t", approve())
    assert log == []
    assert isinstance(agent.invoke("again", thread="t"), Paused)


def test_cancel_of_a_running_turn_stops_it_before_its_next_call(any_saver: Any) -> None:
    held = Held()
    agent = held.agent(checkpointer=any_saver)
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(agent.invoke, "go", thread="t")
        waited(held.started)
        assert agent.cancel("t") is True
        held.release.set()
        with pytest.raises(ThreadError, match="cancelled"):
            turn.result(WAIT)
    assert len(agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]) >= 2
    lines = takes_a_message(agent)
    assert "tool: send did go" in lines


def test_nothing_goes_on_with_a_turn_that_was_cancelled_while_it_ran(
    drive: Drive, any_saver: Any, onion: list[Any]
) -> None:
    held = Held()
    agent = held.agent(filters=onion, checkpointer=any_saver)
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(drive(agent).start, "go", thread="t")
        waited(held.started)
        assert agent.cancel("t") is True
        held.release.set()
        with pytest.raises(ThreadError, match="cancelled"):
            turn.result(WAIT)
    assert agent.recover("t") is None
    with pytest.raises(NotPaused):
        drive(agent).resume("t")
    assert told(history(agent, "t"))[-1] == "tool: send did go"
    if hasattr(any_saver, "sessions"):
        assert [one.status for one in any_saver.sessions.list().items] == ["idle"]
        assert [one.status for one in agent.session("t").history] == ["closed"]
    takes_a_message(agent)


def test_a_turn_that_is_cancelled_while_it_runs_does_not_pause(any_saver: Any, onion: list[Any]) -> None:
    held, log = Held(), Log()
    both = ScriptedModel([asks(call("send", "c1", text="go"), call("pay", "c2", text="5")), "fine", "fine"])
    gate = filters.approval({"pay": True})
    agent = Agent(both, tools=[held.tool(), log.tool("pay")], filters=[*onion, gate], checkpointer=any_saver)
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(agent.invoke, "go", thread="t")
        waited(held.started)
        assert agent.cancel("t") is True
        held.release.set()
        with pytest.raises(ThreadError, match="cancelled"):
            turn.result(WAIT)
    assert agent.recover("t") is None
    assert results(history(agent, "t")) == {"c1": "send did go", "c2": "cancelled"}
    if hasattr(any_saver, "approvals"):
        assert any_saver.approvals.list(thread="t").items == []
    takes_a_message(agent)


def test_cancel_of_a_running_async_turn_stops_it_before_its_next_call() -> None:
    held = Held()
    agent = held.agent()

    async def run() -> None:
        turn = asyncio.ensure_future(agent.ainvoke("go", thread="t"))
        await asyncio.to_thread(waited, held.started)
        assert await agent.acancel("t") is True
        held.release.set()
        with pytest.raises(ThreadError, match="cancelled"):
            await turn

    asyncio.run(run())
    takes_a_message(agent)


def test_a_second_turn_on_a_busy_thread_is_refused_and_the_first_goes_on(any_saver: Any) -> None:
    held = Held()
    agent = held.agent(checkpointer=any_saver)
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(agent.invoke, "go", thread="t")
        waited(held.started)
        with pytest.raises(ThreadBusy, match="'t'"):
            agent.invoke("again", thread="t")
        with pytest.raises(ThreadBusy):
            list(agent.stream("again", thread="t"))
        with pytest.raises(ThreadBusy):
            agent.resume("t")
        with pytest.raises(ThreadBusy):
            asyncio.run(agent.ainvoke("again", thread="t"))
        other = agent.invoke("other", thread="another thread")
        assert isinstance(other, Completed)
        held.release.set()
        assert isinstance(turn.result(WAIT), Completed)
    assert [one for one in told(history(agent, "t")) if "user" in one] == ["user: go"]


def test_another_agent_on_the_same_saver_finds_the_thread_busy_too(any_saver: Any) -> None:
    held = Held()
    agent, other = held.agent(checkpointer=any_saver), Agent(ScriptedModel(script), checkpointer=any_saver)
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(agent.invoke, "go", thread="t")
        waited(held.started)
        with pytest.raises(ThreadBusy):
            other.invoke("again", thread="t")
        held.release.set()
        turn.result(WAIT)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_turn_that_waits_runs_after_the_first(any_saver: Any, colour: str) -> None:
    held = Held()
    agent = held.agent(checkpointer=any_saver)
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(agent.invoke, "go", thread="t")
        waited(held.started)
        if colour == "sync":
            second = pool.submit(agent.invoke, "again", thread="t", wait=WAIT)
        else:
            second = pool.submit(lambda: asyncio.run(agent.ainvoke("again", thread="t", wait=WAIT)))
        held.release.set()
        assert isinstance(turn.result(WAIT), Completed)
        assert isinstance(second.result(WAIT), Completed)
    assert [one for one in told(history(agent, "t")) if "user" in one] == ["user: go", "user: again"]
    assert_valid(history(agent, "t"))


def test_two_async_turns_at_once_on_one_thread(any_saver: Any) -> None:
    agent = Agent(ScriptedModel(script), tools=[Log().tool("send")], checkpointer=any_saver)

    async def both() -> list[Any]:
        turns = (agent.ainvoke(text, thread="t") for text in ("one", "two"))
        return await asyncio.gather(*turns, return_exceptions=True)

    outcomes = asyncio.run(both())
    assert sorted(type(one).__name__ for one in outcomes) == ["Completed", "ThreadBusy"]
    assert_valid(history(agent, "t"))


def test_a_failed_turn_frees_the_thread(drive: Drive, any_saver: Any) -> None:
    agent = Agent(ScriptedModel([TimeoutError("slow"), "ok"]), checkpointer=any_saver)
    with pytest.raises(Exception, match="Timeout"):
        drive(agent).start("go", thread="t")
    result, _ = drive(agent).start("again", thread="t")
    assert isinstance(result, Completed)
