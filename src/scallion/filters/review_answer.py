"""`review_answer`: a person releases, edits or rejects the answer of a turn before anybody is given it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import HumanMessage

from scallion.approvals.forms import EXPIRED
from scallion.approvals.policy import Policy
from scallion.bridge import awaited
from scallion.errors import ConfigurationError
from scallion.filters.approval import as_policy, check_kept
from scallion.filters.filter import Filter, check_takes
from scallion.filters.pausing import ask_release, was_asked
from scallion.filters.replies import final, with_answer, without_calls
from scallion.filters.revision import check_count, is_final
from scallion.history import with_final
from scallion.values import Completed, Decision, TurnRequest

Predicate = Callable[[Completed], Any]
ALLOWED = ("approve", "edit", "reject", "respond")
REVIEW = Policy(allowed=("approve", "edit", "reject"))
REJECTED = "A person did not release this answer"
LATE = "Nobody released this answer in time."


class Review(Filter):
    """The pause around the turn. What was shown is what is released: a person who was asked is not passed over."""

    can_pause = True
    holds_stream = True
    conceals_stream = True

    def __init__(
        self, policy: Policy, when: Predicate | None, max_revisions: int, rejection: str | None, name: str
    ) -> None:
        super().__init__(name)
        self._policy = policy
        self._when = when
        self._max_revisions = max_revisions
        self._rejection = rejection

    def check_saver(self, saver: Any) -> None:
        """Raise ConfigurationError for a policy with votes or escalation, where nobody keeps them."""
        super().check_saver(saver)
        check_kept(self.name, [self._policy], saver)

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Completed:
        """The answer that a person let go, or what is said in its place."""
        result: Completed = next(request)
        revisions = 0
        while (policy := self._asks(result)) is not None:
            decision = ask_release(result.answer, policy)
            if decision.type == "approve":
                return result
            if decision.type in ("edit", "respond"):
                return _edited(result, decision)
            if decision.type == EXPIRED or revisions == self._max_revisions or is_final(result.message):
                return self._withheld(result, decision)
            revisions += 1
            result = next(_again(request, result, decision))
        return result

    def _asks(self, result: Completed) -> Policy | None:
        """How the answer is reviewed; None where nobody is asked."""
        if self._when is None:
            return self._policy
        said = awaited(self._when(result))
        if said is None:  # a return that was forgotten lets nothing out
            raise ConfigurationError(f"filter {self.name!r}: when(...) gave None: True, False or a Policy")
        policy = self._policy if said is True else as_policy(said, f"filter {self.name!r}: when(...)")
        return self._policy if policy is None and was_asked() else policy

    def _withheld(self, result: Completed, decision: Decision) -> Completed:
        if decision.type == EXPIRED:
            told = self._rejection or LATE
        else:
            told = self._rejection or (f"{REJECTED}: {decision.message}" if decision.message else f"{REJECTED}.")
        message = without_calls(result.message, told)
        meta = {**message.response_metadata, "finish_reason": "content_filtered", "review": decision.type}
        return _with(result, final(message.model_copy(update={"response_metadata": meta})))


def _edited(result: Completed, decision: Decision) -> Completed:
    text = decision.message if decision.type == "respond" else (decision.args or {})["answer"]
    return result if text == result.answer else _with(result, with_answer(result, text).message)


def _with(result: Completed, message: Any) -> Completed:
    return result.replace(message=message, messages=with_final(result.messages, message), parsed=None)


def _again(request: TurnRequest, result: Completed, decision: Decision) -> TurnRequest:
    reason = f": {decision.message}" if decision.message else "."
    told = HumanMessage(f"A person did not release your answer{reason}\nGive the whole answer again.")
    return request.replace(messages=[*result.messages, told], load_history=False)


def review_answer(
    policy: Policy | None = None,
    *,
    when: Predicate | None = None,
    max_revisions: int = 2,
    rejection: str | None = None,
    name: str = "review_answer",
) -> Filter:
    """Have a person release, edit or reject the answer of each turn before anybody is given it.

    The turn pauses around the loop, with an approval of kind "answer" whose `args` are `{"answer": text}`; a stream
    delivers nothing of the answer before. `approve()` releases it, `edit({"answer": text})` puts another text in its
    place, in the thread too. `reject(reason)` has the model, which reads the reason, answer anew, and that is reviewed
    again, at most `max_revisions` times (0: never); then the turn ends, and `rejection`, by default a sentence with the
    reason, is the answer. So it does where nobody decides in time, or where a guard or the provider refused.
    `policy`: as in `approval` (allowed, describe, expires_in, deciders, quorum, ...); by default approve, edit and
    reject are allowed; `respond(text)`, where it is, is an edit. `describe` is given `{"name": "answer", "args":
    {"answer": text}, "id": None}`. `when(result)`, `def` or `async def`: True, False, or a Policy for this `Completed`;
    it may be asked again on a resume, and what a person was shown is decided all the same.
    Raises ConfigurationError.
    """
    _check(policy, when, rejection, name)
    check_count(name, "max_revisions", max_revisions, least=0)
    return Review(policy or REVIEW, when, max_revisions, rejection, name)


def _check(policy: Any, when: Any, rejection: Any, name: str) -> None:
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigurationError(f"filter {name!r}: policy is a Policy(...) or None, not {type(policy).__name__}")
    if policy is not None and (wrong := [one for one in policy.allowed if one not in ALLOWED]):
        told = f"Policy(allowed=...) of an answer knows {', '.join(ALLOWED)}"
        raise ConfigurationError(f"filter {name!r}: {told}, and not {wrong[0]!r}")
    if when is not None and not callable(when):
        raise ConfigurationError(f"filter {name!r}: when is a function of the result, not {type(when).__name__}")
    if when is not None:
        check_takes(name, "when", when, "result")
    if rejection is not None and (not isinstance(rejection, str) or not rejection):
        raise ConfigurationError(f"filter {name!r}: rejection is a text that is not empty, or None")
