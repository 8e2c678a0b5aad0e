"""`usage`: tokens by model, and what they cost by a table of prices."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict, get_args

from langchain_core.messages import AIMessage

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.given import is_number
from scallion.filters.replies import ENDED
from scallion.values import ChatReply, ChatRequest

Scope = Literal["turn", "thread"]
Totals = dict[str, Any]
Prices = Mapping[str, Mapping[str, float]]
START: Totals = {"models": {}, "cost": 0, "unpriced": 0}
KINDS = ("input", "output", "cached", "cache_write")
DATED = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8})$")
"""How providers name the version of a model: `gpt-5-2026-01-31`, `claude-x-20260131`."""


def tokens_of(message: AIMessage) -> dict[str, int]:
    """The tokens of one reply; `cached` and `cache_write` are among `input`. What is no number counts nothing."""
    told: Mapping[str, Any] = message.usage_metadata or {}
    details: Mapping[str, Any] = told.get("input_token_details") or {}
    return {
        "input": _whole(told.get("input_tokens")),
        "output": _whole(told.get("output_tokens")),
        "cached": _whole(details.get("cache_read")),
        "cache_write": _whole(details.get("cache_creation")),
    }


def _whole(count: Any) -> int:
    """The count as clients are asked to give it: nobody checks what stands in a message."""
    return int(count) if is_number(count) and (isinstance(count, int) or math.isfinite(count)) else 0


def model_of(message: AIMessage, model: Any) -> str:
    """The name of the model that answered: the provider's, or the client's setting, or its kind."""
    told = message.response_metadata
    names = (
        told.get("model_name"),
        told.get("model"),
        *(getattr(model, name, None) for name in ("model_name", "model")),
    )
    found = next((name for name in names if isinstance(name, str) and name), None)
    return found or str(getattr(model, "_llm_type", "unknown"))


def cost_of(tokens: Mapping[str, int], price: Mapping[str, float]) -> float:
    """What the tokens cost, at prices per million; a kind of input without a price of its own has that of `input`."""
    fresh = tokens["input"] - tokens["cached"] - tokens["cache_write"]
    parts = {**tokens, "input": fresh}
    return sum(parts[kind] * price.get(kind, price["input"]) for kind in KINDS) / 1_000_000


def price_of(name: str, prices: Prices) -> Mapping[str, float] | None:
    """The price of a model by its name, with or without the date of its version."""
    return prices.get(name) or prices.get(DATED.sub("", name))


def added(before: Mapping[str, Totals], new: Mapping[str, Totals]) -> dict[str, Totals]:
    """The sum of two tables of totals."""
    summed = dict(before)
    for name, row in new.items():
        old = summed.get(name) or {}
        summed[name] = {key: old.get(key, 0) + row.get(key, 0) for key in {**old, **row}}
    return summed


def plus(before: float, new: float) -> float:
    """The sum, without the dust of binary fractions."""
    return round(before + new, 12)


class UsageState(TypedDict):
    """What is added up."""

    models: Annotated[dict[str, Totals], added]
    cost: Annotated[float, plus]
    unpriced: Annotated[int, plus]


class Usage(Filter):
    """Counts inside of all other filters, where each call that is made passes, and no answer of a cache."""

    init = START
    state_schema = UsageState
    innermost = ("chat",)

    def __init__(self, name: str, prices: Prices, scope: Scope) -> None:
        super().__init__(name, scope=scope)
        self.prices = checked_prices(prices, name)

    def around_chat(
        self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]
    ) -> tuple[ChatReply, Totals]:
        """Add one reply to the totals."""
        reply = next(request)
        if reply.message.response_metadata.get(ENDED):  # a limit stands innermost too, and answered itself
            return reply, {}
        name = model_of(reply.message, request.model)
        tokens = tokens_of(reply.message)
        price = price_of(name, self.prices)
        cost = cost_of(tokens, price) if price else 0
        row = {"calls": 1, **tokens, **({"cost": cost} if price else {})}
        return reply, {"models": {name: row}, "cost": cost, "unpriced": int(price is None)}


def checked_prices(prices: Any, name: str) -> Prices:
    """The table of prices that the filter of this name was given; raises ConfigurationError where it is none."""
    if not isinstance(prices, Mapping):
        raise ConfigurationError(
            f"filter {name!r}: prices is {{model: {{'input': ..., 'output': ...}}}}, not {prices!r}"
        )
    for model, price in prices.items():
        numbers = isinstance(price, Mapping) and all(is_number(one) and 0 <= one < math.inf for one in price.values())
        if not numbers or not {"input", "output"} <= price.keys() or not price.keys() <= set(KINDS):
            raise ConfigurationError(
                f"filter {name!r}: the price of {model!r} holds input and output, and may hold cached and cache_write, "
                "in money per million tokens"
            )
    return {model: dict(price) for model, price in prices.items()}


def usage(prices: Prices | None = None, *, scope: Scope = "turn", name: str = "usage") -> Filter:
    """Add up the tokens of all model calls by model, and their cost, in `Completed.filter_state["usage"]`.

    `prices`: `{"model": {"input": 2.5, "output": 10, "cached": 1.25, "cache_write": 3}}`, in any money per million
    tokens; `cached` is what the provider reads from its prompt cache, and like `cache_write` costs as `input` where it
    has no price. A name without the date of its version serves all versions. `unpriced` counts the calls whose model
    has no price. `scope="thread"` adds up from turn to turn. Retries, fallbacks and the calls of filters count,
    wherever this filter stands; what a cache answered does not. Raises ConfigurationError.
    """
    if scope not in get_args(Scope):
        raise ConfigurationError(f'filter {name!r}: scope is "turn" or "thread", not {scope!r}')
    return Usage(name, {} if prices is None else prices, scope)
