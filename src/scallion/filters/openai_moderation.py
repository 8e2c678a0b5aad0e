"""`openai_moderation`: OpenAI's moderation endpoint as a check of `moderation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scallion.bridge import awaited, in_thread, wait, waits_on_loop
from scallion.errors import ConfigurationError


class OpenAIModeration:
    """The check: one request for all texts. A client that is not asynchronous is asked beside a running loop."""

    batch = True

    def __init__(self, client: Any, model: str, asynchronous: bool) -> None:
        self._client = client
        self._model = model
        self._asynchronous = asynchronous

    def __call__(self, texts: Sequence[str]) -> list[Mapping[str, Any]]:
        """The verdict on each text, in order; raises what the client raises."""
        if waits_on_loop() and not self._asynchronous:
            return wait(in_thread(lambda: self._asked(texts)))
        return self._asked(texts)

    def _asked(self, texts: Sequence[str]) -> list[Mapping[str, Any]]:
        response = awaited(self._client.moderations.create(model=self._model, input=list(texts)))
        return [one.model_dump(by_alias=True) for one in response.results]


def openai_moderation(model: str = "omni-moderation-latest", *, client: Any = None, **options: Any) -> OpenAIModeration:
    """OpenAI's moderation as the check of `filters.moderation`; needs the extra `scallion[openai]`.

    `client`: an `openai.OpenAI` or `AsyncOpenAI`; else one is made of `options` (`api_key`, `base_url`, `timeout`,
    `max_retries`, ...) and the environment. All texts go in one request; categories and scores have OpenAI's names
    ("harassment/threatening"). Pictures and files are not sent. Raises ConfigurationError where there is no client.
    """
    try:
        import openai
    except ImportError:
        raise ConfigurationError("openai_moderation() needs the openai client: install scallion[openai]") from None
    if client is not None and options:
        raise ConfigurationError("openai_moderation(): give a client or the options of one, not both")
    try:
        client = openai.OpenAI(**options) if client is None else client
    except (openai.OpenAIError, TypeError) as error:
        told = "give api_key= or set OPENAI_API_KEY" if isinstance(error, openai.OpenAIError) else str(error)
        raise ConfigurationError(f"openai_moderation() cannot make a client: {told}") from None
    if not isinstance(client, openai.OpenAI | openai.AsyncOpenAI):
        raise ConfigurationError(f"openai_moderation(): client is an openai client, not {type(client).__name__}")
    return OpenAIModeration(client, model, isinstance(client, openai.AsyncOpenAI))
