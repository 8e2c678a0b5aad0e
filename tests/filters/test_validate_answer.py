"""`validate_answer`: a check of the final answer, whose complaint goes back to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive, Outcome, delivered
from scenes import Desk, asks, call, heard

from scallion import (
    Agent,
    ChatReply,
    Completed,
    ConfigurationError,
    FilterError,
    LimitExceeded,
    Limits,
    Paused,
    Retracted,
    ValidationFailed,
    approve,
    around_chat,
    around_turn,
    filters,
    pause,
    reject,
)
from scallion.testing import ScriptedModel


def is_good(answer: str) -> str | None:
    """The check of most tests."""
    return None if "good" in answer else "say good"


def completed(outcome: Outcome) -> Completed:
    """The turn, which must have ended."""
    assert isinstance(outcome[0], Completed)
    return outcome[0]


def kept(agent: Agent, thread: str = "t") -> list[tuple[str, str]]:
    """What the thread holds."""
    return heard(agent.graph.get_state({"configurable": {"thread_id": thread}}).values["messages"])


def agent_of(*replies: Any, check: Callable[..., Any] = is_good, tools: Any = (), **options: Any) -> Agent:
    """An agent with the filter, kept in memory."""
    checked = filters.validate_answer(check, **options)
    return Agent(ScriptedModel(list(replies)), tools=tools, filters=[checked], checkpointer=InMemorySaver())


def test_a_valid_answer_is_given_at_once(drive: Drive) -> None:
    """The model is asked once."""
    done = completed(drive(agent_of("good")).start("go", thread="t"))
    assert (done.answer, done.attempts) == ("good", 1)


def test_the_model_reads_why_and_answers_again(drive: Drive) -> None:
    """It sees its own answer and the reason, as plain messages of assistant and user (SO-13), in clean Unicode."""
    model = ScriptedModel(["bad", "good"])
    checked = filters.validate_answer(lambda answer: answer == "good" or "sag «gut» – 好", max_retries=1)
    done = completed(drive(Agent(model, filters=[checked])).start("go"))
    assert (done.answer, done.attempts, done.usage["model_calls"]) == ("good", 2, 2)
    assert [kind for kind, _ in heard(model.calls[1])] == ["human", "ai", "human"]
    told = heard(model.calls[1])[-1][1]
    assert "sag «gut» – 好" in told
    assert told.encode().decode() == told


def test_after_the_retries_the_last_answer_is_given_as_it_is(drive: Drive) -> None:
    """One call and two more by default."""
    done = completed(drive(agent_of("bad 1", "bad 2", "bad 3")).start("go", thread="t"))
    assert (done.answer, done.attempts) == ("bad 3", 3)


def test_strict_raises_with_the_reasons_and_the_result(drive: Drive) -> None:
    """And the thread takes the next message; the message of the error holds no text of the answer."""
    agent = agent_of("bad secret", "bad secret", "good", max_retries=1, strict=True)
    with pytest.raises(ValidationFailed) as failure:
        drive(agent).start("go", thread="t")
    assert failure.value.errors == ["say good"]
    assert failure.value.result.answer == "bad secret"
    assert failure.value.result.attempts == 2
    assert "secret" not in str(failure.value)
    assert completed(drive(agent).start("and now?", thread="t")).answer == "good"


@pytest.mark.parametrize(("keep", "texts"), [(False, ["go", "good"]), (True, ["go", "bad", ..., "good"])])
def test_what_the_thread_keeps(drive: Drive, any_saver: Any, keep: bool, texts: list[Any]) -> None:
    """Rejected answers and feedback are dropped unless asked for; nothing is there twice, and the next turn goes on."""
    model = ScriptedModel(["bad", "good", "good too"])
    agent = Agent(model, filters=[filters.validate_answer(is_good, keep_attempts=keep)], checkpointer=any_saver)
    drive(agent).start("go", thread="t")
    there = [text for _, text in kept(agent)]
    assert [text for text, wanted in zip(there, texts, strict=True) if wanted is not ...] == [
        one for one in texts if one is not ...
    ]
    drive(agent).start("on", thread="t")
    assert [text for _, text in heard(model.calls[-1])] == [*there, "on"]


def test_kept_attempts_stay_over_a_pause(drive: Drive, any_saver: Any) -> None:
    """The second attempt pauses, and goes on with another agent, as in another process."""
    desk = Desk()
    script = ["bad", asks(call("refund", order=1)), "good"]

    def agent(replies: list[Any]) -> Agent:
        stack = [filters.validate_answer(is_good, keep_attempts=True), filters.approval({"refund": True})]
        return Agent(ScriptedModel(replies), tools=desk.tools, filters=stack, checkpointer=any_saver)

    assert isinstance(drive(agent(script[:2])).start("go", thread="t")[0], Paused)
    done = completed(drive(second := agent(script[2:])).resume("t", approve()))
    assert (done.answer, done.attempts) == ("good", 2)
    assert [text for _, text in kept(second)][:2] == ["go", "bad"]
    assert len(kept(second)) == 6


def test_a_tool_call_beside_an_invalid_answer_runs_and_stays(drive: Drive, any_saver: Any) -> None:
    """Its call and result are in the thread, whatever became of the texts around it."""
    desk = Desk()
    model = ScriptedModel([asks(call("refund", order=1), text="bad"), "bad too", "good"])
    checked = filters.validate_answer(is_good)
    agent = Agent(model, tools=desk.tools, filters=[checked], checkpointer=any_saver)
    done = completed(drive(agent).start("go", thread="t"))
    assert desk.ran == ["refund 1"]
    assert done.answer == "good"
    assert [one["name"] for one in done.tool_calls] == ["refund"]
    assert [text for _, text in kept(agent)] == ["go", "bad", "refunded 1", "good"]
    assert ("tool", "refunded 1") in heard(model.calls[2])


def test_budgets_are_not_reset(drive: Drive) -> None:
    """Defect 11: two model calls are two, over all attempts."""
    model = ScriptedModel(["bad"] * 9)
    agent = Agent(model, filters=[filters.validate_answer(is_good, max_retries=8)], limits=Limits(model_calls=2))
    with pytest.raises(LimitExceeded):
        drive(agent).start("go")
    assert len(model.calls) == 2


REFUSALS = {
    "scallion": AIMessage("No.", response_metadata={"finish_reason": "content_filtered"}),
    "openai": AIMessage("No.", response_metadata={"finish_reason": "content_filter"}),
    "openai, in the message": AIMessage("", additional_kwargs={"refusal": "No."}),
    "openai, in a block": AIMessage([{"type": "refusal", "refusal": "No."}]),
    "anthropic": AIMessage("", response_metadata={"stop_reason": "refusal"}),
    "google": AIMessage("", response_metadata={"finish_reason": "SAFETY"}),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_not_asked_again(refusal: AIMessage) -> None:
    """Defect 23, strict or not: nothing is wrong with the form of a refusal."""
    asked: list[str] = []
    done = agent_of(refusal, check=asked.append, strict=True).invoke("go", thread="t")
    assert (done.message.content, done.attempts, asked) == (refusal.content, 1, [])


def test_what_a_guard_answers_is_not_asked_again(drive: Drive) -> None:
    """A chat filter that refuses without the model would be asked for ever."""

    @around_chat
    def guard(request: Any, state: Any, next: Any) -> ChatReply:
        return ChatReply(AIMessage("No.", response_metadata={"finish_reason": "content_filtered"}))

    for refusing in (guard, filters.safeguard(["bomb"])):
        agent = Agent(ScriptedModel([]), filters=[filters.validate_answer(is_good), refusing])
        assert completed(drive(agent).start("a bomb")).attempts == 1


def test_what_a_tool_returns_directly_is_not_asked_again(drive: Drive) -> None:
    """Defect 23 too: the model did not write it."""

    def price() -> str:
        """Tell the price."""
        return "three"

    model = ScriptedModel([asks(call("price"))])
    tool = StructuredTool.from_function(price, return_direct=True)
    done = completed(drive(Agent(model, tools=[tool], filters=[filters.validate_answer(is_good)])).start("go"))
    assert (done.answer, done.attempts) == ("three", 1)


def test_a_pause_passes(drive: Drive, any_saver: Any) -> None:
    """The check sees answers only: the one after the pause is judged, and the loop entered again behind it."""
    desk, asked = Desk(), []

    def check(answer: str) -> str | None:
        asked.append(answer)
        return is_good(answer)

    stack = [filters.validate_answer(check), filters.approval({"refund": True})]
    model = ScriptedModel([asks(call("refund", order=1)), "bad", "good"])
    agent = Agent(model, tools=desk.tools, filters=stack, checkpointer=any_saver)
    done = completed(drive(agent).finish("go", thread="t"))
    assert (done.answer, asked) == ("good", ["bad", "good"])
    assert [kind for kind, _ in kept(agent)] == ["human", "ai", "tool", "ai"]


def test_a_rejected_answer_stays_rejected_over_a_pause(drive: Drive, any_saver: Any) -> None:
    """A judge that would say something else the second time cannot throw the pause away."""
    desk, said = Desk(), iter(["no", None, None])
    stack = [filters.validate_answer(lambda answer: next(said)), filters.approval({"refund": True})]
    model = ScriptedModel(["first", asks(call("refund", order=1)), "second"])
    agent = Agent(model, tools=desk.tools, filters=stack, checkpointer=any_saver)
    done = completed(drive(agent).finish("go", thread="t"))
    assert (done.answer, desk.ran, len(model.calls)) == ("second", ["refund 1"], 3)


def test_a_check_may_ask_a_person(drive: Drive, any_saver: Any) -> None:
    """Each answer is shown once, and each decision belongs to its answer."""

    def check(answer: str) -> bool:
        return bool(pause(answer, allowed=("approve", "reject")).type == "approve")

    model = ScriptedModel(["first", "second"])
    agent = Agent(model, filters=[filters.validate_answer(check)], checkpointer=any_saver)
    first, _ = drive(agent).start("go", thread="t")
    second, _ = drive(agent).resume("t", reject())
    assert [result.approvals[0].description for result in (first, second)] == ["first", "second"]
    done = completed(drive(agent).resume("t", approve()))
    assert (done.answer, len(model.calls)) == ("second", 2)


def test_a_stream_takes_back_what_was_rejected(drive: Drive) -> None:
    """Whoever follows the events holds the answer at the end, and saw the rejected one retracted before it."""
    result, events = drive(agent_of("bad", "good")).start("go", thread="t")
    assert completed((result, events)).answer == "good"
    if events:
        assert delivered(events) == "good"
        assert sum(isinstance(one, Retracted) for one in events) == 1


async def on_the_loop(answer: str) -> str | None:
    """A check that waits."""
    await asyncio.sleep(0)
    return is_good(answer)


class Judge:
    """A check that is an object, and wants the whole result."""

    def __call__(self, answer: str, result: Completed) -> bool:
        assert result.answer == answer
        return result.attempts == 2


CHECKS = [on_the_loop, Judge(), lambda answer: "good" in answer, lambda *given: "good" in given[0]]


@pytest.mark.parametrize("check", CHECKS)
def test_checks_of_every_kind(drive: Drive, check: Any) -> None:
    """`def`, `async def`, an object; with the text alone or the result too; with a reason or without."""
    done = completed(drive(agent_of("bad", "good", check=check)).start("go", thread="t"))
    assert (done.answer, done.attempts) == ("good", 2)


@pytest.mark.parametrize("said", [1, 0, "", " ", [], ("invalid", "why"), AIMessage("why")])
def test_what_is_neither_yes_nor_no_fails_the_turn(drive: Drive, said: Any) -> None:
    """A check that forgets its reason does not let the answer pass."""
    with pytest.raises(FilterError) as failure:
        drive(agent_of("bad", check=lambda answer: said)).start("go", thread="t")
    assert isinstance(failure.value.__cause__, TypeError)


def test_a_model_that_gives_several_answers_is_refused(drive: Drive) -> None:
    """SO-15: one would be judged, and the others nobody saw."""

    class Several(ScriptedModel):
        n: int = 2

    with pytest.raises(ConfigurationError, match="n=2"):
        drive(Agent(Several(["good"]), filters=[filters.validate_answer(is_good)])).start("go")


def test_a_check_that_crashes_fails_the_turn(drive: Drive) -> None:
    """It is not taken for an answer that is valid, nor for one that is not."""

    def check(answer: str) -> None:
        raise KeyError("secret")

    with pytest.raises(FilterError) as failure:
        drive(agent_of("bad", check=check)).start("go", thread="t")
    assert (failure.value.filter, failure.value.hook) == ("validate_answer", "around_turn")
    assert isinstance(failure.value.__cause__, KeyError)
    assert "secret" not in str(failure.value)


def test_strict_survives_a_pause_of_an_outer_filter(drive: Drive, any_saver: Any) -> None:
    """A hook outside that asks a person about the failure meets the same failure when it runs again."""

    @around_turn
    def ask(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request)
        except ValidationFailed as failure:
            pause("Take it?", allowed=("approve",))
            message = AIMessage(", ".join(failure.errors))
            return Completed(message, [*request.messages, message])

    checked = filters.validate_answer(is_good, max_retries=0, strict=True)
    agent = Agent(ScriptedModel(["bad"]), filters=[ask, checked], checkpointer=any_saver)
    assert completed(drive(agent).finish("go", thread="t")).answer == "say good"


def test_two_of_a_kind(drive: Drive) -> None:
    """Each has its own retries; the outer one judges what the inner one let pass."""
    stack = [
        filters.validate_answer(lambda answer: "!" in answer, name="loud"),
        filters.validate_answer(is_good),
    ]
    done = completed(drive(Agent(ScriptedModel(["bad", "good", "good!"]), filters=stack)).start("go"))
    assert (done.answer, done.attempts) == ("good!", 3)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"check": "good"}, "check is a function of the answer, not str"),
        ({"check": lambda: None}, "cannot take"),
        ({"check": is_good, "max_retries": -1}, "max_retries is a whole number from 0 on, not -1"),
        ({"check": is_good, "max_retries": True}, "max_retries"),
        ({"check": is_good, "max_retries": 1.5}, "max_retries"),
    ],
)
def test_what_cannot_work_fails_where_it_is_built(options: dict[str, Any], told: str) -> None:
    """With the name of the filter."""
    with pytest.raises(ConfigurationError, match="'mine'") as failure:
        filters.validate_answer(**options, name="mine")
    assert told in str(failure.value)


def test_langchain_has_no_way_back_into_the_loop_that_forgets() -> None:
    """The neighbour's nearest is an after_model hook that jumps: the rejected answer and the feedback stay for good."""
    middleware = pytest.importorskip("langchain.agents.middleware")
    agents = pytest.importorskip("langchain.agents")

    @middleware.after_model(can_jump_to=["model"])
    def check(state: Any, runtime: Any) -> dict[str, Any] | None:
        reason = is_good(state["messages"][-1].text)
        return {"messages": [HumanMessage(reason)], "jump_to": "model"} if reason else None

    agent = agents.create_agent(ScriptedModel(["bad", "good"]), middleware=[check], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": [HumanMessage("go")]}, config)
    assert [text for _, text in heard(agent.get_state(config).values["messages"])] == ["go", "bad", "say good", "good"]
