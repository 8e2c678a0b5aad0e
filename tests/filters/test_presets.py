"""The presets: lists that print what they hold and can be changed, and every filter in them fires."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from modes import Drive
from tests.scenes import Desk, asks, call, results

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    LimitExceeded,
    ModelError,
    Paused,
    approve,
    filters,
    reject,
    rerun,
)
from scallion.filters import presets
from scallion.filters.retrying import backoff
from scallion.testing import ScriptedModel

LATE, DENIED = TimeoutError("late"), PermissionError("the card is blocked")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is waited between attempts, in seconds: nothing is."""
    slept: list[float] = []
    monkeypatch.setattr(backoff, "wait_for", slept.append)
    return slept


def looks(messages: list[Any]) -> Any:
    """A model that never comes to an end."""
    return asks(call("look", f"c{len(messages)}", order=len(messages)))


def failing(*failures: Exception, **marks: Any) -> tuple[BaseTool, list[int]]:
    """A tool `look` that fails so often before it works, and its runs."""
    ran: list[int] = []

    def look(order: int) -> str:
        """Look."""
        ran.append(order)
        if len(ran) <= len(failures):
            raise failures[len(ran) - 1]
        return "here"

    return StructuredTool.from_function(look, metadata=marks), ran


class TestLists:
    """What a preset is."""

    @pytest.mark.parametrize(
        ("made", "printed"),
        [
            (presets.minimal(), "minimal:\n  limit_calls(20)"),
            (
                presets.development(),
                "development:\n  logging()\n  usage()\n  limit_calls(50, exit='finish')\n"
                "  retry_tool(5, initial_delay=0.2)",
            ),
            (
                presets.production(ScriptedModel([]), seconds=90),
                "production:\n  logging()\n  usage()\n  limit_calls(15, seconds=90)\n  fallback(ScriptedModel)\n"
                "  retry_model(2)\n  retry_tool(2, initial_delay=0.5, max_delay=10.0)\n  timeout(60.0)",
            ),
            (
                presets.human_in_loop({"refund": True}),
                "human_in_loop:\n  limit_calls(20, exit='ask')\n  approval({'refund': True})\n"
                "  pause_on_environment_error()",
            ),
        ],
    )
    def test_it_prints_what_it_holds(self, made: Any, printed: str) -> None:
        assert isinstance(made, list)
        assert repr(made) == str(made) == printed

    def test_what_is_not_wanted_is_not_there(self) -> None:
        names = [one.name for one in presets.production(retry_tools=[])]
        assert names == ["logging", "usage", "limit_calls", "retry_model", "timeout"]

    def test_it_can_be_changed(self) -> None:
        stack = presets.production()
        stack[2] = filters.limit_calls(3)
        stack.append(filters.todo())
        del stack[0]
        assert repr(stack).splitlines()[1:3] == ["  usage()", "  LimitCalls('limit_calls': around_chat, around_tool)"]
        agent = Agent(ScriptedModel(looks), tools=Desk().tools, filters=stack)
        with pytest.raises(LimitExceeded) as caught:
            agent.invoke("go")
        assert caught.value.allowed == 3

    def test_each_call_makes_filters_of_its_own(self) -> None:
        assert not set(map(id, presets.minimal())) & set(map(id, presets.minimal()))

    @pytest.mark.parametrize("make", [presets.minimal, presets.development, presets.production, presets.human_in_loop])
    def test_what_cannot_be_is_refused(self, make: Any) -> None:
        with pytest.raises(ConfigurationError):
            make(model_calls=0)

    @pytest.mark.parametrize("wrong", ["abc", 5, [["look"]]])
    def test_names_are_a_list(self, wrong: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"presets.production: retry_tools is a list of names"):
            presets.production(retry_tools=wrong)

    def test_policies_are_by_name(self) -> None:
        with pytest.raises(ConfigurationError, match=r"filter 'approval': policies is a mapping by tool name"):
            presets.human_in_loop(5)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="filter 'gate': when is a function of the call"):
            filters.approval(when="refund", name="gate")  # type: ignore[arg-type]


class TestMinimal:
    def test_the_limit_fires(self, drive: Drive) -> None:
        model = ScriptedModel(looks)
        with pytest.raises(LimitExceeded):
            drive(Agent(model, tools=Desk().tools, filters=presets.minimal(model_calls=2))).start("go")
        assert len(model.calls) == 2


class TestDevelopment:
    def test_all_of_it_fires(self, drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
        tool, ran = failing(LATE, LATE, LATE, LATE, LATE)
        agent = Agent(ScriptedModel(looks), tools=[tool], filters=presets.development(model_calls=2))
        with caplog.at_level(logging.INFO, "scallion.log"):
            result, _ = drive(agent).start("go")
        assert isinstance(result, Completed)
        assert result.message.response_metadata["limit"] == "model_calls"
        assert len(ran) == 7  # the first call took six attempts, the second one
        assert result.filter_state["usage"]["models"]["scripted"]["calls"] == 2
        assert caplog.records


class TestProduction:
    def test_models_are_tried_again_and_then_the_next_one_is_asked(self, drive: Drive, waits: list[float]) -> None:
        first, second = ScriptedModel([LATE] * 3), ScriptedModel([LATE, "Five."])
        result, _ = drive(Agent(first, filters=presets.production(second))).start("2 + 3?")
        assert (result.answer, len(first.calls), len(second.calls), len(waits)) == ("Five.", 3, 2, 3)

    def test_without_another_model_the_last_error_is_raised(self, drive: Drive) -> None:
        with pytest.raises(ModelError):
            drive(Agent(ScriptedModel([LATE] * 3), filters=presets.production())).start("2 + 3?")

    def test_tools_are_tried_again(self, drive: Drive) -> None:
        tool, ran = failing(LATE, LATE)
        model = ScriptedModel([asks(call("look", order=1)), "Here."])
        drive(Agent(model, tools=[tool], filters=presets.production())).start("go")
        assert len(ran) == 3

    @pytest.mark.parametrize(("retry_tools", "runs"), [(None, 1), (["look"], 2), ([], 1)])
    def test_those_with_effects_only_where_they_are_named(self, retry_tools: Any, runs: int) -> None:
        tool, ran = failing(LATE, sensitive=True)
        model = ScriptedModel([asks(call("look", order=1)), "Here."])
        Agent(model, tools=[tool], filters=presets.production(retry_tools=retry_tools)).invoke("go")
        assert len(ran) == runs

    def test_a_tool_that_hangs_is_left_and_tried_again(self, drive: Drive) -> None:
        begun = []

        async def look(order: int) -> str:
            """Look."""
            begun.append(order)
            if len(begun) == 1:
                await asyncio.sleep(60)
            return "here"

        model = ScriptedModel([asks(call("look", order=1)), "Here."])
        stack = presets.production(tool_seconds=0.05)
        result, _ = drive(Agent(model, tools=[StructuredTool.from_function(coroutine=look)], filters=stack)).start("go")
        assert (results(result.messages), len(begun)) == (["here"], 2)

    def test_model_calls_are_limited_over_all_of_it(self, drive: Drive) -> None:
        first, second = ScriptedModel([LATE] * 9), ScriptedModel([LATE] * 9)
        with pytest.raises(LimitExceeded):
            drive(Agent(first, filters=presets.production(second, model_calls=4))).start("2 + 3?")
        assert (len(first.calls), len(second.calls)) == (3, 1)


class TestHumanInLoop:
    def test_people_are_asked_about_a_tool_its_failure_and_the_limit(self, drive: Drive, memory: Any) -> None:
        tool, ran = failing(DENIED)
        agent = Agent(
            ScriptedModel(looks), tools=[tool], filters=presets.human_in_loop(model_calls=1), checkpointer=memory
        )
        asked = []
        result, _ = drive(agent).start("go", thread="t")
        for decision in (approve(), rerun(), reject()):
            assert isinstance(result, Paused)
            asked.append(result.approvals[0].kind)
            result, _ = drive(agent).resume("t", decision)
        assert asked == ["tool_call", "environment", "question"]
        assert isinstance(result, Completed)
        assert (result.message.response_metadata["limit"], len(ran)) == ("model_calls", 2)

    def test_policies_say_which_tools(self, memory: Any) -> None:
        desk = Desk()
        model = ScriptedModel([asks(call("look", order=1), call("refund", "c2", order=1)), "Done."])
        stack = presets.human_in_loop({"refund": True})
        result = Agent(model, tools=desk.tools, filters=stack, checkpointer=memory).invoke("go", thread="t")
        assert isinstance(result, Paused)
        assert ([one.tool for one in result.approvals], desk.ran) == (["refund"], ["look 1"])

    def test_it_needs_a_checkpointer(self) -> None:
        with pytest.raises(ConfigurationError, match="checkpointer"):
            Agent(ScriptedModel([]), filters=presets.human_in_loop())
