"""Pausing: a hook or a tool asks a person, and has the decision when the turn goes on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from scallion.approvals.decisions import check_fit, read
from scallion.approvals.payload import approval, payload
from scallion.errors import ConfigurationError, InvalidDecision
from scallion.events import FilterActed
from scallion.filters.journal import Frame, current_frame
from scallion.values import ApprovalKind, Decision, DecisionType, ToolRequest


def pause(
    question: str,
    *,
    kind: ApprovalKind = "question",
    allowed: tuple[DecisionType, ...] = ("respond",),
    schema: Mapping[str, Any] | None = None,
    expires_in: float | timedelta | None = None,
) -> Decision:
    """Stop the turn until a person decides, and return the decision.

    May be called in a hook of any chain and in a tool. The code before it runs again on resume, so it must be
    repeatable; what `next` gave is not computed again. `schema` is the JSON schema of a response, `expires_in` seconds.
    In the tool chain the approval shows the call. Raises ConfigurationError outside of a turn.
    """
    frame = current_frame.get(None)
    if frame is None:
        raise ConfigurationError("pause() was called outside of a turn")
    if not frame.run.lasting:
        raise ConfigurationError("pause() needs a checkpointer: build the Agent with checkpointer=...")
    now = _question(frame, question, kind, tuple(allowed), schema, expires_in)
    asked = frame.asked()
    if asked is not None and not _shows_the_same(asked["payload"], now):
        asked = None
    shown = now if asked is None else asked["payload"]
    number = frame.fresh() if asked is None else int(asked["n"])
    problem = None
    if number < len(frame.run.answers):
        try:
            decision = _decision(frame.run.answers[number], shown, now)
        except InvalidDecision as error:
            problem = str(error)
        else:
            return _decided(frame, decision, number, shown)
        shown = {**now, "problem": problem}
    frame.ask({"n": len(frame.run.answers), "payload": shown})
    raise frame.run.pause(shown)


def _decided(frame: Frame, decision: Decision, number: int, shown: Mapping[str, Any]) -> Decision:
    frame.ask({"n": number, "payload": shown})
    if frame.run.emit is not None and frame.layer and number == len(frame.run.answers) - 1:
        frame.run.emit(FilterActed(frame.layer, frame.run.wire.hook, decision.type))
    return decision


def was_asked() -> bool:
    """Whether the question that comes next was asked before the pause: a gate does not judge again what was shown."""
    frame = current_frame.get(None)
    return frame is not None and frame.asked() is not None


def _decision(answer: Any, shown: Mapping[str, Any], now: Mapping[str, Any]) -> Decision:
    """The decision in an answer; raises InvalidDecision where it does not fit what was shown, or is not allowed now."""
    decision = read(answer)
    check_fit(approval("", shown, ""), decision)
    if decision.type not in now["allowed"]:
        raise InvalidDecision(f"{decision.type!r} is not allowed any more")
    return decision


def _shows_the_same(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    return before is not None and all(before[key] == now[key] for key in ("kind", "name", "args"))


def _question(
    frame: Frame,
    question: str,
    kind: ApprovalKind,
    allowed: tuple[DecisionType, ...],
    schema: Mapping[str, Any] | None,
    expires_in: float | timedelta | None,
) -> dict[str, Any]:
    request = frame.request
    call = request.call if isinstance(request, ToolRequest) else None
    seconds = expires_in.total_seconds() if isinstance(expires_in, timedelta) else expires_in
    return payload(
        kind,
        question,
        allowed,
        call=call,
        args_schema=args_schema(request.tool) if call is not None else None,
        schema=schema,
        path=frame.run.path,
        requested_by=frame.run.subject.get("user"),
        owner=frame.run.subject.get("owner"),
        expires_in=seconds,
    )


def args_schema(tool: Any) -> dict[str, Any] | None:
    """The JSON schema of the arguments that the model may give to a tool."""
    if tool is None:
        return None
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return dict(schema)
    made = schema.model_json_schema if hasattr(schema, "model_json_schema") else schema.schema  # pydantic 1's name
    return dict(made())
