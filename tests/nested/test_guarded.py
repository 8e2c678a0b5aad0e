"""A guard that takes out personal data, around an agent that is a graph, a node or a tool."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from guardrails.canaries import ANSWERED, CALLED, EMAIL, FETCHED, in_error, in_files, in_values
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from scenes import asks, call, heard

from scallion import Agent, Blocked, Paused, SQLCheckpointer, approve, filters
from scallion.testing import ScriptedModel

MODES = ["values", "updates", "messages", "custom", "checkpoints", "tasks", "debug"]
KEY = "a secret of some length"


class Post:
    """A desk whose model and tool say canaries, and what the tool was given."""

    def __init__(self, saver: Any, **pii: Any) -> None:
        self.given: list[str] = []
        story = [asks(call("post", to=CALLED), text=f"I write to {ANSWERED}."), f"Done, {ANSWERED} knows."]
        self.agent = Agent(
            ScriptedModel(lambda messages: story[messages[-1].type == "tool"], chunk_size=3),
            tools=[self.post],
            filters=[filters.pii("email", **pii), filters.approval({"post": True})],
            checkpointer=saver,
            name="desk",
        )

    def post(self, to: str) -> str:
        """Send a letter."""
        self.given.append(to)
        return f"sent; {FETCHED} reads it too"


def test_a_graph_shows_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    """In no file and no stream, sync and async, over a pause; nor of the system prompt and the metadata with it."""
    seen: list[Any] = []
    input = {"messages": [("system", f"Be kind to {EMAIL}"), HumanMessage(f"Write to {EMAIL}", name="ana")]}
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}") as saver:
        post = Post(saver)
        graph = post.agent.as_graph()

        def config(n: int) -> Any:
            return {"configurable": {"thread_id": f"t{n}"}, "metadata": {"note": f"for {EMAIL}"}}

        for n, options in enumerate([{"subgraphs": True}, {"version": "v2"}]):
            seen.extend(graph.stream(input, config(n), stream_mode=MODES, **options))
            seen.extend(graph.stream(Command(resume={"type": "approve"}), config(n), stream_mode=MODES, **options))
            seen.append(graph.get_state(config(n), subgraphs=True))

        async def asynchronous() -> None:
            seen.extend([one async for one in graph.astream_events(input, config(2), version="v2")])
            resume = Command(resume={"type": "approve"})
            seen.extend([one async for one in graph.astream(resume, config(2), stream_mode=MODES, subgraphs=True)])

        asyncio.run(asynchronous())
        assert [one for one in seen if in_values([one])] == []
        assert heard(graph.get_state(config(0)).values["messages"])[-1] == ("ai", "Done, [REDACTED_EMAIL] knows.")
    assert in_files(tmp_path) == []


def test_what_blocks_a_turn_leaves_the_thread_as_it_was(tmp_path: Path) -> None:
    """And the next turn works."""
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}") as saver:
        graph = Agent(
            ScriptedModel(["Hello."]), filters=[filters.pii("email", strategy="block")], checkpointer=saver
        ).as_graph()
        config: Any = {"configurable": {"thread_id": "t"}}
        with pytest.raises(Blocked) as raised:
            graph.invoke({"messages": [("user", EMAIL)]}, config)
        assert in_error(raised.value) == []
        assert heard(graph.invoke({"messages": [("user", "Hi")]}, config)["messages"]) == [
            ("human", "Hi"),
            ("ai", "Hello."),
        ]
    assert in_files(tmp_path) == []


def test_tokens_are_values_in_the_tool_and_nowhere_around(tmp_path: Path) -> None:
    """What the graph or the agent around keeps of the answer has no value in it."""
    options: Any = {"strategy": "tokenise", "key": KEY, "restore": ("tool_args", "answer")}
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}") as saver:
        post = Post("inherit", **options)
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
        builder.add_node("desk", post.agent.as_node(adds="answer"))
        builder.add_edge(START, "desk")
        config: Any = {"configurable": {"thread_id": "n"}}
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [("user", "Write")]}, config)
        (asked,) = saver.approvals.list(thread="n").items
        saver.approvals.decide(asked.id, approve())
        values = graph.invoke(saver.command_for("n"), config)
        assert values["messages"][-1].text.startswith("Done, <email_")

        boss = Agent(
            ScriptedModel([asks(call("desk", request="Write")), "ok"]),
            tools=[post.agent.as_tool("desk", "Have a letter written.")],
            checkpointer=saver,
        )
        assert isinstance(boss.invoke("go", thread="t"), Paused)
        boss.resume("t", approve())
        assert post.given == [CALLED, CALLED]
    assert in_files(tmp_path) == []


def test_a_graph_that_has_stored_it_is_warned_of() -> None:
    """What a node is given is in the state of the graph around it; a graph of turns, and an agent around, are not."""
    desk = Agent(ScriptedModel(lambda messages: "Hello."), filters=[filters.pii("email")], name="desk")
    given: Any = {"messages": [("user", f"I am {EMAIL}")]}
    around: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    around.add_node("desk", desk.as_node())
    around.add_edge(START, "desk")
    with pytest.warns(UserWarning, match="the graph around 'desk' stored what it gave to that agent, and filter 'pii'"):
        around.compile().invoke(given)
    around.compile().invoke({"messages": [("user", "I am Ana")]})
    desk.as_graph().invoke(given)
    story = [asks(call("desk", request=f"I am {EMAIL}")), "Done"]
    Agent(ScriptedModel(story), tools=[desk.as_tool("desk", "Talk.")]).invoke("Go")


def test_an_agent_has_the_values_that_its_own_guards_take_out(tmp_path: Path) -> None:
    """Any other one has tokens, which its thread may keep; also where it fails."""
    given: list[str] = []

    def post(to: str) -> str:
        """Send a letter."""
        given.append(to)
        return f"sent to {to}"

    def clerk(messages: Any) -> Any:
        if messages[-1].type == "tool":
            return messages[-1].text
        asked = messages[-1].text.split()[-1]
        return ValueError(asked) if "fail" in messages[-1].text else asks(call("post", to=asked))

    def boss(messages: Any) -> Any:
        return "ok" if messages[-1].type == "tool" else asks(call("clerk", request=messages[-1].text))

    options: Any = {"strategy": "tokenise", "key": KEY}
    cases: list[tuple[list[Any], bool]] = [
        ([], False),
        ([filters.pii("ip")], False),
        ([filters.pii("email", apply_to=["output"])], False),
        ([filters.pii("email", **options)], True),
    ]
    for n, (guards, has_values) in enumerate(cases):
        with SQLCheckpointer(f"sqlite:///{tmp_path / f'agent{n}.db'}") as saver:
            inner = Agent(ScriptedModel(clerk), tools=[post], filters=guards, name="clerk")
            tools = [inner.as_tool("clerk", "Have a letter written.")]
            outer = Agent(
                ScriptedModel(boss), tools=tools, filters=[filters.pii("email", **options)], checkpointer=saver
            )
            outer.invoke(f"write to {EMAIL}", thread="t")
            assert given.pop().startswith(EMAIL if has_values else "<email_1")
            outer.invoke(f"fail to write to {EMAIL}", thread="t")
    assert in_files(tmp_path) == []
