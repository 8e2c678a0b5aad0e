"""Ready stacks of filters: plain lists, which say what they hold, and can be changed before an Agent gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel

from scallion.filters.approval import Verdict, approval
from scallion.filters.environment import pause_on_environment_error
from scallion.filters.fallback import fallback
from scallion.filters.filter import Filter
from scallion.filters.given import names
from scallion.filters.limit_calls import limit_calls
from scallion.filters.logging import logging
from scallion.filters.retry_model import retry_model
from scallion.filters.retry_tool import retry_tool
from scallion.filters.timeout import timeout
from scallion.filters.usage import usage

Part = tuple[Filter, str]
"""A filter, and how it was made."""


class Preset(list[Filter]):
    """Filters, outermost first. Printed, it shows a line for each: how it was made, or what was put in its place."""

    def __init__(self, name: str, parts: Iterable[Part | None]) -> None:
        self.name = name
        self._parts = [one for one in parts if one is not None]
        super().__init__(made for made, _ in self._parts)

    def __repr__(self) -> str:
        return "\n  ".join([f"{self.name}:", *map(self._told, self)])

    def _told(self, one: Filter) -> str:
        return next((told for made, told in self._parts if made is one), repr(one))


def _part(make: Callable[..., Filter], *args: Any, **options: Any) -> Part:
    """A filter made of these arguments; options that are None are left out."""
    given = {name: value for name, value in options.items() if value is not None}
    told = [*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in given.items())]
    return make(*args, **given), f"{make.__name__}({', '.join(told)})"


def _shown(value: Any) -> str:
    return type(value).__name__ if isinstance(value, BaseChatModel) else repr(value)


def minimal(*, model_calls: int = 20) -> Preset:
    """At most `model_calls` a turn, and nothing else."""
    return Preset("minimal", [_part(limit_calls, model_calls)])


def development(*, model_calls: int = 50, tool_retries: int = 5) -> Preset:
    """See what happens: all is logged and counted, tools are tried again soon, the limit ends a turn politely."""
    return Preset(
        "development",
        [
            _part(logging),
            _part(usage),
            _part(limit_calls, model_calls, exit="finish"),
            _part(retry_tool, tool_retries, initial_delay=0.2),
        ],
    )


def production(
    *fallbacks: Any,
    model_calls: int = 15,
    seconds: float | None = None,
    tool_seconds: float = 60.0,
    retry_tools: Iterable[str] | None = None,
) -> Preset:
    """Stay up: limits, retries, timeouts, and other models (`fallbacks`) where the agent's own fails.

    `model_calls` and `seconds` bound a turn, `tool_seconds` one run of a tool. `retry_tools`: the tools that may run a
    second time, after a failure that may pass; None is all that are not marked `sensitive`, an empty list is none.
    """
    listed = None if retry_tools is None else names(retry_tools, "presets.production: retry_tools")
    return Preset(
        "production",
        [
            _part(logging),
            _part(usage),
            _part(limit_calls, model_calls, seconds=seconds),
            _part(fallback, *fallbacks) if fallbacks else None,
            _part(retry_model, 2),
            None if listed == [] else _part(retry_tool, 2, tools=listed, initial_delay=0.5, max_delay=10.0),
            _part(timeout, tool_seconds),
        ],
    )


def human_in_loop(policies: Mapping[str, Verdict] | None = None, *, model_calls: int = 20) -> Preset:
    """Ask people: before tools run, where a tool needs something mended, and at the limit. Needs a checkpointer.

    `policies`: as of `filters.approval`, which tools people are asked about, and how; None is every tool.
    """
    gate = _part(approval, default=True) if policies is None else _part(approval, policies)
    return Preset(
        "human_in_loop",
        [_part(limit_calls, model_calls, exit="ask"), gate, _part(pause_on_environment_error)],
    )
