"""What a middleware of one's own may do in the onion: jump, keep state, answer for the model, change the thread."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, NotRequired

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    FilesystemFileSearchMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    ShellToolMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt
from modes import Drive, delivered
from tests.langchain.sides import THREAD, Sides, told
from tests.scenes import asks, call, heard

from scallion import (
    Agent,
    ConfigurationError,
    FilterError,
    LimitExceeded,
    Limits,
    ModelError,
    Paused,
    SQLCheckpointer,
    Token,
    approve,
    around_chat,
    around_tool,
    filters,
    respond,
    transient,
)
from scallion.testing import ScriptedModel, check_filter

Both = Callable[..., Sides]
LATE = TimeoutError("late")


def look(order: int) -> str:
    """Look an order up."""
    return f"order {order} is here"


def last(state: Any) -> Any:
    return state["messages"][-1]


def node(
    hook: str, function: Callable[[Any], Any], jumps: str = "end model", **more: Any
) -> Callable[[], AgentMiddleware]:
    """What makes a middleware of one node hook."""

    def run(self: Any, state: Any, runtime: Any) -> Any:
        return function(state)

    run.__can_jump_to__ = jumps.split()  # type: ignore[attr-defined]
    return type("Node", (AgentMiddleware,), {hook: run, **more})


def spoken(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage("Enough.")], "jump_to": "end"}


def retried(state: Any) -> Any:
    if last(state).text != "six":
        return None
    return {"messages": [RemoveMessage(last(state).id), HumanMessage("No, again.")], "jump_to": "model"}


def retried_kept(state: Any) -> Any:
    return {"messages": [HumanMessage("No, again.")], "jump_to": "model"} if last(state).text == "six" else None


def forced(state: Any) -> Any:
    if last(state).type != "human":
        return None
    return {"messages": [asks(call("look", "f1", order=1))], "jump_to": "tools"}


def in_place(state: Any) -> Any:
    question = state["messages"][0]
    question.content = "hidden"
    return {"messages": [question]}


def anew(state: Any) -> Any:
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("In short: " + last(state).text)]}


def answered(state: Any) -> Any:
    calls = getattr(last(state), "tool_calls", [])
    return {"messages": [ToolMessage("by hand", tool_call_id=one["id"], name=one["name"]) for one in calls]}


@pytest.mark.parametrize(
    ("make", "script"),
    [
        (node("before_agent", spoken), []),
        (node("before_model", spoken), []),
        (node("after_model", spoken), ["one"]),
        (node("after_model", retried), ["six", "five"]),
        (node("before_model", forced, "tools"), ["It is here."]),
        (node("before_model", in_place), ["one"]),
        (node("before_model", anew), [asks(call("look", "c1", order=1)), "one"]),
        (node("after_model", answered), [asks(call("look", "c1", order=1), call("look", "c2", order=2)), "one"]),
        (node("after_agent", lambda state: {"messages": [AIMessage("And bye.")]}), ["one"]),
        (node("after_agent", retried_kept), ["six", "five"]),
        (node("before_agent", lambda state: {"messages": [HumanMessage("P.S.")]}), ["one"]),
    ],
    ids="before_agent_ends before_model_ends after_model_ends back_to_the_model on_to_the_tools in_place anew "
    "answers_calls after_agent after_agent_again before_agent".split(),
)
def test_node_hooks(sides: Both, make: Any, script: list[Any]) -> None:
    sides(make, script, [look]).same("2 + 3?")


class Wraps(AgentMiddleware):
    """Both wraps, in one colour."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        system = SystemMessage(f"Be brief.{request.system_prompt or ''}")
        response = handler(request.override(system_message=system))
        first = response.result[0]
        return ExtendedModelResponse(model_response=response, command=Command(update={"said": len(first.tool_calls)}))

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        args = {"order": request.tool_call["args"]["order"] + len(request.state["messages"])}
        result = handler(request.override(tool_call={**request.tool_call, "args": args}))
        return result.model_copy(update={"content": f"<{result.content}>"})


class WrapsAsync(AgentMiddleware):
    """The same for asyncio only."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await handler(request)  # a first try that is thrown away
        return (await handler(request.override(system_message=SystemMessage("Be brief.")))).result[0]

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("P.S.")]} if last(state).type == "tool" else None


@pytest.mark.parametrize("kind", [Wraps, WrapsAsync])
def test_one_colour_serves_all_modes(drive: Drive, kind: Any) -> None:
    asked = asks(call("look", order=1))
    script = ["", asked, "", "done"] if kind is WrapsAsync else [asked, "done"]
    model = ScriptedModel(script)
    agent = Agent(model, tools=[look], filters=[filters.from_langchain(kind())], system_prompt="You look.")
    result, _ = drive(agent).start("go")
    assert result.answer == "done"
    assert model.calls[-1][0].text == "You look.\n\nBe brief."
    middle = [("human", "P.S.")] if kind is WrapsAsync else []
    found = "order 1 is here" if kind is WrapsAsync else "<order 3 is here>"
    assert heard(result.messages)[-2 - len(middle) : -1] == [("tool", found), *middle]


class Counted(AgentState[Any]):
    """State of every kind."""

    total: NotRequired[Annotated[int, operator.add]]
    run: NotRequired[Annotated[int, UntrackedValue]]
    day: NotRequired[date]


class Counts(AgentMiddleware):
    """Counts its calls, and keeps a day."""

    state_schema = Counted

    def after_model(self, state: Any, runtime: Any) -> Any:
        assert state.get("day", date(2026, 1, 1)) == date(2026, 1, 1)
        return {"total": 1, "run": state.get("run", 0) + 1, "day": date(2026, 1, 1)}


def test_state_lasts_as_it_is_declared(sides: Both) -> None:
    script = [asks(call("look", order=1)), "one", "two"]
    their, our = sides(Counts, script, [look]).same("a", "b")
    assert (their["total"], their["run"], their["day"]) == (3, 1, date(2026, 1, 1))
    kept = our.filter_state["Counts"]
    assert (kept["total"], kept["day"], kept["@run"]["values"]) == (3, "2026-01-01", {"run": 1})


class Opens(AgentMiddleware):
    """Asks a person in front of the model, and behind the tool."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def before_agent(self, state: Any, runtime: Any) -> Any:
        self.seen.append("agent")
        return {"messages": [HumanMessage("P.S.")]}

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.seen.append("model")
        return handler(request)

    def after_model(self, state: Any, runtime: Any) -> Any:
        if last(state).text == "one":
            interrupt("Is that right?")
            return {"messages": [last(state).model_copy(update={"content": "One."})]}
        return None


def test_what_was_done_before_a_pause_is_not_done_again(drive: Drive, sql: SQLCheckpointer) -> None:
    middleware, model = Opens(), ScriptedModel(["one"])
    agent = drive(Agent(model, filters=[filters.from_langchain(middleware)], checkpointer=sql))
    paused, _ = agent.start("go", thread=THREAD)
    assert isinstance(paused, Paused)
    result, _ = agent.resume(THREAD, respond("yes"))
    assert middleware.seen == ["agent", "model"]
    assert heard(result.messages) == [("human", "go"), ("human", "P.S."), ("ai", "One.")]
    assert len(model.calls) == 1


def summaries() -> Any:
    return SummarizationMiddleware(
        ScriptedModel(lambda _: "They talked."), trigger=("messages", 4), keep=("messages", 1)
    )


def test_a_changed_history_is_kept_behind_turn_filters_and_pauses(drive: Drive, sql: SQLCheckpointer) -> None:
    """The commit of a turn stands on the history as the middleware left it, also in another process."""
    script = ["one", asks(call("look", "c1", order=1)), "bad", "good", "last"]
    model = ScriptedModel(script)

    def agent() -> Any:
        check = filters.validate_answer(lambda answer: answer != "bad")
        gate = filters.approval({"look": True})
        stack = [check, filters.from_langchain(summaries()), gate]
        return drive(Agent(model, tools=[look], filters=stack, checkpointer=sql))

    agent().start("a", thread=THREAD)
    paused, _ = agent().start("b", thread=THREAD)
    assert isinstance(paused, Paused)
    result, _ = agent().resume(THREAD, approve())
    kept = [text for _, text in heard(result.messages)]
    assert "They talked." in kept[0]
    assert kept[-1] == "good"
    assert "bad" not in kept
    agent().start("c", thread=THREAD)
    state = agent().agent.graph.get_state({"configurable": {"thread_id": THREAD}}).values["messages"]
    assert [text for _, text in heard(state)][-2:] == ["c", "last"]
    assert sum("They talked." in text for _, text in heard(state)) == 1


def test_what_outer_filters_hide_stays_in_the_thread_and_what_they_add_stays_out(memory: Any) -> None:
    @around_chat
    def adds(request: Any, state: Any, next: Any) -> Any:
        note = transient(HumanMessage("It rains.", id="note"))
        return next(request.replace(messages=[note, *request.messages[-1:]]))

    make = node("before_model", lambda state: {"messages": [HumanMessage("P.S."), state["messages"][-1]]})
    model = ScriptedModel(["one", "two"])
    agent = Agent(model, filters=[adds, filters.from_langchain(make())], checkpointer=memory)
    agent.invoke("a", thread=THREAD)
    result = agent.invoke("b", thread=THREAD)
    assert [text for _, text in heard(result.messages)] == ["a", "P.S.", "one", "b", "P.S.", "two"]
    assert [text for _, text in heard(model.calls[1])] == ["It rains.", "b", "P.S."]


def test_guards_and_limits_are_no_failures_of_the_model(drive: Drive) -> None:
    @around_chat
    def guard(request: Any, state: Any, next: Any) -> Any:
        raise KeyError("crash")

    retry = filters.from_langchain(ModelRetryMiddleware(initial_delay=0))
    with pytest.raises(FilterError, match="guard"):
        drive(Agent(ScriptedModel(["one"]), filters=[retry, guard])).start("go")
    other = filters.from_langchain(ModelFallbackMiddleware(ScriptedModel(["two"])))
    with pytest.raises(LimitExceeded):
        drive(Agent(ScriptedModel([LATE] * 3), filters=[retry, other], limits=Limits(model_calls=1))).start("go")
    strict = filters.from_langchain(ModelRetryMiddleware(initial_delay=0, on_failure="error"))
    with pytest.raises(ModelError) as failed:
        drive(Agent(ScriptedModel([LATE] * 3), filters=[strict])).start("go")
    assert failed.value.__cause__ is LATE


def test_a_tool_that_fails_for_good_is_a_result(drive: Drive) -> None:
    def pay(order: int) -> str:
        """Pay."""
        raise LATE

    kinds = []

    @around_tool
    def sees(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        kinds.append(reply.error.kind)
        return reply

    retry = filters.from_langchain(ToolRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error"))
    result, _ = drive(
        Agent(ScriptedModel([asks(call("pay", order=1)), "sorry"]), tools=[pay], filters=[sees, retry])
    ).start("pay")
    assert result.answer == "sorry"
    assert kinds == ["transient"]


def test_a_stream_is_held_back_by_what_redacts_the_answer() -> None:
    agent = Agent(
        ScriptedModel(["Write to ana@example.com."]),
        filters=[filters.from_langchain(PIIMiddleware("email", apply_to_output=True))],
    )
    events = list(agent.stream("how?"))
    assert delivered(events) == "Write to [REDACTED_EMAIL]."
    assert "ana@" not in "".join(event.text for event in events if isinstance(event, Token))


def test_tools_of_a_middleware(tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("hello")
    search = filters.from_langchain(FilesystemFileSearchMiddleware(root_path=str(tmp_path), use_ripgrep=False))
    model = ScriptedModel([asks(call("glob_search", pattern="*.txt")), "found"])
    result = Agent(model, filters=[search]).invoke("which?")
    assert "a.txt" in result.messages[2].text


class Passing(AgentState[Any]):
    """A channel that lasts for one step."""

    once: NotRequired[Annotated[str, EphemeralValue]]


class Streams(AgentMiddleware):
    """Acts on an event stream."""

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return None

    transformers = (lambda scope: None,)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: AgentMiddleware, "is not|give an instance"),
        (lambda: object(), "not object"),
        (lambda: ShellToolMiddleware(), "no JSON data"),
        (node("before_model", spoken, state_schema=Passing), "EphemeralValue"),
        (Streams, "event stream"),
        (node("after_agent", spoken, "tools"), "after_agent cannot jump to the tools"),
        (AgentMiddleware, "no hook"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(make: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Agent(ScriptedModel(), filters=[filters.from_langchain(make())])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (node("before_model", lambda state: {"structured_response": 1}), "structured_response"),
        (node("before_model", lambda state: Command(goto="model")), "goto"),
        (node("before_model", lambda state: {"jump_to": "tools"}), "leaves no message"),
        (node("before_model", lambda state: {"jump_to": "model"}), "100 times"),
        (node("after_model", lambda state: {"messages": [RemoveMessage(last(state).id)]}), "leaves no message"),
        (node("after_model", lambda state: {"x": object()}), "no JSON data"),
        (node("after_model", lambda state: {"messages": [HumanMessage("so")]}), "behind the answer"),
        (node("after_agent", lambda state: {"messages": [RemoveMessage(state["messages"][0].id)]}), "removes messages"),
    ],
)
def test_what_cannot_be_done_fails_with_the_reason(make: Any, reason: str) -> None:
    agent = Agent(ScriptedModel(["one"]), filters=[filters.from_langchain(make())])
    with pytest.raises(FilterError, match=reason):
        agent.invoke("go")


def test_two_of_them_as_in_create_agent(drive: Drive) -> None:
    from langchain.agents import create_agent

    def pair() -> list[Any]:
        return [PIIMiddleware("email"), PIIMiddleware("ip", apply_to_output=True)]

    models = ScriptedModel(["Hello 10.0.0.1"]), ScriptedModel(["Hello 10.0.0.1"])
    given = "a@b.com from 10.0.0.2"
    their = create_agent(models[0], middleware=pair()).invoke({"messages": given})  # type: ignore[list-item]
    agent = Agent(models[1], filters=[filters.from_langchain(one) for one in pair()])
    our, _ = drive(agent).start(given)
    assert told(our.messages) == told(their["messages"])
    assert told(models[1].calls[0]) == told(models[0].calls[0])


@pytest.mark.parametrize("make", [lambda: PIIMiddleware("email"), summaries, Wraps, WrapsAsync])
def test_they_pass_the_conformance_kit(make: Any) -> None:
    check_filter(lambda: filters.from_langchain(make()))


@pytest.mark.parametrize("make", [filters.from_langchain, filters.as_langchain])
def test_without_the_extra_it_says_which(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.setitem(sys.modules, "langchain.agents.middleware", None)
    with pytest.raises(ConfigurationError, match=r"scallion\[langchain\]"):
        make(filters.usage())
