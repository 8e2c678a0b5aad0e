"""What the benchmarks share: a model that never sleeps, one tool, the neighbours' agents, interleaved timing."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from scallion import Agent, Filter

TEXT = "word " * 60
"""About 300 characters, the size of the messages."""


class Model(BaseChatModel):
    """Calls the tool once, then answers."""

    @property
    def _llm_type(self) -> str:
        return "benchmark"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        asked = not isinstance(messages[-1], ToolMessage)
        calls = (
            [{"name": "look", "args": {"order": 1}, "id": f"c{len(messages)}", "type": "tool_call"}] if asked else []
        )
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if asked else TEXT, tool_calls=calls))])


@tool
def look(order: int) -> str:
    """Look an order up."""
    return TEXT


class State(TypedDict):
    """The state of the hand-written graph."""

    messages: Annotated[list[Any], add_messages]


def raw_graph(*, asynchronous: bool, checkpointer: Any = None) -> Any:
    """The hand-written graph that does the same: two nodes, one `Send` per call."""
    model = Model()

    def chat(state: State) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    async def achat(state: State) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def run(call: Any) -> Any:
        return {"messages": [look.invoke({**call, "type": "tool_call"})]}

    async def arun(call: Any) -> Any:
        return {"messages": [await look.ainvoke({**call, "type": "tool_call"})]}

    def route(state: State) -> Any:
        return [Send("tool", call) for call in state["messages"][-1].tool_calls] or END

    graph = StateGraph(State)
    graph.add_node("chat", achat if asynchronous else chat)  # type: ignore[type-var]
    graph.add_node("tool", arun if asynchronous else run)
    graph.add_edge(START, "chat").add_edge("tool", "chat").add_conditional_edges("chat", route, ["tool", END])
    return graph.compile(checkpointer=checkpointer)


def scallion_agent(layers: int, *, asynchronous: bool = False, checkpointer: Any = None) -> Agent:
    """Our agent with that many filters around chat and tool that pass everything on."""
    return Agent(
        Model(), tools=[look], filters=[_layer(n, asynchronous) for n in range(layers)], checkpointer=checkpointer
    )


def _layer(number: int, asynchronous: bool) -> Filter:
    def hook(request: Any, state: Any, next: Any) -> Any:
        return next(request)

    async def ahook(request: Any, state: Any, next: Any) -> Any:
        return await next(request)

    chosen = ahook if asynchronous else hook
    return Filter(f"layer{number}", around_chat=chosen, around_tool=chosen)


def neighbour_agent(layers: int, *, asynchronous: bool = False) -> Any:
    """`create_agent` with that many middlewares that pass everything on."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware

    class Pass(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

    class APass(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    kind = APass if asynchronous else Pass
    middleware = [type(f"{kind.__name__}{n}", (kind,), {})() for n in range(layers)]
    return create_agent(Model(), [look], middleware=middleware)


def question() -> dict[str, Any]:
    """The input of one turn."""
    return {"messages": [HumanMessage("q")]}


def interleaved(cases: dict[str, Callable[[int], None]], *, rounds: int, repeats: int) -> dict[str, float]:
    """Milliseconds of CPU per call of each case: the median of rounds in which all take turns."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for run in cases.values():
        run(2)
    for _ in range(rounds):
        for name, run in cases.items():
            gc.collect()
            gc.disable()
            begun = time.process_time()
            run(repeats)
            taken[name].append((time.process_time() - begun) / repeats * 1e3)
            gc.enable()
    return {name: statistics.median(times) for name, times in taken.items()}


def at_depth(depth: int, function: Callable[[], Any]) -> Any:
    """Call `function` that many frames deeper: CPython's frames can fall across a chunk of its stack."""
    return function() if depth == 0 else at_depth(depth - 1, function)
