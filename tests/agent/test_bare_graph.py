"""`agent.graph` is a normal compiled graph: drawn, run, paused, resumed, loaded and nested by LangGraph's own means."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from tests.loop.scripts import Log, asks, assert_valid, call, told

from scallion import Agent, Completed, around_chat, around_turn, filters, pause
from scallion.testing import ScriptedModel

ROOT = Path(__file__).parents[2]
GO = {"messages": [HumanMessage("go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def desk(checkpointer: Any = None, *, gate: bool = True, script: Any = None) -> tuple[Agent, Log]:
    """An agent whose one tool is gated, unless the gate is left out."""
    log = Log()
    return Agent(
        ScriptedModel(script or [asks(call("send", text="a")), "ok", "ok"]),
        tools=[log.tool("send")],
        filters=[filters.approval({"send": True})] if gate else [],
        checkpointer=checkpointer,
    ), log


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    """`run(graph, input)` in each colour."""

    def invoke(graph: Any, given: Any, config: Any = CONFIG) -> Any:
        if request.param == "sync":
            return graph.invoke(given, config)
        return asyncio.run(graph.ainvoke(given, config))

    return invoke


def test_it_runs_a_turn(run: Any) -> None:
    agent, log = desk(gate=False)
    state = run(agent.graph, GO)
    assert told(state["messages"]) == ["user: go", "model: send", "tool: send did a", "model: ok"]
    assert log == ["send a"]


def test_it_pauses_and_resumes_by_a_command(run: Any, any_saver: Any) -> None:
    agent, log = desk(any_saver)
    [interrupt] = run(agent.graph, GO)["__interrupt__"]
    assert interrupt.value["name"] == "send"
    assert log == []
    state = run(agent.graph, Command(resume={"type": "approve"}))
    assert log == ["send a"]
    assert_valid(state["messages"])


def test_it_resumes_by_the_id_of_the_interrupt(run: Any) -> None:
    agent, log = desk(InMemorySaver())
    [interrupt] = run(agent.graph, GO)["__interrupt__"]
    run(agent.graph, Command(resume={interrupt.id: {"type": "edit", "args": {"text": "b"}}}))
    assert log == ["send b"]


@pytest.mark.parametrize(
    "wrong",
    ["yes please", 42, {}, {"type": "nonsense"}, {"type": "edit"}, {"type": "edit", "args": {"text": 1}}, ["approve"]],
    ids=str,
)
def test_an_invalid_answer_is_asked_again_and_bricks_nothing(run: Any, any_saver: Any, wrong: Any) -> None:
    agent, log = desk(any_saver)
    run(agent.graph, GO)
    again = run(agent.graph, Command(resume=wrong))
    assert [one.value["name"] for one in again["__interrupt__"]] == ["send"]
    assert log == []
    state = run(agent.graph, Command(resume={"type": "approve"}))
    assert log == ["send a"]
    assert_valid(state["messages"])


def test_invalid_answers_again_and_again_brick_nothing(run: Any) -> None:
    agent, log = desk(InMemorySaver())
    run(agent.graph, GO)
    for wrong in ("no", "nein", "non"):
        assert run(agent.graph, Command(resume=wrong))["__interrupt__"]
    run(agent.graph, Command(resume={"type": "approve"}))
    assert log == ["send a"]


def test_a_pause_of_the_bare_graph_is_resumed_by_the_agent_and_the_other_way_round(any_saver: Any) -> None:
    agent, log = desk(any_saver)
    agent.graph.invoke(GO, CONFIG)
    agent.resume("t", {"type": "approve"})
    assert log == ["send a"]
    agent, log = desk(any_saver, script=[asks(call("send", text="b")), "ok"])
    agent.invoke("more", thread="t")
    agent.graph.invoke(Command(resume={"type": "approve"}), CONFIG)
    assert log == ["send b"]


def test_a_pause_of_the_bare_graph_is_in_the_inbox(sql: Any) -> None:
    agent, log = desk(sql)
    agent.graph.invoke(GO, CONFIG)
    [pending] = sql.approvals.list(thread="t").items
    assert (pending.tool, pending.args) == ("send", {"text": "a"})
    sql.approvals.decide(pending.id, {"type": "approve"}, by="ana")
    agent.resume("t")
    assert log == ["send a"]


def test_several_turns_share_a_thread(run: Any, any_saver: Any) -> None:
    agent, _ = desk(any_saver, gate=False)
    run(agent.graph, GO)
    state = run(agent.graph, {"messages": [HumanMessage("more")]})
    assert told(state["messages"])[-2:] == ["user: more", "model: ok"]
    assert_valid(state["messages"])


def test_filter_state_starts_anew_with_each_turn_of_the_bare_graph(run: Any) -> None:
    seen = []

    @around_chat(init={"n": 0})
    def count(request: Any, state: Any, next: Any) -> Any:
        seen.append(state["n"])
        return next(request), {"n": state["n"] + 1}

    model = ScriptedModel([asks(call("send")), "ok", "ok"])
    agent = Agent(model, tools=[Log().tool("send")], filters=[count], checkpointer=InMemorySaver())
    run(agent.graph, GO)
    run(agent.graph, {"messages": [HumanMessage("more")]})
    assert seen == [0, 1, 0]


def test_turn_filters_do_not_take_part(run: Any) -> None:
    @around_turn
    def never(request: Any, state: Any, next: Any) -> Any:
        raise AssertionError("the turn chain ran")

    graph = Agent(ScriptedModel(["ok"]), filters=[never]).graph
    assert run(graph, GO)["messages"][-1].text == "ok"


def test_no_messages_is_a_clear_error(run: Any) -> None:
    graph = Agent(ScriptedModel(["ok"])).graph
    with pytest.raises(Exception, match="messages"):
        run(graph, {"messages": []})


def test_it_is_a_compiled_graph_that_draws_itself() -> None:
    graph = desk(InMemorySaver())[0].graph
    assert isinstance(graph, CompiledStateGraph)
    drawn = graph.get_graph().draw_mermaid()
    assert "chat" in drawn
    assert "tool" in drawn
    assert {"__start__", "chat", "tool", "__end__"} <= set(graph.get_graph().nodes)


def test_its_schemas_can_be_asked_for_as_langgraphs_server_does() -> None:
    graph = desk(InMemorySaver())[0].graph
    for schema in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
        assert "messages" in json.dumps(schema)


def test_langgraph_json_points_to_graphs_that_load_by_path(tmp_path: Path) -> None:
    config = json.loads((ROOT / "langgraph.json").read_text())
    assert config["graphs"]
    for place in config["graphs"].values():
        path, name = place.split(":")
        code = (
            "import importlib.util, sys\n"
            f"spec = importlib.util.spec_from_file_location('loaded', {str(ROOT / path)!r})\n"
            "module = importlib.util.module_from_spec(spec)\n"
            "sys.modules['loaded'] = module\n"
            "spec.loader.exec_module(module)\n"
            "from langgraph.pregel import Pregel\n"
            f"assert isinstance(module.{name}, Pregel) or isinstance(module.{name}.bound, Pregel)\n"
        )
        environment = {"PATH": "", "SCALLION_DB": f"sqlite:///{tmp_path / 'a.db'}", "HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(importlib.util.find_spec("langgraph_cli") is None, reason="langgraph-cli is not installed")
def test_langgraph_json_is_valid_for_langgraphs_own_tool() -> None:
    from langgraph_cli.config import validate_config_file

    assert validate_config_file(ROOT / "langgraph.json")["graphs"]


class Outer(TypedDict):
    """The state of a graph around ours."""

    messages: Annotated[list[AnyMessage], add_messages]
    after: str


def nested(inner: Any, checkpointer: Any) -> Any:
    """A graph in which ours is a node."""
    outer = StateGraph(Outer)
    outer.add_node("agent", inner)
    outer.add_node("after", lambda state: {"after": state["messages"][-1].text})
    outer.add_edge(START, "agent")
    outer.add_edge("agent", "after")
    outer.add_edge("after", END)
    return outer.compile(checkpointer=checkpointer)


def test_it_is_a_node_of_another_graph(run: Any) -> None:
    agent, log = desk(gate=False)
    state = run(nested(agent.graph, None), GO)
    assert (state["after"], log) == ("ok", ["send a"])


def test_a_pause_inside_another_graph_surfaces_and_resumes(run: Any, any_saver: Any) -> None:
    log = Log()
    inner = Agent(
        ScriptedModel([asks(call("send", text="a")), "ok"]),
        tools=[log.tool("send")],
        filters=[filters.approval({"send": True})],
        checkpointer=InMemorySaver(),
    )
    graph = nested(inner.graph, any_saver)
    state = run(graph, GO)
    [interrupt] = state["__interrupt__"]
    assert interrupt.value["name"] == "send"
    state = run(graph, Command(resume={"type": "approve"}))
    assert (state["after"], log) == ("ok", ["send a"])
    assert_valid(state["messages"])


def test_durability_and_stream_modes_of_langgraph_are_taken(any_saver: Any) -> None:
    agent, _ = desk(any_saver, gate=False)
    modes = [mode for mode, _ in agent.graph.stream(GO, CONFIG, stream_mode=["updates", "values"], durability="exit")]
    assert set(modes) == {"updates", "values"}


def test_a_decided_parallel_call_runs_alone_and_the_other_stays_open(run: Any) -> None:
    script = [asks(call("send", "c1", text="a"), call("send", "c2", text="b")), "ok"]
    agent, log = desk(InMemorySaver(), script=script)
    first, second = sorted(run(agent.graph, GO)["__interrupt__"], key=lambda one: one.value["args"]["text"])
    state = run(agent.graph, Command(resume={second.id: {"type": "approve"}}))
    assert [one.id for one in state["__interrupt__"]] == [first.id]
    assert log == ["send b"]
    run(agent.graph, Command(resume={first.id: {"type": "reject"}}))
    assert log == ["send b"]


def test_a_pause_around_the_turn_that_the_bare_graph_answers_is_answered_for_the_agent() -> None:
    """Who goes on with the turn is not asked again: the graph has kept the answer."""

    @around_turn
    def release(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        decision = pause("Release it?", kind="answer", allowed=("approve", "reject"))
        return result if decision.type == "approve" else result.replace(message=AIMessage("No comment."))

    model = ScriptedModel(["ok"])
    agent = Agent(model, filters=[release], checkpointer=InMemorySaver())
    agent.invoke("go", thread="t")
    agent.graph.invoke(Command(resume={"type": "reject"}), CONFIG)
    result = agent.recover("t")
    assert isinstance(result, Completed)
    assert (result.answer, len(model.calls)) == ("No comment.", 1)
