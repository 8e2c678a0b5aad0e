"""An agent in graphs that are not ours: a node of a hand-written one, a tool of `create_agent` and of `ToolNode`."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from modes import Mode
from nested.offices import Office, release
from nested.runs import Run
from scenes import asks, call

from scallion import Agent, Completed, ConfigurationError, ModelError, Paused, approve, around_turn, edit
from scallion.testing import ScriptedModel


def around(*nodes: Any, saver: Any = None, schema: Any = MessagesState) -> Any:
    """A graph of these nodes, one after the other."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    names = [f"n{place}" for place in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for one, next in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(one, next)
    return graph.compile(checkpointer=saver)


def decided(saver: Any, decision: Any, **which: Any) -> Any:
    """The command that goes on, when what pends is decided so."""
    for one in saver.approvals.list(thread="t", **which).items:
        saver.approvals.decide(one.id, decision, by="bo")
    return saver.command_for("t")


def test_a_turn_with_its_filters_is_a_node(sql: Any, run: Run) -> None:
    """Its approvals are in the inbox; the graph goes on when they are decided; nothing is done twice."""
    office = Office(sql, release)
    steps: list[str] = []
    graph = around(lambda state: steps.append("before"), office.accountant.as_node(), saver=sql)
    assert run(graph, {"messages": [("user", "pay 3")]})["__interrupt__"]
    (asked,) = sql.approvals.list(thread="t").items
    assert (asked.path, asked.tool, asked.requested_by) == (("accountant", "approval"), "pay", "ana")

    run(graph, decided(sql, edit({"euro": 30})))
    (asked,) = sql.approvals.list(thread="t").items
    assert (asked.kind, asked.path) == ("answer", ("accountant", "release"))
    values = run(graph, decided(sql, approve()))
    assert [one.type for one in values["messages"]] == ["human", "ai", "tool", "ai"]
    assert values["messages"][-1].text == "done: paid 30"
    assert (steps, office.did["pay 30"], office.repeated) == (["before"], 1, {})


def test_what_it_adds_and_what_it_knows(run: Run) -> None:
    """The turn or the answer; the conversation before is its history, as its filters changed what is new."""

    @around_turn
    def clean(request: Any, state: Any, next: Any) -> Any:
        seen.append(len(request.messages))
        mine = [one.model_copy(update={"content": one.text.replace("secret", "***")}) for one in request.messages]
        return next(request.replace(messages=mine))

    seen: list[int] = []
    model = ScriptedModel(lambda messages: f"{len(messages)} {messages[-1].text}")
    agent = Agent(model, filters=[clean], name="reader")
    graph = around(agent.as_node(), agent.as_node(adds="answer"), saver=InMemorySaver())
    values = run(graph, {"messages": [("user", "a secret")]})
    assert [one.text for one in values["messages"]] == ["a ***", "1 a ***", "2 1 a ***"]
    values = run(graph, {"messages": [("user", "more")]})
    assert [one.text for one in values["messages"][3:]] == ["more", "4 more", "5 4 more"]
    assert seen == [1, 1, 1, 1]


def test_a_channel_of_its_own_is_its_memory(sql: Any, run: Run) -> None:
    class State(TypedDict):
        question: str
        research: Annotated[list[Any], operator.add]

    node = Agent(ScriptedModel(lambda messages: f"answer {len(messages)}"), name="research").as_node(key="research")
    graph = around(lambda state: {"research": [HumanMessage(state["question"])]}, node, saver=sql, schema=State)
    run(graph, {"question": "one"})
    values = run(graph, {"question": "two"})
    assert [one.text for one in values["research"]] == ["one", "answer 1", "two", "answer 3"]


def test_its_failure_is_that_of_the_graph_and_it_goes_on(sql: Any, run: Run) -> None:
    """What the turn did before is not done again."""
    office = Office(sql)
    replies: list[Any] = [asks(call("note", text="x")), TimeoutError("slow"), "done"]
    agent = Agent(ScriptedModel(replies), tools=[office.note], name="clerk")
    graph = around(agent.as_node(), saver=sql)
    with pytest.raises(ModelError):
        run(graph, {"messages": [("user", "go")]})
    assert run(graph, None)["messages"][-1].text == "done"
    assert office.did["note x"] == 1
    for wrong in ({"adds": "all"}, {"key": ""}):
        with pytest.raises(ConfigurationError, match="as_node"):
            agent.as_node(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["create_agent", "ToolNode"])
def test_parallel_calls_of_a_tool_in_langchains_agent(sql: Any, run: Run, mode: Mode, kind: str) -> None:
    """Each call asks for itself, also where one task of the graph runs all calls; some are decided before others."""
    office = Office(sql, release)
    tool = office.accountant.as_tool("ask_accountant", "Have the accountant pay.")
    calls = [call("ask_accountant", id=f"c{n}", request=f"pay {n}") for n in (1, 2)]
    if kind == "create_agent":
        model = ScriptedModel(lambda messages: "ok" if messages[-1].type == "tool" else asks(*calls))
        graph: Any = create_agent(model, [tool], checkpointer=sql)
    else:
        graph = around(lambda state: {"messages": [asks(*calls)]}, ToolNode([tool]), saver=sql)
    run(graph, {"messages": [("user", "go")]})
    for _ in range(6):
        if not (open := sql.approvals.list(thread="t").items):
            break
        sql.approvals.decide(open[0].id, approve())
        values = run(graph, sql.command_for("t"))
    told = {one.text for one in values["messages"] if one.type == "tool"}
    assert told == {"done: paid 1", "done: paid 2"}
    assert (office.did["pay 1"], office.did["pay 2"]) == (1, 1)
    if kind == "ToolNode" and mode.startswith("a"):
        # One task runs all calls: the first that pauses breaks the others off, also in the middle of a model call.
        assert all(times <= 3 for times in office.repeated.values())
    else:
        assert office.repeated == {}


def test_without_a_checkpointer_it_runs_and_cannot_pause(run: Run) -> None:
    plain = Agent(ScriptedModel(["hi"]), name="plain")
    assert run(around(plain.as_node()), {"messages": [("user", "go")]}, thread=None)["messages"][-1].text == "hi"
    gated = Office("inherit").accountant
    with pytest.raises(ConfigurationError, match="needs a checkpointer"):
        run(around(gated.as_node()), {"messages": [("user", "pay 1")]}, thread=None)


def test_a_pause_is_kept_where_steps_are_stored_at_the_exit(sql: Any) -> None:
    """LangGraph keeps nothing of a subgraph that ends then; the loop of a turn is one, and more is to come."""
    office = Office(sql, release)
    graph, config = around(office.accountant.as_node(), saver=sql), {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [("user", "pay 3")]}, config, durability="exit")
    for _ in range(2):
        values = graph.invoke(decided(sql, approve()), config, durability="exit")
    assert values["messages"][-1].text == "done: paid 3"
    assert (office.did["pay 3"], office.repeated) == (1, {})


def test_an_agent_of_langchain_may_stand_in_between(sql: Any) -> None:
    """A tool of the outermost agent runs it, and it has the accountant as its tool."""
    office = Office(sql)
    tool = office.accountant.as_tool("ask_accountant", "Have the accountant pay.")
    say = lambda messages: "ok" if messages[-1].type == "tool" else asks(call("ask_accountant", request="pay 5"))  # noqa: E731
    between = create_agent(ScriptedModel(say), [tool])

    def clerk(wish: str) -> str:
        """Ask a clerk."""
        return str(between.invoke({"messages": [("user", wish)]})["messages"][-1].text)

    outer = Agent(ScriptedModel([asks(call("clerk", wish="go")), "done"]), tools=[clerk], checkpointer=sql)
    paused = outer.invoke("go", thread="t")
    assert isinstance(paused, Paused)
    (asked,) = paused.approvals
    assert asked.path == ("ask_accountant", "approval")
    assert isinstance(outer.resume("t", {asked.id: edit({"euro": 50})}), Completed)
    assert (office.did["pay 50"], office.repeated) == (1, {})


def test_whose_the_thread_is_is_known_inside_as_the_saver_knows_it(sql: Any) -> None:
    """Texts, ints and UUIDs name somebody; what else stands there names nobody."""
    seen: list[Any] = []

    @around_turn
    def who(request: Any, state: Any, next: Any) -> Any:
        seen.append(request.context.owner)
        return next(request)

    graph = around(Agent(ScriptedModel(lambda _: "ok"), filters=[who]).as_node(), saver=sql)
    for n, owner in enumerate(("mira", 5, UUID(int=7), True, {"a": 1})):
        config: Any = {"configurable": {"thread_id": f"t{n}"}, "metadata": {"owner": owner}}
        graph.invoke({"messages": [("user", "hi")]}, config)
        assert seen.pop() == sql.sessions.get(f"t{n}").owner == (str(owner) if n < 3 else None)
