"""The onion of any chain: who runs when, who sees what, and how often `next` is called."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from modes import Drive
from scenes import REQUESTS, Desk, asks, call, layer, reply, text_of

from scallion import (
    Agent,
    ChatReply,
    ConfigurationError,
    Filter,
    FilterActed,
    FilterError,
    around_chat,
    around_tool,
    around_turn,
    compose,
)
from scallion.testing import ScriptedModel

CHAINS = ("turn", "chat", "tool")
COLOURS = ("def", "async")
chains = pytest.mark.parametrize("chain", CHAINS)
colours = pytest.mark.parametrize("colour", COLOURS)


@pytest.fixture(params=["called", "awaited"])
def run(request: pytest.FixtureRequest) -> Any:
    """Runs a composed chain from synchronous code, or on an event loop."""
    if request.param == "called":
        return lambda composed, asked: composed(asked)
    return lambda composed, asked: asyncio.run(composed.acall(asked))


@pytest.fixture(params=COLOURS)
def innermost(request: pytest.FixtureRequest) -> Any:
    """Makes the innermost call of a chain, `def` or `async def`."""

    def make(chain: str, trace: list[str], *outcomes: Any) -> Any:
        left = list(outcomes)

        def call(asked: Any) -> Any:
            trace.append("call")
            outcome = left.pop(0) if left else reply(chain)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async def acall(asked: Any) -> Any:
            await asyncio.sleep(0)
            return call(asked)

        return call if request.param == "def" else acall

    return make


def passing(trace: list[str], name: str, nexts: int = 1) -> Any:
    """A hook that writes down when it runs, calls `next` so often, and gives the last reply."""

    def hook(request: Any, state: Any) -> Generator[Any, Any, Any]:
        trace.append(f"{name} before")
        out = None
        for _ in range(nexts):
            out = yield request
        trace.append(f"{name} after")
        return out

    return hook


class TestComposedChains:
    """All three chains by `compose`, hooks and innermost call of either colour."""

    @chains
    @colours
    def test_the_first_filter_is_the_outermost(self, chain: str, colour: str, run: Any, innermost: Any) -> None:
        trace: list[str] = []
        filters = [layer(name, chain, passing(trace, name), colour) for name in ("one", "two")]
        out = run(compose(filters, chain, innermost(chain, trace)), REQUESTS[chain])
        assert text_of(out) == "done"
        assert trace == ["one before", "two before", "call", "two after", "one after"]

    @chains
    @colours
    def test_a_filter_that_does_not_call_next_answers_itself(
        self, chain: str, colour: str, run: Any, innermost: Any
    ) -> None:
        trace: list[str] = []

        def answers(request: Any, state: Any) -> Generator[Any, Any, Any]:
            return reply(chain, "mine")
            yield

        filters = [layer("outer", chain, passing(trace, "outer"), colour), layer("short", chain, answers, colour)]
        filters.append(layer("inner", chain, passing(trace, "inner"), colour))
        assert text_of(run(compose(filters, chain, innermost(chain, trace)), REQUESTS[chain])) == "mine"
        assert trace == ["outer before", "outer after"]

    @chains
    @colours
    def test_a_second_next_runs_the_inner_layers_again(self, chain: str, colour: str, run: Any, innermost: Any) -> None:
        trace: list[str] = []
        outcomes = (reply(chain, "first"), reply(chain, "second"))
        filters = [layer("retry", chain, passing(trace, "retry", 2), colour)]
        filters.append(layer("inner", chain, passing(trace, "inner"), colour))
        out = run(compose(filters, chain, innermost(chain, trace, *outcomes)), REQUESTS[chain])
        assert text_of(out) == "second"
        assert trace == ["retry before", *("inner before", "call", "inner after") * 2, "retry after"]

    @chains
    @colours
    def test_a_retry_catches_what_the_inner_call_raised(
        self, chain: str, colour: str, run: Any, innermost: Any
    ) -> None:
        trace: list[str] = []

        def retries(request: Any, state: Any) -> Generator[Any, Any, Any]:
            try:
                return (yield request)
            except OSError:
                return (yield request)

        filters = [layer("retry", chain, retries, colour), layer("inner", chain, passing(trace, "inner"), colour)]
        out = run(compose(filters, chain, innermost(chain, trace, OSError("down"))), REQUESTS[chain])
        assert text_of(out) == "done"
        assert trace == ["inner before", "call", "inner before", "call", "inner after"]

    @chains
    @colours
    def test_request_and_reply_are_what_the_layers_made_of_them(
        self, chain: str, colour: str, run: Any, innermost: Any
    ) -> None:
        seen: list[Any] = []

        def changes(request: Any, state: Any) -> Generator[Any, Any, Any]:
            out = yield request.replace(context=request.context.replace(user=(request.context.user or "") + "x"))
            return out.replace(message=out.message.model_copy(update={"content": out.message.text + "!"}))

        def last(request: Any) -> Any:
            seen.append(request.context.user)
            return reply(chain)

        filters = [layer(str(n), chain, changes, colour) for n in range(3)]
        assert text_of(run(compose(filters, chain, last), REQUESTS[chain])) == "done!!!"
        assert seen == ["xxx"]
        assert REQUESTS[chain].context.user is None

    @chains
    def test_filters_without_the_hook_are_skipped(self, chain: str, run: Any, innermost: Any) -> None:
        other = next(one for one in CHAINS if one != chain)
        trace: list[str] = []
        filters = [layer("other", other, passing(trace, "other")), layer("mine", chain, passing(trace, "mine"))]
        run(compose(filters, chain, innermost(chain, trace)), REQUESTS[chain])
        assert trace == ["mine before", "call", "mine after"]

    @chains
    def test_no_filter_at_all_is_the_innermost_call(self, chain: str, run: Any, innermost: Any) -> None:
        trace: list[str] = []
        assert text_of(run(compose([], chain, innermost(chain, trace)), REQUESTS[chain])) == "done"
        assert trace == ["call"]

    @chains
    @colours
    @pytest.mark.parametrize("wrong", [None, "text", AIMessage("x"), [1, 2], (1, {})])
    def test_a_reply_of_the_wrong_type_names_the_filter(
        self, chain: str, colour: str, run: Any, innermost: Any, wrong: Any
    ) -> None:
        def answers(request: Any, state: Any) -> Generator[Any, Any, Any]:
            yield request
            return wrong

        filters = [layer("outer", chain, passing([], "outer")), layer("clumsy", chain, answers, colour)]
        with pytest.raises(FilterError, match="clumsy") as caught:
            run(compose(filters, chain, innermost(chain, [])), REQUESTS[chain])
        assert (caught.value.filter, caught.value.hook) == ("clumsy", f"around_{chain}")
        expected = {"turn": "Completed", "chat": "ChatReply", "tool": "ToolReply"}[chain]
        assert expected in str(caught.value)

    @chains
    def test_a_reply_of_another_chain_is_of_the_wrong_type(self, chain: str, run: Any, innermost: Any) -> None:
        other = next(one for one in CHAINS if one != chain)
        filters = [Filter("clumsy", **{"around_" + chain: lambda request, state, next: reply(other)})]
        with pytest.raises(FilterError, match="clumsy"):
            run(compose(filters, chain, innermost(chain, [])), REQUESTS[chain])

    def test_next_without_await_says_so(self, run: Any) -> None:
        async def forgets(request: Any, state: Any, next: Any) -> Any:
            return next(request)

        with pytest.raises(FilterError, match=r"'forgetful'.*await"):
            run(compose([Filter("forgetful", around_chat=forgets)], "chat", lambda r: reply("chat")), REQUESTS["chat"])

    def test_a_def_that_returns_a_coroutine_says_so(self, run: Any) -> None:
        async def answers() -> Any:
            return reply("chat")

        odd = Filter("odd", around_chat=lambda request, state, next: answers())
        with pytest.raises(FilterError, match=r"'odd'.*async def"):
            run(compose([odd], "chat", lambda r: reply("chat")), REQUESTS["chat"])


class TestFormsOfAHook:
    """Closures, decorators, subclasses, partials and callable objects are all hooks."""

    def forms(self, trace: list[str]) -> list[Filter]:
        def note(tag: str, request: Any, state: Any, next: Any) -> Any:
            trace.append(tag)
            return next(request)

        async def anote(tag: str, request: Any, state: Any, next: Any) -> Any:
            trace.append(tag)
            return await next(request)

        class Whole(Filter):
            name = "subclass"
            init = {"n": 0}  # noqa: RUF012

            def around_chat(self, request: Any, state: Any, next: Any) -> Any:
                return note(f"subclass {self.name} {state['n']}", request, state, next)

        class Static(Filter):
            name = "static"

            @staticmethod
            def around_chat(request: Any, state: Any, next: Any) -> Any:
                return note("static", request, state, next)

        class Later(Filter):
            name = "later"

            async def around_chat(self, request: Any, state: Any, next: Any) -> Any:
                return await anote("async method", request, state, next)

        @dataclass
        class Callable:
            tag: str

            async def __call__(self, request: Any, state: Any, next: Any) -> Any:
                return await anote(self.tag, request, state, next)

        @around_chat
        def decorated(request: Any, state: Any, next: Any) -> Any:
            return note("decorated", request, state, next)

        @around_chat(name="renamed", init={"n": 1})
        async def other(request: Any, state: Any, next: Any) -> Any:
            return await anote(f"renamed {state['n']}", request, state, next)

        return [
            Whole(),
            Static(),
            Later(),
            Filter("object", around_chat=Callable("object")),
            Filter("partial", around_chat=partial(note, "partial")),
            Filter("async partial", around_chat=partial(anote, "async partial")),
            decorated,
            other,
        ]

    def test_all_of_them_run_in_one_onion(self, run: Any) -> None:
        trace: list[str] = []
        forms = self.forms(trace)
        assert text_of(run(compose(forms, "chat", lambda request: reply("chat")), REQUESTS["chat"])) == "done"
        assert trace == [
            "subclass subclass 0",
            "static",
            "async method",
            "object",
            "partial",
            "async partial",
            "decorated",
            "renamed 1",
        ]

    def test_a_subclass_may_be_used_twice_under_two_names(self, run: Any) -> None:
        trace: list[str] = []

        class Twice(Filter):
            def around_chat(self, request: Any, state: Any, next: Any) -> Any:
                trace.append(self.name)
                return next(request)

        run(compose([Twice("a"), Twice("b")], "chat", lambda request: reply("chat")), REQUESTS["chat"])
        assert trace == ["a", "b"]

    def test_a_decorated_function_is_named_after_itself(self) -> None:
        @around_turn
        def of_turn(request: Any, state: Any, next: Any) -> Any: ...

        @around_tool
        def of_tool(request: Any, state: Any, next: Any) -> Any: ...

        assert (of_turn.name, of_tool.name) == ("of_turn", "of_tool")
        assert "of_turn" in repr(of_turn)


shape = st.tuples(st.sampled_from(COLOURS), st.integers(0, 2), st.sampled_from([CHAINS, ("chat",), ("turn", "tool")]))


def expected_order(shapes: list[tuple[str, int, tuple[str, ...]]], chain: str) -> list[str]:
    """What a reader of the list says will happen."""
    around = [(str(n), nexts) for n, (_, nexts, chains) in enumerate(shapes) if chain in chains]

    def inside(position: int) -> list[str]:
        if position == len(around):
            return ["call"]
        name, nexts = around[position]
        return [f"{name} before", *inside(position + 1) * nexts, f"{name} after"]

    return inside(0)


@settings(max_examples=60, deadline=None)
@given(shapes=st.lists(shape, max_size=5), chain=st.sampled_from(CHAINS), on_loop=st.booleans())
def test_any_list_of_filters_runs_as_an_onion(
    shapes: list[tuple[str, int, tuple[str, ...]]], chain: str, on_loop: bool
) -> None:
    """Colours mixed, hooks present or not, `next` called never, once or twice."""
    trace: list[str] = []

    def hook(name: str, nexts: int) -> Any:
        def run(request: Any, state: Any) -> Generator[Any, Any, Any]:
            trace.append(f"{name} before")
            out = reply(chain)
            for _ in range(nexts):
                out = yield request
            trace.append(f"{name} after")
            return out

        return run

    filters = []
    for n, (colour, nexts, of_chains) in enumerate(shapes):
        made = [layer(str(n), one, hook(str(n), nexts), colour) for one in of_chains]
        hooks = {"around_" + one: made_one.hook(one) for one, made_one in zip(of_chains, made, strict=True)}
        filters.append(Filter(str(n), **hooks))

    def last(request: Any) -> Any:
        trace.append("call")
        return reply(chain)

    composed = compose(filters, chain, last)
    asyncio.run(composed.acall(REQUESTS[chain])) if on_loop else composed(REQUESTS[chain])
    assert trace == expected_order(shapes, chain)


class TestInAnAgent:
    """The same in all four modes."""

    @colours
    def test_turn_chat_and_tool_hooks_nest_around_a_turn(self, drive: Drive, colour: str) -> None:
        trace: list[str] = []
        desk = Desk()
        filters = []
        for name in ("a", "b"):
            hooks = {
                "around_" + chain: layer("x", chain, passing(trace, f"{name} {chain}"), colour).hook(chain)
                for chain in CHAINS
            }
            filters.append(Filter(name, **hooks))
        model = ScriptedModel([asks(call("look", order=1)), "end"])
        agent = Agent(model, tools=desk.tools, filters=filters)
        result, _ = drive(agent).start("go")
        assert result.answer == "end"
        chat = ["a chat before", "b chat before", "b chat after", "a chat after"]
        tool = [one.replace("chat", "tool") for one in chat]
        assert trace == ["a turn before", "b turn before", *chat, *tool, *chat, "b turn after", "a turn after"]
        assert agent.layers == {chain: ["a", "b"] for chain in CHAINS}
        assert "chat: a > b > model" in repr(agent)

    @colours
    def test_a_tool_filter_that_answers_keeps_the_tool_from_running(self, drive: Drive, colour: str) -> None:
        desk = Desk()

        def answers(request: Any, state: Any) -> Generator[Any, Any, Any]:
            return reply("tool", "not today")
            yield

        model = ScriptedModel([asks(call("refund", order=1)), "end"])
        driver = drive(Agent(model, tools=desk.tools, filters=[layer("guard", "tool", answers, colour)]))
        result, events = driver.start("go")
        assert desk.ran == []
        assert result.messages[2].text == "not today"
        assert len(model.calls) == 2
        if driver.streams:
            assert FilterActed("guard", "around_tool", "short_circuit") in events

    @colours
    def test_a_turn_filter_that_answers_calls_no_model(self, drive: Drive, colour: str) -> None:
        model = ScriptedModel([])

        def answers(request: Any, state: Any) -> Generator[Any, Any, Any]:
            return reply("turn", "closed").replace(messages=[*request.messages, AIMessage("closed", id="a")])
            yield

        result, _ = drive(Agent(model, filters=[layer("guard", "turn", answers, colour)])).start("go")
        assert result.answer == "closed"
        assert model.calls == []

    def test_a_mutated_request_does_not_reach_back_into_the_thread(self, drive: Drive, any_saver: Any) -> None:
        """The list of a chat request is the filter's own copy."""

        def mutates(request: Any, state: Any, next: Any) -> ChatReply:
            request.messages.clear()
            request.messages.append(HumanMessage("only this"))
            return next(request)

        model = ScriptedModel(["one", "two"])
        agent = Agent(model, filters=[Filter("m", around_chat=mutates)], checkpointer=any_saver)
        driver = drive(agent)
        driver.start("first", thread="t")
        result, _ = driver.start("second", thread="t")
        assert [[m.text for m in asked] for asked in model.calls] == [["only this"]] * 2
        assert [m.text for m in result.messages] == ["first", "one", "second", "two"]


@chains
def test_a_filter_may_have_a_place_of_its_own_in_a_chain(chain: str) -> None:
    """Inside or outside of all others there, wherever it is in the list; elsewhere the list decides."""
    trace: list[str] = []

    def noting(name: str) -> Any:
        return lambda request, state, next: trace.append(name) or next(request)

    stack = [Filter(name, **{f"around_{one}": noting(name) for one in CHAINS}) for name in "abcd"]
    stack[0].innermost, stack[3].outermost = ("chat",), ("tool",)
    compose(stack, chain, lambda request: reply(chain))(REQUESTS[chain])
    entered = {"turn": "abcd", "chat": "bcda", "tool": "dabc"}[chain]
    assert trace == list(entered)
    assert Agent(ScriptedModel([]), filters=stack).layers[chain] == list(entered)


def test_an_unknown_chain_is_refused() -> None:
    """A typing mistake in the name of a chain must not skip all filters."""
    with pytest.raises(ConfigurationError, match="chats"):
        compose([around_chat(lambda r, s, next: next(r), name="x")], "chats", lambda r: r)(REQUESTS["chat"])  # type: ignore[arg-type]
