"""`validate_answer`: a check of the final answer, whose complaint goes back to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scallion.bridge import awaited
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter, check_takes
from scallion.filters.replies import BadReply
from scallion.filters.revision import Revision, Verdict
from scallion.values import Completed

Check = Callable[..., Any]
"""`(answer)` or `(answer, result)`, `def` or `async def`: None or True for valid, False or the reason why it is not."""


def complaints(said: Any) -> list[str]:
    """What a check complains of; raises BadReply for what is neither yes nor no."""
    if said is None or said is True:
        return []
    if said is False:
        return ["it did not pass the check"]
    if isinstance(said, str) and said.strip():
        return [said]
    shape = "an empty text" if isinstance(said, str) else type(said).__name__
    raise BadReply(f"a check gives None or True for a valid answer, False or a reason for another one, not {shape}")


def takes_result(check: Check, name: str) -> bool:
    """Whether the check wants the whole result beside the text; raises ConfigurationError where it can take neither."""
    if not callable(check):
        raise ConfigurationError(f"filter {name!r}: check is a function of the answer, not {type(check).__name__}")
    try:
        check_takes(name, "check", check, "answer")
    except ConfigurationError:
        check_takes(name, "check", check, "answer", "result")
        return True
    return False


def validate_answer(
    check: Check,
    max_retries: int = 2,
    *,
    keep_attempts: bool = False,
    strict: bool = False,
    name: str = "validate_answer",
) -> Filter:
    """Check the final answer of each turn, and ask the model again, with the reason, while it is not valid.

    `check(answer)` is given the text, `check(answer, result)` the `Completed` too; `def` or `async def`. It returns
    None or True for a valid answer, False or a text, the reason that the model reads, for another one; anything else,
    and what it raises, fails the turn with FilterError. It may be asked again about an answer when a later attempt is
    resumed after a pause. `max_retries`: how often the model is asked again (2, as in beamai's examples). The last
    answer is then given as it is, or ValidationFailed raised where `strict`. `keep_attempts`: the thread keeps rejected
    answers and what was said about them. Refusals and answers of tools that return directly are not checked.
    Raises ConfigurationError.
    """
    whole = takes_result(check, name)

    def judge(result: Completed) -> Verdict:
        said = check(result.answer, result) if whole else check(result.answer)
        said = awaited(said)
        return Verdict(complaints(said), result.parsed, parsed_json=result.parsed_json)

    return Revision(name, judge, max_retries=max_retries, keep_attempts=keep_attempts, strict=strict)
