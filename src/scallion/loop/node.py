"""A node of the graph: one synchronous body for both colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from scallion.bridge import spawn

Body = Callable[[Any, RunnableConfig], Any]


class Node(Runnable[Any, Any]):
    """Runs `body(input, config)` as it is, or in a greenlet under asyncio. LangGraph sets the context around it."""

    def __init__(self, name: str, body: Body) -> None:
        self.name = name
        self._body = body

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the body."""
        return self._body(input, config or {})

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the body so that it can wait on the running loop."""
        return await spawn(self._body, input, config or {})
