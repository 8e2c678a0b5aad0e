"""Input and output filters in every mode: what the model, the result, the thread and the database hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive, delivered
from scenes import Desk, asks, call, heard, whole
from tests.filters.hooks import Sheriff, SlowSheriff, of_colour

from scallion import (
    Agent,
    Blocked,
    ConfigurationError,
    Filter,
    FilterError,
    LimitExceeded,
    Limits,
    ModelError,
    Paused,
    SQLCheckpointer,
    Token,
    approve,
    filters,
    pause,
    respond,
)
from scallion.filters import ask_model_again, break_with, filter_input, filter_output, llm
from scallion.filters.replies import instead
from scallion.testing import ScriptedModel
from scallion.turn import TurnRunner

COLOURS = ("def", "async")
SECRET = "xk4711secret"


def masked(conversation: Any) -> None:
    """Takes the secret out."""
    conversation.replace(SECRET, "[secret]")


def ends(text: str, **options: Any) -> Callable[[Any], None]:
    """A filter function that breaks."""

    def breaks(conversation: Any) -> None:
        break_with(text, **options)

    return breaks


def louder(conversation: Any) -> None:
    """Shouts."""
    conversation.message = conversation.message.upper()


def history(agent: Agent, thread: str = "t") -> Any:
    """What the thread holds."""
    return agent.graph.get_state({"configurable": {"thread_id": thread}}).values.get("messages", [])


def everything(saver: Any) -> str:
    """All that the saver holds, as one text: checkpoints, writes, rows, and the bytes of its files."""
    held = [repr(list(saver.list(None)))]
    if isinstance(saver, SQLCheckpointer):
        held += [whole(saver.sessions.list()), whole(saver.approvals.list(status=None))]
        files = Path(str(saver.database.engine.url.database)).parent.glob("agent.db*")
        held += [one.read_bytes().decode("latin-1") for one in files]
    return "\n".join(held)


def test_what_is_kept_is_found(any_saver: Any) -> None:
    """Or the tests below would show nothing."""
    Agent(ScriptedModel(["a"]), checkpointer=any_saver).invoke(SECRET, thread="t")
    assert SECRET in everything(any_saver)


@pytest.mark.parametrize("colour", COLOURS)
def test_what_the_input_filter_made_of_the_input_is_all_that_there_is(
    drive: Drive, any_saver: Any, colour: str
) -> None:
    """Seed defect 31: only the model got it, and result, history and later filters the raw input. Over a pause too."""
    model, desk = ScriptedModel([asks(call("refund", order=1)), "Done."]), Desk()
    seen: list[Any] = []

    def watch(conversation: Any) -> None:
        seen.append([one.text for one in conversation.input])

    onion = [
        filter_output(of_colour(watch, colour)),
        filter_input(of_colour(masked, colour)),
        filters.approval({"refund": True}),
    ]
    agent = Agent(model, tools=desk.tools, filters=onion, checkpointer=any_saver)
    paused, _ = drive(agent).start(f"my key is {SECRET}", thread="t")
    assert isinstance(paused, Paused)
    assert SECRET not in whole(paused) + everything(any_saver)
    result, events = drive(agent).resume("t", approve())
    assert [heard(asked)[0] for asked in model.calls] == [("human", "my key is [secret]")] * 2
    assert seen == [["my key is [secret]"]]
    assert heard(result.messages)[0] == heard(history(agent))[0] == ("human", "my key is [secret]")
    assert SECRET not in whole(result) + whole(events) + everything(any_saver)


def test_a_turn_that_its_filter_fails_leaves_nothing_of_the_input(drive: Drive, sql: SQLCheckpointer) -> None:
    def fails(conversation: Any) -> None:
        raise OSError("the service is away")

    agent = Agent(ScriptedModel([]), filters=[filter_input(fails)], checkpointer=sql)
    with pytest.raises(FilterError) as error:
        drive(agent).start(SECRET, thread="t")
    assert SECRET not in str(error.value) + everything(sql)


def test_what_waits_before_the_filter_has_run_is_kept_as_it_came_until_then(drive: Drive, any_saver: Any) -> None:
    """A question in front of the filter needs the input when it is answered; the filter runs then, and once."""
    runs: list[str] = []

    def asks_first(request: Any, state: Any, next: Any) -> Any:
        pause("Go on?", allowed=("approve",))
        return next(request)

    def added(conversation: Any) -> None:
        runs.append(conversation.message)
        conversation.message += "!"

    def releases(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        pause("Send it?", allowed=("approve",))
        return result

    model = ScriptedModel(["a"])
    onion = [Filter("first", around_turn=asks_first), filter_input(added), Filter("last", around_turn=releases)]
    agent = Agent(model, filters=onion, checkpointer=any_saver)
    result, _ = drive(agent).finish("q", thread="t")
    assert (runs, heard(result.messages)) == (["q"], [("human", "q!"), ("ai", "a")])
    assert heard(history(agent)) == [("human", "q!"), ("ai", "a")]


def test_the_input_is_filtered_once_although_the_loop_is_entered_again_before_and_after_a_pause(drive: Drive) -> None:
    """By a check that asks the model again, and by a hook that starts over with what it was given."""
    runs: list[str] = []

    def added(conversation: Any) -> None:
        runs.append(conversation.message)
        conversation.message += "!"

    def twice(request: Any, state: Any, next: Any) -> Any:
        next(request)
        return next(request)

    def judge(result: Any, state: Any) -> Any:
        return ask_model_again("better") if result.answer == "bad" else None

    model, desk = ScriptedModel(["bad", asks(call("refund", order=1)), "good", "bad", "end"]), Desk()
    onion = [
        Filter("twice", around_turn=twice),
        filters.after_turn(judge),
        filter_input(added),
        filters.approval({"refund": True}),
    ]
    agent = Agent(model, tools=desk.tools, filters=onion, checkpointer=InMemorySaver())
    result, _ = drive(agent).finish("q", thread="t")
    assert result.answer == "end"
    assert {heard(asked)[0] for asked in model.calls} == {("human", "q!")}
    assert runs == ["q"]


@pytest.mark.parametrize("colour", COLOURS)
def test_filters_are_run_in_the_order_of_the_onion_and_the_stream_gets_the_answer_that_stands(
    drive: Drive, any_saver: Any, colour: str
) -> None:
    def adds(mark: str) -> Callable[[Any], None]:
        def add(conversation: Any) -> None:
            conversation.message += mark

        return add

    onion = [
        make(of_colour(adds(mark), colour), name=f"{make.__name__} {mark}")
        for mark in "12"
        for make in (filter_input, filter_output)
    ]
    agent = Agent(ScriptedModel(["a long answer"]), filters=onion, checkpointer=any_saver)
    result, events = drive(agent).start("q", thread="t")
    assert heard(result.messages) == heard(history(agent)) == [("human", "q12"), ("ai", "a long answer21")]
    assert result.answer == "a long answer21"
    tokens = [one.text for one in events if isinstance(one, Token)]
    assert tokens == (["a long answer21"] if drive(agent).streams else [])


def test_nothing_is_streamed_that_the_output_filter_has_not_seen(drive: Drive) -> None:
    """Neither the text beside a tool call, nor an answer that is asked for again, nor one behind a pause."""
    model, desk = ScriptedModel([asks(call("refund", order=1), text=SECRET), SECRET, f"it is {SECRET}"]), Desk()

    def judge(result: Any, state: Any) -> Any:
        return ask_model_again("better") if result.answer == SECRET else None

    onion = [filter_output(masked), filters.after_turn(judge), filters.approval({"refund": True})]
    agent = Agent(model, tools=desk.tools, filters=onion, checkpointer=InMemorySaver())
    result, events = drive(agent).finish("q", thread="t")
    assert result.answer == "it is [secret]"
    tokens = "".join(one.text for one in events if isinstance(one, Token))
    assert tokens == ("it is [secret]" if drive(agent).streams else "")


def test_token_transforms_see_the_filtered_answer(drive: Drive) -> None:
    @filters.token_transform
    def dots(token: Any, state: Any) -> Any:
        return [token.text.replace("[", "(").replace("]", ")")], state

    agent = Agent(ScriptedModel([f"it is {SECRET}"]), filters=[filter_output(masked), dots])
    _, events = drive(agent).start("q")
    assert delivered(events) == ("it is (secret)" if events else "")


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_break_in_the_input_is_an_answer_that_output_filters_see_unless_told_otherwise(
    drive: Drive, any_saver: Any, skip: bool, order: tuple[int, int], colour: str
) -> None:
    """In the seed system they never saw it."""

    def stops(conversation: Any) -> None:
        masked(conversation)
        try:
            break_with("no bananas", skip_output=skip)
        except Exception:
            raise AssertionError("a break is no error") from None

    layers = [filter_input(of_colour(stops, colour)), filter_output(of_colour(louder, colour))]
    model = ScriptedModel([])
    agent = Agent(model, filters=[layers[place] for place in order], checkpointer=any_saver)
    result, events = drive(agent).start(f"bananas {SECRET}", thread="t")
    answer = "no bananas" if skip else "NO BANANAS"
    assert (result.answer, model.calls) == (answer, [])
    assert heard(history(agent)) == [("human", "bananas [secret]"), ("ai", answer)]
    assert not events or delivered(events) == answer
    assert SECRET not in everything(any_saver)


@pytest.mark.parametrize(
    "ending",
    [
        filters.safeguard(["bananas"]),
        filters.before_turn(lambda request: filters.end_turn("closed"), name="closed"),
        filters.around_turn(lambda request, state, next: instead(request, "closed"), name="around"),
    ],
    ids=lambda one: one.name,
)
def test_where_the_input_filter_stands_first_a_layer_that_ends_the_turn_keeps_nothing_of_what_it_took_out(
    drive: Drive, any_saver: Any, ending: Any
) -> None:
    model = ScriptedModel([])
    agent = Agent(model, filters=[filter_input(masked), ending], checkpointer=any_saver)
    result, _ = drive(agent).start(f"bananas {SECRET}", thread="t")
    assert (result.messages[0].text, model.calls) == ("bananas [secret]", [])
    assert SECRET not in everything(any_saver)


@pytest.mark.parametrize("skip", [False, True])
def test_a_break_in_the_output_takes_the_place_of_the_answer(drive: Drive, skip: bool) -> None:
    onion = [filter_output(louder), filter_output(ends("not that", skip_output=skip))]
    agent = Agent(ScriptedModel(["the answer"]), filters=onion, checkpointer=InMemorySaver())
    result, events = drive(agent).start("q", thread="t")
    answer = "not that" if skip else "NOT THAT"
    assert (result.answer, heard(history(agent))) == (answer, [("human", "q"), ("ai", answer)])
    assert not events or delivered(events) == answer


def test_an_answer_that_skips_output_filters_skips_those_of_its_turn_only(drive: Drive) -> None:
    """The message is stored with its mark: neither a hook that makes an answer of it nor a model passes by it."""

    def stops(conversation: Any) -> None:
        if "bad" in conversation.message:
            break_with("no", skip_output=True)

    @filters.after_chat
    def as_before(reply: Any, state: Any, request: Any) -> Any:
        last = next((one for one in reversed(request.messages) if one.type == "ai"), reply.message)
        kept = {"content": reply.message.content, "id": reply.message.id}
        return reply.replace(message=last.model_copy(update=kept))

    model = ScriptedModel([AIMessage("first", response_metadata={"skip_output": True}), "second"])
    onion = [filter_output(louder), filter_input(stops), as_before]
    agent = drive(Agent(model, filters=onion, checkpointer=InMemorySaver()))
    assert [agent.start(text, thread="t")[0].answer for text in ("q", "bad", "q")] == ["FIRST", "no", "SECOND"]


def test_an_answer_that_skips_output_filters_skips_them_over_a_pause(drive: Drive) -> None:
    @filters.after_turn
    def asks_first(result: Any) -> None:
        pause("ok?")

    onion = [filter_output(louder), asks_first, filter_input(ends("no", skip_output=True))]
    agent = drive(Agent(ScriptedModel([]), filters=onion, checkpointer=InMemorySaver()))
    assert isinstance(agent.start("q", thread="t")[0], Paused)
    assert agent.resume("t", respond("yes"))[0].answer == "no"


def test_an_answer_that_ended_the_turn_is_not_validated_and_asked_for_again() -> None:
    """Seed defect 23, also where the check stands outside."""
    judged: list[str] = []
    check = filters.validate_answer(lambda answer: bool(judged.append(answer)))
    for end in (filter_input(ends("No.")), filters.before_turn(lambda request: filters.end_turn("No."), name="stop")):
        for onion in ([check, end], [end, check]):
            model = ScriptedModel([])
            assert Agent(model, filters=onion).invoke("q").answer == "No."
    assert judged == []


@pytest.mark.parametrize("kind", [Sheriff, SlowSheriff])
@pytest.mark.parametrize("colour", COLOURS)
def test_none_of_a_message_filter_drops_the_message_with_its_pair(
    drive: Drive, kind: type[Sheriff], colour: str
) -> None:
    """Seed defect 31: None failed the agent."""
    given = [
        HumanMessage("one"),
        asks(call("refund", order=1)),
        ToolMessage("bad result", tool_call_id="c1", name="refund"),
        AIMessage("so"),
        HumanMessage("two"),
        HumanMessage("bad three"),
    ]

    def sift(conversation: Any) -> None:
        conversation.apply(kind())
        assert conversation.message == "two"
        conversation.apply(kind(), where="all")

    async def asift(conversation: Any) -> None:
        await conversation.apply(kind())
        assert conversation.message == "two"
        await conversation.apply(kind(), where="all")

    model = ScriptedModel(["ok"])
    agent = Agent(model, filters=[filter_input(sift if colour == "def" else asift)], checkpointer=InMemorySaver())
    drive(agent).start(given, thread="t")
    assert heard(model.calls[0]) == [("human", "one"), ("ai", "so"), ("human", "two")]
    assert heard(history(agent)) == [("human", "one"), ("ai", "so"), ("human", "two"), ("ai", "ok")]


@pytest.mark.parametrize("make", [filter_input, filter_output])
def test_a_turn_of_which_nothing_is_left_is_blocked(drive: Drive, make: Any) -> None:
    agent = Agent(
        ScriptedModel(["bad answer"]), filters=[make(Sheriff(), name="sheriff")], checkpointer=InMemorySaver()
    )
    with pytest.raises(Blocked) as error:
        drive(agent).start("bad question", thread="t")
    assert error.value.guard == "sheriff"
    agent = Agent(ScriptedModel(["bad answer"]), filters=[make(lambda conversation: conversation.apply(Sheriff()))])
    with pytest.raises(Blocked):
        drive(agent).start("bad question")


def test_classes_are_made_by_the_container_of_the_agent(drive: Drive) -> None:
    made: list[type] = []

    def container(kind: type) -> Any:
        made.append(kind)
        return kind("word") if kind is Sheriff else kind()

    class Louder(Filter):
        name = "louder"

        def around_chat(self, request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            return reply.replace(message=AIMessage(reply.message.text.upper()))

    def sift(conversation: Any) -> None:
        conversation.apply(Sheriff)

    agent = Agent(
        ScriptedModel(["hello"]), filters=[Louder, filter_input(sift), filter_output(Sheriff)], resolve=container
    )
    assert (drive(agent).start("bad")[0].answer, made) == ("HELLO", [Louder, Sheriff, Sheriff])


def test_a_class_without_a_container_is_refused_as_early_as_it_can_be() -> None:
    with pytest.raises(ConfigurationError, match="filter 'Sheriff' is made of a class"):
        Agent(ScriptedModel([]), filters=[filter_input(Sheriff)])
    with pytest.raises(ConfigurationError, match="resolve is a function of a class, not str"):
        Agent(ScriptedModel([]), resolve="container")
    with pytest.raises(ConfigurationError, match="resolve cannot make a Filter: KeyError"):
        Agent(ScriptedModel([]), filters=[Filter], resolve={}.__getitem__)
    with pytest.raises(ConfigurationError, match="Sheriff is a class"):
        Agent(ScriptedModel([]), filters=[filter_input(lambda conversation: conversation.apply(Sheriff))]).invoke("q")
    with pytest.raises(ConfigurationError, match="str has none"):
        Agent(ScriptedModel([]), filters=[filter_input(Sheriff)], resolve=lambda kind: "x").invoke("q")
    with pytest.raises(ConfigurationError, match="filters\\[0\\] is not a Filter but str"):
        Agent(ScriptedModel([]), filters=[Filter], resolve=lambda kind: "x")


@pytest.mark.parametrize("said", ["an edited text", HumanMessage("x"), {"n": 1}])
def test_a_function_that_returns_its_edit_is_told_so(said: Any) -> None:
    with pytest.raises(FilterError, match="edit the conversation"):
        Agent(ScriptedModel([]), filters=[filter_input(lambda conversation: said)]).invoke("q")


@pytest.mark.parametrize("colour", COLOURS)
def test_a_filter_may_ask_a_person(drive: Drive, any_saver: Any, colour: str) -> None:
    def admit(conversation: Any) -> None:
        masked(conversation)
        if pause("Let it in?", allowed=("approve", "reject")).type == "reject":
            break_with("No.")

    def release(conversation: Any) -> None:
        conversation.message = str(pause("What do we say?").message)

    onion = [filter_output(of_colour(release, colour)), filter_input(of_colour(admit, colour))]
    agent = Agent(ScriptedModel(["draft"]), filters=onion, checkpointer=any_saver)
    drive(agent).start(SECRET, thread="t")
    drive(agent).resume("t", approve())
    result, events = drive(agent).resume("t", respond("final"))
    assert heard(result.messages) == heard(history(agent)) == [("human", "[secret]"), ("ai", "final")]
    assert not events or delivered(events) == "final"


@pytest.mark.parametrize("what", [7, "text", lambda: None, lambda a, b, c: None])
def test_what_cannot_edit_a_conversation_is_refused_where_it_is_made(what: Any) -> None:
    for make in (filter_input, filter_output):
        with pytest.raises(ConfigurationError):
            make(what, name="mine")


@pytest.mark.parametrize("colour", COLOURS)
def test_a_filter_asks_a_model_without_history_counted_and_not_streamed(drive: Drive, colour: str) -> None:
    judge = ScriptedModel(["SAFE"])

    def checks(conversation: Any, state: Any) -> None:
        state.update(said=[llm(f"Rate: {conversation.message}", system="Judge.").text, llm("hm", model=judge).text])

    async def achecks(conversation: Any, state: Any) -> None:
        said = await llm(f"Rate: {conversation.message}", system="Judge."), await llm("hm", model=judge)
        state.update(said=[one.text for one in said])

    model = ScriptedModel(["old", "FINE", "answer", "GOOD", "unused"])
    agent = Agent(model, system_prompt="Be nice.", checkpointer=InMemorySaver())
    agent.invoke("before", thread="t")
    onion = [filter_input(checks if colour == "def" else achecks, name="in"), filter_output(checks, name="out")]
    judge.replies = ["SAFE", "SURE"]
    agent = Agent(model, system_prompt="Be nice.", filters=onion, checkpointer=agent.checkpointer)
    result, events = drive(agent).start("q", thread="t")
    assert heard(model.calls[1]) == [("system", "Judge."), ("human", "Rate: q")]
    assert heard(model.calls[3]) == [("system", "Judge."), ("human", "Rate: answer")]
    assert result.filter_state == {"in": {"said": ["FINE", "SAFE"]}, "out": {"said": ["GOOD", "SURE"]}}
    assert result.usage["model_calls"] == 5
    used = sum(one.usage_metadata["total_tokens"] for one in [*history(agent)[-1:]])
    assert result.usage["total_tokens"] > used
    assert not events or delivered(events) == "answer"
    account = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["loop"]
    assert account["counts"]["model_calls"] == 5


def test_a_model_that_fails_lets_nothing_pass(drive: Drive) -> None:
    """Seed defect 31: the usual form of asking went on where the model failed."""
    model = ScriptedModel([TimeoutError("slow"), "answer"])
    with pytest.raises(ModelError):
        drive(Agent(model, filters=[filter_input(lambda conversation: llm("safe?") and None)])).start("q")
    assert len(model.calls) == 1


def test_calls_beside_the_loop_are_within_its_limits(drive: Drive) -> None:
    def asks_twice(conversation: Any) -> None:
        llm("a")
        llm("b")

    model = ScriptedModel(lambda messages: "x")
    with pytest.raises(LimitExceeded) as error:
        drive(Agent(model, filters=[filter_input(asks_twice)], limits=Limits(model_calls=2))).start("q")
    assert (error.value.limit, error.value.used, len(model.calls)) == ("model_calls", 2, 2)
    with pytest.raises(LimitExceeded):
        drive(Agent(model, filters=[filter_output(asks_twice)], limits=Limits(model_calls=2))).start("q")
    assert len(model.calls) == 4


def test_what_a_filter_used_before_a_pause_around_the_turn_is_counted_behind_it(drive: Drive, any_saver: Any) -> None:
    def releases(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        pause("Send it?", allowed=("approve",))
        return result

    onion = [Filter("release", around_turn=releases), filter_output(lambda conversation: llm("good?") and None)]
    model = ScriptedModel(["answer", "yes"])
    agent = Agent(model, filters=onion, checkpointer=any_saver)
    result, _ = drive(agent).finish("q", thread="t")
    assert (result.usage["model_calls"], len(model.calls)) == (2, 2)


def test_the_parsed_value_of_an_answer_goes_with_it() -> None:
    for function, parsed in ((lambda conversation: None, {"a": 1}), (louder, None)):
        onion = [filter_output(function), Filter("p", around_turn=_parsed)]
        assert Agent(ScriptedModel(["a"]), filters=onion).invoke("q").parsed == parsed


def _parsed(request: Any, state: Any, next: Any) -> Any:
    return next(request).replace(parsed={"a": 1})


def test_earlier_messages_of_the_thread_are_changed_where_the_output_filter_says_so(any_saver: Any) -> None:
    agent = Agent(ScriptedModel([f"it is {SECRET}", "ok"]), checkpointer=any_saver)
    agent.invoke("q", thread="t")
    later = Agent(
        ScriptedModel(["ok"]),
        filters=[filter_output(lambda conversation: conversation.replace(SECRET, "#", where="all"))],
        checkpointer=any_saver,
    )
    later.invoke("again", thread="t")
    assert heard(history(later)) == [("human", "q"), ("ai", "it is #"), ("human", "again"), ("ai", "ok")]


@pytest.mark.parametrize("function", [lambda: break_with("x"), lambda: llm("x"), lambda: filters.run_parallel()])
def test_outside_of_a_filter_there_is_nothing_to_do(function: Any) -> None:
    with pytest.raises(ConfigurationError, match="outside of an input or output filter"):
        function()


def test_an_answer_with_open_calls_cannot_be_put_in(drive: Drive) -> None:
    def calls(conversation: Any) -> None:
        conversation.output_message = asks(call("refund", order=1))

    with pytest.raises(Blocked):
        drive(Agent(ScriptedModel(["a"]), filters=[filter_output(calls)])).start("q")


def test_a_message_that_waits_in_the_queue_is_filtered_when_its_turn_begins(drive: Drive, sql: SQLCheckpointer) -> None:
    model, desk = ScriptedModel([asks(call("refund", order=1)), "one", "two"]), Desk()
    agent = Agent(
        model,
        tools=desk.tools,
        filters=[filter_input(masked), filter_output(louder), filters.approval({"refund": True})],
        checkpointer=sql,
        on_message_while_paused="queue",
    )
    drive(agent).start("first", thread="t")
    drive(agent).start(f"then {SECRET}", thread="t")
    result, events = drive(agent).resume("t", approve())
    assert heard(model.calls[2])[-1] == ("human", "then [secret]")
    assert SECRET not in whole(result) + repr(list(sql.list(None)))
    assert not events or "".join(one.text for one in events if isinstance(one, Token)) == "ONETWO"


def test_a_turn_whose_commit_a_crash_took_is_finished_with_the_input_filtered_once(
    drive: Drive, any_saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        """The process dies."""

    def added(conversation: Any) -> None:
        conversation.message += "!"

    def crashes(*args: Any) -> None:
        raise Crash

    onion = [filter_input(added, name="in"), filter_output(added, name="out")]
    agent = Agent(ScriptedModel(["a", "b"]), filters=onion, checkpointer=any_saver)
    with monkeypatch.context() as patched:
        patched.setattr(TurnRunner, "_commit", crashes)
        with pytest.raises(Crash):
            drive(agent).start("q", thread="t")
    drive(agent).start("r", thread="t")
    assert heard(history(agent)) == [("human", "q!"), ("ai", "a!"), ("human", "r!"), ("ai", "b!")]
