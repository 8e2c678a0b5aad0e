"""The verbs with which an agent becomes a part of a graph, or a graph itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from langgraph.graph.state import CompiledStateGraph

from scallion.assembly import fits_without_saver
from scallion.nesting.graph import turn_graph
from scallion.nesting.inner import Inner
from scallion.nesting.node import Adds, node
from scallion.nesting.tool import tool

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool

    from scallion.filters.filter import Filter
    from scallion.filters.state import StateRules
    from scallion.stack import Stack
    from scallion.threads import Threads
    from scallion.turn import TurnRunner


class Nesting:
    """Makes nodes, tools and graphs of an agent."""

    name: str
    graph: CompiledStateGraph[Any, Any, Any, Any]
    checkpointer: Any
    filters: tuple[Filter, ...]
    stack: Stack
    _threads: Threads
    _turns: TurnRunner
    _rules: StateRules
    _clean: Callable[..., Any] | None

    def as_node(self, *, adds: Adds = "turn", key: str = "messages") -> Runnable[Any, Any]:
        """A node for `StateGraph.add_node`: a turn of this agent on the conversation in the state of the graph.

        The agent is given what came behind the last message of a model, with all before it as the history. `adds`:
        what the node adds to the channel `key`, the messages of its "turn" or the "answer" alone. What the agent asks
        is an approval of the graph's thread, with the agent's name in its path, and the graph's checkpointer keeps
        all; the agent's own one is not used. Where the turn fails, the node raises what `invoke` raises.
        """
        return node(self._inner, adds, key)

    def as_tool(self, name: str, description: str) -> BaseTool:
        """A tool, for another agent or any graph: each call is a turn of this agent, its answer is the result.

        The model gives `request`, a text; nothing else of the conversation is known, and nothing of earlier calls.
        What the agent asks is an approval of the thread in which the tool is called, with `name` in its path.
        """
        pauses = not fits_without_saver(self.filters, self.stack.tools)
        return tool(self._inner, self.stack, name, description, pauses=pauses)

    def as_graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """A compiled graph that runs whole turns, with the filters around them: for LangGraph's server and its clients.

        `{"messages": [...]}` goes in and comes out. Nothing of an input is stored before the filters around the turn
        have seen it. A thread is gone on with by the same graph that began its turn: by this one, or by the agent.
        """
        return turn_graph(self._inner, self._rules, self.graph, self.checkpointer)

    @property
    def _inner(self) -> Inner:
        return Inner(self.name, self.graph, self._turns, self._threads, self._clean)
