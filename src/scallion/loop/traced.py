"""What the trace of a turn has of calls of the model and of tools: names, tokens, how they ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

from scallion.filters.journal import Frame, current_frame
from scallion.filters.onion import PauseSignal
from scallion.filters.usage import cost_of, model_of, price_of, tokens_of
from scallion.loop.invocation import Invocation
from scallion.tracing.difference import model_name
from scallion.tracing.recorder import Recorder, Trail, ending, shown_id
from scallion.values import ToolReply, ToolRequest


def answered(ask: Callable[[], AIMessage], model: Any, here: Invocation) -> AIMessage:
    """What the model answers, recorded where the turn is to have a trace."""
    recorder = here.trace
    if recorder is None:
        return ask()
    at, place = recorder.now(), _place(recorder)
    try:
        message = ask()
    except BaseException as error:
        status, kind = ending(error, paused=pauses(error))
        recorder.add(place, "model", model_name(model), at, status=status, error=kind)
        raise
    recorder.add(place, "model", **_about(message, model, recorder), at=at)
    return message


def _about(message: Any, model: Any, recorder: Recorder) -> dict[str, Any]:
    if not isinstance(message, AIMessage):
        return {"name": model_name(model)}
    name, tokens = model_of(message, model), tokens_of(message)
    price = price_of(name, recorder.prices)
    told = {kind: tokens[kind] for kind in ("input", "output") if tokens[kind]}
    return {"name": name, "tokens": told, "cost": cost_of(tokens, price) if price else None}


def ran(run: Callable[[ToolRequest, Frame], ToolReply], request: ToolRequest, frame: Frame) -> ToolReply:
    """What the tool gives, recorded where the turn is to have a trace."""
    recorder, place = frame.run.trace, frame.trail
    if recorder is None or place is None:
        return run(request, frame)
    at = recorder.now()
    # A name that is not registered is what a model has made up.
    about: dict[str, Any] = {"name": "unknown" if request.tool is None else request.tool.name, "at": at}
    about["call_id"] = shown_id(request.call)
    about["counts"] = recorder.room.take()
    try:
        reply = run(request, frame)
    except BaseException as error:
        status, kind = ending(error, paused=pauses(error))
        recorder.close(place, "tool", **about, status=status, error=kind)
        raise
    failed = reply.error.kind if reply.error is not None else None
    recorder.close(place, "tool", **about, status=reply_status(reply), error=failed)
    return reply


def reply_status(reply: ToolReply) -> str:
    """How a call of a tool ended."""
    return "error" if reply.error is not None or reply.message.status == "error" else "ok"


def _place(recorder: Recorder) -> Trail:
    """The innermost call, or the layer that asks beside the loop."""
    frame = current_frame.get(None)
    return recorder.within if frame is None or frame.trail is None else frame.trail


def pauses(error: BaseException | None) -> bool:
    """Whether this is no error, but a pause on its way."""
    return isinstance(error, PauseSignal | GraphBubbleUp)
