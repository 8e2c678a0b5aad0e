"""`retry_model`: a model call that failed for a while is made again."""

from __future__ import annotations

from typing import Any

from scallion.errors import ModelError
from scallion.filters.filter import Filter
from scallion.filters.retrying.backoff import Attempts, Backoff
from scallion.filters.retrying.failures import ActsOn, On
from scallion.values import ChatReply, ChatRequest


class RetryModel(Filter):
    """The retry. What a failed attempt delivered of a stream is retracted by the next one."""

    def __init__(self, backoff: Backoff, on: ActsOn, name: str) -> None:
        super().__init__(name)
        self._backoff = backoff
        self._acts_on = on

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> ChatReply:
        """Call until it works, or no attempt is left."""
        attempts = Attempts(self._backoff)
        while True:
            try:
                reply: ChatReply = next(request)
                return reply
            except ModelError as error:
                acts = self._acts_on(error, error.kind, error.__cause__)
                if not (acts and attempts.again(error.retry_after)):
                    raise


def retry_model(
    max_retries: int = 3,
    *,
    retry_on: On = "transient",
    initial_delay: float = 1.0,
    backoff_factor: float = 2.0,
    max_delay: float = 30.0,
    jitter: float = 0.25,
    max_seconds: float = 300.0,
    name: str = "retry_model",
) -> Filter:
    """Make a model call again that failed; where no retry is left, or none would begin in time, its last error stands.

    `retry_on`: kinds of failure (`transient`, `environment`, `semantic`), classes of the provider's exceptions, or a
    function of the ModelError, `def` or `async def`. The first delay is `initial_delay` seconds, each further one
    `backoff_factor` times as long up to `max_delay`, all up to `jitter` of themselves off. A longer wait that the
    provider asks for (Retry-After) is kept to. No attempt begins later than `max_seconds` after the first one, nor
    after `Limits.seconds`. The defaults are those of beamai's model_retry.
    Raises ConfigurationError for values that cannot be.
    """
    backoff = Backoff(max_retries, initial_delay, backoff_factor, max_delay, jitter, max_seconds)
    backoff.check(name)
    return RetryModel(backoff, ActsOn(retry_on, f"filter {name!r}: retry_on"), name)
