"""Shared context: one snapshot a round, writes folded in call order, env that is handed in and never stored."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from modes import Drive
from tests.loop.scripts import asks, call, results, waited

from scallion import Agent, Completed, ToolReply, around_chat, around_tool, around_turn, filters, reject
from scallion.testing import ScriptedModel


def command(call_id: str, **update: Any) -> Command[Any]:
    """Writes beside the call's own result."""
    return Command(update={**update, "messages": [ToolMessage("written", tool_call_id=call_id)]})


def stored(agent: Agent) -> Any:
    """The shared state of thread t."""
    return agent.graph.get_state({"configurable": {"thread_id": "t"}}).values.get("state") or {}


def test_every_call_of_a_batch_sees_the_state_of_the_start_of_the_round(drive: Drive) -> None:
    wrote = threading.Event()

    @tool
    def write(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        wrote.set()
        return command(call_id, city="Oslo")

    @tool
    async def look(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Read after the other has written."""
        import asyncio

        await asyncio.to_thread(waited, wrote)
        return str(state.get("city", "nothing yet"))

    model = ScriptedModel([asks(call("write", "c1"), call("look", "c2")), asks(call("look", "c3")), "ok"])
    result, _ = drive(Agent(model, tools=[write, look])).start("go")
    assert results(result.messages) == {"c1": "written", "c2": "nothing yet", "c3": "Oslo"}


def test_filters_see_the_same_snapshot_in_their_context(drive: Drive) -> None:
    seen = []

    @around_tool
    def watch(request: Any, state: Any, next: Any) -> Any:
        seen.append(dict(request.context.state))
        return next(request)

    @tool
    def write(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        return command(call_id, n=call_id)

    model = ScriptedModel([asks(call("write", "c1"), call("write", "c2")), asks(call("write", "c3")), "ok"])
    drive(Agent(model, tools=[write], filters=[watch])).start("go")
    assert seen == [{}, {}, {"n": "c2"}]


def test_writes_fold_in_call_order_not_in_the_order_in_which_calls_end(drive: Drive) -> None:
    second_ended = threading.Event()

    @tool
    async def write(value: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write; the first call ends last."""
        import asyncio

        if value == "first":
            await asyncio.to_thread(waited, second_ended)
        else:
            second_ended.set()
        return command(call_id, winner=value)

    model = ScriptedModel([asks(call("write", "c1", value="first"), call("write", "c2", value="second")), "ok"])
    agent = Agent(model, tools=[write], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert stored(agent) == {"winner": "second"}


def test_a_failed_call_writes_nothing(drive: Drive) -> None:
    @tool
    def half(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Say that it failed."""
        message = ToolMessage("failed", tool_call_id=call_id, status="error")
        return Command(update={"done": True, "messages": [message]})

    agent = Agent(ScriptedModel([asks(call("half")), "ok"]), tools=[half], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert stored(agent) == {}


def test_a_reply_that_is_an_error_of_a_filter_writes_nothing(drive: Drive) -> None:
    @around_tool
    def censor(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        refused = reply.message.model_copy(update={"status": "error", "content": "refused"})
        return reply.replace(message=refused)

    @tool
    def write(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        return command(call_id, done=True)

    model = ScriptedModel([asks(call("write")), "ok"])
    agent = Agent(model, tools=[write], filters=[censor], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert stored(agent) == {}


def test_a_rejected_call_writes_nothing(drive: Drive) -> None:
    @tool
    def write(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        return command(call_id, done=True)

    agent = Agent(
        ScriptedModel([asks(call("write")), "ok"]),
        tools=[write],
        filters=[filters.approval({"write": True})],
        checkpointer=InMemorySaver(),
    )
    drive(agent).start("go", thread="t")
    drive(agent).resume("t", reject())
    assert stored(agent) == {}


def test_a_filter_may_write_beside_the_tool(drive: Drive) -> None:
    @around_tool
    def notes(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return reply.replace(writes={**reply.writes, "noted": request.call["name"]})

    @tool
    def plain() -> str:
        """Be plain."""
        return "plain"

    model = ScriptedModel([asks(call("plain")), "ok"])
    agent = Agent(model, tools=[plain], filters=[notes], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert stored(agent) == {"noted": "plain"}


def test_the_shared_state_lasts_from_turn_to_turn(drive: Drive, any_saver: Any) -> None:
    @tool
    def write(value: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        return command(call_id, **{value: 1})

    model = ScriptedModel([asks(call("write", value="a")), "ok", asks(call("write", value="b")), "ok"])
    agent = Agent(model, tools=[write], checkpointer=any_saver)
    drive(agent).start("go", thread="t")
    drive(agent).start("go", thread="t")
    assert stored(agent) == {"a": 1, "b": 1}


class NotStorable:
    """What no saver could store."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_env_reaches_every_hook_and_every_tool_and_is_not_stored(drive: Drive, any_saver: Any) -> None:
    seen: dict[str, Any] = {}

    def watching(chain: str) -> Any:
        def watch(request: Any, state: Any, next: Any) -> Any:
            seen[chain] = request.context.env
            return next(request)

        return watch

    onion = [
        around_turn(name="turn")(watching("turn")),
        around_chat(name="chat")(watching("chat")),
        around_tool(name="tool")(watching("tool")),
    ]

    @tool
    def inside(runtime: ToolRuntime[Any, Any]) -> str:
        """Look around."""
        seen["inside"] = runtime.context
        return "done"

    env = NotStorable()
    agent = Agent(ScriptedModel([asks(call("inside")), "ok"]), tools=[inside], filters=onion, checkpointer=any_saver)
    drive(agent).start("go", thread="t", env=env)
    assert seen == {"turn": env, "chat": env, "tool": env, "inside": env}


def test_env_is_given_anew_on_resume(drive: Drive) -> None:
    seen = []

    @around_tool
    def watch(request: Any, state: Any, next: Any) -> Any:
        seen.append(request.context.env)
        return next(request)

    @tool
    def send() -> str:
        """Send."""
        return "sent"

    agent = Agent(
        ScriptedModel([asks(call("send")), "ok"]),
        tools=[send],
        filters=[watch, filters.approval({"send": True})],
        checkpointer=InMemorySaver(),
    )
    drive(agent).start("go", thread="t", env="one")
    drive(agent).resume("t", {"type": "approve"}, env="two")
    assert seen == ["one", "two"]


def test_user_owner_thread_and_turn_are_in_the_context_of_each_chain(drive: Drive) -> None:
    seen: dict[str, Any] = {}

    def watching(chain: str) -> Any:
        def watch(request: Any, state: Any, next: Any) -> Any:
            seen[chain] = request.context
            return next(request)

        return watch

    onion = [
        around_turn(name="turn")(watching("turn")),
        around_chat(name="chat")(watching("chat")),
        around_tool(name="tool")(watching("tool")),
    ]

    @tool
    def send() -> str:
        """Send."""
        return "sent"

    agent = Agent(ScriptedModel([asks(call("send")), "ok"]), tools=[send], filters=onion)
    result, _ = drive(agent).start("go", thread="t", user="ana", owner="acme")
    assert isinstance(result, Completed)
    for chain in ("turn", "chat", "tool"):
        context = seen[chain]
        assert (context.user, context.owner, context.thread) == ("ana", "acme", "t")
        assert context.turn == result.turn


def test_the_owner_of_a_thread_is_known_to_the_sql_saver(drive: Drive, sql: Any) -> None:
    agent = Agent(ScriptedModel(["ok"]), checkpointer=sql)
    drive(agent).start("go", thread="t", user="ana", owner="acme")
    assert [one.thread for one in sql.sessions.list(owner="acme").items] == ["t"]
    assert sql.sessions.list(owner="other").items == []


@dataclass
class Who:
    """A context of the caller's."""

    name: str


def test_a_context_schema_makes_env_the_context_of_the_runtime(drive: Drive) -> None:
    seen = []

    @tool
    def inside(runtime: ToolRuntime[Who, Any]) -> str:
        """Look around."""
        seen.append(runtime.context)
        return "done"

    agent = Agent(ScriptedModel([asks(call("inside")), "ok"]), tools=[inside], context_schema=Who)
    drive(agent).start("go", env=Who("ana"))
    assert seen == [Who("ana")]


def test_the_snapshot_cannot_be_changed_in_place(drive: Drive) -> None:
    failures = []

    @around_tool
    def meddles(request: Any, state: Any, next: Any) -> Any:
        try:
            request.context.state["x"] = 1
        except TypeError as error:
            failures.append(error)
        return next(request)

    @tool
    def plain() -> str:
        """Be plain."""
        return "plain"

    model = ScriptedModel([asks(call("plain")), "ok"])
    agent = Agent(model, tools=[plain], filters=[meddles], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert len(failures) == 1
    assert stored(agent) == {}


def test_writes_of_a_short_circuit_count(drive: Drive) -> None:
    @around_tool
    def served(request: Any, state: Any, next: Any) -> Any:
        return ToolReply(ToolMessage("served", tool_call_id=request.call["id"]), {"served": True})

    agent = Agent(ScriptedModel([asks(call("nope")), "ok"]), filters=[served], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert stored(agent) == {"served": True}
