"""What a trace has of a turn, in the four modes."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from modes import Drive
from scenes import Desk, asks, call
from traces.drawings import drawn

from scallion import (
    Agent,
    ChatReply,
    Filter,
    SQLCheckpointer,
    approve,
    around_chat,
    around_tool,
    filters,
    pause,
)
from scallion.testing import ScriptedModel


def story(*more: Any, calls: Any = None) -> ScriptedModel:
    """A model that calls a tool and answers."""
    return ScriptedModel([asks(*(calls or [call("refund", order=1)])), *(more or ["Done."])])


def test_a_plain_turn_is_an_attempt_with_its_calls(drive: Drive) -> None:
    """Names, ids, tokens and durations, nested, in the order in which they began."""
    result, _ = drive(Agent(story(), tools=Desk().tools)).start("Refund 1", thread="t")
    trace = result.trace
    assert drawn(trace) == ["completed", "  attempt 1", "    model scripted", "    tool refund", "    model scripted"]
    assert (trace.thread, trace.turn, trace.status, trace.approvals) == ("t", result.turn, "completed", ())
    [tool], models = trace.of("tool"), trace.of("model")
    assert tool.call_id == result.tool_calls[0]["id"]
    assert trace.tokens == {"input": result.usage["input_tokens"], "output": result.usage["output_tokens"]}
    times = [one.at for one in (*trace.of("attempt"), models[0], tool, models[1])]
    assert times == sorted(times)
    assert all(one.at + one.seconds <= trace.seconds for one in trace.walk())
    assert trace.cost is None


def test_without_trace_nothing_is_recorded(drive: Drive, sql: SQLCheckpointer) -> None:
    """`trace=False`: none on the result, none in the database."""
    agent = Agent(story(), tools=Desk().tools, checkpointer=sql, trace=False)
    result, _ = drive(agent).start("Refund 1", thread="t")
    assert result.trace is None
    assert agent.session("t").trace() is None


def test_layers_that_do_nothing_are_not_in_it(drive: Drive) -> None:
    """They would be in the way of what did something."""
    watching = [
        filters.logging(),
        filters.usage(),
        Filter("idle", around_chat=lambda request, state, next: next(request)),
    ]
    result, _ = drive(Agent(story(), tools=Desk().tools, filters=watching)).start("Refund 1")
    assert result.trace.of("layer") == []


@around_chat
def shorter(request: Any, state: Any, next: Any) -> Any:
    """Show the model the last message only, no refunds, and another text of the reply."""
    tools = [one for one in request.tools if one.name != "refund"]
    reply = next(request.replace(messages=request.messages[-1:], tools=tools))
    return ChatReply(AIMessage("Now " + str(reply.message.text), id=reply.message.id))


def test_changes_are_told_in_shapes(drive: Drive) -> None:
    """How many messages, how long, which tools, and never what."""
    agent = Agent(ScriptedModel(["one", "two"]), tools=Desk().tools, filters=[shorter])
    result, _ = drive(agent).start([HumanMessage("a secret"), AIMessage("fine"), HumanMessage("and?")])
    [layer] = result.trace.of("layer")
    assert (layer.name, layer.hook, layer.calls) == ("shorter", "around_chat", 1)
    assert layer.actions == ("changed_request", "changed_reply")
    assert layer.change == ("messages 3 → 1", "text 12 → 0 characters", "tools -refund", "text 3 → 7 characters")
    assert [one.kind for one in layer.inside] == ["model"]


def test_changed_arguments_are_named_as_far_as_the_tool_has_them(drive: Drive) -> None:
    """A name that a model made up is counted."""

    @around_tool
    def adjusts(request: Any, state: Any, next: Any) -> Any:
        args = {"order": 2}
        return next(request.replace(call={**request.call, "args": args}))

    agent = Agent(story(calls=[call("refund", order=1, secret="x")]), tools=Desk().tools, filters=[adjusts])
    result, _ = drive(agent).start("Refund 1")
    [layer] = result.trace.of("layer")
    assert layer.change == ("args: order changed, 1 of other names",)
    assert layer.call_id == result.trace.of("tool")[0].call_id


def test_a_retry_holds_its_attempts(drive: Drive) -> None:
    """Both model calls stand inside of the layer, with what the first one failed with."""
    model = ScriptedModel([TimeoutError("no"), "Done."])
    retry = filters.retry_model(max_retries=2, initial_delay=0)
    result, _ = drive(Agent(model, filters=[retry])).start("Hello")
    assert drawn(result.trace) == [
        "completed",
        "  attempt 1",
        "    layer retry_model [retry]",
        "      model scripted error TimeoutError",
        "      model scripted",
    ]
    assert result.trace.of("layer")[0].calls == 2


def test_a_layer_that_answers_itself(drive: Drive) -> None:
    """It is a short circuit, and there is no model call in it."""
    block = filters.safeguard(["bomb"])
    result, _ = drive(Agent(ScriptedModel([]), filters=[block])).start("a bomb")
    assert drawn(result.trace) == ["completed", "  layer safeguard [short_circuit]"]


def test_a_loop_that_is_entered_again(drive: Drive) -> None:
    """Two attempts stand inside of the layer that wanted the second one."""
    check = filters.validate_answer(lambda answer: None if "42" in answer else "say 42")
    result, _ = drive(Agent(ScriptedModel(["no", "42"]), filters=[check])).start("?")
    assert drawn(result.trace) == [
        "completed",
        "  layer validate_answer [retry, changed_request] (messages 1 → 3; text 0 → 81 characters; the whole sequence)",
        "    attempt 1",
        "      model scripted",
        "    attempt 2",
        "      model scripted",
    ]


def test_parallel_calls_each_have_their_place(drive: Drive) -> None:
    """With the layers around each of them."""

    @around_tool
    def twice(request: Any, state: Any, next: Any) -> Any:
        next(request)
        return next(request)

    calls = [call("refund", "c1", order=1), call("mail", "c2", to="a"), call("look", "c3", order=3)]
    result, _ = drive(Agent(story(calls=calls), tools=Desk().tools, filters=[twice])).start("all")
    layers = result.trace.of("layer")
    assert {one.call_id: [inner.name for inner in one.inside] for one in layers} == {
        "c1": ["refund", "refund"],
        "c2": ["mail", "mail"],
        "c3": ["look", "look"],
    }


def test_what_raised_and_what_failed(drive: Drive) -> None:
    """A layer's own error, a model's, and that of a tool, which is a result."""

    def broken(order: int) -> str:
        """Break."""
        raise ConnectionError("secret")

    result, _ = drive(Agent(story(calls=[call("broken", order=1)]), tools=[broken])).start("?")
    [tool] = result.trace.of("tool")
    assert (tool.status, tool.error) == ("error", "transient")


def test_a_pause_and_its_resume_are_two_parts(drive: Drive, sql: SQLCheckpointer) -> None:
    """The layer that asked says so; what is replayed is not told as done again; the approval is joined."""
    desk = Desk()
    agent = Agent(story(), tools=desk.tools, filters=[filters.approval({"refund": True})], checkpointer=sql)
    paused, _ = drive(agent).start("Refund 1", thread="t")
    before = ["paused", "  attempt 1 paused", "    model scripted", "    layer approval paused [paused]"]
    assert drawn(paused.trace) == before
    assert list(paused.trace.approvals) == paused.approvals
    assert agent.session("t").trace() == paused.trace
    assert list(paused.trace.parts[0].asked) == [one.id for one in paused.approvals]
    result, _ = drive(agent).resume("t", approve())
    after = ["  attempt 1", "    layer approval [approve]", "      tool refund", "    model scripted"]
    assert drawn(result.trace) == [*before, "completed", *after]
    assert [(one.status, one.decision) for one in result.trace.approvals] == [("used", approve())]
    assert agent.session("t").trace() == result.trace


def test_a_turn_hook_that_asks_at_the_end(drive: Drive, sql: SQLCheckpointer) -> None:
    """The loop is not entered again by the resume."""
    review = filters.review_answer()
    agent = Agent(ScriptedModel(["Hello."]), filters=[review], checkpointer=sql)
    drive(agent).start("Hi", thread="t")
    result, _ = drive(agent).resume("t", approve())
    lines = drawn(result.trace)
    assert lines[:2] == ["paused", "  layer review_answer paused [paused]"]
    assert [one.kind for one in result.trace.of("model")] == ["model"]
    assert result.trace.parts[1].spans[0].actions[0] == "approve"


def test_a_retry_that_paused_is_not_told_again(drive: Drive, sql: SQLCheckpointer) -> None:
    """The second call is gone on with as the second one, and is the only one of the second part."""

    @around_tool
    def again(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return next(request) if reply.error is not None else reply

    count = []

    def touchy(order: int) -> str:
        """Fail at first, then ask."""
        count.append(order)
        if len(count) == 1:
            raise ValueError("no")
        return str(pause("Really?").message)

    agent = Agent(story(calls=[call("touchy", order=1)]), tools=[touchy], filters=[again], checkpointer=sql)
    paused, _ = drive(agent).start("?", thread="t")
    assert drawn(paused.trace)[3:] == [
        "    layer again paused [retry]",
        "      tool touchy error semantic",
        "      tool touchy paused",
    ]
    result, _ = drive(agent).resume("t", {"type": "respond", "message": "yes"})
    part = result.trace.parts[1]
    assert [one.name for one in part.spans[0].walk() if one.kind == "tool"] == ["touchy"]
    assert [one.name for one in part.spans[0].walk() if one.kind == "layer"] == []


def test_an_inner_agent_stands_inside_of_the_tool(drive: Drive) -> None:
    """Its attempts, calls and layers are within the span of the tool that it is."""
    inner = Agent(ScriptedModel([asks(call("refund", "i1", order=1)), "inner"]), tools=Desk().tools, name="inner")
    outer = Agent(
        ScriptedModel([asks(call("clerk", request="do it")), "outer"]), tools=[inner.as_tool("clerk", "A clerk.")]
    )
    result, _ = drive(outer).start("?")
    assert drawn(result.trace) == [
        "completed",
        "  attempt 1",
        "    model scripted",
        "    tool clerk",
        "      attempt 1",
        "        model scripted",
        "        tool refund",
        "        model scripted",
        "    model scripted",
    ]
