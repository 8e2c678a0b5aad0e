"""The package `langchain`, which is an extra: it is imported where a middleware is given or made, and nowhere else."""

from __future__ import annotations

from typing import Any

from scallion.errors import ConfigurationError

NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
WRAP_HOOKS = ("wrap_model_call", "wrap_tool_call")


def middleware_types(needed_by: str) -> Any:
    """The module `langchain.agents.middleware.types`; raises ConfigurationError that names the extra."""
    try:
        from langchain.agents.middleware import types
    except ImportError:
        raise ConfigurationError(f"{needed_by} needs the langchain extra: pip install 'scallion[langchain]'") from None
    return types


def own_hook(middleware: Any, name: str) -> Any:
    """The hook of that name, bound; None where the class of the middleware has LangChain's empty one."""
    kind = middleware_types("a middleware").AgentMiddleware
    return None if getattr(type(middleware), name) is getattr(kind, name) else getattr(middleware, name)
