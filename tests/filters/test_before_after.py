"""Hooks before and after each chain: order, what they may say, and that each is asked once, also over a pause."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import after_agent, before_model
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive, delivered
from scenes import REQUESTS, Desk, asks, call, heard, results
from tests.filters.hooks import BEFORE_AND_AFTER, noting, of_colour

from scallion import (
    Agent,
    ChatReply,
    ChatRequest,
    Completed,
    ConfigurationError,
    Filter,
    FilterError,
    LimitExceeded,
    ModelError,
    Paused,
    approve,
    compose,
    filters,
    pause,
)
from scallion.filters import ask_model_again, end_turn, replace_answer
from scallion.filters.before_after import Hook
from scallion.filters.verbs import MAY, PLACES, VERBS
from scallion.testing import ScriptedModel

SAYS = {
    "end_turn": end_turn("No."),
    "replace_answer": replace_answer("Other."),
    "ask_model_again": ask_model_again("?"),
}
PAIRS = [(place, verb) for place in PLACES for verb in VERBS]
COLOURS = ("def", "async")


def saying(place: str, said: Any, colour: str = "def", **options: Any) -> Filter:
    """A hook that says this the first time it is asked in a turn, and nothing afterwards."""

    def hook(value: Any, state: Any) -> Any:
        return None if state.get("said") else (said, {"said": True})

    return BEFORE_AND_AFTER[place](of_colour(hook, colour), name=place, **options)


def desk_agent(onion: list[Filter], *, saver: Any = None, end: str = "Done.") -> tuple[Agent, ScriptedModel, Desk]:
    """An agent whose model calls one tool and then answers."""
    model, desk = ScriptedModel([asks(call("refund", order=1)), end, "Third."]), Desk()
    return Agent(model, tools=desk.tools, filters=onion, checkpointer=saver), model, desk


def test_hooks_before_run_outermost_first_and_those_after_the_other_way_round(drive: Drive) -> None:
    notes: list[str] = []
    onion = [noting(place, layer, notes) for layer in ("a", "b") for place in PLACES]
    result, _ = drive(desk_agent(onion)[0]).start("go")
    assert result.answer == "Done."
    chat = ["before_chat a", "before_chat b", "after_chat b", "after_chat a"]
    tool = ["before_tool a", "before_tool b", "after_tool b", "after_tool a"]
    turn = ["before_turn a", "before_turn b"], ["after_turn b", "after_turn a"]
    assert notes == [*turn[0], *chat, *tool, *chat, *turn[1]]


@pytest.mark.parametrize("colour", COLOURS)
def test_a_hook_may_change_what_goes_in_and_what_comes_out(drive: Drive, colour: str) -> None:
    def louder(request: Any) -> Any:
        return request.replace(messages=[*request.messages[:-1], HumanMessage(request.messages[-1].text.upper())])

    def dotted(reply: Any, state: Any, request: Any) -> Any:
        return reply.replace(message=reply.message.model_copy(update={"content": f"{reply.message.text}!"}))

    def other_order(request: Any) -> Any:
        return request.replace(call={**request.call, "args": {"order": 2}})

    onion = [
        filters.before_turn(of_colour(louder, colour)),
        filters.before_tool(of_colour(other_order, colour)),
        filters.after_tool(of_colour(dotted, colour), name="tool"),
        filters.after_chat(of_colour(dotted, colour), name="chat"),
        filters.after_turn(of_colour(dotted, colour), name="turn"),
    ]
    result, events = drive(desk_agent(onion)[0]).start("go")
    assert heard(result.messages) == [("human", "GO"), ("ai", "!"), ("tool", "refunded 2!"), ("ai", "Done.!!")]
    assert not events or delivered(events) == "!Done.!!"


@pytest.mark.parametrize(("place", "verb"), [pair for pair in PAIRS if pair[1] in MAY[pair[0]]])
@pytest.mark.parametrize("colour", COLOURS)
def test_every_pair_that_is_documented_works(place: str, verb: str, colour: str) -> None:
    agent, model, _desk = desk_agent([saying(place, SAYS[verb], colour, may=verb)])
    result = agent.invoke("go")
    answers = {"end_turn": "No.", "replace_answer": "Other.", "ask_model_again": "Done."}
    later = {("replace_answer", "before_tool"), ("replace_answer", "after_tool"), ("replace_answer", "after_chat")}
    expected = {("ask_model_again", "after_turn"): "Third."}.get((verb, place), answers[verb])
    assert result.answer == ("Done." if (verb, place) in later else expected)
    assert_each_call_has_its_result(result)
    assert len(model.calls) <= {"end_turn": 2, "replace_answer": 2, "ask_model_again": 3}[verb]


@pytest.mark.parametrize(("place", "verb"), [pair for pair in PAIRS if pair[1] not in MAY[pair[0]]])
def test_every_other_pair_is_refused_where_the_filter_is_made_or_else_where_it_is_said(place: str, verb: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"filter 'mine': {place} may end_turn or replace_answer, not '{verb}'"
    ):
        BEFORE_AND_AFTER[place](lambda value: None, name="mine", may=[verb])
    agent, _, _desk = desk_agent([saying(place, SAYS[verb])])
    with pytest.raises(FilterError, match=f"{place} may not say {verb}"):
        agent.invoke("go")


def test_what_a_hook_did_not_declare_fails_the_turn_and_is_not_passed_over() -> None:
    """Seed defect 30: a jump that was not declared was ignored, and so is it by a neighbour, whose model is asked."""
    stops = saying("before_chat", end_turn("No."), may=("replace_answer",))
    agent, model, _ = desk_agent([stops])
    with pytest.raises(FilterError, match="before_chat may not say end_turn"):
        agent.invoke("go")
    assert model.calls == []

    @before_model
    def jumps(state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage("No.")], "jump_to": "end"}

    neighbour = ScriptedModel(["Yes."])
    said = create_agent(neighbour, [], middleware=[jumps]).invoke({"messages": [("user", "go")]})
    assert (said["messages"][-1].text, len(neighbour.calls)) == ("Yes.", 1)


@pytest.mark.parametrize("order", list(itertools.permutations(["stop", "seen", "inner"])))
def test_hooks_after_the_turn_see_the_end_of_it_wherever_they_stand_and_no_other_layer_inside_runs(
    drive: Drive, order: tuple[str, ...]
) -> None:
    """The seed's document says that an end goes on through the hooks after the agent; its code skips them."""
    notes: list[str] = []

    def inner(request: Any, state: Any, next: Any) -> Any:
        notes.append("inner")
        return next(request)

    layers = {
        "stop": saying("before_turn", end_turn("No.")),
        "seen": noting("after_turn", "seen", notes),
        "inner": Filter("inner", around_turn=inner),
    }
    model = ScriptedModel(["Yes."])
    agent = Agent(model, filters=[layers[name] for name in order], checkpointer=InMemorySaver())
    result, events = drive(agent).start("go", thread="t")
    assert (result.answer, model.calls) == ("No.", [])
    assert notes.count("after_turn seen") == 1
    assert notes.count("inner") == (order.index("inner") < order.index("stop"))
    assert heard(history(agent)) == [("human", "go"), ("ai", "No.")]
    assert not events or delivered(events) == "No."


def history(agent: Agent) -> Any:
    """What the thread holds."""
    return agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]


@pytest.mark.parametrize("place", ["before_tool", "after_tool"])
def test_a_tool_hook_that_ends_the_turn_costs_no_model_call_and_leaves_every_call_answered(
    drive: Drive, place: str
) -> None:
    """A neighbour asks its model once more after such an end."""
    model, desk = ScriptedModel([asks(call("refund", order=1), call("mail", "c2", to="ann"))]), Desk()
    agent = Agent(
        model, tools=desk.tools, filters=[saying(place, end_turn("That is all."))], checkpointer=InMemorySaver()
    )
    result, events = drive(agent).start("go", thread="t")
    assert (result.answer, len(model.calls)) == ("That is all.", 1)
    assert_each_call_has_its_result(result)
    assert heard(history(agent))[-1] == ("ai", "That is all.")
    assert "mail ann" in desk.ran or place == "before_tool"
    assert not events or delivered(events) == "That is all."


def assert_each_call_has_its_result(result: Any) -> None:
    """And no result is without its call."""
    called = [one["id"] for message in result.messages if isinstance(message, AIMessage) for one in message.tool_calls]
    assert sorted(called) == sorted(one.tool_call_id for one in result.messages if isinstance(one, ToolMessage))


def test_the_result_of_a_tool_that_returns_directly_is_not_the_answer_of_a_turn_that_ended_behind_it() -> None:
    def secret() -> str:
        """Tell the secret."""
        return "4711"

    tool = StructuredTool.from_function(secret, return_direct=True)
    guard = filters.after_tool(lambda reply: end_turn("Not for you."), name="guard")
    agent = Agent(ScriptedModel([asks(call("secret"))]), tools=[tool], filters=[guard])
    assert agent.invoke("go").answer == "Not for you."


@pytest.mark.parametrize("colour", COLOURS)
def test_hooks_after_see_an_error_once_and_cannot_swallow_it(drive: Drive, colour: str) -> None:
    """A neighbour's hook after the agent does not hear of it."""
    notes: list[str] = []

    def hears(result: Any, state: Any) -> Any:
        notes.append(type(result).__name__)
        return replace_answer("All is well.")

    onion = [
        filters.after_turn(of_colour(hears, colour), name="turn"),
        filters.after_chat(of_colour(hears, colour), name="chat"),
    ]
    agent = Agent(ScriptedModel([TimeoutError("slow")]), filters=onion)
    with pytest.raises(ModelError):
        drive(agent).start("go")
    assert notes == ["ModelError", "ModelError"]

    @after_agent
    def neighbour(state: Any, runtime: Any) -> None:
        notes.append("neighbour")

    with pytest.raises(TimeoutError):
        create_agent(ScriptedModel([TimeoutError("slow")]), [], middleware=[neighbour]).invoke({"messages": ["go"]})
    assert "neighbour" not in notes


def test_a_hook_that_fails_on_an_error_does_not_hide_it() -> None:
    onion = [filters.after_turn(lambda result: result.answer, name="naive")]
    with pytest.raises(ModelError):
        Agent(ScriptedModel([TimeoutError("slow")]), filters=onion).invoke("go")


def test_a_tools_failure_is_a_reply_that_the_hook_sees(drive: Drive) -> None:
    kinds: list[Any] = []

    def broken() -> str:
        """Break."""
        raise OSError("gone")

    seen = filters.after_tool(lambda reply, state, request: kinds.append((request.call["name"], reply.error.kind)))
    agent = Agent(ScriptedModel([asks(call("broken")), "Sorry."]), tools=[broken], filters=[seen])
    drive(agent).start("go")
    assert kinds == [("broken", "environment")]


@pytest.mark.parametrize("colour", COLOURS)
def test_each_hook_after_is_asked_once_although_the_turn_pauses_in_each_place(
    drive: Drive, any_saver: Any, colour: str
) -> None:
    """Behind a pause in a tool, in the model's chain, and around the turn, with a second attempt in between."""
    notes: list[str] = []

    def judged(result: Any, state: Any) -> Any:
        notes.append(f"turn {result.answer}")
        return ask_model_again("better") if result.answer == "bad" else None

    def checked(reply: Any, state: Any) -> Any:
        notes.append(f"chat {reply.message.text}")
        return (ask_model_again("longer"), {"n": state["n"] + 1}) if reply.message.text == "short" else None

    def released(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        pause("Send it?", allowed=("approve",))
        return result

    def costly(request: Any, state: Any, next: Any) -> Any:
        if any(one.text == "longer" for one in request.messages):
            pause("Ask once more?", allowed=("approve",))
        return next(request)

    model, desk = ScriptedModel(["bad", "short", asks(call("refund", order=1), text="so"), "good"]), Desk()
    onion = [
        Filter("release", around_turn=released),
        filters.after_turn(of_colour(judged, colour), name="judge"),
        filters.after_chat(of_colour(checked, colour), name="check", init={"n": 0}),
        Filter("costly", around_chat=costly),
        filters.approval({"refund": True}),
    ]
    agent = Agent(model, tools=desk.tools, filters=onion, checkpointer=any_saver)
    result, _ = drive(agent).finish("go", thread="t")
    assert (result.answer, len(model.calls), desk.ran) == ("good", 4, ["refund 1"])
    assert notes == ["chat bad", "turn bad", "chat short", "chat so", "chat good", "turn good"]
    assert result.filter_state["check"] == {"n": 1}


def test_a_hook_that_asks_a_person_twice_gets_each_answer_for_its_own_question(drive: Drive, any_saver: Any) -> None:
    def asks_about(reply: Any, state: Any) -> Any:
        decision = pause(f"Good: {reply.message.text}?", allowed=("approve", "reject"))
        return ask_model_again("better") if decision.type == "reject" else None

    model = ScriptedModel(["one", "two"])
    agent = Agent(model, filters=[filters.after_chat(asks_about)], checkpointer=any_saver)
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    paused, _ = drive(agent).resume("t", {paused.approvals[0].id: {"type": "reject"}})
    assert isinstance(paused, Paused)
    assert paused.approvals[0].description == "Good: two?"
    done, _ = drive(agent).resume("t", approve())
    assert (done.answer, len(model.calls)) == ("two", 2)


@pytest.mark.parametrize(("place", "calls"), [("after_chat", 3), ("after_turn", 3)])
def test_asking_again_has_an_end_that_is_a_typed_error(drive: Drive, place: str, calls: int) -> None:
    model = ScriptedModel(lambda messages: "bad")
    never = BEFORE_AND_AFTER[place](lambda reply: None if isinstance(reply, Exception) else ask_model_again("better"))
    with pytest.raises(LimitExceeded) as error:
        drive(Agent(model, filters=[never])).start("go")
    assert (error.value.limit, error.value.used, len(model.calls)) == ("ask_model_again", 2, calls)


@pytest.mark.parametrize("place", ["after_chat", "after_turn"])
def test_the_model_reads_the_answer_and_the_feedback_and_the_thread_keeps_neither(drive: Drive, place: str) -> None:
    model = ScriptedModel(["bad", "good"])
    agent = Agent(model, filters=[saying(place, ask_model_again("better"))], checkpointer=InMemorySaver())
    _result, events = drive(agent).start("go", thread="t")
    assert heard(model.calls[1]) == [("human", "go"), ("ai", "bad"), ("human", "better")]
    assert heard(history(agent)) == [("human", "go"), ("ai", "good")]
    assert not events or delivered(events) == "good"


def test_calls_of_an_answer_that_is_asked_for_again_never_run(drive: Drive) -> None:
    agent, model, desk = desk_agent([saying("after_chat", ask_model_again("no tools"))])
    drive(agent).start("go")
    assert desk.ran == []
    assert heard(model.calls[1]) == [("human", "go"), ("human", "no tools")]


def test_an_end_in_front_of_the_loop_is_not_asked_about_again(drive: Drive) -> None:
    """Seed defect 23: a refusal was judged as an answer, and the model asked to do better."""
    for before, after in (("before_turn", "after_turn"), ("before_chat", "after_chat"), ("before_chat", "after_turn")):
        judge = BEFORE_AND_AFTER[after](lambda reply: ask_model_again("better"), name="judge")
        stop = BEFORE_AND_AFTER[before](lambda request: end_turn("No."), name="stop")
        for onion in ([judge, stop], [stop, judge]):
            model = ScriptedModel([])
            result, _ = drive(Agent(model, filters=onion)).start("go")
            assert (result.answer, model.calls) == ("No.", [])


def test_a_replaced_answer_keeps_the_calls_of_the_model_and_an_ended_turn_drops_them() -> None:
    agent, _, desk = desk_agent([saying("after_chat", replace_answer("Let me see."))])
    assert heard(agent.invoke("go").messages)[1:3] == [("ai", "Let me see."), ("tool", "refunded 1")]
    agent, _, desk = desk_agent([saying("after_chat", end_turn("No."))])
    assert (heard(agent.invoke("go").messages)[1:], desk.ran) == ([("ai", "No.")], [])


def test_a_hook_can_give_a_message_with_calls_in_the_place_of_the_model() -> None:
    agent, _model, desk = desk_agent([saying("before_chat", replace_answer(asks(call("refund", order=7))))])
    agent.invoke("go")
    assert desk.ran[0] == "refund 7"


def test_a_reply_in_the_place_of_a_tool_is_read_by_the_model() -> None:
    agent, _model, desk = desk_agent([saying("before_tool", replace_answer("It is closed."))])
    result = agent.invoke("go")
    assert (results(result.messages), desk.ran) == (["It is closed."], [])


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: None, "cannot take"),
        (lambda a, b, c, d: None, "cannot take"),
        (lambda request: (yield), "generator"),
        ("text", "made of a function, not of str"),
    ],
)
def test_what_cannot_be_a_hook_is_refused_where_it_is_made(function: Any, told: str) -> None:
    for make in BEFORE_AND_AFTER.values():
        with pytest.raises(ConfigurationError, match=told):
            make(function, name="mine")


@pytest.mark.parametrize("said", ["a text", 7, AIMessage("x"), (None, "no mapping"), HumanMessage("x")])
def test_what_is_no_answer_of_a_hook_fails_the_turn_without_telling_what_it_was(said: Any) -> None:
    with pytest.raises(FilterError, match="returned") as error:
        Agent(ScriptedModel(["x"]), filters=[filters.before_chat(lambda request: said, name="mine")]).invoke("go")
    assert error.value.filter == "mine"
    assert "a text" not in str(error.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: end_turn(7),
        lambda: ask_model_again(None),
        lambda: ask_model_again("x", at_most=0),
        lambda: ask_model_again("x", at_most=True),
        lambda: replace_answer({}),
    ],
)
def test_a_verb_with_what_it_cannot_hold_is_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_a_hook_can_be_tried_without_an_agent() -> None:
    chain = compose([saying("after_chat", replace_answer("b"))], "chat", lambda request: ChatReply(AIMessage("a")))
    assert chain(REQUESTS["chat"]).message.text == "b"
    assert asyncio.run(chain.acall(REQUESTS["chat"])).message.text == "b"


def test_updates_of_tool_hooks_from_parallel_calls_are_all_kept() -> None:
    def count(reply: Any, state: Any) -> Any:
        return None, {reply.message.name: True}

    model = ScriptedModel([asks(call("refund", order=1), call("mail", "c2", to="a")), "Done."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.after_tool(count)])
    assert agent.invoke("go").filter_state["count"] == {"refund": True, "mail": True}


def test_a_hook_takes_as_much_as_it_names() -> None:
    silent = Hook("before_turn", getattr, None, "x")  # a builtin that does not tell what it takes
    with pytest.raises(TypeError, match="getattr expected at least 2 arguments, got 1"):
        silent.says(None, {})
    assert Hook("after_turn", lambda result, state, request: request, None, "x").says(None, {}, None) is None
    result = Completed(AIMessage("x"), [])
    assert Hook("after_turn", lambda result: result, None, "x").says(result, {}, None) is result


def test_on_a_resume_a_hook_before_runs_again_as_all_code_before_next_does(drive: Drive) -> None:
    notes: list[str] = []
    onion = [noting("before_turn", "a", notes), noting("after_turn", "a", notes), filters.approval({"refund": True})]
    agent, _, _ = desk_agent(onion, saver=InMemorySaver())
    drive(agent).finish("go", thread="t")
    assert notes == ["before_turn a", "before_turn a", "after_turn a"]


@pytest.mark.parametrize("said", [end_turn("No."), replace_answer("No.")], ids=["end_turn", "replace_answer"])
def test_a_turn_that_a_hook_ends_has_its_history(drive: Drive, said: Any) -> None:
    """As any other turn: for the result and for output filters, and the thread is what it was."""
    seen: list[list[str]] = []

    @filters.before_turn
    def late(request: Any) -> Any:
        return said if request.messages[-1].text == "late" else None

    @filters.filter_input
    def bad(conversation: Any) -> None:
        if conversation.message == "bad":
            filters.break_with("No.")

    @filters.filter_output
    def output(conversation: Any) -> None:
        seen.append([one.text for one in conversation.output])

    agent = Agent(ScriptedModel(["one", "two"]), filters=[output, late, bad], checkpointer=InMemorySaver())
    driven, whole = drive(agent), []
    for text, answer in [("hello", "one"), ("late", "No."), ("bad", "No."), ("again", "two")]:
        whole += [text, answer]
        result, _ = driven.start(text, thread="t")
        assert [one.text for one in result.messages] == seen[-1] == whole
        assert [text for _, text in heard(history(agent))] == whole


def test_an_after_hook_may_update_its_state_on_an_error(caplog: pytest.LogCaptureFixture) -> None:
    @filters.after_chat(init={"n": 0})
    def count(reply: Any, state: Any) -> Any:
        return None, {"n": state["n"] + 1}

    def model(request: Any) -> ChatReply:
        raise ZeroDivisionError

    chain = compose([count], "chat", model)
    with pytest.raises(ZeroDivisionError):
        chain(ChatRequest([HumanMessage("q")]))
    assert (chain.filter_state["count"], caplog.messages) == ({"n": 1}, [])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: filters.before_turn(may=5)(print), "may=... is a list of names, not 5"),
        (lambda: filters.filter_input(foo=1)(print), "'print': @filter_input: .*'foo'"),
        (lambda: filters.around_chat(foo=1)(print), "'print': @around_chat: .*'foo'"),
        (lambda: replace_answer([5]), "not int"),
        (lambda: Agent(ScriptedModel([]), filters=[filters.before_turn(name="")(print)]), "needs a name"),
    ],
)
def test_what_a_decorator_cannot_work_with_is_refused(make: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()
