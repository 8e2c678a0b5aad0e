"""The chat models that users give: one of langchain-core's, or a name."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel

from scallion.errors import ConfigurationError


def as_model(model: Any, where: str = "model") -> BaseChatModel:
    """A chat model: one of langchain-core's, or "provider:name", which needs the `langchain` extra.

    `where` says in the ConfigurationError what it was given as.
    """
    if isinstance(model, BaseChatModel):
        return model
    if not isinstance(model, str) or not model:
        raise ConfigurationError(f'{where} is a BaseChatModel or "provider:name", not {type(model).__name__}')
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        raise ConfigurationError(
            f"{where} {model!r} needs the langchain extra: pip install 'scallion[langchain]'"
        ) from None
    try:
        made: BaseChatModel = init_chat_model(model)
    except Exception as error:
        raise ConfigurationError(f"{where} {model!r} cannot be made: {type(error).__name__}") from error
    return made
