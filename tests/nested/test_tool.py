"""An agent as a tool of another: what it asks is decided and resumed through the outermost one."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from checkpoints.databases import counted
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import interrupt
from modes import Drive
from nested.offices import ANY, Office, release
from scenes import asks, call, results

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    InvalidDecision,
    Limits,
    PauseChanged,
    Paused,
    ThreadError,
    approve,
    around_tool,
    edit,
    filters,
    pause,
    reject,
    respond,
)
from scallion.testing import ScriptedModel

DEEP = ("ask_manager", "ask_accountant")


def pending(paused: Any) -> dict[str, Any]:
    """The open approvals, by what they are about."""
    assert isinstance(paused, Paused)
    open = [one for one in paused.approvals if one.status == "pending"]
    return {f"{one.tool} {one.args['euro']}" if one.args else one.description: one for one in open}


@pytest.mark.parametrize("database", ["file", "postgresql"], indirect=True)
def test_parallel_agents_at_two_levels(saver: Any, drive: Drive) -> None:
    """Each is decided when a person wants, by its id; what finished is never done again; one session is listed."""
    office = Office(saver, release)
    driver = drive(office.chief)
    result, _ = driver.start("go 1 2", thread="t")
    asked = pending(result)
    assert {one.path for one in asked.values()} == {(*DEEP, "approval")}
    assert {one.id for one in saver.approvals.list(thread="t").items} == {one.id for one in asked.values()}

    result, _ = driver.resume("t", {asked["pay 1"].id: edit({"euro": 10})})
    assert set(pending(result)) == {"pay 2", "Release: done: paid 10"}
    released = pending(result)["Release: done: paid 10"]
    assert (released.kind, released.path) == ("answer", (*DEEP, "release"))
    result, _ = driver.resume("t", {released.id: approve()})
    assert set(pending(result)) == {"pay 2"}
    result, _ = driver.resume("t", {asked["pay 2"].id: reject("too much")})
    result, _ = driver.resume("t", approve())

    assert isinstance(result, Completed)
    assert "paid 10" in result.answer
    assert "too much" in result.answer
    assert office.did["pay 10"] == 1
    assert not office.repeated
    assert not office.did["pay 1"] + office.did["pay 2"]
    assert {one.status for one in saver.approvals.list(None, thread="t").items} == {"used"}
    assert [(one.thread, one.agent, one.title) for one in saver.sessions.list().items] == [("t", "chief", "go 1 2")]
    saver.sessions.delete("t")
    assert {table for table, rows in counted(saver).items() if rows} <= {"audit", "audit_head"}


def test_a_decision_fits_the_tool_and_the_gate_of_the_one_who_asks(sql: Any) -> None:
    """Also what only its code knows, and what has changed since."""
    office = Office(sql)
    found = office.chief.invoke("go 2", thread="t")
    (asked,) = pending(found).values()
    for args in ({"euro": "many"}, {"euro": 1001}, {}):
        with pytest.raises(InvalidDecision):
            office.chief.resume("t", {asked.id: edit(args)})
    with pytest.raises(InvalidDecision):
        office.chief.resume("t", {asked.id: {"type": "respond", "message": "paid"}})
    stricter = Office(sql, policy=replace(ANY, allowed=("reject",)))
    with pytest.raises(PauseChanged, match="allows only reject"):
        stricter.chief.resume("t", {asked.id: approve()})
    assert office.chief.resume("t", {asked.id: edit({"euro": 4})}).answer  # type: ignore[union-attr]
    assert office.did["pay 4"] == 1


def test_each_call_is_a_conversation_of_its_own(sql: Any, drive: Drive) -> None:
    """Also a call that a filter makes again; and what fails in there is the result of the call."""

    @around_tool
    def twice(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return next(request) if "short" in reply.message.text else reply

    def say(messages: Any) -> Any:
        assert len(messages) == 1
        if "fail" in messages[0].text:
            return TimeoutError("slow")
        return "long" if len(model.calls) > 1 else "short"

    model = ScriptedModel(say)
    clerk = Agent(model, name="clerk").as_tool("clerk", "Ask a clerk.")
    calls = asks(call("clerk", request="one"))
    outer = Agent(
        ScriptedModel([calls, asks(call("clerk", id="c2", request="fail")), "ok"]),
        tools=[clerk],
        filters=[twice],
        checkpointer=sql,
    )
    result, _ = drive(outer).start("go", thread="t")
    assert results(result.messages)[0] == "long"
    assert results(result.messages)[1].startswith("error: ModelError")
    assert clerk.invoke({"request": "outside of a graph"}) == "long"


def test_limits_are_those_of_the_inner_turn(sql: Any) -> None:
    """The outer turn counts one call of a tool."""
    loops = ScriptedModel(lambda messages: asks(call("clerk", id=f"c{len(messages)}", request="on")))
    idle = Agent(ScriptedModel(lambda _: "idle")).as_tool("clerk", "Ask.")
    busy = Agent(loops, tools=[idle], limits=Limits(model_calls=3)).as_tool("busy", "Ask.")
    outer = Agent(ScriptedModel([asks(call("busy", request="go")), "ok"]), tools=[busy], checkpointer=sql)
    result = outer.invoke("go", thread="t")
    assert isinstance(result, Completed)
    assert "LimitExceeded" in results(result.messages)[0]
    assert (len(loops.calls), result.usage["model_calls"], result.usage["tool_calls"]) == (3, 2, 1)


def test_who_cancels_the_outer_turn_stops_the_inner_one(sql: Any) -> None:
    """Before its next call of a model."""
    begun, go_on = threading.Event(), threading.Event()

    def work() -> str:
        """Work."""
        begun.set()
        assert go_on.wait(30)
        return "worked"

    model = ScriptedModel([asks(call("work")), "never said"])
    worker = Agent(model, tools=[work]).as_tool("worker", "Have it done.")
    outer = Agent(ScriptedModel([asks(call("worker", request="go"))]), tools=[worker], checkpointer=sql)
    failed: list[BaseException] = []

    def run() -> None:
        with pytest.raises(ThreadError, match="cancelled") as raised:
            outer.invoke("go", thread="t")
        failed.append(raised.value)

    turn = threading.Thread(target=run)
    turn.start()
    assert begun.wait(30)
    assert outer.cancel("t")
    go_on.set()
    turn.join(30)
    assert failed
    assert len(model.calls) == 1


def test_it_streams_nothing_of_its_own(sql: Any, drive: Drive) -> None:
    """The reader of the outer turn sees that a tool runs, and the outer answer."""
    inner = Agent(ScriptedModel(["a secret thought"]), name="inner").as_tool("inner", "Ask.")
    outer = Agent(ScriptedModel([asks(call("inner", request="go")), "done"]), tools=[inner], checkpointer=sql)
    driver = drive(outer)
    result, events = driver.start("go", thread="t")
    assert isinstance(result, Completed)
    told = [type(one).__name__ for one in events]
    assert told.count("ToolStarted") == (1 if driver.streams else 0)
    assert "secret" not in "".join(getattr(one, "text", "") for one in events)


def test_a_tool_that_pauses_needs_a_checkpointer_around_it() -> None:
    gated = Agent(ScriptedModel(["hi"]), filters=[filters.approval()], checkpointer="inherit").as_tool("gated", "Ask.")
    with pytest.raises(ConfigurationError, match="'gated' pauses"):
        Agent(ScriptedModel([]), tools=[gated])
    for name, description in (("", "Ask."), ("x", " ")):
        with pytest.raises(ConfigurationError, match="as_tool"):
            Agent(ScriptedModel([])).as_tool(name, description)


def test_the_person_behind_the_turn_and_what_is_lent_to_it_reach_the_inner_one(sql: Any) -> None:
    seen: list[Any] = []

    @around_tool
    def look(request: Any, state: Any, next: Any) -> Any:
        seen.append((request.context.user, request.context.owner, request.context.env, request.context.thread))
        return next(request)

    office = Office(sql, look)
    paused = office.chief.invoke("go 1", thread="t", user="ana", owner="acme", env={"x": 1})
    (asked,) = pending(paused).values()
    assert (asked.requested_by, asked.owner) == ("ana", "acme")
    office.chief.resume("t", approve(), by="bo", env={"x": 1})
    assert set(map(str, seen)) == {"('ana', 'acme', {'x': 1}, 't')"}


def test_messages_of_an_inner_turn_stay_inside(sql: Any) -> None:
    office = Office(sql)
    office.chief.invoke("go 1", thread="t")
    result = office.chief.resume("t", approve())
    kinds = [one.type for one in result.messages]
    assert kinds == ["human", "ai", "tool", "tool", "ai"]
    assert isinstance(result.messages[0], HumanMessage)
    assert isinstance(result.messages[-1], AIMessage)


def test_what_changed_since_is_asked_again(sql: Any) -> None:
    """By the agent that asked, where the outermost one is built to."""
    Office(sql).chief.invoke("go 2", thread="t")
    office = Office(sql, policy=replace(ANY, allowed=("reject", "edit")), on_changed="ask")
    paused = office.chief.resume("t", approve())
    assert isinstance(paused, Paused)
    (asked,) = paused.approvals
    assert "allows only reject, edit now" in asked.description
    assert office.chief.resume("t", {asked.id: edit({"euro": 7})}).answer  # type: ignore[union-attr]
    assert office.did["pay 7"] == 1


def test_a_list_decides_in_the_order_of_the_calls(sql: Any) -> None:
    """Of those outside first, then of those inside; whoever asks first, it is the order that is shown, too."""
    ran: list[str] = []

    def pay(euro: int) -> str:
        """Pay."""
        ran.append(f"pay {euro}")
        return f"paid {euro}"

    def ask(euro: int) -> str:
        """Ask as LangGraph does."""
        ran.append(f"ask {euro} {interrupt(euro)['message']}")
        return "asked"

    @around_tool
    def last_first(request: Any, state: Any, next: Any) -> Any:
        time.sleep(0.2 if request.call["args"].get("euro") in (1, 11) else 0)
        return next(request)

    def paying(messages: Any) -> Any:
        if messages[-1].type == "tool":
            return "done"
        first = int(messages[-1].text)
        return asks(call("pay", id="1", euro=first), call("pay", id="2", euro=first + 1))

    parts: Any = {"filters": [last_first, filters.approval({"pay": True})]}
    clerk = Agent(ScriptedModel(paying), tools=[pay], checkpointer="inherit", **parts).as_tool("clerk", "Ask a clerk.")
    own = [call("ask", id=f"n{euro}", euro=euro) for euro in (1, 2)]
    calls = asks(call("pay", id="2", euro=1), *(call("clerk", id=f"c{n}", request=f"{n}") for n in (11, 21)), *own)
    outer = Agent(ScriptedModel([calls, "ok"]), tools=[clerk, pay, ask], checkpointer=sql, **parts)
    shown = outer.invoke("go", thread="t").approvals  # type: ignore[union-attr]
    told = [one.args["euro"] if one.args else one.description for one in shown]
    assert told[:5] == [1, 11, 12, 21, 22]
    assert sorted(told[5:]) == ["1", "2"]
    given: list[Any] = [approve() if one in (1, 12, 21) else reject() for one in told[:5]]
    with pytest.raises(InvalidDecision, match="6 decisions for 7"):
        outer.resume("t", {"decisions": [*given, respond("a")]})
    outer.resume("t", {"decisions": [*given, *(respond(f"about {one}") for one in told[5:])]})
    assert sorted(ran) == ["ask 1 about 1", "ask 2 about 2", "pay 1", "pay 12", "pay 21"]


@pytest.mark.parametrize("how", ["message", "cancel", "alongside"])
def test_a_call_that_has_begun_is_not_told_as_not_run(sql: Any, drive: Drive, how: str) -> None:
    """What the agent did by then is done, also where the turn around it is closed."""
    office = Office(sql)
    mode: Any = {"message": "supersede", "alongside": "alongside"}.get(how, "refuse")
    asking = office.accountant.as_tool("ask_accountant", "Have the accountant pay.")

    def doubt() -> str:
        """Do something, and ask."""
        office.did["doubted"] += 1
        pause("was that right?")
        return "done"

    parts: Any = {"tools": [asking, office.note, doubt], "filters": [filters.approval({"note": True})]}
    calls = asks(call("ask_accountant", "c1", request="pay 1"), call("doubt", "c2"), call("note", "c3", text="x"))
    outer = ScriptedModel([calls, "ok"])
    driver = drive(Agent(outer, checkpointer=sql, on_message_while_paused=mode, **parts))
    driver.start("go", thread="t")
    if how == "cancel":
        driver.agent.cancel("t")
    driver.start("what was done?", thread="t")
    begun = "it had begun before the turn was closed; what it did until then is not known"
    assert results(outer.calls[-1])[:2] == [begun, begun]
    assert results(outer.calls[-1])[2].startswith(("not run", "cancelled"))


@pytest.mark.parametrize("on_changed", ["refuse", "ask"])
@pytest.mark.parametrize("decision", [approve(), reject()])
def test_what_took_the_place_of_an_agent_runs_no_call_that_was_decided_in_it(
    sql: Any, decision: Any, on_changed: Any
) -> None:
    office = Office(sql)
    office.chief.invoke("go 2", thread="t")

    def ask_manager(request: str) -> str:
        """Ask."""
        raise AssertionError(request)

    new: Any = {"tools": [ask_manager], "filters": [filters.logging()], "on_changed": on_changed}
    plain = Agent(ScriptedModel([]), checkpointer=sql, **new)
    with pytest.raises(PauseChanged, match="'ask_manager' is no agent any more"):
        plain.resume("t", decision)
    assert [one.status for one in sql.approvals.list(None, thread="t").items] == ["pending"]
    assert office.chief.resume("t", approve()).answer  # type: ignore[union-attr]
    assert office.did["pay 2"] == 1


def test_an_agent_whose_time_is_over_makes_no_more_calls(sql: Any) -> None:
    """It runs in a thread that nobody can stop; its model may answer, but no tool runs after the turn."""
    goes_on, answered, ran = threading.Event(), threading.Event(), list[int]()

    def pay(euro: int) -> str:
        """Pay."""
        ran.append(euro)
        return "paid"

    def slow(messages: Any) -> Any:
        goes_on.wait(20)
        threading.Timer(0.5, answered.set).start()
        return asks(call("pay", euro=1))

    model = ScriptedModel(slow)
    clerk = Agent(model, tools=[pay], name="clerk").as_tool("clerk", "Ask a clerk.")
    script = ScriptedModel([asks(call("clerk", request="go")), "ok"])
    outer = Agent(script, tools=[clerk], filters=[filters.timeout(0.2)], checkpointer=sql)
    assert "took longer" in results(outer.invoke("go", thread="t").messages)[0]
    goes_on.set()
    assert answered.wait(20)
    assert (len(model.calls), ran) == (1, [])
