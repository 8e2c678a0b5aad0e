"""`retry_tool`: a tool that failed for a while runs again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.given import names
from scallion.filters.retrying.backoff import Attempts, Backoff
from scallion.filters.retrying.failures import ActsOn, On
from scallion.values import ToolFailure, ToolReply, ToolRequest


class RetryTool(Filter):
    """The retry. `filters.once` stands inside of it, and has the last word on whether a tool runs a second time."""

    def __init__(self, tools: frozenset[str] | None, backoff: Backoff, on: ActsOn, name: str) -> None:
        super().__init__(name)
        self._tools = tools
        self._backoff = backoff
        self._acts_on = on

    def check_tools(self, names: frozenset[str]) -> None:
        """Raise ConfigurationError for a tool that is not there."""
        if unknown := sorted((self._tools or frozenset()) - names):
            there = ", ".join(sorted(names)) or "none"
            raise ConfigurationError(f"filter {self.name!r} retries {unknown[0]!r}, but the tools are {there}")

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """Run until it works, or no attempt is left."""
        reply: ToolReply = next(request)
        if not self._may_run_twice(request):
            return reply
        attempts = Attempts(self._backoff)
        while (failure := reply.error) is not None and self._is_tried_again(failure, attempts):
            reply = next(request)
        return reply

    def _may_run_twice(self, request: ToolRequest) -> bool:
        if self._tools is not None:
            return request.call["name"] in self._tools
        return request.tool is not None and not (request.tool.metadata or {}).get("sensitive")

    def _is_tried_again(self, failure: ToolFailure, attempts: Attempts) -> bool:
        acts = self._acts_on(failure, failure.kind, failure.exception)
        return acts and attempts.again(failure.retry_after)


def retry_tool(
    max_retries: int = 3,
    *,
    tools: Iterable[str] | None = None,
    retry_on: On = "transient",
    initial_delay: float = 1.0,
    backoff_factor: float = 2.0,
    max_delay: float = 30.0,
    jitter: float = 0.25,
    max_seconds: float = 300.0,
    name: str = "retry_tool",
) -> Filter:
    """Run a tool again that failed; where no retry is left, or would begin in time, the model reads its last error.

    `tools`: names, or None for all that are not marked `sensitive`. A tool that failed in the middle may have had its
    effect: name only those that may run twice, or guard them by `filters.once`. `retry_on`: kinds of failure
    (`transient`, `environment`, `semantic`), classes of exceptions, or a function of the ToolFailure, `def` or
    `async def`. Delays are as in `retry_model`, in seconds; `max_seconds` counts from the end of the first attempt.
    Raises ConfigurationError for values that cannot be.
    """
    listed = None if tools is None else frozenset(names(tools, f"filter {name!r}: tools"))
    backoff = Backoff(max_retries, initial_delay, backoff_factor, max_delay, jitter, max_seconds)
    backoff.check(name)
    return RetryTool(listed, backoff, ActsOn(retry_on, f"filter {name!r}: retry_on"), name)
