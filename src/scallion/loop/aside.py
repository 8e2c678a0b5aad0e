"""What an agent lends to filters around the turn: model calls beside the loop, and its container."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from scallion.filters.filtering import Means
from scallion.filters.journal import current_frame
from scallion.filters.masking import NONE
from scallion.loop.invocation import Budget, Invocation
from scallion.loop.model import ModelCall
from scallion.loop.state import Limits
from scallion.values import ChatReply, ChatRequest


class Borrower(Protocol):
    """A turn: who runs it, and what it has used so far."""

    here: Invocation

    @property
    def counts(self) -> Mapping[str, float]:
        """Calls and tokens of its loops."""


class Lending:
    """The model, limits and container of one agent."""

    def __init__(self, model: Any, limits: Limits, resolve: Callable[[type], Any] | None) -> None:
        self._model = model
        self._limits = limits
        self._resolve = resolve
        self._call = ModelCall()
        self._lock = threading.Lock()

    def to(self, turn: Borrower) -> Means:
        """What the filters around this turn are lent."""
        return Means(partial(self._ask, turn), self._resolve)

    def _ask(self, turn: Borrower, request: ChatRequest) -> ChatReply:
        """One call; what it uses is kept as that of a node that failed is, and written with the turn's next step."""
        budget = Budget(self._limits, turn.counts, turn.here)
        with self._lock:  # checks may ask in parallel: each of them is counted before the next one looks
            budget.begin_model_call()
            budget.lose()
        frame = current_frame.get(None)
        masks = NONE if frame is None else frame.run.masks
        request = request.replace(model=request.model or self._model, messages=masks.value(list(request.messages)))
        try:
            return self._call.answer(request, budget, masks)
        finally:
            with self._lock:
                budget.lose()
