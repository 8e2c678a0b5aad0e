"""The last word before a tool runs: whatever the filters made of a call, what was decided about it holds.

A refused or answered call never runs. An approved one runs with the arguments that were shown, and once; a run that
failed may be tried again. What a gate let through is judged again where it is not what would run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from scallion.approvals.decisions import stored
from scallion.approvals.forms import EXPIRED
from scallion.errors import ConfigurationError
from scallion.filters.journal import Frame
from scallion.filters.pausing import ask_about, asked_before, take_standing
from scallion.filters.standing import ruled
from scallion.values import Decision, ToolReply, ToolRequest

CLEARANCE = "clearance"
"""What its frame is called in a journal."""
RAN = "This call ran already."
CHANGED = "A filter changed this call after it was let through."
DENIED = "A standing rule denied this call; it did not run."


def cleared(request: ToolRequest, frame: Frame) -> ToolRequest | ToolReply:
    """The call that may run, or the reply in place of a run; pauses where a person has to be asked first.

    Raises ConfigurationError for a request whose tool is not the one that its call names.
    """
    if request.tool is not None and request.tool.name != request.call["name"]:
        told = f"a filter lets tool {request.tool.name!r} run a call of {request.call['name']!r}"
        raise ConfigurationError(f"{told}: replace both, `call` and `tool`, so that the gates see what would run")
    verdicts = frame.run.verdicts
    if verdicts.is_empty:
        return request
    while (decision := asked_before(request) or take_standing(request)) is not None:
        request = decided(decision, request)
    while verdicts.refusal() is None and (lacking := verdicts.lacking(request)) is not None:
        if ruled(request, lacking.policy, lacking.layer) is not None:
            continue
        remark = RAN if verdicts.was_spent else CHANGED
        request = decided(ask_about(request, lacking.policy, lacking.layer, remark), request)
    record = verdicts.refusal()
    return request if record is None else refused(record, request, ran=bool(verdicts.runs))


def decided(decision: Decision, request: ToolRequest) -> ToolRequest:
    """The call as it was decided."""
    if decision.type != "edit":
        return request
    return request.replace(call={**request.call, "args": dict(decision.args or {})})


def refused(record: Mapping[str, Any], request: ToolRequest, *, ran: bool) -> ToolReply:
    """What the model reads where a person, or a standing rule, refused the call."""
    if "rule" not in record:
        return refusal(stored(record["decision"]), request, ran=ran)
    call = request.call
    return ToolReply(ToolMessage(DENIED, tool_call_id=call["id"], name=call["name"], status="error"))


def refusal(decision: Decision, request: ToolRequest, *, ran: bool = False) -> ToolReply:
    """What the model reads in place of a result; `ran`: the call ran before it was refused."""
    if decision.type == "respond":
        return answer(decision, request)
    text = _expired(ran) if decision.type == EXPIRED else _rejected(decision, ran)
    message = ToolMessage(text, tool_call_id=request.call["id"], name=request.call["name"], status="error")
    return ToolReply(message)


def answer(decision: Decision, request: ToolRequest) -> ToolReply:
    """What a person gave as the result: a text, or JSON data."""
    given = decision.message
    content = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return ToolReply(ToolMessage(content, tool_call_id=request.call["id"], name=request.call["name"]))


def _rejected(decision: Decision, ran: bool) -> str:
    reason = f": {decision.message}" if decision.message else "."
    what = "did not let this call run again; it ran before" if ran else "rejected this call; it did not run"
    return f"A person {what}{reason}"


def _expired(ran: bool) -> str:
    what = "The call did not run again; it ran before." if ran else "The call did not run."
    return f"The request to approve this call expired: nobody answered in time, and nobody refused it. {what}"


def with_notice(reply: ToolReply, args: Any, *, ran: bool) -> ToolReply:
    """The result with the news that a person changed the call, and to what."""
    what = "before it ran. It ran with these arguments" if ran else "to these arguments"
    notice = f"A person changed this call {what}: {json.dumps(args, default=str)}"
    content = reply.message.content
    told: Any = f"{notice}\n\n{content}" if isinstance(content, str) else [{"type": "text", "text": notice}, *content]
    return reply.replace(message=reply.message.model_copy(update={"content": told}))
