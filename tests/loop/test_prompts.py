"""System prompts: merged into one in front of what the model reads; never stored, never seen by filters."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from tests.loop.scripts import Log, asks, assert_valid, call, history

from scallion import Agent, around_chat, filters
from scallion.testing import ScriptedModel


def prompts(messages: Any) -> list[str]:
    """The system messages that a model call was given, after a check that they stand in front."""
    found = [one for one in messages if isinstance(one, SystemMessage)]
    assert list(messages[: len(found)]) == found
    return [one.text for one in found]


def test_the_prompt_of_the_agent_stands_in_front_of_every_model_call(drive: Drive) -> None:
    model = ScriptedModel([asks(call("send")), "ok", "ok"])
    agent = Agent(model, tools=[Log().tool("send")], system_prompt="Be kind.", checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    drive(agent).start("more", thread="t")
    assert [prompts(one) for one in model.calls] == [["Be kind."]] * 3
    assert_valid(history(agent, "t"))


def test_agents_calls_and_leading_prompts_become_one_in_that_order(drive: Drive) -> None:
    model = ScriptedModel(["ok"])
    agent = Agent(model, system_prompt="agent")
    drive(agent).start([SystemMessage("leading"), ("user", "go")], system_prompt="call")
    [shown] = prompts(model.calls[0])
    assert shown.index("agent") < shown.index("call") < shown.index("leading")


def test_the_prompt_of_a_call_holds_for_that_call_only(drive: Drive) -> None:
    model = ScriptedModel(["ok", "ok"])
    agent = Agent(model, system_prompt="agent", checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t", system_prompt="once")
    drive(agent).start("go", thread="t")
    assert "once" in prompts(model.calls[0])[0]
    assert prompts(model.calls[1]) == ["agent"]
    assert_valid(history(agent, "t"))


def test_the_prompt_of_a_call_holds_on_resume(drive: Drive) -> None:
    model = ScriptedModel([asks(call("send")), "ok"])
    agent = Agent(
        model,
        tools=[Log().tool("send")],
        filters=[filters.approval({"send": True})],
        checkpointer=InMemorySaver(),
    )
    drive(agent).start("go", thread="t")
    drive(agent).resume("t", {"type": "approve"}, system_prompt="after")
    assert prompts(model.calls[1]) == ["after"]


def test_prompts_given_as_messages_with_blocks_are_merged(drive: Drive) -> None:
    model = ScriptedModel(["ok"])
    cached = {"type": "text", "text": "agent", "cache_control": {"type": "ephemeral"}}
    drive(Agent(model, system_prompt=SystemMessage([cached]))).start("go", system_prompt="call")
    [shown] = [one for one in model.calls[0] if isinstance(one, SystemMessage)]
    assert shown.content == [cached, {"type": "text", "text": "call"}]


def test_filters_around_the_model_never_see_them(drive: Drive) -> None:
    seen: list[Any] = []

    @around_chat
    def watch(request: Any, state: Any, next: Any) -> Any:
        seen.extend(request.messages)
        return next(request)

    drive(Agent(ScriptedModel(["ok"]), system_prompt="agent", filters=[watch])).start("go", system_prompt="call")
    assert [one.type for one in seen] == ["human"]


def test_a_prompt_that_a_filter_puts_in_front_is_merged_behind_the_agents(drive: Drive) -> None:
    @around_chat
    def steer(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(messages=[SystemMessage("filter"), *request.messages]))

    model = ScriptedModel(["ok"])
    agent = Agent(model, system_prompt="agent", filters=[steer], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    [shown] = prompts(model.calls[0])
    assert shown.index("agent") < shown.index("filter")
    assert_valid(history(agent, "t"))


@pytest.mark.parametrize("empty", [None, ""])
def test_no_prompt_is_no_message(drive: Drive, empty: Any) -> None:
    model = ScriptedModel(["ok"])
    drive(Agent(model, system_prompt=empty)).start("go")
    assert prompts(model.calls[0]) == []


def test_a_system_message_in_the_input_is_for_this_turn_and_not_stored(drive: Drive) -> None:
    model = ScriptedModel(["ok", "ok"])
    agent = Agent(model, checkpointer=InMemorySaver())
    drive(agent).start([SystemMessage("leading"), ("user", "go")], thread="t")
    assert prompts(model.calls[0]) == ["leading"]
    drive(agent).start("more", thread="t")
    assert_valid(history(agent, "t"))


def test_a_system_message_that_leads_a_later_turn_does_not_stand_in_the_middle(drive: Drive) -> None:
    model = ScriptedModel(["ok", "ok"])
    agent = Agent(model, system_prompt="agent", checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    drive(agent).start([SystemMessage("leading"), ("user", "more")], thread="t")
    [shown] = prompts(model.calls[1])
    assert shown.index("agent") < shown.index("leading")
