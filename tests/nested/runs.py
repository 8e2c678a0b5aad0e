"""One LangGraph graph, four modes: run by invoke, ainvoke, stream or astream, and gone on with in the same mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from modes import Mode

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(mode: Mode) -> Run:
    """`run(graph, input, thread="t")`: the last values, with `__interrupt__` where it pauses."""

    def runs(graph: Any, input: Any, thread: str | None = "t", **options: Any) -> dict[str, Any]:
        config = {"configurable": {"thread_id": thread}, "metadata": {"user": "ana"}} if thread else None
        if mode == "invoke":
            values = graph.invoke(input, config, **options)
        elif mode == "ainvoke":
            values = asyncio.run(graph.ainvoke(input, config, **options))
        else:
            chunks = _chunks(graph, mode, input, config, options)
            values = {name: value for chunk in chunks for name, value in chunk.items()}
        return dict(values)

    return runs


def _chunks(graph: Any, mode: Mode, input: Any, config: Any, options: Any) -> list[Any]:
    if mode == "stream":
        return list(graph.stream(input, config, stream_mode="values", **options))

    async def collected() -> list[Any]:
        return [chunk async for chunk in graph.astream(input, config, stream_mode="values", **options)]

    return asyncio.run(collected())
