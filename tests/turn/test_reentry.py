"""Re-entry: a filter around the turn feeds back on an answer; one history, one budget, one account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive, delivered
from tests.loop.scripts import Log, asks, assert_valid, call, history, results, told

from scallion import Agent, Completed, Filter, Paused, Retracted, approve, around_turn, filters, transient
from scallion.testing import ScriptedModel


def feedback(check: Callable[[str], bool], tries: int = 3, name: str = "validate") -> Filter:
    """Feeds back on an answer until the check says yes."""

    def validate(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        for _ in range(tries):
            if check(result.answer):
                break
            more = [*result.messages, HumanMessage(f"wrong: {result.answer}")]
            result = next(request.replace(messages=more, load_history=False))
        return result

    return Filter(name, around_turn=validate)


good = feedback(lambda answer: "good" in answer)


def completed(outcome: tuple[Any, Any]) -> Completed:
    """The turn, which must have ended."""
    assert isinstance(outcome[0], Completed)
    return outcome[0]


def test_the_model_sees_the_rejected_answer_and_the_feedback_and_the_thread_does_not(
    drive: Drive, any_saver: Any
) -> None:
    model = ScriptedModel(["bad", "good"])
    agent = Agent(model, filters=[good], checkpointer=any_saver)
    done = completed(drive(agent).start("go", thread="t"))
    assert done.answer == "good"
    assert told(model.calls[1]) == ["user: go", "model: bad", "user: wrong: bad"]
    assert told(history(agent, "t")) == ["user: go", "model: good"]


def test_executed_calls_and_their_results_of_a_rejected_attempt_stay(drive: Drive, any_saver: Any) -> None:
    log = Log()
    script = [asks(call("send", "c1", text="a")), "bad", asks(call("send", "c2", text="b")), "good"]
    agent = Agent(ScriptedModel(script), tools=[log.tool("send")], filters=[good], checkpointer=any_saver)
    drive(agent).start("go", thread="t")
    assert told(history(agent, "t")) == [
        "user: go", "model: send", "tool: send did a", "model: send", "tool: send did b", "model: good",
    ]  # fmt: skip
    assert_valid(history(agent, "t"))
    assert log == ["send a", "send b"]


def test_usage_tool_calls_and_attempts_add_up(drive: Drive) -> None:
    log = Log()
    script = [asks(call("send", "c1", text="a")), "bad", asks(call("send", "c2", text="b")), "good"]
    agent = Agent(ScriptedModel(script), tools=[log.tool("send")], filters=[good], checkpointer=InMemorySaver())
    done = completed(drive(agent).start("go", thread="t"))
    assert done.attempts == 2
    assert [one["id"] for one in done.tool_calls] == ["c1", "c2"]
    assert done.usage["model_calls"] == 4
    assert done.usage["tool_calls"] == 2
    alone = ScriptedModel([AIMessage("x")])
    assert done.usage["total_tokens"] > completed(drive(Agent(alone)).start("go")).usage["total_tokens"]


def test_attempts_and_usage_add_up_without_a_checkpointer_too(drive: Drive) -> None:
    done = completed(drive(Agent(ScriptedModel(["bad", "bad", "good"]), filters=[good])).start("go"))
    assert (done.attempts, done.usage["model_calls"]) == (3, 3)


def test_history_is_not_duplicated_over_several_turns(drive: Drive, any_saver: Any) -> None:
    model = ScriptedModel(["bad 1", "good 1", "good 2", "bad 3", "bad 3", "good 3"])
    agent = Agent(model, filters=[good], checkpointer=any_saver)
    for text in ("one", "two", "three"):
        drive(agent).start(text, thread="t")
    assert told(history(agent, "t")) == [
        "user: one", "model: good 1", "user: two", "model: good 2", "user: three", "model: good 3",
    ]  # fmt: skip
    assert told(model.calls[-1])[:4] == ["user: one", "model: good 1", "user: two", "model: good 2"]
    assert_valid(history(agent, "t"))


def test_the_result_holds_what_the_thread_keeps_or_the_whole_sequence_of_its_run(drive: Drive) -> None:
    agent = Agent(ScriptedModel(["bad", "good"]), filters=[good], checkpointer=InMemorySaver())
    done = completed(drive(agent).start("go", thread="t"))
    assert told(done.messages) == ["user: go", "model: bad", "user: wrong: bad", "model: good"]


def test_a_result_that_stays_wrong_is_kept_when_the_filter_gives_up(drive: Drive) -> None:
    agent = Agent(ScriptedModel(["bad"] * 4), filters=[good], checkpointer=InMemorySaver())
    assert completed(drive(agent).start("go", thread="t")).attempts == 4
    assert told(history(agent, "t")) == ["user: go", "model: bad"]


def test_two_reentering_filters_nest(drive: Drive) -> None:
    short = feedback(lambda answer: len(answer) < 8, name="short")
    model = ScriptedModel(["bad", "good but long", "bad", "good"])
    agent = Agent(model, filters=[short, good], checkpointer=InMemorySaver())
    done = completed(drive(agent).start("go", thread="t"))
    assert (done.answer, done.attempts) == ("good", 4)
    assert told(history(agent, "t")) == ["user: go", "model: good"]


def test_a_second_next_with_the_same_request_starts_from_the_same_history(drive: Drive) -> None:
    @around_turn
    def twice(request: Any, state: Any, next: Any) -> Any:
        next(request)
        return next(request)

    model = ScriptedModel(["before", "before", "first", "second"])
    agent = Agent(model, filters=[twice], checkpointer=InMemorySaver())
    drive(agent).start("earlier", thread="t")
    drive(agent).start("go", thread="t")
    assert told(model.calls[3]) == ["user: earlier", "model: before", "user: go"]
    assert told(history(agent, "t")) == ["user: earlier", "model: before", "user: go", "model: second"]


def test_the_first_of_two_answers_may_be_the_one_that_is_returned(drive: Drive) -> None:
    @around_turn
    def best(request: Any, state: Any, next: Any) -> Any:
        first = next(request)
        next(request)
        return first

    agent = Agent(ScriptedModel(["first", "second"]), filters=[best], checkpointer=InMemorySaver())
    result, events = drive(agent).start("go", thread="t")
    assert result.answer == "first"
    assert told(history(agent, "t")) == ["user: go", "model: first"]
    assert not events or delivered(events) == "first"


def test_what_input_filters_made_of_the_message_is_what_is_stored(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def censor(request: Any, state: Any, next: Any) -> Any:
        clean = [HumanMessage(one.text.replace("secret", "***"), id=one.id) for one in request.messages]
        return next(request.replace(messages=clean))

    model = ScriptedModel(["ok", "ok"])
    agent = Agent(model, filters=[censor], checkpointer=any_saver)
    drive(agent).start("my secret", thread="t")
    drive(agent).start("more secret", thread="t")
    assert told(history(agent, "t")) == ["user: my ***", "model: ok", "user: more ***", "model: ok"]
    assert "secret" not in str([told(one) for one in model.calls])


def test_what_an_input_filter_took_out_is_in_the_messages_of_no_checkpoint(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def censor(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(messages=[HumanMessage("clean")]))

    agent = Agent(ScriptedModel(["ok"]), filters=[censor], checkpointer=any_saver)
    drive(agent).start("the secret", thread="t")
    states = list(agent.graph.get_state_history({"configurable": {"thread_id": "t"}}))
    assert states
    assert not any("secret" in str(one.values.get("messages")) for one in states)


def test_a_transient_message_is_shown_to_the_model_and_not_kept(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def retrieve(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(messages=[transient(HumanMessage("found: x")), *request.messages]))

    model = ScriptedModel(["ok", "fine"])
    agent = Agent(model, filters=[retrieve], checkpointer=any_saver)
    drive(agent).start("go", thread="t")
    drive(agent).start("more", thread="t")
    assert told(model.calls[0]) == ["user: found: x", "user: go"]
    assert told(model.calls[1]) == ["user: go", "model: ok", "user: found: x", "user: more"]
    assert told(history(agent, "t")) == ["user: go", "model: ok", "user: more", "model: fine"]


def test_a_transient_message_in_the_input_is_not_kept_even_without_filters(drive: Drive, any_saver: Any) -> None:
    model = ScriptedModel(["ok", "fine"])
    agent = Agent(model, checkpointer=any_saver)
    drive(agent).start([transient(HumanMessage("found: x")), HumanMessage("go")], thread="t")
    drive(agent).start("more", thread="t")
    assert told(model.calls[0]) == ["user: found: x", "user: go"]
    assert told(history(agent, "t")) == ["user: go", "model: ok", "user: more", "model: fine"]


def test_a_transient_message_is_gone_after_a_pause_too(drive: Drive, any_saver: Any) -> None:
    log = Log()
    model = ScriptedModel([asks(call("send", text="a")), "ok"])
    agent = Agent(model, tools=[log.tool("send")], filters=[filters.approval({"send": True})], checkpointer=any_saver)
    drive(agent).start([transient(HumanMessage("found: x")), HumanMessage("go")], thread="t")
    drive(agent).resume("t", approve())
    assert told(model.calls[1])[0] == "user: found: x"
    assert told(history(agent, "t")) == ["user: go", "model: send", "tool: send did a", "model: ok"]


def test_marking_a_message_does_not_change_it() -> None:
    message = HumanMessage("x")
    assert transient(message) is not message
    assert message.additional_kwargs == {}


def test_a_turn_that_is_short_circuited_is_stored_without_a_model_call(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def closed(request: Any, state: Any, next: Any) -> Any:
        answer = AIMessage("we are closed")
        return Completed(answer, [*request.messages, answer])

    model = ScriptedModel([])
    agent = Agent(model, filters=[closed], checkpointer=any_saver)
    result, events = drive(agent).start("go", thread="t")
    assert result.answer == "we are closed"
    assert result.thread == "t"
    assert model.calls == []
    assert told(history(agent, "t")) == ["user: go", "model: we are closed"]
    assert_valid(history(agent, "t"))
    assert not events or delivered(events) == "we are closed"


def test_a_turn_after_a_short_circuited_one_sees_it(drive: Drive) -> None:
    @around_turn
    def closed(request: Any, state: Any, next: Any) -> Any:
        if request.messages[-1].text != "go":
            return next(request)
        answer = AIMessage("we are closed")
        return Completed(answer, [*request.messages, answer])

    model = ScriptedModel(["open again"])
    agent = Agent(model, filters=[closed], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    drive(agent).start("now", thread="t")
    assert told(model.calls[0]) == ["user: go", "model: we are closed", "user: now"]


def test_what_an_output_filter_made_of_the_answer_is_what_is_stored(drive: Drive, any_saver: Any) -> None:
    @around_turn
    def polite(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        message = result.message.model_copy(update={"content": f"{result.answer}, please"})
        return result.replace(message=message, messages=[*result.messages[:-1], message])

    agent = Agent(ScriptedModel(["wait", "hold"]), filters=[polite], checkpointer=any_saver)
    result, events = drive(agent).start("go", thread="t")
    assert result.answer == "wait, please"
    assert not events or delivered(events) == "wait, please"
    drive(agent).start("more", thread="t")
    assert told(history(agent, "t")) == ["user: go", "model: wait, please", "user: more", "model: hold, please"]
    assert_valid(history(agent, "t"))


def test_an_output_filter_that_replaces_the_message_only_is_heard(drive: Drive) -> None:
    @around_turn
    def other(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(message=AIMessage("other"))

    agent = Agent(ScriptedModel(["mine"]), filters=[other], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert told(history(agent, "t")) == ["user: go", "model: other"]
    assert_valid(history(agent, "t"))


def test_feedback_with_the_id_of_an_earlier_message_does_not_eat_it(drive: Drive) -> None:
    def validate(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        while result.answer != "good":
            more = [*result.messages, HumanMessage("wrong", id="feedback")]
            result = next(request.replace(messages=more, load_history=False))
        return result

    model = ScriptedModel(["bad", "bad", "good"])
    agent = Agent(model, filters=[Filter("validate", around_turn=validate)], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert told(model.calls[2]) == ["user: go", "model: bad", "user: wrong", "model: bad", "user: wrong"]
    assert told(history(agent, "t")) == ["user: go", "model: good"]


def gated(path: Any, model: Any, log: Log) -> Agent:
    """A process of its own, as far as an agent can tell: everything is built anew from the file."""
    from scallion import SQLCheckpointer

    return Agent(
        model,
        tools=[log.tool("send")],
        filters=[good, filters.approval({"send": True})],
        checkpointer=SQLCheckpointer(f"sqlite:///{path / 'other.db'}"),
    )


def test_a_pause_in_the_second_attempt_goes_on_as_the_second_attempt_elsewhere(drive: Drive, tmp_path: Any) -> None:
    log = Log()
    first = ScriptedModel([asks(call("send", "c1", text="a")), "bad", asks(call("send", "c2", text="b"))])
    paused, _ = drive(gated(tmp_path, first, log)).start("go", thread="t")
    paused, _ = drive(gated(tmp_path, first, log)).resume("t", approve())
    assert isinstance(paused, Paused)
    assert [one.args for one in paused.approvals] == [{"text": "b"}]

    second = ScriptedModel(["good"])
    agent = gated(tmp_path, second, log)
    done = completed(drive(agent).resume("t", approve()))
    assert log == ["send a", "send b"]
    assert (done.answer, done.attempts) == ("good", 2)
    assert [one["id"] for one in done.tool_calls] == ["c1", "c2"]
    assert done.usage["model_calls"] == 4
    assert told(history(agent, "t")) == [
        "user: go", "model: send", "tool: send did a", "model: send", "tool: send did b", "model: good",
    ]  # fmt: skip


def test_a_third_attempt_after_a_pause_in_the_second_still_counts(drive: Drive, tmp_path: Any) -> None:
    log = Log()
    first = ScriptedModel(["bad", asks(call("send", "c1", text="a"))])
    drive(gated(tmp_path, first, log)).start("go", thread="t")
    second = ScriptedModel(["bad again", "good"])
    agent = gated(tmp_path, second, log)
    done = completed(drive(agent).resume("t", approve()))
    assert done.attempts == 3
    assert told(history(agent, "t")) == ["user: go", "model: send", "tool: send did a", "model: good"]
    assert results(history(agent, "t")) == {"c1": "send did a"}


def test_a_reentry_takes_back_the_text_that_was_streamed(drive: Drive) -> None:
    result, events = drive(Agent(ScriptedModel(["bad", "good"]), filters=[good])).start("go")
    assert result.answer == "good"
    if drive(Agent(ScriptedModel())).streams:
        assert len([one for one in events if isinstance(one, Retracted)]) == 1
        assert delivered(events) == "good"


def test_an_error_in_a_later_attempt_leaves_a_thread_that_takes_a_message(drive: Drive, any_saver: Any) -> None:
    from scallion import ModelError

    agent = Agent(ScriptedModel(["bad", TimeoutError("slow"), "good"]), filters=[good], checkpointer=any_saver)
    with pytest.raises(ModelError):
        drive(agent).start("go", thread="t")
    done = completed(drive(agent).start("again", thread="t"))
    assert done.answer == "good"
    assert_valid(history(agent, "t"))
    assert told(history(agent, "t"))[-2:] == ["user: again", "model: good"]
    assert not any("wrong" in line for line in told(history(agent, "t")))
