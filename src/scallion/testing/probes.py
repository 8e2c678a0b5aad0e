"""Where a test looks into a running agent: the innermost model call, the innermost tool call, a write of the saver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest import mock

from scallion.loop.execute import ToolCallRunner
from scallion.loop.model import ModelCall

MODEL = (ModelCall, "answer")
TOOL = (ToolCallRunner, "_made")
Probe = Callable[..., Any]
"""Is called with the arguments of the method that it stands at."""

_inside: ContextVar[bool] = ContextVar("scallion_probe_inside", default=False)
"""An asynchronous method that calls its synchronous half is one call, not two."""


def does_run(runner: Any, request: Any, *rest: Any) -> bool:
    """Whether the call at `TOOL` executes a tool here: none where there is no such tool, or it runs elsewhere."""
    return request.tool is not None and not (request.tool.metadata or {}).get("external")


@contextmanager
def probed(owner: type, verb: str, *, before: Probe | None = None, after: Probe | None = None) -> Iterator[None]:
    """Within the block `before` and `after` are called around the method, in either colour, in the whole process."""
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(owner, verb, _sync(getattr(owner, verb), before, after)))
        if asynchronous := getattr(owner, f"a{verb}", None):
            patches.enter_context(mock.patch.object(owner, f"a{verb}", _async(asynchronous, before, after)))
        yield


def _sync(method: Callable[..., Any], before: Probe | None, after: Probe | None) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        if _inside.get():
            return method(*args, **options)
        if before is not None:
            before(*args, **options)
        out = method(*args, **options)
        if after is not None:
            after(*args, **options)
        return out

    return call


def _async(method: Callable[..., Any], before: Probe | None, after: Probe | None) -> Callable[..., Any]:
    async def call(*args: Any, **options: Any) -> Any:
        if before is not None:
            before(*args, **options)
        token = _inside.set(True)
        try:
            out = await method(*args, **options)
        finally:
            _inside.reset(token)
        if after is not None:
            after(*args, **options)
        return out

    return call
