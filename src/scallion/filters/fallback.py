"""`fallback`: where a model fails, the next one is asked."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel

from scallion.errors import ConfigurationError, ModelError
from scallion.filters.filter import Filter
from scallion.filters.retrying.failures import ActsOn, On
from scallion.models import as_model
from scallion.values import ChatReply, ChatRequest


class Fallback(Filter):
    """The models behind the agent's own. What a failed one delivered of a stream is retracted by the next one."""

    def __init__(self, models: list[BaseChatModel], on: ActsOn, name: str) -> None:
        super().__init__(name)
        self._models = models
        self._acts_on = on

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> ChatReply:
        """Ask the model of the request, then the others, until one answers."""
        for model in self._models:
            try:
                reply: ChatReply = next(request)
                return reply
            except ModelError as error:
                if not self._acts_on(error, error.kind, error.__cause__):
                    raise
            request = request.replace(model=model)
        last: ChatReply = next(request)
        return last


def fallback(*models: Any, on: On = ("transient", "environment"), name: str = "fallback") -> Filter:
    """Ask these models in order where the agent's own fails: each gets the same request, with its tools and settings.

    `models`: chat models of langchain-core, or "provider:name" (needs the `langchain` extra). `on`: kinds of failure
    (`transient`, `environment`, `semantic`), classes of the provider's exceptions, or a function of the ModelError,
    `def` or `async def`; other errors are raised, and so is that of the last model. Put `retry_model` behind it in the
    list, so that each model is tried again before the next one is asked. `response_metadata` says which one answered.
    Raises ConfigurationError for what is no model.
    """
    if not models:
        raise ConfigurationError(f"filter {name!r} takes the models to ask where the agent's own fails")
    made = [as_model(one, f"filter {name!r}: a model") for one in models]
    return Fallback(made, ActsOn(on, f"filter {name!r}: on"), name)
