"""`moderation`: a check judges what people, models and tools say; what it flags is kept nowhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from scallion.errors import Blocked, ConfigurationError, FilterError
from scallion.filters.before_after import end
from scallion.filters.conversation import without, without_results
from scallion.filters.filter import Filter, check_takes
from scallion.filters.guarding import Place, tell
from scallion.filters.journal import current_frame
from scallion.filters.moderating import Categories, Check, Judge, Thresholds, log
from scallion.filters.replies import final, reason
from scallion.filters.safeguard import REFUSAL, unchecked
from scallion.filters.texts import texts, without_texts
from scallion.values import ChatReply, ChatRequest, Completed, ToolFailure, ToolReply, ToolRequest, TurnRequest

On = Literal["input", "output", "tool_results"]
Exit = Literal["end", "error", "replace"]
Flagged = Mapping[str, Categories]
"""Texts of one message, each with what it is flagged for."""
Found = Mapping[int, Flagged]
"""The messages that are flagged, by their places."""
REMOVED = "[removed by moderation]"
UNCHECKED = "This call ran; its result is withheld, as it could not be checked."
STOPPED = "stopped"
"""Where a tool hook keeps what it found, for the next model call: a tool that ran must not look as if it had failed."""


class Moderation(Filter):
    """The guard around all three chains: next to the model and the tools, and in front of the turn.

    So nothing that it does not let pass comes to a filter that might keep it.
    """

    outermost = ("turn",)
    innermost = ("chat", "tool")
    withholds = True
    screens_input = True

    def __init__(self, judge: Judge, on: Sequence[On], exit: Exit, refusal: str, replacement: str, name: str) -> None:
        super().__init__(name)
        self._judge = judge
        self._on = on
        self._exit = exit
        self._refusal = refusal
        self._replacement = replacement
        self.holds_stream = self.conceals_stream = "output" in on

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Completed:
        """Judge what came in, once, before it is stored anywhere."""
        run = current_frame.get().run
        state.update(entered=True)
        is_judged = not request.load_history or (request.resume is not None and self.name in run.rewritten)
        found = {} if is_judged or "input" not in self._on else self._found(request.messages, "input")
        if not found:
            if not is_judged:
                run.rewrite(self.name, request.messages)
            passed: Completed = next(request)
            return passed
        if self._exit == "error":
            raise Blocked(self.name, _counts(found))
        messages = self._without(request.messages, found)
        run.rewrite(self.name, messages)
        given = request.replace(messages=messages)
        if self._exit == "replace":
            replaced: Completed = next(given)
            return replaced
        answer = self._refused("input", _counts(found))
        return end(Completed(answer, [*messages, answer]), given, next)

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> Any:
        """Judge the answer before anybody sees it, and what no turn hook has seen before it is sent."""
        if (stopped := state.get(STOPPED)) is not None:
            return self._stop(stopped), {STOPPED: None}
        new = unchecked(request, state) if "input" in self._on and not current_frame.get().went_on else ()
        if found := self._found(new, "input"):
            return self._stop({"place": "input", "found": _counts(found)})
        reply: ChatReply = next(request)
        found = self._found([reply.message], "output") if "output" in self._on else {}
        if found and self._exit != "replace":
            stopped = self._stop({"place": "output", "found": _counts(found)})
            spent = stopped.message.model_copy(update={"usage_metadata": reply.message.usage_metadata})
            return stopped.replace(message=spent), {"passed": True}
        return reply.replace(message=self._spoken(reply.message, found[0])) if found else reply, {"passed": True}

    def around_tool(self, request: ToolRequest, state: Any, next: Any) -> Any:
        """Judge a result before the model reads it, or a caller for whom it is the answer already."""
        reply: ToolReply = next(request)
        is_answer = "output" in self._on and getattr(request.tool, "return_direct", False)
        if "tool_results" not in self._on and not is_answer:
            return reply
        try:
            found = self._found([reply.message], "tool_results")
        except Exception as error:
            log.warning("filter %r withheld a result: its check failed: %s", self.name, reason(error))
            return _withheld(reply, UNCHECKED), {STOPPED: {"failed": reason(error)}}
        if not found:
            return reply
        stopped = {} if self._exit == "replace" else {STOPPED: {"place": "tool_results", "found": _counts(found)}}
        return _withheld(reply, self._replacement, ends=bool(stopped)), stopped

    def _found(self, messages: Sequence[BaseMessage], where: Place) -> Found:
        """What is flagged; all is asked at once."""
        by_place = {place: [one for one in texts(message) if one.strip()] for place, message in enumerate(messages)}
        asked = list(dict.fromkeys(one for found in by_place.values() for one in found))
        said = {one: names for one, names in zip(asked, self._judge(asked), strict=True) if names}
        by_text = {place: {one: said[one] for one in found if one in said} for place, found in by_place.items()}
        flagged = {place: found for place, found in by_text.items() if found}
        done = ["replace" if self._exit == "replace" else "block"]
        tell(self.name, where, done, _counts(flagged), made_up=self._judge.is_model)
        return flagged

    def _without(self, messages: Sequence[BaseMessage], found: Found) -> list[BaseMessage]:
        if self._exit == "end":
            return without(messages, set(found))
        made = [self._replaced(one, found[place]) if place in found else one for place, one in enumerate(messages)]
        return without_results(messages, made)

    def _replaced(self, message: BaseMessage, flagged: Flagged) -> BaseMessage:
        if isinstance(message, AIMessage):
            return self._spoken(message, flagged)
        return without_texts(message, self._replacement)

    def _spoken(self, message: AIMessage, flagged: Flagged) -> AIMessage:
        """A model's message with another text, and without the calls that hold what is flagged."""
        calls = [one for one in message.tool_calls if flagged.keys().isdisjoint(texts(AIMessage("", tool_calls=[one])))]
        changes: dict[str, Any] = {"tool_calls": calls, "invalid_tool_calls": [], "additional_kwargs": {}}
        meta = {name: value for name, value in message.response_metadata.items() if name != "logprobs"}
        return without_texts(message, self._replacement).model_copy(update={**changes, "response_metadata": meta})

    def _refused(self, place: str, found: Mapping[str, int]) -> AIMessage:
        text = self._refusal.replace("{categories}", ", ".join(sorted(found)))
        told = {"guard": self.name, "place": place, "found": dict(found)}
        return final(AIMessage(text, response_metadata={"finish_reason": "content_filtered", "moderation": told}))

    def _stop(self, stopped: Mapping[str, Any]) -> ChatReply:
        """The answer that ends the turn; raises Blocked, or FilterError for a result that could not be judged."""
        if "failed" in stopped:
            raise FilterError(self.name, "around_tool", stopped["failed"])
        if self._exit == "error":
            raise Blocked(self.name, stopped["found"])
        return ChatReply(self._refused(stopped["place"], stopped["found"]))


def _counts(found: Found) -> dict[str, int]:
    """How many messages are flagged, by category."""
    return dict(Counter(name for flagged in found.values() for name in set().union(*flagged.values())))


def _withheld(reply: ToolReply, text: str, *, ends: bool = True) -> ToolReply:
    """The result with another text, which writes nothing; where the turn is to end, it is no answer by itself."""
    message = without_texts(reply.message, text)
    kept = {**message.additional_kwargs, "return_direct": False} if ends else message.additional_kwargs
    made: ToolMessage = message.model_copy(update={"artifact": None, "additional_kwargs": kept})
    error = ToolFailure(reply.error.kind, retry_after=reply.error.retry_after) if reply.error else None
    return ToolReply(made, context=reply.context, error=error)


def moderation(
    check: Check,
    on: Sequence[On] = ("input", "output"),
    exit: Exit = "end",
    *,
    thresholds: Mapping[str, float] | float | None = None,
    batch: bool | None = None,
    fail_open: bool = False,
    failure_response: str = REFUSAL,
    replacement: str = REMOVED,
    name: str = "moderation",
) -> Filter:
    """Have `check` judge texts: what came into the turn, what the model says, what tools give.

    `check(text)`, or `check(texts)` with a list where `batch` (a ready check knows), `def` or `async def`, gives for
    each text True (flagged) or False, a `Verdict(flagged, categories, scores)`, or its mapping. `thresholds`: from
    which score on a text is flagged, by category or one for all; categories without one are as the check says.
    `on`: "input", "output" (with the arguments of calls, and results of tools that return directly), "tool_results".
    `exit`: "end" ends the turn with `failure_response` ("{categories}" in it is filled in); "error" raises Blocked,
    with categories and counts; "replace" puts `replacement` in the place of the text, and the turn goes on: id and
    metadata stay, calls with flagged arguments do not run. Flagged text is in no table, nor in the stream, which waits
    for the verdict, where "output" is judged. A check that fails, or gives what is no verdict, fails the turn with
    FilterError; with `fail_open` its texts pass, which is logged. Raises ConfigurationError.
    """
    if not callable(check):
        raise ConfigurationError(f"filter {name!r}: check is a function of a text, not {type(check).__name__}")
    check_takes(name, "check", check, "text")
    _check_choices(on, exit, name)
    for parameter, text in (("failure_response", failure_response), ("replacement", replacement)):
        if not isinstance(text, str) or not text:
            raise ConfigurationError(f"filter {name!r}: {parameter} is a text that is not empty")
    if wrong := [one for one in re.findall(r"\{\w+\}", failure_response) if one != "{categories}"]:
        told = f"failure_response holds {wrong[0]}, which nothing fills in: there is {{categories}}"
        raise ConfigurationError(f"filter {name!r}: {told}")
    takes_lists = bool(getattr(check, "batch", False)) if batch is None else batch
    judge = Judge(check, takes_lists, Thresholds(thresholds, name), fail_open, name)
    return Moderation(judge, tuple(on), exit, failure_response, replacement, name)


def _check_choices(on: Any, exit: Any, name: str) -> None:
    known = get_args(On)
    if isinstance(on, str) or not isinstance(on, Sequence) or not on or not set(on) <= set(known):
        raise ConfigurationError(f"filter {name!r}: on is a list of {', '.join(known)}, not {on!r}")
    if exit not in get_args(Exit):
        raise ConfigurationError(f"filter {name!r}: exit is one of {', '.join(get_args(Exit))}, not {exit!r}")
