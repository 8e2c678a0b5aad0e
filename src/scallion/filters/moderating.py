"""What a check says about texts, and asking it: what `moderation` and its ready checks share."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.errors import GraphBubbleUp

from scallion.bridge import awaited, is_cancelled
from scallion.errors import ConfigurationError, ModelError, ScallionError
from scallion.filters.filter import is_async
from scallion.filters.filtering import Filtering, entered
from scallion.filters.given import is_number
from scallion.filters.journal import current_frame
from scallion.filters.replies import BadReply
from scallion.values import EMPTY

Check = Callable[[Any], Any]
Categories = tuple[str, ...]
UNNAMED = "flagged"
"""The category of what a check flags without one."""
log = logging.getLogger("scallion.filters")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says about one text: whether it is flagged, for which categories, and how sure it is of any."""

    flagged: bool
    categories: Sequence[str] = ()
    scores: Mapping[str, float] = field(default_factory=lambda: EMPTY)


class Thresholds:
    """From which score on a text is flagged, by category, or one for all; what has none is the check's affair."""

    def __init__(self, given: Mapping[str, float] | float | None, name: str) -> None:
        self._for_all = None if isinstance(given, Mapping) else given
        self._by_category = dict(given) if isinstance(given, Mapping) else {}
        for one in (self._for_all, *self._by_category.values()):
            if one is not None and not (is_number(one) and one >= 0):
                told = f"thresholds are numbers from 0 on, by category or one for all, not {one!r}"
                raise ConfigurationError(f"filter {name!r}: {told}")

    def found(self, said: Any) -> Categories:
        """The categories that the text is flagged for; raises BadReply for what is no verdict."""
        if isinstance(said, bool):
            return (UNNAMED,) if said else ()
        verdict = _read(said, self._decides)
        decided = {one: score for one, score in verdict.scores.items() if self._of(one) is not None}
        own = verdict.categories if verdict.flagged else ()
        found = {one for one in own if one not in decided}
        found |= {one for one, score in decided.items() if score >= (self._of(one) or 0)}
        if verdict.flagged and not own and (not decided or len(decided) < len(verdict.scores)):
            found = found or {UNNAMED}
        return tuple(sorted(found))

    @property
    def _decides(self) -> bool:
        return self._for_all is not None or bool(self._by_category)

    def _of(self, category: str) -> float | None:
        return self._by_category.get(category, self._for_all)


def _read(said: Any, scores_decide: bool) -> Verdict:
    """The verdict, with its categories as names. Where only scores are told, something has to say what they mean."""
    if isinstance(said, Mapping):
        scores = said.get("scores", said.get("category_scores"))
        named = said.get("categories")
        if "flagged" not in said and named is None and not (scores and scores_decide):
            raise BadReply("a verdict has 'flagged', or 'categories', or 'scores' where there are thresholds")
        named = _names(named)
        said = Verdict(said.get("flagged", bool(named)), named, _numbers(scores))
    if not isinstance(said, Verdict) or not isinstance(said.flagged, bool):
        raise BadReply(f"a check gives True or False, a Verdict or its mapping, not {type(said).__name__}")
    return Verdict(said.flagged, _names(said.categories), _numbers(said.scores))


def _names(given: Any) -> Categories:
    """Categories as names: a list of them, or a mapping that says yes or no to each."""
    given = [name for name, holds in given.items() if holds] if isinstance(given, Mapping) else given or ()
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise BadReply("the categories of a verdict are names, or a mapping of names to True and False")
    return tuple(given)


def _numbers(given: Any) -> Mapping[str, float]:
    scores = {name: score for name, score in (given or {}).items() if score is not None}
    if not all(isinstance(one, int | float) and math.isfinite(one) for one in scores.values()):
        raise BadReply("the scores of a verdict are finite numbers by category")
    return scores


class Judge:
    """Asks a check about texts; a batch of them in one call, where it takes that."""

    def __init__(self, check: Check, batch: bool, thresholds: Thresholds, fail_open: bool, name: str) -> None:
        self._check = check
        self._batch = batch
        self._thresholds = thresholds
        self._fail_open = fail_open
        self._asynchronous = is_async(check)
        self.is_model = bool(getattr(check, "is_model", False))
        self._name = name

    def __call__(self, texts: Sequence[str]) -> list[Categories]:
        """What each text is flagged for, in order. Raises what the check raised, unless such texts may pass."""
        if not texts:
            return []
        try:
            return [self._thresholds.found(one) for one in self._said(texts)]
        except (Exception, asyncio.CancelledError) as error:
            if _is_signal(error):
                raise
            if not self._fail_open and isinstance(error, asyncio.CancelledError):
                raise RuntimeError("the check was cancelled") from error
            if not self._fail_open:
                raise
            log.warning(
                "the check of filter %r failed, and what it was asked passes: %s", self._name, type(error).__name__
            )
            return [()] * len(texts)

    def _said(self, texts: Sequence[str]) -> Sequence[Any]:
        with entered(Filtering(None, current_frame.get().run.means, self._asynchronous)):
            if not self._batch:
                return [awaited(self._check(one)) for one in texts]
            said = awaited(self._check(list(texts)))
        if not isinstance(said, list | tuple) or len(said) != len(texts):
            raise BadReply("a check that takes a list of texts gives a list of as many verdicts")
        return said


def _is_signal(error: BaseException) -> bool:
    """Whether it is no failure of the check: a pause, the end of the turn, a limit."""
    if isinstance(error, asyncio.CancelledError):
        return is_cancelled()
    return isinstance(error, GraphBubbleUp) or (isinstance(error, ScallionError) and not isinstance(error, ModelError))
