"""`timeout`: a tool call that takes too long is stopped, or left behind and said to be."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from langchain_core.messages import ToolMessage

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.given import is_number
from scallion.filters.retrying.deadline import Watch, watching
from scallion.values import ToolFailure, ToolReply, ToolRequest

GRACE = 1.0
"""How many seconds a tool that was cancelled has to clean up, before it is left behind."""
log = logging.getLogger("scallion.filters")


def timed_out(request: ToolRequest, seconds: float, *, abandoned: bool) -> ToolReply:
    """What the model reads in place of a result. That nobody knows what came of the call is part of it."""
    name = request.call["name"]
    became = "could not be stopped and may go on" if abandoned else "was stopped"
    told = f"{name} took longer than {seconds:g} s and {became}; whether it took effect is not known"
    artifact = {"timeout": seconds, "abandoned": abandoned}
    message = ToolMessage(
        f"error: {told}", tool_call_id=request.call["id"], name=name, status="error", artifact=artifact
    )
    return ToolReply(message, error=ToolFailure("transient", TimeoutError(told)))


class Timeout(Filter):
    """The deadline. Its hook is asynchronous in every mode: only what is awaited can be stopped."""

    def __init__(self, seconds: float, name: str) -> None:
        super().__init__(name)
        self._seconds = seconds

    async def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """Wait for the call as long as it may take; what it gives after that is not used."""
        watch = Watch()
        call = asyncio.ensure_future(_watched(watch, next, request))
        call.add_done_callback(_unheard)
        try:
            await asyncio.wait({call}, timeout=self._seconds)
            in_time = call.done()
        finally:  # the turn may be cancelled, too
            await _stopped(call, watch)
        if in_time:
            return call.result()
        abandoned = bool(watch.threads) or not call.done()
        if abandoned:
            log.warning("tool %r is abandoned after %g s: it cannot be stopped", request.call["name"], self._seconds)
        return timed_out(request, self._seconds, abandoned=abandoned)


async def _watched(watch: Watch, next: Any, request: ToolRequest) -> ToolReply:
    with watching(watch):
        reply: ToolReply = await next(request)
        return reply


async def _stopped(call: asyncio.Future[Any], watch: Watch) -> None:
    """Cancel the call where it still runs, and wait a little for its end."""
    if call.done():
        return
    watch.is_over = True
    call.cancel()
    await asyncio.wait({call}, timeout=GRACE)


def _unheard(call: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody waits for, as asyncio would log it with the text of the tool's exception."""
    if not call.cancelled():
        call.exception()


def timeout(seconds: float, *, name: str = "timeout") -> Filter:
    """Let a tool call, with the filters inside, take at most `seconds`; the model then reads that it timed out.

    The failure is of kind "transient", so that a retry may try again; what fails in time keeps its own kind. An
    asynchronous tool is cancelled, and has a second to clean up. A synchronous one runs in a thread that nobody can
    stop: it is left behind, `ToolMessage.artifact["abandoned"]` and a warning in the log "scallion.filters" say so, and
    its result and writes are never used; but what it does to the world it may still do. A tool that has both forms is
    run in the asynchronous one, in every mode.

    The time that a person takes to decide does not count, wherever `approval` stands: a pause ends the attempt, and a
    resume has all the seconds again. `once` always stands inside: after a timeout it does not know what came of the
    call, and asks a person, where something calls it again. Raises ConfigurationError for seconds that are not above 0.
    """
    if not is_number(seconds) or not 0 < seconds <= sys.float_info.max:
        raise ConfigurationError(f"filter {name!r}: seconds is a number above 0, not {seconds!r}")
    return Timeout(seconds, name)
