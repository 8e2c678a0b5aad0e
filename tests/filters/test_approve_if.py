"""`filters.approve_if`: a predicate decides about calls of sensitive tools, and fails closed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from modes import Drive
from scenes import Desk, asks, call

from scallion import Agent, ConfigurationError, Filter, Paused, edit, filters
from scallion.testing import ScriptedModel


class Vault(Desk):
    """The desk, with a sensitive tool that writes into the shared state."""

    def refund(self) -> BaseTool:
        tool = super().refund()
        tool.metadata = {"sensitive": True}
        return tool


def told(result: Any) -> list[Any]:
    """The contents and states of the tool results."""
    return [(one.status, str(one.text)) for one in result.messages if one.type == "tool"]


def agent(predicate: Any, *calls: Any, desk: Desk, before: Any = (), **options: Any) -> Agent:
    model = ScriptedModel([asks(*calls), "done"])
    return Agent(model, tools=desk.tools, filters=[*before, filters.approve_if(predicate)], **options)


def coloured(colour: str, function: Any) -> Any:
    """The predicate as `def`, as `async def`, or as a `def` that gives something to await."""

    async def run(one: Any) -> Any:
        await asyncio.sleep(0)
        return function(one)

    return {"def": function, "async def": run, "awaitable": lambda one: run(one)}[colour]


@pytest.fixture(params=["def", "async def", "awaitable"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_only_what_the_predicate_approves_runs(drive: Drive, colour: str) -> None:
    """In one batch: one call runs, the other is answered, and the model goes on."""
    desk = Vault()
    small = coloured(colour, lambda one: one["args"]["order"] < 10)
    one = agent(small, call("refund", "c1", order=1), call("refund", "c2", order=99), desk=desk)
    result, _ = drive(one).start("go")
    assert desk.ran == ["refund 1"]
    (ran, text), (status, refused) = told(result)
    assert (ran, text) == ("success", "refunded 1")
    assert (status, json.loads(refused)["type"]) == ("success", "not_approved")
    assert result.answer == "done"


def test_tools_without_the_mark_are_not_asked_about(drive: Drive) -> None:
    asked: list[Any] = []
    desk = Vault()
    one = agent(asked.append, call("look", order=1), call("unknown", "c2"), desk=desk)
    drive(one).start("go")
    assert asked == []
    assert desk.ran == ["look 1"]


@pytest.mark.parametrize("verdict", [None, 1, "no", "yes", [True]])
def test_what_is_not_true_denies(verdict: Any, colour: str, caplog: Any) -> None:
    """A predicate that forgets its return must not open the gate."""
    desk = Vault()
    agent(coloured(colour, lambda one: verdict), call("refund", order=1), desk=desk).invoke("go")
    assert desk.ran == []
    assert "gave no bool" in caplog.text


def test_a_crash_denies_and_says_nothing_of_the_call(drive: Drive, colour: str, caplog: Any) -> None:
    """Defects 12 and 15: a gate that crashed let the call run."""

    def crash(one: Any) -> bool:
        raise KeyError(f"secret {one['args']}")

    desk = Vault()
    result, _ = drive(agent(coloured(colour, crash), call("refund", order=4711), desk=desk)).start("go")
    assert desk.ran == []
    assert "not_approved" in told(result)[0][1]
    assert "KeyError" in caplog.text
    assert "4711" not in caplog.text


def test_a_denied_call_writes_nothing(drive: Drive) -> None:
    """The filter that adds writes stands inside, and is not reached; the next round sees an empty state."""
    desk = Vault()
    seen: list[dict[str, Any]] = []

    def write(request: Any, state: Any, next: Any) -> Any:
        seen.append(dict(request.context.state))
        return next(request).replace(writes={"paid": request.call["name"]})

    stack = [filters.approve_if(lambda one: False), Filter("write", around_tool=write)]
    script = [asks(call("refund", order=1)), asks(call("look", order=1)), asks(call("look", "c2", order=2)), "done"]
    drive(Agent(ScriptedModel(script), tools=desk.tools, filters=stack)).start("go")
    assert desk.ran == ["look 1", "look 2"]
    assert seen == [{}, {"paid": "look"}]


def test_the_predicate_has_a_copy_of_the_call() -> None:
    """What it does to the arguments does not reach the tool."""

    def meddle(one: Any) -> bool:
        one["args"]["order"] = 666
        return True

    desk = Vault()
    agent(meddle, call("refund", order=1), desk=desk).invoke("go")
    assert desk.ran == ["refund 1"]


def test_behind_a_gate_for_people_it_judges_what_they_edited(drive: Drive, memory: Any) -> None:
    desk = Vault()
    one = agent(
        lambda one: one["args"]["order"] < 10,
        call("refund", order=1),
        desk=desk,
        before=[filters.approval({"refund": True})],
        checkpointer=memory,
    )
    driver = drive(one)
    paused, _ = driver.start("go", thread="t")
    assert isinstance(paused, Paused)
    driver.resume("t", edit({"order": 99}))
    assert desk.ran == []


def test_a_predicate_that_was_cancelled_denies(drive: Drive, colour: str, caplog: Any) -> None:
    """What it waited for was cancelled: the turn was not."""

    def cancelled(one: Any) -> bool:
        raise asyncio.CancelledError

    desk = Vault()
    result, _ = drive(agent(coloured(colour, cancelled), call("refund", order=1), desk=desk)).start("go")
    assert (desk.ran, result.answer) == ([], "done")
    assert "CancelledError" in caplog.text


async def test_a_turn_that_is_cancelled_meanwhile_is() -> None:
    """And nothing runs."""
    asked, desk = asyncio.Event(), Vault()

    async def slow(one: Any) -> bool:
        asked.set()
        await asyncio.sleep(9)
        return True

    turn = asyncio.ensure_future(agent(slow, call("refund", order=1), desk=desk).ainvoke("go"))
    await asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert desk.ran == []


def test_what_cannot_take_the_call_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'gate': predicate\(\) cannot take \(call\)"):
        filters.approve_if(lambda: True, name="gate")  # type: ignore[misc, arg-type]
    with pytest.raises(ConfigurationError, match=r"'gate': when\(\) cannot take \(call\)"):
        filters.approval(when=lambda: True, name="gate")  # type: ignore[misc, arg-type]
    with pytest.raises(ConfigurationError, match="'gate': when is a function"):
        filters.approval(when=True, name="gate")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'gate': policies is a mapping"):
        filters.approval(["slow"], name="gate")  # type: ignore[arg-type]


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'gate'.*predicate"):
        filters.approve_if(True, name="gate")  # type: ignore[arg-type]
