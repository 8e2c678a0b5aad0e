"""Every tool call gets exactly one result before the next model call, whatever model, tools and filters do."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from tests.loop.scripts import Log, asks, assert_valid, broken, call, history, results, told, waited

from scallion import (
    Agent,
    Blocked,
    Completed,
    FilterError,
    Paused,
    ToolReply,
    approve,
    around_tool,
    around_turn,
    filters,
    reject,
    respond,
)
from scallion.testing import ScriptedModel


def desk(*replies: Any, **parts: Any) -> tuple[Agent, Log]:
    """An agent that has two tools which note what they did."""
    log = Log()
    model = ScriptedModel(replies)
    return Agent(model, **{"tools": [log.tool("send"), log.tool("look")], **parts}), log


def answered(drive: Drive, agent: Agent, input: Any = "go") -> Completed:
    """The turn as it ended, over a valid history."""
    result, _ = drive(agent).start(input)
    assert isinstance(result, Completed)
    assert_valid(result.messages)
    return result


def test_a_call_of_an_unknown_tool_is_answered_with_an_error(drive: Drive) -> None:
    agent, log = desk(asks(call("nope")), "sorry")
    done = answered(drive, agent)
    assert "no tool named 'nope'" in results(done.messages)["c1"]
    assert (done.answer, log) == ("sorry", [])


def test_an_unknown_tool_beside_a_known_one_does_not_stop_it(drive: Drive) -> None:
    agent, log = desk(asks(call("nope", "c1"), call("send", "c2", text="a")), "ok")
    done = answered(drive, agent)
    assert list(results(done.messages)) == ["c1", "c2"]
    assert log == ["send a"]


def test_an_unknown_tool_passes_the_chain_so_that_a_filter_can_serve_it(drive: Drive) -> None:
    @around_tool
    def serves(request: Any, state: Any, next: Any) -> Any:
        assert request.tool is None
        return ToolReply(ToolMessage("served", tool_call_id=request.call["id"]))

    agent, _ = desk(asks(call("nope")), "ok", filters=[serves])
    assert results(answered(drive, agent).messages) == {"c1": "served"}


def test_a_malformed_call_is_answered_and_not_run(drive: Drive) -> None:
    agent, log = desk(asks(broken("send")), "again")
    done = answered(drive, agent)
    assert "JSON" in results(done.messages)["c1"]
    assert log == []


def test_a_malformed_call_beside_a_good_one_leaves_the_good_one_alone(drive: Drive) -> None:
    agent, log = desk(asks(call("send", "c1", text="a"), broken("look", "c2")), "ok")
    done = answered(drive, agent)
    assert log == ["send a"]
    assert set(results(done.messages)) == {"c1", "c2"}


def test_a_malformed_call_without_name_or_id_is_answered(drive: Drive) -> None:
    agent, log = desk(AIMessage("", invalid_tool_calls=[{**broken("send"), "name": None, "id": None}]), "ok")
    done = answered(drive, agent)
    assert len(results(done.messages)) == 1
    assert log == []


def test_two_calls_with_one_id_both_run_and_both_get_a_result(drive: Drive) -> None:
    agent, log = desk(asks(call("send", "same", text="a"), call("send", "same", text="b")), "ok")
    done = answered(drive, agent)
    assert sorted(log) == ["send a", "send b"]
    assert list(results(done.messages).values()) == ["send did a", "send did b"]


def test_a_good_and_a_malformed_call_with_one_id_both_get_a_result(drive: Drive) -> None:
    agent, log = desk(asks(call("send", "same", text="a"), broken("send", "same")), "ok")
    done = answered(drive, agent)
    assert log == ["send a"]
    assert len([one for one in done.messages if isinstance(one, ToolMessage)]) == 2


def test_calls_without_an_id_are_given_one(drive: Drive) -> None:
    agent, log = desk(asks(call("send", None, text="a"), call("send", None, text="b")), "ok")
    done = answered(drive, agent)
    assert sorted(log) == ["send a", "send b"]
    assert None not in results(done.messages)


def test_an_id_that_comes_again_in_a_later_round_is_a_new_call(drive: Drive) -> None:
    agent, log = desk(asks(call("send", text="a")), asks(call("send", text="b")), "ok")
    done = answered(drive, agent)
    assert log == ["send a", "send b"]
    assert [one.text for one in done.messages if isinstance(one, ToolMessage)] == ["send did a", "send did b"]


def test_a_model_that_repeats_a_message_id_overwrites_nothing(drive: Drive) -> None:
    model = ScriptedModel([asks(call("send", text="a"), id="m"), AIMessage("one", id="m"), AIMessage("two", id="m")])
    agent = Agent(model, tools=[Log().tool("send")], checkpointer=InMemorySaver())
    drive(agent).start("first", thread="t")
    drive(agent).start("second", thread="t")
    assert told(history(agent, "t")) == [
        "user: first", "model: send", "tool: send did a", "model: one", "user: second", "model: two",
    ]  # fmt: skip
    assert_valid(history(agent, "t"))


class SameObject(BaseChatModel):
    """A fake that gives one and the same message object each time."""

    message: AIMessage

    @property
    def _llm_type(self) -> str:
        return "same"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.message)])


def test_a_fake_that_gives_the_same_message_object_each_turn_overwrites_nothing(drive: Drive) -> None:
    agent = Agent(SameObject(message=AIMessage("yes", id="one")), checkpointer=InMemorySaver())
    for text in ("first", "second", "third"):
        drive(agent).start(text, thread="t")
    assert told(history(agent, "t")) == [
        "user: first", "model: yes", "user: second", "model: yes", "user: third", "model: yes",
    ]  # fmt: skip
    assert_valid(history(agent, "t"))


def test_a_user_message_object_that_is_sent_twice_is_said_twice(drive: Drive) -> None:
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=InMemorySaver())
    again = HumanMessage("more", id="mine")
    drive(agent).start(again, thread="t")
    drive(agent).start(again, thread="t")
    assert told(history(agent, "t")) == ["user: more", "model: one", "user: more", "model: two"]


def test_a_tool_that_gives_its_results_a_fixed_id_overwrites_nothing(drive: Drive) -> None:
    @tool
    def fixed(text: str, call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Give a result with an id of its own."""
        return ToolMessage(text, tool_call_id=call_id, id="fixed")

    calls = asks(call("fixed", "c1", text="a"), call("fixed", "c2", text="b"))
    done = answered(drive, Agent(ScriptedModel([calls, "ok"]), tools=[fixed]))
    assert results(done.messages) == {"c1": "a", "c2": "b"}


def test_a_tool_that_answers_another_call_fails_as_a_tool(drive: Drive) -> None:
    @tool
    def wrong(text: str) -> ToolMessage:
        """Give the result of somebody else."""
        return ToolMessage(text, tool_call_id="other")

    done = answered(drive, Agent(ScriptedModel([asks(call("wrong", text="a")), "ok"]), tools=[wrong]))
    [result] = [one for one in done.messages if isinstance(one, ToolMessage)]
    assert (result.tool_call_id, result.status) == ("c1", "error")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("slow"), "transient"),
        (ConnectionResetError("gone"), "transient"),
        (PermissionError("no"), "environment"),
        (FileNotFoundError("where"), "environment"),
        (ValueError("wrong"), "semantic"),
    ],
)
def test_an_exception_of_a_tool_is_an_error_result_of_a_kind(drive: Drive, error: Exception, kind: str) -> None:
    kinds = []

    @around_tool
    def watch(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        kinds.append((reply.error.kind, type(reply.error.exception)))
        return reply

    @tool
    def fails() -> str:
        """Fail."""
        raise error

    done = answered(drive, Agent(ScriptedModel([asks(call("fails")), "ok"]), tools=[fails], filters=[watch]))
    [result] = [one for one in done.messages if isinstance(one, ToolMessage)]
    assert result.status == "error"
    assert type(error).__name__ in result.text
    assert kinds == [(kind, type(error))]


def test_arguments_that_do_not_fit_the_schema_are_an_error_result(drive: Drive) -> None:
    agent, log = desk(asks(call("send", text=["not", "a", "text"])), "ok")
    done = answered(drive, agent)
    assert "error" in results(done.messages)["c1"]
    assert log == []


def test_a_filter_that_raises_fails_the_turn_by_its_name_and_cause(drive: Drive) -> None:
    @around_tool
    def bad(request: Any, state: Any, next: Any) -> Any:
        raise KeyError("inside")

    agent, log = desk(asks(call("send", text="a")), filters=[bad])
    with pytest.raises(FilterError) as caught:
        drive(agent).start("go")
    assert (caught.value.filter, caught.value.hook) == ("bad", "around_tool")
    assert isinstance(caught.value.__cause__, KeyError)
    assert log == []


class Crossing:
    """Two parallel calls: a filter fails `bad` while the tool `effect` is in the middle of its effect."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.raising = threading.Event()
        self.done: list[str] = []
        self.calls = asks(call("bad", "c1"), call("effect", "c2"))

    def agent(self, *, asynchronous: bool, **parts: Any) -> Agent:
        filter, tools = self._async_parts() if asynchronous else self._sync_parts()
        return Agent(ScriptedModel([self.calls, "ok", "ok"]), tools=tools, filters=[filter], **parts)

    def _sync_parts(self) -> Any:
        @around_tool(name="guard")
        def guard(request: Any, state: Any, next: Any) -> Any:
            if request.call["name"] == "bad":
                waited(self.started)
                self.raising.set()
                raise ValueError("no")
            return next(request)

        @tool
        def effect() -> str:
            """Take effect slowly."""
            self.started.set()
            waited(self.raising)
            self.done.append("effect")
            return "took effect"

        return guard, [effect, Log().tool("bad")]

    def _async_parts(self) -> Any:
        @around_tool(name="guard")
        async def guard(request: Any, state: Any, next: Any) -> Any:
            if request.call["name"] == "bad":
                await asyncio.to_thread(waited, self.started)
                self.raising.set()
                raise ValueError("no")
            return await next(request)

        @tool
        async def effect() -> str:
            """Take effect slowly."""
            self.started.set()
            await asyncio.to_thread(waited, self.raising)
            for _ in range(50):  # a cancellation would arrive here
                await asyncio.sleep(0)
            self.done.append("effect")
            return "took effect"

        return guard, [effect, Log().tool("bad")]


def assert_failed_as_guard(error: FilterError) -> None:
    assert (error.filter, error.hook) == ("guard", "around_tool")
    assert isinstance(error.__cause__, ValueError)


def assert_sibling_finishes(drive: Drive, *, asynchronous: bool) -> None:
    crossing = Crossing()
    agent = crossing.agent(asynchronous=asynchronous, checkpointer=InMemorySaver())
    with pytest.raises(FilterError) as caught:
        drive(agent).start("go", thread="t")
    assert_failed_as_guard(caught.value)
    assert crossing.done == ["effect"]
    assert results(history(agent, "t"))["c2"] == "took effect"

    result, _ = drive(agent).start("again", thread="t")
    assert isinstance(result, Completed)
    assert_valid(history(agent, "t"))
    assert crossing.done == ["effect"]


def test_a_filter_that_fails_one_call_does_not_cancel_its_sibling_in_the_middle_of_its_effect(drive: Drive) -> None:
    assert_sibling_finishes(drive, asynchronous=True)


@pytest.mark.parametrize("mode", ["invoke", "stream"])
def test_the_same_holds_for_blocking_hooks_and_tools(drive: Drive) -> None:
    assert_sibling_finishes(drive, asynchronous=False)


def test_the_same_holds_without_a_checkpointer(drive: Drive) -> None:
    crossing = Crossing()
    with pytest.raises(FilterError) as caught:
        drive(crossing.agent(asynchronous=True)).start("go")
    assert_failed_as_guard(caught.value)
    assert crossing.done == ["effect"]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_bare_graph_does_not_cancel_the_sibling_either(colour: str) -> None:
    crossing = Crossing()
    graph = crossing.agent(asynchronous=True).graph
    given = {"messages": [HumanMessage("go")]}
    with pytest.raises(FilterError) as caught:
        graph.invoke(given) if colour == "sync" else asyncio.run(graph.ainvoke(given))
    assert_failed_as_guard(caught.value)
    assert crossing.done == ["effect"]


def test_a_filter_that_short_circuits_answers_the_call_and_the_tool_never_runs(drive: Drive) -> None:
    @around_tool
    def block(request: Any, state: Any, next: Any) -> Any:
        return ToolReply(ToolMessage("blocked", tool_call_id=request.call["id"]))

    agent, log = desk(asks(call("send", "c1", text="a"), call("look", "c2")), "ok", filters=[block])
    done = answered(drive, agent)
    assert results(done.messages) == {"c1": "blocked", "c2": "blocked"}
    assert log == []


def test_a_filter_that_answers_another_call_is_named(drive: Drive) -> None:
    @around_tool
    def confused(request: Any, state: Any, next: Any) -> Any:
        return ToolReply(ToolMessage("mine", tool_call_id="other"))

    agent, _ = desk(asks(call("send", text="a")), filters=[confused])
    with pytest.raises(FilterError, match="another call"):
        drive(agent).start("go")


@pytest.mark.parametrize(("decision", "text"), [(reject("no"), "no"), (respond("I did it"), "I did it")])
def test_a_call_that_was_rejected_or_answered_never_runs(drive: Drive, decision: Any, text: str) -> None:
    agent, log = desk(
        asks(call("send", text="a")), "ok", filters=[filters.approval({"send": True})], checkpointer=InMemorySaver()
    )
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Paused)
    result, _ = drive(agent).resume("t", decision)
    assert isinstance(result, Completed)
    assert text in results(result.messages)["c1"]
    assert log == []
    assert_valid(history(agent, "t"))


def test_a_retry_of_a_tool_call_in_a_filter_still_gives_one_result(drive: Drive) -> None:
    tries = []

    @tool
    def flaky() -> str:
        """Work the second time."""
        tries.append(1)
        if len(tries) == 1:
            raise TimeoutError
        return "worked"

    @around_tool
    def retry(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return next(request) if reply.error else reply

    done = answered(drive, Agent(ScriptedModel([asks(call("flaky")), "ok"]), tools=[flaky], filters=[retry]))
    assert results(done.messages) == {"c1": "worked"}
    assert len(tries) == 2


def test_results_stand_in_the_order_of_the_calls_not_of_their_ends(drive: Drive) -> None:
    released = threading.Event()

    @tool
    async def slow() -> str:
        """End last."""
        await asyncio.to_thread(waited, released)
        return "slow"

    @tool
    async def quick() -> str:
        """End first."""
        released.set()
        return "quick"

    agent = Agent(ScriptedModel([asks(call("slow", "c1"), call("quick", "c2")), "ok"]), tools=[slow, quick])
    assert list(results(answered(drive, agent).messages)) == ["c1", "c2"]


def guarded(saver: Any, *replies: Any, **parts: Any) -> Agent:
    """`send` asks a person, and a guard refuses `look`."""

    @around_tool(name="guard")
    def guard(request: Any, state: Any, next: Any) -> Any:
        if request.call["name"] == "look":
            raise Blocked("guard", {"found": 1}, "not allowed")
        return next(request)

    stack = [*parts.pop("around", ()), guard, filters.approval({"send": True})]
    return desk(*replies, filters=stack, checkpointer=saver)[0]


BATCH = (call("send", "c1"), call("look", "c2"))


@pytest.mark.parametrize("again", [True, False])
def test_a_call_that_failed_beside_a_pause_fails_the_turn_when_that_is_over(
    drive: Drive, any_saver: Any, again: bool
) -> None:
    """In whatever process; then the thread takes a message, or goes on by itself with what the model is told."""
    paused, _ = drive(guarded(any_saver, asks(*BATCH))).start("go", thread="t")
    assert isinstance(paused, Paused)
    agent = guarded(any_saver, "answer")
    with pytest.raises(Blocked) as caught:
        drive(agent).resume("t", approve())
    assert (caught.value.guard, caught.value.findings) == ("guard", {"found": 1})
    done, _ = drive(agent).resume("t") if again else drive(agent).start("something else", thread="t")
    assert done.answer == "answer"
    assert_valid(done.messages)
    assert results(done.messages)["c2"] == "not allowed"


def test_a_turn_hook_that_tries_again_is_not_held_to_the_failure_before(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def again(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except Blocked:
            return next(request)

    agent = guarded(any_saver, asks(call("look", "c2")), asks(call("send", "c1")), "answer", around=[again])
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    done, _ = drive(agent).resume("t", approve())
    assert done.answer == "answer"
