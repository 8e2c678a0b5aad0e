"""Pausing: a hook or a tool asks a person, and has the decision when the turn goes on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast, get_args

from langchain_core.messages import ToolCall

from scallion.approvals import deciders
from scallion.approvals.changed import asks_again, of_schema
from scallion.approvals.deciders import signed
from scallion.approvals.decisions import check_fit, read
from scallion.approvals.forms import EXPIRED, check_allowed
from scallion.approvals.payload import approval, payload
from scallion.approvals.policy import Policy, check_span
from scallion.errors import ConfigurationError, InvalidDecision
from scallion.filters.filter import NEEDS_SAVER
from scallion.filters.journal import Frame, current_frame
from scallion.filters.retrying.deadline import is_over
from scallion.filters.verdicts import Verdicts
from scallion.values import EMPTY, ApprovalKind, Decision, DecisionType, ToolRequest

KINDS: tuple[ApprovalKind, ...] = get_args(ApprovalKind)
SOME_TEXT = {"type": "string", "minLength": 1}
ANSWER = {
    "type": "object",
    "properties": {"answer": SOME_TEXT},
    "required": ["answer"],
    "additionalProperties": False,
}
"""The JSON schema of an answer that a person edits."""


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
    repeatable; what `next` gave is not computed again. `schema` is the JSON schema of a response. After `expires_in`
    seconds nobody can decide any more, and a resume returns a decision of type "expired".
    In the tool chain the approval shows the call. Raises ConfigurationError outside of a turn, and for what is no kind.
    """
    frame = _here()
    check_span(expires_in, "pause(expires_in=...)")
    if kind not in KINDS:
        raise ConfigurationError(f"pause(kind=...) is one of {', '.join(KINDS)}, not {kind!r}")
    check_allowed(allowed, "pause(allowed=...)")
    return _asked(frame, _question(frame, question, kind, tuple(allowed), schema, expires_in))


def ask(
    question: str,
    *,
    kind: ApprovalKind,
    allowed: tuple[DecisionType, ...],
    about: str,
    expires_in: float | timedelta | None = None,
) -> Decision:
    """As `pause`; `about` tells questions apart that look alike, so that the answer to one is not taken for another."""
    frame = _here()
    return _asked(frame, {**_question(frame, question, kind, allowed, None, expires_in), "about": about})


def ask_about(request: ToolRequest, policy: Policy, layer: str, remark: str = "") -> Decision:
    """Have a person decide `request`, for the gate named `layer`; `remark` says why it is asked about once more."""
    frame = _here()
    text = " ".join(filter(None, (remark, policy.description(request.call))))
    allowed = tuple(policy.allowed)
    now = _question(frame, text, "tool_call", allowed, None, policy.expires_in, request, layer, policy.terms)
    return _asked(frame, now)


def ask_release(answer: str, policy: Policy) -> Decision:
    """Have a person release the answer of the turn, or decide otherwise, for the filter whose hook runs."""
    frame = _here()
    args = {"answer": answer}
    text = "The agent wants to give this answer."
    if policy.describe is not None:
        text = policy.description({"name": "answer", "args": {**args}, "id": None})
    question = _question(frame, text, "answer", tuple(policy.allowed), SOME_TEXT, policy.expires_in, terms=policy.terms)
    return _asked(frame, {**question, "args": args, "args_schema": ANSWER})


def asked_before(request: ToolRequest) -> Decision | None:
    """The decision about what was asked next before the pause, where that was a gate's question about this call."""
    frame = _here()
    entry = frame.asked()
    if entry is None or not is_of_gate(entry["payload"]):
        return None
    now = _as_shown(frame, request, entry["payload"])
    if not _shows_the_same(entry["payload"], now):
        return None
    return _settled(frame, entry["payload"], int(entry["n"]), now)


def take_standing(request: ToolRequest) -> Decision | None:
    """The answer that was given last, where the question was about this call and no hook asks it any more."""
    frame = _here()
    shown = frame.run.verdicts.standing
    if shown is None:
        return None
    now = _as_shown(frame, request, shown)
    if _shows_the_same(shown, now):
        return _settled(frame, shown, len(frame.run.answers) - 1, now)
    frame.run.verdicts.standing = None
    return _settled(frame, None, len(frame.run.answers), now)


def _as_shown(frame: Frame, request: ToolRequest, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The question about the call as it is now, in the words of the one that was shown."""
    allowed, layer = tuple(shown["allowed"]), shown.get("layer") or ""
    terms = {name: shown[name] for name in ("who", "on_expire") if name in shown}
    span = shown.get("expires_in")
    return _question(frame, shown["description"], "tool_call", allowed, None, span, request, layer, terms)


def _here() -> Frame:
    frame = current_frame.get(None)
    if frame is None:
        raise ConfigurationError("pause() was called outside of a turn")
    if is_over():
        raise ConfigurationError("pause() was called by a tool that had timed out: nobody waits for it")
    if not frame.run.lasting:
        raise ConfigurationError(f"pause() needs a checkpointer: {NEEDS_SAVER}")
    return frame


def _asked(frame: Frame, now: Mapping[str, Any]) -> Decision:
    asked = frame.asked(now.get("about"))
    if asked is not None and not _shows_the_same(asked["payload"], now):
        asked = None
    shown, number = (None, frame.fresh()) if asked is None else (asked["payload"], int(asked["n"]))
    return _settled(frame, shown, number, now)


def _settled(frame: Frame, shown: Mapping[str, Any] | None, number: int, now: Mapping[str, Any]) -> Decision:
    """The decision about what was shown, or is shown now; raises the signal where there is none that fits."""
    answers = frame.run.answers
    difference = asks_again(answers)
    if difference is not None and (shown is None or number == len(answers) - 1):
        shown = {**now, "description": f"Asked again: {difference}. {now['description']}", "problem": difference}
        number = len(answers)
    shown = shown or now
    if number < len(answers):
        try:
            decision = _decision(answers[number], shown, now)
        except InvalidDecision as error:
            shown = {**now, "problem": str(error)}
        else:
            return _decided(frame, decision, number, shown)
    frame.ask({"n": len(answers), "payload": shown})
    raise frame.run.pause(shown)


def _decided(frame: Frame, decision: Decision, number: int, shown: Mapping[str, Any]) -> Decision:
    frame.ask({"n": number, "payload": shown})
    layer = shown.get("layer") or frame.layer
    if layer and shown["kind"] == "tool_call" and isinstance(frame.request, ToolRequest):
        frame.run.verdicts.note(number, shown, layer, decision)
    if layer and number == len(frame.run.answers) - 1:
        frame.run.acted(layer, decision.type)
    return decision


def verdicts_here() -> Verdicts:
    """What was decided about the call of the running tool chain."""
    frame = current_frame.get(None)
    return Verdicts() if frame is None else frame.run.verdicts


def was_asked(about: str | None = None) -> bool:
    """Whether the question that comes next was asked before the pause, or the one `about` this.

    A gate does not judge again what was shown.
    """
    frame = current_frame.get(None)
    return frame is not None and frame.asked(about) is not None


def is_of_gate(shown: Mapping[str, Any] | None) -> bool:
    """Whether a filter asked whether a call may run; a tool may ask about itself, and knows what to do then."""
    return shown is not None and shown["kind"] == "tool_call" and bool(shown.get("layer"))


def _decision(answer: Any, shown: Mapping[str, Any], now: Mapping[str, Any]) -> Decision:
    """The decision in an answer; raises InvalidDecision where it does not fit what was shown, or is not allowed now."""
    asked = approval("", shown, "")
    if isinstance(answer, Mapping) and answer.get("type") == EXPIRED:
        if shown.get("expires_in") is None:
            raise InvalidDecision("this does not expire")
        return Decision(EXPIRED)
    answer, names = signed(answer)
    decision = read(answer)
    check_fit(asked, decision)
    deciders.check_all(asked, decision, names)
    if (difference := of_schema(shown["args_schema"], now["args_schema"])) is not None:
        raise InvalidDecision(f"{shown['name']} has changed: {difference}")
    if decision.type not in now["allowed"]:
        raise InvalidDecision(f"{decision.type!r} is not allowed any more")
    if deciders.is_stricter(now.get("who") or {}, shown.get("who") or {}):
        deciders.check_all(approval("", now, ""), decision, names)
    return decision


def _shows_the_same(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    return before is not None and all(before.get(key) == now.get(key) for key in ("kind", "name", "args", "about"))


def _question(
    frame: Frame,
    question: str,
    kind: ApprovalKind,
    allowed: tuple[DecisionType, ...],
    schema: Mapping[str, Any] | None,
    expires_in: float | timedelta | None,
    about: ToolRequest | None = None,
    layer: str | None = None,
    terms: Mapping[str, Any] = EMPTY,
) -> dict[str, Any]:
    request = about or frame.request
    call = request.call if isinstance(request, ToolRequest) else None
    masks = frame.run.masks
    if call is not None and masks:  # a tool that asks has the values themselves
        call = cast("ToolCall", {**call, "args": masks.value(call["args"], "tool_args")})
    seconds = expires_in.total_seconds() if isinstance(expires_in, timedelta) else expires_in
    return payload(
        kind,
        masks.value(question),
        allowed,
        call=call,
        args_schema=args_schema(request.tool) if call is not None else None,
        schema=schema,
        path=frame.run.path,
        layer=frame.layer if layer is None else layer,
        bound={"hook": frame.run.wire.hook, "ran": bool(frame.run.verdicts.runs), **frame.run.bound},
        requested_by=frame.run.subject.get("user"),
        owner=frame.run.subject.get("owner"),
        expires_in=seconds,
        **terms,
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
