"""Asking the model again for an answer that is not valid: what `validate_answer` and `validate_schema` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from scallion.errors import ConfigurationError, ValidationFailed
from scallion.filters.filter import Filter
from scallion.filters.given import is_whole
from scallion.filters.journal import current_frame
from scallion.filters.replies import ends, is_ended
from scallion.values import ChatReply, ChatRequest, Completed, TurnRequest

REFUSED = frozenset(
    """
    content_filtered content_filter refusal guardrail_intervened safety prohibited_content blocklist recitation
    """.split()
)
"""How a model call ends that was refused, in small letters: by Scallion, OpenAI, Anthropic, Amazon and Google."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with an answer, in words for the model; nothing if it is valid. `parsed` is the data in it."""

    errors: Sequence[str] = ()
    parsed: Any = None
    hint: str = ""
    """What helps the model besides the errors."""
    parsed_json: str | None = None
    """The JSON that `parsed` was made of, where it is of a type of Python."""


def is_final(message: AIMessage) -> bool:
    """Whether asking again makes no sense: the model or a guard refused, or a tool or a filter gave the answer."""
    meta = message.response_metadata
    blocks = message.content if isinstance(message.content, list) else ()
    return (
        bool(meta.get("return_direct") or is_ended(message) or message.additional_kwargs.get("refusal"))
        or not REFUSED.isdisjoint(ends(message))
        or any(isinstance(one, dict) and one.get("type") == "refusal" for one in blocks)
    )


def feedback(verdict: Verdict) -> HumanMessage:
    """What the model is told of an answer that is not valid."""
    told = "\n".join(f"- {error}" for error in verdict.errors)
    hint = f"\n{verdict.hint}" if verdict.hint else ""
    return HumanMessage(f"Your answer is not valid:\n{told}\nCorrect it, and give the whole answer again.{hint}")


class Revision(Filter):
    """Judges the final answer, and enters the loop again with what is wrong with it, a number of times.

    A judge may be asked again about an answer when a pause in a later attempt is resumed. What it said first stands.
    """

    def __init__(
        self,
        name: str,
        judge: Callable[[Completed], Verdict],
        *,
        max_retries: int,
        keep_attempts: bool,
        strict: bool,
    ) -> None:
        super().__init__(name)
        check_count(name, "max_retries", max_retries, least=0)
        self._judge = judge
        self._max_retries = max_retries
        self._keep_attempts = keep_attempts
        self._strict = strict

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Completed:
        """The first answer that is valid, or the last one."""
        result: Completed = next(request)
        retries = 0
        while (verdict := self._verdict(result)).errors:
            if retries == self._max_retries:
                return self._given_up(result, verdict)
            retries += 1
            result = next(self._again(request, result, verdict))
        return result.replace(parsed=verdict.parsed, parsed_json=verdict.parsed_json)

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> ChatReply:
        """Pass, where the model gives one answer: of several, one would be judged and the others lost."""
        answers = request.settings.get("n", getattr(request.model, "n", None))
        if isinstance(answers, int) and answers > 1:
            raise ConfigurationError(f"filter {self.name!r}: it judges one answer, and the model gives n={answers}")
        reply: ChatReply = next(request)
        return reply

    def _verdict(self, result: Completed) -> Verdict:
        if is_final(result.message):
            return Verdict(parsed=result.parsed, parsed_json=result.parsed_json)
        verdict = self._judge(result)
        if not verdict.errors and current_frame.get().went_on:
            return Verdict(["it was rejected before the pause"])
        return verdict

    def _again(self, request: TurnRequest, result: Completed, verdict: Verdict) -> TurnRequest:
        messages: list[BaseMessage] = [*result.messages, feedback(verdict)]
        return request.replace(messages=messages, load_history=False, keep_attempts=self._keep_attempts)

    def _given_up(self, result: Completed, verdict: Verdict) -> Completed:
        if self._strict:
            raise ValidationFailed(verdict.errors, result)
        return result


def check_count(name: str, parameter: str, value: Any, *, least: int) -> None:
    """Raise ConfigurationError unless it is a whole number that is large enough."""
    if not is_whole(value, least):
        raise ConfigurationError(f"filter {name!r}: {parameter} is a whole number from {least} on, not {value!r}")
