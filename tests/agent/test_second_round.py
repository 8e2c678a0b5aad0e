"""Faults that an attack on the first version found, each with the right value."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import threading
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from modes import Drive
from pydantic import Field
from scenes import asks, call

from scallion import (
    Agent,
    AlreadyDecided,
    ChatReply,
    Completed,
    ConfigurationError,
    Filter,
    FilterError,
    InvalidDecision,
    LimitExceeded,
    Limits,
    NotPaused,
    Paused,
    Policy,
    SQLCheckpointer,
    ThreadError,
    ToolReply,
    UnknownApproval,
    approve,
    around_tool,
    around_turn,
    edit,
    filters,
    pause,
    reject,
)
from scallion.testing import ScriptedModel


def history(agent: Agent, thread: str = "t") -> list[tuple[str, str]]:
    """What the thread holds."""
    values = agent.graph.get_state({"configurable": {"thread_id": thread}}).values
    return [(one.type, one.text) for one in values["messages"]]


@around_turn
def passing(request: Any, state: Any, next: Any) -> Any:
    """A turn filter that changes nothing."""
    return next(request)


def counting() -> ScriptedModel:
    """Says how many messages it was shown."""
    return ScriptedModel(lambda messages: str(len(messages)))


@pytest.mark.parametrize("stack", [[], [passing]], ids=["bare", "turn filter"])
def test_an_input_may_remove_messages(drive: Drive, sql: SQLCheckpointer, stack: list[Filter]) -> None:
    agent = Agent(counting(), filters=stack, checkpointer=sql)
    drive(agent).start(HumanMessage("a", id="m1"), thread="t")
    drive(agent).start([RemoveMessage("m1"), HumanMessage("b")], thread="t")
    assert history(agent) == [("ai", "1"), ("human", "b"), ("ai", "2")]


@pytest.mark.parametrize("input", [[RemoveMessage("nobody"), HumanMessage("b")], [RemoveMessage("m1")]])
def test_a_removal_that_cannot_be_is_refused(sql: SQLCheckpointer, input: Any) -> None:
    agent = Agent(counting(), checkpointer=sql)
    agent.invoke(HumanMessage("a", id="m1"), thread="t")
    with pytest.raises(ConfigurationError, match="removes messages"):
        agent.invoke(input, thread="t")
    assert history(agent) == [("human", "a"), ("ai", "1")]


def test_the_config_may_name_the_thread(drive: Drive, sql: SQLCheckpointer) -> None:
    agent = Agent(counting(), checkpointer=sql)
    config = {"configurable": {"thread_id": "t"}}
    drive(agent).start("a", config=config)
    result, _ = drive(agent).start("b", config=config)
    assert isinstance(result, Completed)
    assert (result.thread, result.answer) == ("t", "3")
    for options in ({"thread": "other", "config": config}, {"config": {"configurable": {"checkpoint_id": "x"}}}):
        with pytest.raises(ConfigurationError):
            drive(agent).start("c", **options)
    with pytest.raises(ConfigurationError):
        drive(agent).start("c", thread="")


@pytest.mark.parametrize(
    "decision", [reject(object()), edit({"to": object()}), edit("to=ana"), edit({"to": float("nan")})]
)  # type: ignore[arg-type]
def test_a_decision_that_is_no_data_is_refused(sql: SQLCheckpointer, decision: Any) -> None:
    agent = gated(sql)
    result = agent.invoke("go", thread="t")
    assert isinstance(result, Paused)
    with pytest.raises(InvalidDecision):
        agent.resume("t", decision)
    with pytest.raises(InvalidDecision):
        sql.approvals.decide(result.approvals[0].id, decision)
    assert agent.resume("t", approve()).answer == "done"


def gated(saver: Any, ran: list[str] | None = None, model: Any = None) -> Agent:
    """Sends two letters one after the other, each with leave."""

    def send(to: str) -> str:
        """Send a letter."""
        (ran if ran is not None else []).append(to)
        return f"sent to {to}"

    model = model or ScriptedModel([asks(call("send", "c1", to="ana")), "done"])
    return Agent(model, tools=[send], filters=[filters.approval({"send": True})], checkpointer=saver)


def test_who_owns_and_who_asked_are_kept_over_a_pause(drive: Drive, sql: SQLCheckpointer) -> None:
    script = [asks(call("send", "c1", to="ana")), asks(call("send", "c2", to="bob")), "done"]
    agent = gated(sql, model=ScriptedModel(script))
    drive(agent).start("go", thread="t", owner="ana", user="u")
    result, _ = drive(agent).resume("t", approve())
    assert isinstance(result, Paused)
    assert [(one.owner, one.requested_by) for one in result.approvals] == [("ana", "u")]
    assert len(sql.approvals.for_owner("ana").list().items) == 1


def test_a_thread_is_not_another_owners(drive: Drive, sql: SQLCheckpointer) -> None:
    agent = Agent(counting(), checkpointer=sql)
    drive(agent).start("secret", thread="t", owner="ana")
    with pytest.raises(ThreadError, match="another owner"):
        drive(agent).start("show me", thread="t", owner="bob")
    with pytest.raises(ThreadError, match="another owner"):
        drive(agent).start("show me", thread="t", config={"metadata": {"owner": "bob"}})
    assert sql.sessions.get("t").owner == "ana"
    drive(agent).start("again", thread="t", owner="ana")
    drive(agent).start("as an administrator", thread="t")


def test_an_approval_of_another_thread_is_unknown(sql: SQLCheckpointer) -> None:
    model = ScriptedModel(lambda messages: asks(call("send", "c1", to="ana")))
    agent = gated(sql, model=model)
    agent.invoke("go", thread="one")
    other = agent.invoke("go", thread="two")
    assert isinstance(other, Paused)
    with pytest.raises(UnknownApproval):
        agent.resume("one", {other.approvals[0].id: approve()})


def test_a_decision_that_somebody_made_is_not_made_again(sql: SQLCheckpointer) -> None:
    """Two workers get the same click: the second one is refused, however equal it is."""
    ran: list[str] = []
    agent = gated(sql, ran)
    result = agent.invoke("go", thread="t")
    assert isinstance(result, Paused)
    given = {result.approvals[0].id: approve()}
    sql.approvals.decide_all(given, by="ana")
    with pytest.raises(AlreadyDecided):
        agent.resume("t", given)
    agent.resume("t")
    with pytest.raises(NotPaused):
        agent.resume("t", given)
    assert ran == ["ana"]


def test_concurrent_next_calls_beside_a_pause_run_once(drive: Drive) -> None:
    """What a sibling finished is kept, though the other one paused meanwhile."""
    ran: list[str] = []

    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    async def twice(request: Any, state: Any, next: Any) -> Any:
        first, _ = await asyncio.gather(next(request), next(request))
        return first

    asked: list[int] = []

    async def second_asks(request: Any, state: Any, next: Any) -> Any:
        number = len(asked)
        asked.append(number)
        await asyncio.sleep(0)
        if number % 2:
            pause("again?", allowed=("approve",))
        reply = await next(request)
        return reply, {"n": state.get("n", 0) + 1}

    model = ScriptedModel([asks(call("look")), "done"])
    stack = [Filter("twice", around_tool=twice), Filter("asks", around_tool=second_asks)]
    agent = Agent(model, tools=[look], filters=stack, checkpointer=InMemorySaver())
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Paused)
    asked[:] = [0]
    result, _ = drive(agent).resume("t", approve())
    assert isinstance(result, Completed)
    assert ran == ["look", "look"]
    assert result.filter_state["asks"] == {"n": 2}


@pytest.mark.parametrize("checkpointer", [None, "sql"])
def test_a_turn_filter_may_append_to_the_messages_of_a_result(
    drive: Drive, request: pytest.FixtureRequest, checkpointer: str | None
) -> None:
    @around_turn
    def again(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        result.messages.append(HumanMessage("try again", id="fb"))
        return next(request.replace(messages=result.messages, load_history=False))

    model = ScriptedModel(["bad", "good"])
    saver = request.getfixturevalue(checkpointer) if checkpointer else None
    result, _ = drive(Agent(model, filters=[again], checkpointer=saver)).start("hi", thread="t")
    assert isinstance(result, Completed)
    assert result.answer == "good"
    assert [one.text for one in model.calls[1]] == ["hi", "bad", "try again"]


def questions(kinds: str) -> Filter:
    """A tool hook that asks several times, by our own pause (p) and by LangGraph's interrupt (i)."""

    @around_tool
    def asking(request: Any, state: Any, next: Any) -> Any:
        for number, kind in enumerate(kinds):
            if kind == "i":
                assert interrupt(f"i{number}") == {"type": "respond", "message": f"a{number}"}
            else:
                assert pause(f"p{number}").message == f"a{number}"
        return next(request)

    return asking


@pytest.mark.parametrize("kinds", ["ipp", "ipi", "pipi", "ippi", "ppi", "ii"])
def test_questions_of_both_kinds_in_one_task(drive: Drive, any_saver: Any, kinds: str) -> None:
    ran: list[str] = []

    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    model = ScriptedModel([asks(call("look")), "done"])
    agent = Agent(model, tools=[look], filters=[questions(kinds)], checkpointer=any_saver)
    result, _ = drive(agent).start("go", thread="t")
    for number in range(len(kinds)):
        assert isinstance(result, Paused)
        result, _ = drive(agent).resume("t", {"type": "respond", "message": f"a{number}"})
    assert isinstance(result, Completed)
    assert ran == ["look"]


def test_a_graph_inside_a_tool_is_not_of_the_turn(drive: Drive) -> None:
    inner = ScriptedModel(["inner"])
    graph = Agent(inner, system_prompt="inner prompt").graph

    def delegate() -> str:
        """Ask the other one."""
        return str(graph.invoke({"messages": [("user", "q")]})["messages"][-1].text)

    outer = Agent(ScriptedModel([asks(call("delegate")), "ok"]), tools=[delegate])
    result, events = drive(outer).start("x", system_prompt="for the outer one")
    assert isinstance(result, Completed)
    assert [one.text for one in inner.calls[0]] == ["inner prompt", "q"]
    if events:
        assert "".join(one.text for one in events if type(one).__name__ == "Token") == result.answer == "ok"


def test_a_next_in_another_thread_keeps_the_prompt_and_the_arguments(drive: Drive) -> None:
    def elsewhere(request: Any, state: Any, next: Any) -> Any:
        replies: list[Any] = []
        thread = threading.Thread(target=lambda: replies.append(next(request)))
        thread.start()
        thread.join()
        return replies[0]

    def look(order: int) -> str:
        """Look."""
        return f"order {order}"

    model = ScriptedModel([asks(call("look", order=7)), "done"])
    stack = [Filter("elsewhere", around_chat=elsewhere, around_tool=elsewhere)]
    result, _ = drive(Agent(model, tools=[look], filters=stack)).start("go", system_prompt="be kind")
    assert isinstance(result, Completed)
    assert model.calls[0][0].text == "be kind"
    assert result.messages[2].text == "order 7"


def test_an_agent_without_a_checkpointer_does_not_pause_in_anothers_tool(drive: Drive) -> None:
    @around_tool
    def asking(request: Any, state: Any, next: Any) -> Any:
        pause("may I?")
        return next(request)

    def look() -> str:
        """Look."""
        return "seen"

    inner = Agent(ScriptedModel([asks(call("look")), "done"]), tools=[look], filters=[asking])

    def delegate() -> str:
        """Ask the other one."""
        return inner.invoke("go").answer

    outer = Agent(ScriptedModel([asks(call("delegate")), "ok"]), tools=[delegate], checkpointer=InMemorySaver())
    with pytest.raises(ConfigurationError, match="needs a checkpointer"):
        drive(outer).start("go", thread="t")


WRONG = {
    "chat": [ChatReply("x"), ChatReply(HumanMessage("x"))],  # type: ignore[arg-type]
    "tool": [ToolReply("x"), ToolReply(AIMessage("x"))],  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("chain", "reply"), [(chain, reply) for chain, replies in WRONG.items() for reply in replies])
def test_a_reply_without_the_right_message_names_its_filter(chain: str, reply: Any) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    one = Filter("wrong", **{f"around_{chain}": lambda request, state, next: reply})  # type: ignore[arg-type]
    agent = Agent(ScriptedModel([asks(call("look")), "done"]), tools=[look], filters=[one])
    with pytest.raises(FilterError, match="the message of its reply"):
        agent.invoke("go")


def test_what_a_person_changed_is_what_is_reported(drive: Drive, any_saver: Any) -> None:
    agent = gated(any_saver)
    drive(agent).start("go", thread="t")
    result, _ = drive(agent).resume("t", edit({"to": "bob"}))
    assert isinstance(result, Completed)
    assert [one["args"] for one in result.tool_calls] == [{"to": "bob"}]


@pytest.mark.parametrize("input", [[{"role": "tool", "content": "x"}], {"messages": []}, {"role": "human"}])
def test_an_input_that_is_no_message_is_refused(input: Any) -> None:
    with pytest.raises(ConfigurationError):
        Agent(counting()).invoke(input)


def test_the_input_of_a_graph_is_taken_too() -> None:
    assert Agent(counting()).invoke({"messages": ["a", HumanMessage("b")]}).answer == "2"


@pytest.mark.parametrize(
    "wrong", [{"expires_in": "1h"}, {"expires_in": -5}, {"expires_in": float("nan")}, {"describe": 5}]
)
def test_a_policy_that_cannot_work_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Policy(**wrong)


def test_more_layers_than_the_stack_holds_are_refused() -> None:
    many = [Filter(f"f{n}", around_chat=lambda request, state, next: next(request)) for n in range(101)]
    with pytest.raises(ConfigurationError, match="more than 100"):
        Agent(counting(), filters=many)
    assert Agent(counting(), filters=many[:100]).invoke("a").answer == "1"


def test_resuming_a_thread_that_is_not_there_says_so(sql: SQLCheckpointer) -> None:
    with pytest.raises(NotPaused, match="there is no thread"):
        Agent(counting(), checkpointer=sql).resume("typo")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_find_its_thread_busy() -> None:
    agent = Agent(
        ScriptedModel([asks(call("fork_here")), "done", "from the child"]), tools=[], checkpointer=InMemorySaver()
    )
    outcome: list[int] = []

    def fork_here() -> str:
        """Fork in the middle of a turn."""
        child = os.fork()
        if child == 0:
            inner = Agent(ScriptedModel(["from the child"]), checkpointer=agent.checkpointer)
            try:
                os._exit(0 if inner.invoke("hi", thread="t", config={}).answer else 1)
            except BaseException:
                os._exit(2)
        outcome.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return "forked"

    saver = agent.checkpointer
    agent = Agent(ScriptedModel([asks(call("fork_here")), "done"]), tools=[fork_here], checkpointer=saver)
    agent.invoke("go", thread="t")
    assert outcome == [0]


def test_an_agent_in_anothers_tool_has_its_own_thread(drive: Drive, sql: SQLCheckpointer) -> None:
    inner = Agent(counting(), checkpointer=InMemorySaver())

    def delegate() -> str:
        """Ask the other one."""
        return inner.invoke("go", thread="inner").answer

    script = [asks(call("delegate", "c1")), asks(call("delegate", "c2")), "ok"]
    drive(Agent(ScriptedModel(script), tools=[delegate], checkpointer=sql)).start("go", thread="t")
    assert [text for _, text in history(inner, "inner")] == ["go", "1", "go", "3"]
    assert [one.thread for one in sql.sessions.list().items] == ["t"]


def test_a_copied_pause_is_decided_on_either_thread(drive: Drive, sql: SQLCheckpointer) -> None:
    ran: list[str] = []
    model = ScriptedModel([asks(call("send", "c1", to="ana")), "done", "done"])
    agent = gated(sql, ran, model)
    drive(agent).start("go", thread="t")
    sql.copy_thread("t", "u")
    for thread in ("t", "u"):
        result, _ = drive(agent).resume(thread, approve())
        assert isinstance(result, Completed)
    assert ran == ["ana", "ana"]


@pytest.mark.parametrize("answer", ["yes", True, {"decisions": [{"type": "approve"}]}])
def test_a_bad_answer_to_the_bare_graph_leaves_the_pause_to_the_agent(
    drive: Drive, any_saver: Any, answer: Any
) -> None:
    ran: list[str] = []
    agent = gated(any_saver, ran)
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.graph.invoke({"messages": [("user", "go")]}, config)
    asked = agent.graph.invoke(Command(resume=answer), config)["__interrupt__"]
    assert asked[0].value["problem"]
    assert ran == []
    result, _ = drive(agent).resume("t", approve())
    assert isinstance(result, Completed)
    assert ran == ["ana"]


def test_calls_that_a_filter_breaks_off_count() -> None:
    """A retry on time-out is bounded by the limit."""

    async def impatient(request: Any, state: Any, next: Any) -> Any:
        while True:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(next(request), 0.01)

    agent = Agent(
        ScriptedModel(["late"] * 9, delay=5), filters=[Filter("f", around_chat=impatient)], limits=Limits(model_calls=2)
    )
    with pytest.raises(LimitExceeded) as caught:
        asyncio.run(agent.ainvoke("go"))
    assert caught.value.used == 2


def test_concurrent_model_calls_do_not_pass_the_limit_together() -> None:
    async def three(request: Any, state: Any, next: Any) -> Any:
        return (await asyncio.gather(*(next(request) for _ in range(3))))[0]

    model = ScriptedModel(["a", "b", "c"], delay=0.01)
    agent = Agent(model, filters=[Filter("f", around_chat=three)], limits=Limits(model_calls=1))
    with pytest.raises(LimitExceeded):
        asyncio.run(agent.ainvoke("go"))
    assert len(model.calls) <= 1


def test_an_edit_that_the_tool_would_refuse_is_refused(drive: Drive, any_saver: Any) -> None:
    def send(when: datetime.date, to: Annotated[str, Field(pattern="@")]) -> str:
        """Send a letter."""
        return f"{to} on {when}"

    model = ScriptedModel([asks(call("send", when="2026-01-02", to="a@b")), "done"])
    agent = Agent(model, tools=[send], filters=[filters.approval({"send": True})], checkpointer=any_saver)
    drive(agent).start("go", thread="t")
    for wrong in ({"when": "not a date", "to": "a@b"}, {"when": "2026-01-02", "to": "secret"}):
        with pytest.raises(InvalidDecision) as caught:
            drive(agent).resume("t", edit(wrong))
        assert "secret" not in str(caught.value)
    result, _ = drive(agent).resume("t", edit({"when": "2026-01-03", "to": "c@d"}))
    assert "c@d on 2026-01-03" in result.messages[2].text


def test_the_last_message_of_a_result_is_its_answer(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def clean(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(message=AIMessage("clean"))

    agent = Agent(ScriptedModel(["secret"]), filters=[clean], checkpointer=any_saver)
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Completed)
    assert [one.text for one in result.messages] == ["go", "clean"]
    assert history(agent) == [("human", "go"), ("ai", "clean")]


def test_the_config_of_a_graph_around_may_be_handed_on(sql: SQLCheckpointer) -> None:
    """Its callbacks and tags come along; its thread and place do not."""
    inner = Agent(counting(), checkpointer=sql)
    seen: list[Any] = []

    def delegate(config: RunnableConfig) -> str:
        """Ask the other one."""
        seen.append(inner.invoke("go", config=config))
        seen.append(inner.invoke("go", thread="inner", config=config))
        return "asked"

    outer = Agent(ScriptedModel([asks(call("delegate")), "ok"]), tools=[delegate], checkpointer=sql)
    outer.invoke("go", thread="t")
    assert seen[0].thread not in ("t", "inner")
    assert seen[1].thread == "inner"
    assert len(history(outer)) == 4


def test_a_reentry_without_a_checkpointer_shows_the_whole_sequence(drive: Drive) -> None:
    @around_turn
    def again(request: Any, state: Any, next: Any) -> Any:
        first = next(request)
        return next(request.replace(messages=[*first.messages, HumanMessage("again")], load_history=False))

    model = ScriptedModel(["bad", "good"])
    drive(Agent(model, filters=[again])).start("hi")
    assert [one.text for one in model.calls[1]] == ["hi", "bad", "again"]
