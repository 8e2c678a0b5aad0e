"""Tokens and cost are counted from what the real clients tell, streamed or not."""

from __future__ import annotations

import pytest

from scallion import LimitExceeded, filters

from .clients import PROTOCOLS
from .desk import MODES, agent_over, ask
from .replies import stream
from .server import FakeProvider

PRICES = {name: {"input": 1.0, "output": 1.0} for name in ("gpt-test", "claude-test", "gpt-4o", "claude-opus-4-1")}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", ["tokens", "cost"])
def test_the_call_behind_the_limit_is_not_made(provider: FakeProvider, protocol: str, mode: str, limit: str) -> None:
    provider.play(stream(f"{protocol}-parallel"))
    one = filters.limit_calls(tokens=1) if limit == "tokens" else filters.limit_calls(cost=1e-9, prices=PRICES)
    with pytest.raises(LimitExceeded) as caught:
        ask(agent_over(protocol, provider.url, filters=[one]), mode, "Refund 1042, please.")
    assert caught.value.limit == limit
    assert caught.value.used > caught.value.allowed
