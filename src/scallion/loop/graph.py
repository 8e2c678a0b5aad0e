"""The loop: nodes and edges, nothing else.

START -> chat -> one `tool` task per call -> chat -> ... -> END
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from scallion.filters.filter import Filter
from scallion.filters.state import StateRules
from scallion.loop.chat import ChatNode
from scallion.loop.node import Node
from scallion.loop.routes import Routes
from scallion.loop.state import Limits, state_schema
from scallion.loop.tool import ToolNode

UNBOUNDED = 1_000_000
"""LangGraph's own step limit is out of the way: `Limits` bounds the loop, and ends it in a valid state."""


def build_loop(
    *,
    model: Any,
    tools: Sequence[Any],
    filters: Sequence[Filter],
    rules: StateRules,
    limits: Limits,
    system_prompt: Any = None,
    tool_concurrency: int | None = None,
    checkpointer: Any = None,
    store: Any = None,
    context_schema: type | None = None,
    name: str = "agent",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled loop graph."""
    chat = ChatNode(model, tools, filters, rules, limits, system_prompt)
    tool = ToolNode(tools, filters, rules, limits)
    routes = Routes(frozenset(t.name for t in tools if isinstance(t, BaseTool) and (t.metadata or {}).get("serial")))
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state_schema(rules), context_schema=context_schema)
    graph.add_node("chat", Node("chat", chat))
    graph.add_node("tool", Node("tool", tool))
    graph.add_edge(START, "chat")
    graph.add_conditional_edges("chat", routes.after_chat, ["tool", "chat", END])
    graph.add_edge("tool", "chat")
    compiled = graph.compile(checkpointer=checkpointer, store=store, name=name)
    config: RunnableConfig = {"recursion_limit": UNBOUNDED}
    if tool_concurrency is not None:
        config["max_concurrency"] = tool_concurrency
    return compiled.with_config(config)
