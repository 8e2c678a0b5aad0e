"""What of the extra `notebook` is imported, where it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from scallion.errors import ConfigurationError


def needed(module: str) -> Any:
    """The module. Raises ConfigurationError, which says what to install, where it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name.partition(".")[0]):
            raise
        told = f"notebooks need {error.name}: install scallion[notebook] where the kernel runs"
        raise ConfigurationError(told) from None
