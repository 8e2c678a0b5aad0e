"""The chat models that users give: one of langchain-core's, or a name."""

from __future__ import annotations

import os
import re
from typing import Any

from langchain_core.language_models import BaseChatModel

from scallion.errors import ConfigurationError

EXTRAS = ("openai", "anthropic")
"""The providers whose packages an extra of this library brings."""
KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN)\b")
UNKNOWN = ("Unsupported provider", "Unable to infer model provider")
"""How LangChain begins to tell that it does not know the provider."""


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
        raise ConfigurationError(f"{where} {model!r} cannot be made: {_why(error)}") from error
    return made


def _why(error: Exception) -> str:
    """What is missing, in our words: the text of the error may hold what the client was given."""
    text = str(error)
    if isinstance(error, ImportError):
        package = re.search(r"\blangchain[-_]([a-z0-9_-]+)", text)
        if package is None:
            return f"{type(error).__name__}: a package that it needs is not installed"
        name = package[1].replace("_", "-")
        return f"it needs a package: pip install '{f'scallion[{name}]' if name in EXTRAS else f'langchain-{name}'}'"
    keys = [name for name in dict.fromkeys(KEY.findall(text)) if name not in os.environ]
    if keys:
        return f"it needs a key: {' or '.join(keys)} in the environment"
    if isinstance(error, ValueError) and text.startswith(UNKNOWN):
        return 'LangChain knows no such provider: write "provider:name", as in "openai:gpt-5-mini"'
    return type(error).__name__
