"""An agent as a graph with its turn: LangGraph's own verbs, and nothing stored before the filters have seen it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from modes import Drive
from nested.offices import Office, release
from nested.runs import Run
from scenes import asks, call, heard

from scallion import (
    Agent,
    ConfigurationError,
    InvalidDecision,
    NotPaused,
    SQLCheckpointer,
    ThreadError,
    ThreadPaused,
    approve,
    around_tool,
    around_turn,
    filters,
)
from scallion.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t"}}
SECRET = "hunter2-canary"


@filters.filter_input
def clean(conversation: Any) -> None:
    """Take the secret out."""
    conversation.replace(SECRET, "***")


def echo(*around: Any, saver: Any, **options: Any) -> Any:
    """A graph that says what it was told last."""
    model = ScriptedModel(lambda messages: f"{len(messages)} {messages[-1].text}")
    return Agent(model, filters=around, checkpointer=saver, name="echo", **options).as_graph()


def test_turns_of_one_thread(sql: Any, run: Run) -> None:
    """The filters around the turn are in it, the history is state, and finished turns are those of the agent too."""

    @around_turn(name="louder", init={"n": 0}, scope="thread")
    def louder(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        louder_yet = AIMessage(result.answer.upper() + "!" * (state["n"] + 1), id=result.message.id)
        return result.replace(message=louder_yet), {"n": state["n"] + 1}

    graph = echo(louder, clean, saver=sql)
    run(graph, {"messages": [("user", f"one {SECRET}")]})
    values = run(graph, {"messages": [{"role": "user", "content": "two"}]})
    assert set(values) == {"messages"} | set(values) & {"__interrupt__", "loop", "state"}
    told = [("human", "one ***"), ("ai", "1 ONE ***!"), ("human", "two"), ("ai", "3 TWO!!")]
    assert heard(values["messages"]) == told
    assert heard(graph.get_state(CONFIG).values["messages"]) == told
    session = sql.sessions.get("t")
    assert (session.title, session.status) == ("one ***", "idle")
    first = values["messages"][0].id
    values = run(graph, {"messages": [RemoveMessage(first), ("user", "three")]})
    assert heard(values["messages"])[-2:] == [("human", "three"), ("ai", "4 THREE!!!")]
    assert len(list(graph.get_state_history(CONFIG))) == 9


def test_a_pause_is_answered_as_clients_of_langgraph_do(sql: Any, run: Run) -> None:
    """With a value for the one question that is open, which is taken for no other one."""
    office = Office(sql, release)
    graph = office.accountant.as_graph().copy({"checkpointer": sql})  # as LangGraph's server gives its own
    assert run(graph, {"messages": [("user", "pay 3")]})["__interrupt__"]
    (asked,) = sql.approvals.list(thread="t").items
    assert (asked.path, asked.tool) == (("approval",), "pay")
    inner = graph.get_state(CONFIG, subgraphs=True).tasks[0].state
    assert [one.type for one in inner.values["messages"]] == ["human", "ai"]
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"euro": 30}}}
    run(graph, Command(resume={"decisions": [edit]}))
    run(graph, None)
    (asked,) = sql.approvals.list(thread="t").items
    assert (asked.kind, asked.path) == ("answer", ("release",))
    sql.approvals.decide(asked.id, approve())
    values = run(graph, sql.command_for("t"))
    assert heard(values["messages"])[-1] == ("ai", "done: paid 30")
    assert (office.did["pay 30"], office.repeated) == (1, {})


def test_a_message_supersedes_what_waits(sql: Any, run: Run) -> None:
    office = Office(sql, own=sql)
    graph = office.accountant.as_graph()
    run(graph, {"messages": [("user", "pay 3")]})
    run(graph, {"messages": [("user", "pay 4")]})
    assert [(one.args["euro"], one.status) for one in sql.approvals.list(None, thread="t").items] == [
        (3, "superseded"),
        (4, "pending"),
    ]
    assert heard(run(graph, sql_approved(sql))["messages"]) == [
        ("human", "pay 4"),
        ("ai", ""),
        ("tool", "paid 4"),
        ("ai", "done: paid 4"),
    ]


def test_what_the_graph_asks_is_its_own(sql: Any, run: Run, drive: Drive) -> None:
    """The agent neither goes on with it nor drops it, whatever is sent to it."""
    office = Office(sql, own=sql)
    graph, driver = office.accountant.as_graph(), drive(office.accountant)
    run(graph, {"messages": [("user", "pay 3")]})
    asked = sql.approvals.list(thread="t").items
    with pytest.raises(ThreadPaused, match="as_graph") as refused:
        driver.start("something else", thread="t")
    assert refused.value.approvals == asked
    with pytest.raises(NotPaused, match="as_graph"):
        driver.resume("t", approve())
    with pytest.raises(ThreadPaused, match="as_graph"):
        office.accountant.cancel("t")
    assert sql.approvals.list(thread="t").items == asked
    assert heard(run(graph, sql_approved(sql))["messages"])[-1] == ("ai", "done: paid 3")
    assert driver.start("pay 4", thread="t")[0].approvals


def test_what_the_agent_asks_is_its_own(sql: Any, run: Run, drive: Drive) -> None:
    office = Office(sql, own=sql)
    graph, driver = office.accountant.as_graph(), drive(office.accountant)
    driver.start("pay 3", thread="t")
    with pytest.raises(ThreadPaused, match="by the agent") as refused:
        run(graph, {"messages": [("user", "something else")]})
    assert refused.value.approvals == sql.approvals.list(thread="t").items
    assert driver.resume("t", approve())[0].answer == "done: paid 3"
    assert run(graph, {"messages": [("user", "pay 4")]})["__interrupt__"]


def test_a_thread_of_another_owner(sql: Any, run: Run) -> None:
    office = Office(sql, own=sql)
    graph = office.accountant.as_graph().with_config({"metadata": {"owner": "bo"}})
    office.accountant.invoke("pay 3", thread="t", owner="ana")
    for given in ({"messages": [("user", "something else")]}, Command(resume=approve().to_json()), None):
        with pytest.raises(ThreadError, match="another owner"):
            run(graph, given)
    assert [one.status for one in sql.approvals.list(None, thread="t").items] == ["pending"]


def sql_approved(sql: Any) -> Any:
    """The command that approves what waits."""
    for one in sql.approvals.list(thread="t").items:
        sql.approvals.decide(one.id, approve())
    return sql.command_for("t")


MODES = ["values", "updates", "messages", "custom", "checkpoints", "tasks", "debug"]


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")  # told once in a process, by whichever test is first
def test_what_the_filters_take_out_is_nowhere(tmp_path: Path) -> None:
    """In no table and no stream, of the graph and of what runs in it, in a pause and in a failure."""
    path = tmp_path / "agent.db"
    seen: list[Any] = []
    input = {"messages": [HumanMessage(f"mail {SECRET}", name="ana")]}

    @filters.filter_input
    def picky(conversation: Any) -> None:
        if "fail" in conversation.message:
            raise ValueError("picky")

    def say(messages: Any) -> Any:
        return "sent" if messages[-1].type == "tool" else asks(call("note", text=messages[-1].text))

    with SQLCheckpointer(f"sqlite:///{path}") as saver:
        desk = Agent(
            ScriptedModel(say),
            tools=[Office("inherit").note],
            filters=[picky, clean, filters.approval({"note": True})],
            checkpointer=saver,
        )
        graph = desk.as_graph()

        def config(n: int) -> Any:
            return {"configurable": {"thread_id": f"t{n}"}, "callbacks": []}

        for n, options in enumerate([{"subgraphs": True}, {"subgraphs": True, "version": "v2"}, {}]):
            seen.extend(graph.stream(input, config(n), stream_mode=MODES, **options))
            seen.extend(graph.stream(Command(resume={"type": "approve"}), config(n), stream_mode=MODES, **options))
        with graph.stream_events(input, config(10), version="v3") as events:
            seen.extend(events)
        with pytest.raises(Exception, match="picky"):
            graph.invoke({"messages": [("user", f"fail {SECRET}")]}, config(11))

        async def asynchronous() -> None:
            seen.extend([one async for one in graph.astream(input, config(12), stream_mode=MODES, subgraphs=True)])
            seen.extend([one async for one in graph.astream_events(input, config(13), version="v2")])

        asyncio.run(asynchronous())
        seen.extend(graph.get_state_history(config(0)))
        seen.append(graph.get_state(config(0), subgraphs=True))
        assert "mail ***" in str(seen)
        assert SECRET not in str(seen)
    raw = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert b"mail ***" in raw
    assert SECRET.encode() not in raw


def test_it_is_a_subgraph_too(sql: Any, run: Run) -> None:
    office = Office(sql)
    parent: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    parent.add_node("desk", office.accountant.as_graph())
    parent.add_edge(START, "desk")
    graph = parent.compile(checkpointer=sql)
    run(graph, {"messages": [("user", "pay 3")]})
    (asked,) = sql.approvals.list(thread="t").items
    assert asked.path == ("accountant", "approval")
    assert heard(run(graph, sql_approved(sql))["messages"])[-1] == ("ai", "done: paid 3")
    assert not office.repeated


def test_any_checkpointer_or_none(run: Run) -> None:
    graph = echo(clean, saver=InMemorySaver())
    run(graph, {"messages": [("user", "one")]})
    assert heard(run(graph, {"messages": [("user", "two")]})["messages"])[-1] == ("ai", "3 two")
    assert (
        heard(run(echo(clean, saver=None), {"messages": [("user", "one")]}, thread=None)["messages"])[-1][1] == "1 one"
    )
    assert run(echo(saver="inherit").with_config({"tags": ["x"]}), {"messages": "one"}, thread=None)["messages"]


def test_what_a_batch_asks_has_the_order_of_its_calls(sql: Any) -> None:
    """In what the graph gives, in its state, and for a list of decisions."""
    ran: list[int] = []

    def pay(euro: int) -> str:
        """Pay."""
        ran.append(euro)
        return "paid"

    @around_tool
    def last_first(request: Any, state: Any, next: Any) -> Any:
        time.sleep((3 - request.call["args"]["euro"]) / 20)
        return next(request)

    calls = asks(*(call("pay", id=f"p{euro}", euro=euro) for euro in range(3)))
    desk = Agent(
        ScriptedModel([calls, "ok"]),
        tools=[pay],
        filters=[last_first, filters.approval({"pay": True})],
        checkpointer=sql,
    )
    graph = desk.as_graph()
    for asked in (graph.invoke({"messages": "go"}, CONFIG)["__interrupt__"], graph.get_state(CONFIG).interrupts):
        assert [one.value["args"]["euro"] for one in asked] == [0, 1, 2]
    graph.invoke(Command(resume={"decisions": [{"type": one} for one in ("approve", "reject", "reject")]}), CONFIG)
    assert ran == [0]


def test_an_input_has_the_forms_that_langgraph_takes(run: Run) -> None:
    """And a graph around may hand over more than messages."""
    graph = echo(saver=None)
    one = {"role": "user", "content": "pay 7"}
    for given in ("pay 7", ("user", "pay 7"), one, HumanMessage("pay 7"), ["pay 7"], [("user", "pay 7")]):
        assert heard(run(graph, {"messages": given}, thread=None)["messages"]) == [
            ("human", "pay 7"),
            ("ai", "1 pay 7"),
        ]

    class More(MessagesState):
        note: str

    parent: StateGraph[Any, Any, Any, Any] = StateGraph(More)
    parent.add_node("desk", graph)
    parent.add_edge(START, "desk")
    assert run(parent.compile(), {"messages": "pay 7", "note": "x"}, thread=None)["messages"][-1].text == "1 pay 7"


def test_what_goes_past_the_filters_is_refused_and_stored_nowhere(tmp_path: Path, run: Run) -> None:
    """As is what has no thread."""
    message = HumanMessage(SECRET)
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}") as saver:
        graph = echo(clean, saver=saver)
        for given in (
            Command(update={"messages": [message]}),
            Command(resume=1, update=[("messages", [message])]),
            Command(goto="turn"),
        ):
            with pytest.raises(ConfigurationError, match="past the filters"):
                run(graph, given)
        for given in ({}, {"note": "x"}):
            with pytest.raises(ConfigurationError, match="messages"):
                run(graph, given)
        for given in ({"messages": [message]}, Command(resume=1)):
            with pytest.raises(ConfigurationError, match="thread_id"):
                run(graph, given, thread=None)
        assert run(graph.with_config(configurable={"thread_id": "t"}), {"messages": "hi"}, thread=None)["messages"]
    raw = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert SECRET.encode() not in raw


def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(sql: Any, run: Run) -> None:
    office = Office(sql, own=sql)
    graph = office.accountant.as_graph()
    run(graph, {"messages": "pay 3"})
    asked = sql.approvals.list(None, thread="t").items
    edit = {"type": "edit", "args": {"euro": "many"}}
    other = {"type": "edit", "edited_action": {"name": "note", "args": {"euro": 1}}}
    for given in (True, "approve", [approve()], {"decisions": "x"}, {"decisions": [5]}, {"type": "stop"}, edit, other):
        with pytest.raises(InvalidDecision):
            run(graph, Command(resume=given))
    assert sql.approvals.list(None, thread="t").items == asked
    assert run(graph, Command(resume=approve()))["messages"][-1].text == "done: paid 3"
