"""`rate_limit`: calls begin as often as they may, wait in both colours, and do not wait for what cannot come."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.rate_limiters import BaseRateLimiter
from modes import Drive

from scallion import Agent, ConfigurationError, LimitExceeded, Limits, ThreadError, filters, pause, respond
from scallion.filters.rate_limit import Rate
from scallion.filters.retrying import waiting
from scallion.testing import ScriptedModel

module: Any = importlib.import_module("scallion.filters.rate_limit")  # the package has the function of that name


class Clock:
    """Time that passes only where somebody sleeps; stands for `time` and for `sleep`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for one in (module, waiting):
        monkeypatch.setattr(one, "time", clock)
    monkeypatch.setattr(waiting, "sleep", clock.sleep)
    return clock


@given(st.lists(st.floats(0, 3), min_size=1, max_size=30), st.floats(0.2, 20), st.integers(1, 5))
def test_no_second_has_more_calls_than_it_may(gaps: list[float], per_second: float, burst: int) -> None:
    """Whenever they come: in any span of time at most the burst and what the rate gives."""
    rate, now, begins = Rate(per_second, burst), 0.0, []
    for gap in gaps:
        now += gap
        begins.append(now + rate.reserve("", now, None)[0])
    assert begins == sorted(begins)
    for place, first in enumerate(begins):
        for later, last in enumerate(begins[place:], 1):
            assert later <= burst + (last - first) * per_second + 1e-6


@given(
    st.lists(st.tuples(st.floats(0, 3), st.booleans()), min_size=1, max_size=30), st.floats(0.2, 20), st.integers(1, 5)
)
def test_places_that_are_given_back_let_no_more_in(
    calls: list[tuple[float, bool]], per_second: float, burst: int
) -> None:
    """Half of those that come go away again, at once or when the next one comes."""
    rate, now, begins, leaves = Rate(per_second, burst), 0.0, [], None
    for gap, stays in calls:
        now += gap
        seconds, place = rate.reserve("", now, None)
        if leaves is not None:
            rate.give_back("", leaves)
        leaves = place if not stays and seconds else None
        if leaves is None:
            begins.append(now + seconds)
    begins.sort()
    for place, first in enumerate(begins):
        for later, last in enumerate(begins[place:], 1):
            assert later <= burst + (last - first) * per_second + 1e-6


def test_a_place_that_is_given_back_is_the_next_ones() -> None:
    rate = Rate(1, 1)
    assert [rate.reserve("", 0, None) for _ in range(4)] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    for place in (3, 1):
        rate.give_back("", place)
    assert [rate.reserve("", 0.5, None)[1] for _ in range(3)] == [1, 3, 4]
    rate.give_back("", 1)
    assert rate.reserve("", 1.5, None)[1] == 5  # it has passed
    rate.give_back("other", 1)
    assert rate.reserve("other", 0, None) == (0, 0)


def test_a_call_that_would_wait_too_long_takes_no_place() -> None:
    rate = Rate(1, 1)
    assert rate.reserve("", 7, 0.5) == (0, 7)
    assert rate.reserve("", 7, 0.5) == (1, None)
    assert rate.reserve("", 7, 1) == (1, 8)


def test_keys_are_counted_apart_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY", 3)
    rate = Rate(1, 1)
    assert [rate.reserve(key, 0, None)[0] for key in "aabc"] == [0, 1, 0, 0]
    assert [rate.reserve(key, 1.5, None)[0] for key in "da"] == [0, 0.5]
    assert set(rate._free) == {"a", "d"}


def test_calls_wait_for_their_turn(drive: Drive, clock: Clock) -> None:
    agent = Agent(ScriptedModel(["a", "b", "c", "d"]), filters=[filters.rate_limit(per_second=2, burst=2)])
    begins = []
    for _ in range(4):
        drive(agent).start("?")
        begins.append(clock.now)
    assert begins == pytest.approx([0, 0, 0.5, 1])
    assert max(clock.slept) <= 0.1


def test_a_loop_is_not_blocked_meanwhile() -> None:
    async def story() -> list[str]:
        done: list[str] = []

        async def turn() -> None:
            await agent.ainvoke("?")
            done.append("turn")

        async def other() -> None:
            await asyncio.sleep(0.01)
            done.append("other")

        await agent.ainvoke("?")
        await asyncio.gather(turn(), other())
        return done

    agent = Agent(ScriptedModel(["a", "b"]), filters=[filters.rate_limit(per_second=5)])
    assert asyncio.run(story()) == ["other", "turn"]


def test_users_do_not_wait_for_each_other() -> None:
    async def user(request: Any) -> str:
        return str(request.context.user)

    apart = filters.rate_limit(per_second=0.001, key=user, max_wait=1)
    agent = Agent(ScriptedModel(["a", "b"]), filters=[apart])
    agent.invoke("?", user="ana")
    agent.invoke("?", user="ben")
    with pytest.raises(LimitExceeded, match="limit of 1 seconds of waiting for the rate limit"):
        agent.invoke("?", user="ana")


@pytest.mark.parametrize("limiter", ["ours", "theirs"])
def test_a_turn_that_may_not_last_so_long_does_not_begin_to_wait(drive: Drive, limiter: str) -> None:
    one = filters.rate_limit(per_second=0.001) if limiter == "ours" else filters.rate_limit(Shut())
    model = ScriptedModel(["a"])
    agent = Agent(model, filters=[one], limits=Limits(seconds=0.05))
    if limiter == "ours":
        agent.graph.invoke({"messages": [("user", "?")]})
    with pytest.raises(LimitExceeded, match="seconds"):
        drive(agent).start("?")
    assert len(model.calls) == (limiter == "ours")


@pytest.mark.parametrize("limiter", ["ours", "theirs"])
def test_a_cancelled_turn_waits_no_longer(memory: Any, monkeypatch: pytest.MonkeyPatch, limiter: str) -> None:
    """The wait looks up from time to time."""
    one = filters.rate_limit(per_second=0.001) if limiter == "ours" else filters.rate_limit(Shut())
    agent = Agent(ScriptedModel(["a"]), filters=[one], checkpointer=memory)
    if limiter == "ours":
        agent.invoke("?", thread="other")
    monkeypatch.setattr(waiting, "sleep", lambda seconds: agent.cancel("t"))
    with pytest.raises(ThreadError, match="cancelled"):
        agent.invoke("?", thread="t")


def test_cancelled_turns_leave_their_places() -> None:
    async def story() -> None:
        await agent.ainvoke("?")
        waiting = [asyncio.create_task(agent.ainvoke("?")) for _ in range(2)]
        await asyncio.sleep(0.05)
        for one in waiting:
            one.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(one) for one in ended} == {asyncio.CancelledError}
        assert (await agent.ainvoke("?")).answer == "b"

    agent = Agent(ScriptedModel(["a", "b"]), filters=[filters.rate_limit(per_second=5, max_wait=0.45)])
    asyncio.run(story())


@pytest.mark.parametrize("limiter", ["ours", "theirs"])
def test_a_resume_takes_no_place(drive: Drive, any_saver: Any, limiter: str) -> None:
    """The model was asked before the pause."""

    @filters.after_chat
    def release(reply: Any) -> None:
        pause("release?")

    once = Counted(lets_in=(1,))
    one = filters.rate_limit(per_second=0.001, max_wait=0.1) if limiter == "ours" else filters.rate_limit(once)
    agent = Agent(ScriptedModel(["a"]), filters=[one, release], checkpointer=any_saver)
    result, _ = drive(agent).finish("?", thread="t", decision=respond("yes"))
    assert result.answer == "a"  # type: ignore[union-attr]
    assert limiter == "ours" or len(once.asked) == 1


def test_a_key_that_is_no_text_is_refused() -> None:
    apart = filters.rate_limit(per_second=1, key=lambda request: request.context.user)
    with pytest.raises(ConfigurationError, match="filter 'rate_limit': key gave NoneType: have it give a text"):
        Agent(ScriptedModel(["a"]), filters=[apart]).invoke("?")


class Counted(BaseRateLimiter):
    """Lets in at the third question, or at these."""

    def __init__(self, lets_in: tuple[int, ...] = (3,)) -> None:
        self.asked: list[str] = []
        self.lets_in = lets_in

    def acquire(self, *, blocking: bool = True) -> bool:
        self.asked.append(f"acquire {blocking}")
        return len(self.asked) in self.lets_in

    async def aacquire(self, *, blocking: bool = True) -> bool:
        self.asked.append(f"aacquire {blocking}")
        return len(self.asked) in self.lets_in


class Shut(Counted):
    """Lets nobody in."""

    def acquire(self, *, blocking: bool = True) -> bool:
        return False

    async def aacquire(self, *, blocking: bool = True) -> bool:
        return False


def test_a_limiter_of_langchain_is_asked_in_the_colour_at_hand(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP", 0.001)
    limiter = Counted()
    driver = drive(Agent(ScriptedModel(["a"]), filters=[filters.rate_limit(limiter)]))
    result, _ = driver.start("?")
    assert result.answer == "a"
    assert set(limiter.asked) == {"aacquire False" if driver.mode.startswith("a") else "acquire False"}
    assert len(limiter.asked) == 3


def test_a_limiter_has_its_wait_bounded_too() -> None:
    agent = Agent(ScriptedModel(["a"]), filters=[filters.rate_limit(Shut(), max_wait=0.01)])
    with pytest.raises(LimitExceeded, match="waiting for the rate limit"):
        agent.invoke("?")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give a limiter of LangChain or per_second="),
        ({"limiter": Shut(), "per_second": 1}, "one of them"),
        ({"limiter": 5}, "a BaseRateLimiter"),
        ({"limiter": Shut(), "burst": 2}, "a limiter has its own"),
        ({"per_second": 0}, "per_second is a number above zero"),
        ({"per_second": 1, "burst": "2"}, "burst is a whole number above zero"),
        ({"per_second": 1, "burst": 0.5}, "burst is a whole number above zero"),
        ({"per_second": 1, "burst": float("inf")}, "burst is a whole number above zero"),
        ({"per_second": float("inf")}, "per_second is a number above zero"),
        ({"per_second": 1, "max_wait": float("nan")}, "max_wait is a number above zero"),
        ({"per_second": 1, "key": "user"}, "key is a function"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"filter 'slow': .*{told}"):
        filters.rate_limit(name="slow", **given)
