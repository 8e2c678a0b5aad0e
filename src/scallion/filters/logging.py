"""`logging`: a line before and a line after each turn, model call and tool call, to a standard logger."""

from __future__ import annotations

import logging as stdlib
import re
import time
from typing import Any

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.journal import current_frame
from scallion.filters.masking import shown, shown_args
from scallion.filters.onion import PauseSignal
from scallion.values import ChatReply, ChatRequest, Completed, ToolReply, ToolRequest, TurnRequest

Logger = stdlib.Logger | stdlib.LoggerAdapter[Any]


def word(given: Any) -> str:
    """A name or an id that others made, as one word: what is none is quoted, so that it can pass for no other line."""
    text = str(given)
    return text if re.fullmatch(r"[\w.:-]{1,100}", text, re.ASCII) else ascii(text[:100])


def called(request: ToolRequest) -> str:
    """What is called, and the call's id. The name of a tool that there is not is text of the model: not told."""
    return f"tool {word(request.tool.name) if request.tool else '(unknown)'} ({word(request.call['id'])})"


def counted(number: int, what: str) -> str:
    """The number and the noun in its right form."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def about_reply(reply: ChatReply) -> str:
    """What a model's answer is like, without its text."""
    meta = reply.message.response_metadata
    reason = meta.get("finish_reason") or meta.get("stop_reason")
    return f"{word(reason) if reason else 'no finish reason'}, {counted(len(reply.message.tool_calls), 'tool call')}"


def about_result(reply: ToolReply) -> str:
    """How a tool call ended, without its result."""
    return f"{reply.message.status} ({reply.error.kind})" if reply.error else reply.message.status


class Logging(Filter):
    """The filter. It changes nothing, and sees what its place in the list lets it see."""

    def __init__(self, logger: Logger, name: str) -> None:
        super().__init__(name)
        self._log = logger

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Completed:
        """A pair around the turn."""
        what = f"turn {request.context.turn or ''}".rstrip()
        self._log.info("%s %s: %s", what, _began(request), counted(len(request.messages), "message"))
        if self._log.isEnabledFor(stdlib.DEBUG):
            self._log.debug("%s was asked: %r", what, [one.content for one in shown(request.messages)])
        result: Completed = self._timed(what, lambda: next(request), _about_turn)
        self._log.debug("%s answered: %r", what, result.message.content)
        return result

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> ChatReply:
        """A pair around the model call."""
        self._log.info("model call began: %s", counted(len(request.messages), "message"))
        reply: ChatReply = self._timed("model call", lambda: next(request), about_reply)
        self._log.debug("model call answered: %r", reply.message.content)
        return reply

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> ToolReply:
        """A pair around the tool call."""
        what = called(request)
        self._log.info("%s began", what)
        if request.tool is None:
            self._log.debug("%s was called by the name %r", what, request.call["name"])
        if self._log.isEnabledFor(stdlib.DEBUG):
            self._log.debug("%s has the arguments %r", what, shown_args(request))
        reply: ToolReply = self._timed(what, lambda: next(request), _about_call)
        self._log.debug("%s gave: %r", what, reply.message.content)
        return reply

    def _timed(self, what: str, call: Any, about: Any) -> Any:
        begun = time.monotonic()
        try:
            reply = call()
        except BaseException as error:  # a pause is one
            ended = "paused" if isinstance(error, PauseSignal) else f"failed with {type(error).__name__}"
            self._log.info("%s %s after %.3f s", what, ended, time.monotonic() - begun)
            raise
        self._log.info("%s ended after %.3f s: %s", what, time.monotonic() - begun, about(reply))
        return reply


def _began(request: TurnRequest) -> str:
    return "began" if request.resume is None else "went on"


def _about_call(reply: ToolReply) -> str:
    frame = current_frame.get()
    ran = frame.reached is not None or frame.record is not None  # after a pause: it may have run before
    return about_result(reply) if ran else "not run, a filter answered"


def _about_turn(result: Completed) -> str:
    return f"{counted(len(result.tool_calls), 'tool call')}, {counted(result.attempts, 'attempt')}"


def logging(logger: Logger | None = None, *, name: str = "logging") -> Filter:
    """Log a pair of lines for each turn, model call and tool call: that it began, and how it ended after how long.

    `logger`: of the standard library; None is the logger "scallion.log". The pairs are of level INFO, and hold names,
    ids, counts and seconds only. Arguments, results and texts are lines of their own, of level DEBUG. The place in the
    list of filters decides what is seen: the first one sees what comes in, the last one what model and tools get.
    Raises ConfigurationError for what is no logger.
    """
    if logger is not None and not isinstance(logger, stdlib.Logger | stdlib.LoggerAdapter):
        raise ConfigurationError(f"filter {name!r}: logger is a logging.Logger, not {type(logger).__name__}")
    return Logging(logger or stdlib.getLogger("scallion.log"), name)
