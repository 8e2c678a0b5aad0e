"""A filter's private state: updated by what a hook returns or at once, isolated, kept over rounds and pauses."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from modes import Drive
from scenes import REQUESTS, Desk, asks, call, reply

from scallion import (
    Agent,
    Filter,
    FilterError,
    Paused,
    SQLCheckpointer,
    approve,
    around_chat,
    around_tool,
    around_turn,
    compose,
    filters,
    pause,
)
from scallion.testing import ScriptedModel


class Sums(TypedDict):
    n: Annotated[int, operator.add]
    names: Annotated[list[str], operator.add]


def in_chain(chain: str, hook: Any, **options: Any) -> Filter:
    return Filter(options.pop("name", "f"), **{"around_" + chain: hook}, **options)


@pytest.mark.parametrize("chain", ["turn", "chat", "tool"])
class TestUpdates:
    """By `compose`, in each chain."""

    def test_what_is_returned_replaces_key_by_key(self, chain: str) -> None:
        one = in_chain(chain, lambda r, state, next: (next(r), {"b": 2}), init={"a": 1, "b": 1})
        composed = compose([one], chain, lambda r: reply(chain))  # type: ignore[arg-type]
        composed(REQUESTS[chain])
        assert composed.filter_state == {"f": {"a": 1, "b": 2}}

    def test_a_declared_reducer_combines(self, chain: str) -> None:
        def hook(r: Any, state: Any, next: Any) -> Any:
            state.update(n=2, names=["before"])
            state.update({"n": 3})
            return next(r), {"n": 10, "names": ["after"], "plain": 1}

        one = in_chain(chain, hook, init={"n": 1, "names": [], "plain": 0}, state_schema=Sums)
        composed = compose([one], chain, lambda r: reply(chain))  # type: ignore[arg-type]
        composed(REQUESTS[chain])
        assert composed.filter_state == {"f": {"n": 16, "names": ["before", "after"], "plain": 1}}

    def test_an_update_at_once_is_seen_by_what_runs_inside(self, chain: str) -> None:
        seen: list[Any] = []
        handle: list[Any] = []

        def outer(r: Any, state: Any, next: Any) -> Any:
            handle.append(state)
            state.update(step="asked")
            return next(r), {"step": "answered"}

        def last(r: Any) -> Any:
            seen.append(handle[0]["step"])
            return reply(chain)

        compose([in_chain(chain, outer, init={"step": "new"})], chain, last)(REQUESTS[chain])  # type: ignore[arg-type]
        assert seen == ["asked"]
        assert handle[0]["step"] == "answered"

    def test_a_second_next_starts_the_inner_filters_from_their_latest_state(self, chain: str) -> None:
        seen: list[int] = []

        def twice(r: Any, state: Any, next: Any) -> Any:
            next(r)
            return next(r)

        def inner(r: Any, state: Any, next: Any) -> Any:
            seen.append(state["n"])
            return next(r), {"n": state["n"] + 1}

        stack = [in_chain(chain, twice, name="twice"), in_chain(chain, inner, init={"n": 0})]
        composed = compose(stack, chain, lambda r: reply(chain))  # type: ignore[arg-type]
        composed(REQUESTS[chain])
        assert seen == [0, 1]
        assert composed.filter_state["f"] == {"n": 2}

    def test_two_filters_with_the_same_keys_do_not_share_them(self, chain: str) -> None:
        stack = [
            in_chain(chain, lambda r, state, next: (next(r), {"n": 1}), name="a", init={"n": 0}),
            in_chain(chain, lambda r, state, next: (next(r), {"n": 2}), name="b", init={"n": 0}),
        ]
        composed = compose(stack, chain, lambda r: reply(chain))  # type: ignore[arg-type]
        composed(REQUESTS[chain])
        assert composed.filter_state == {"a": {"n": 1}, "b": {"n": 2}}

    def test_init_is_not_used_up_by_a_hook_that_mutates(self, chain: str) -> None:
        init = {"seen": []}

        def mutates(r: Any, state: Any, next: Any) -> Any:
            state["seen"].append(1)
            return next(r)

        composed = compose([in_chain(chain, mutates, init=init)], chain, lambda r: reply(chain))  # type: ignore[arg-type]
        composed(REQUESTS[chain])
        composed(REQUESTS[chain])
        assert composed.filter_state == {"f": {"seen": [1]}}
        assert init == {"seen": []}

    @pytest.mark.parametrize("update", [None, [("n", 1)], "n", 3])
    def test_an_update_that_is_no_mapping_names_the_filter(self, chain: str, update: Any) -> None:
        one = in_chain(chain, lambda r, state, next: (next(r), update))
        with pytest.raises(FilterError, match="'f'"):
            compose([one], chain, lambda r: reply(chain))(REQUESTS[chain])  # type: ignore[arg-type]


def counting(**options: Any) -> Filter:
    """Counts its own calls in all three chains, in one state."""

    def turn(r: Any, state: Any, next: Any) -> Any:
        state.update(names=["turn"])
        return next(r), {"n": 100}

    async def chat(r: Any, state: Any, next: Any) -> Any:
        return await next(r), {"n": 10, "names": ["chat"]}

    def tool(r: Any, state: Any, next: Any) -> Any:
        return next(r), {"n": 1, "names": [r.call["id"]]}

    return Filter(
        options.pop("name", "counts"),
        around_turn=turn,
        around_chat=chat,
        around_tool=tool,
        init={"n": 0, "names": []},
        state_schema=Sums,
        **options,
    )


def test_turn_chat_and_tool_hooks_share_one_state(drive: Drive) -> None:
    """Over the rounds of the loop; parallel calls merge in call order."""
    calls = [call("look", f"c{n}", order=n) for n in range(4)]
    agent = Agent(ScriptedModel([asks(*calls), "end"]), tools=Desk().tools, filters=[counting()])
    result, _ = drive(agent).start("go")
    assert result.filter_state["counts"] == {"n": 124, "names": ["turn", "chat", "c0", "c1", "c2", "c3", "chat"]}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_state_survives_a_pause_and_another_agent_object(drive: Drive, sql: SQLCheckpointer, order: Any) -> None:
    """Whichever call is decided first, they merge in call order and each counts once."""

    def build(*replies: Any) -> Agent:
        stack = [counting(), filters.approval({"refund": True}), counting(name="inner")]
        return Agent(ScriptedModel(replies), tools=Desk().tools, filters=stack, checkpointer=sql)

    calls = [call("refund", "c1", order=1), call("refund", "c2", order=2)]
    paused, _ = drive(build(asks(*calls))).start("go", thread="t")
    ids = [one.id for one in paused.approvals]
    again, _ = drive(build()).resume("t", {ids[order[0]]: approve()})
    assert isinstance(again, Paused)
    result, _ = drive(build("end")).resume("t", {ids[order[1]]: approve()})
    expected = {"n": 122, "names": ["turn", "chat", "c1", "c2", "chat"]}
    assert result.filter_state["counts"] == expected
    assert result.filter_state["inner"] == expected


def test_what_was_updated_before_a_pause_is_not_folded_twice(drive: Drive, any_saver: Any) -> None:
    """The hook runs again from its top, and its updates with it."""

    def asking(r: Any, state: Any, next: Any) -> Any:
        state.update(n=1)
        out = next(r)
        state.update(n=10)
        pause("ok?", allowed=("approve",))
        return out, {"n": 100}

    def inner(r: Any, state: Any, next: Any) -> Any:
        return next(r), {"n": 1}

    stack = [
        Filter("asking", around_chat=asking, around_turn=asking, init={"n": 0}, state_schema=Sums),
        Filter("inner", around_chat=inner, init={"n": 0}, state_schema=Sums),
    ]
    driver = drive(Agent(ScriptedModel(["end"]), filters=stack, checkpointer=any_saver))
    outcome, _ = driver.start("go", thread="t")
    for _ in range(2):
        assert isinstance(outcome, Paused)
        outcome, _ = driver.resume("t", approve())
    assert outcome.filter_state == {"asking": {"n": 222}, "inner": {"n": 1}}


@pytest.mark.parametrize("pauses", [1, 3])
def test_what_a_turn_hook_updated_before_it_asked_is_not_folded_twice(
    drive: Drive, any_saver: Any, pauses: int
) -> None:
    """Asked before the first `next`: there is nothing yet but the updates."""

    def asking(r: Any, state: Any, next: Any) -> Any:
        for _ in range(pauses):
            state.update(n=1)
            pause("ok?", allowed=("approve",))
        return next(r)

    one = Filter("f", around_turn=asking, init={"n": 0}, state_schema=Sums)
    driver = drive(Agent(ScriptedModel(["end"]), filters=[one], checkpointer=any_saver))
    outcome, _ = driver.start("go", thread="t")
    for _ in range(pauses):
        assert isinstance(outcome, Paused)
        outcome, _ = driver.resume("t", approve())
    assert outcome.filter_state == {"f": {"n": pauses}}


def test_state_starts_anew_each_turn_unless_its_scope_is_the_thread(drive: Drive, any_saver: Any) -> None:
    stack = [counting(name="turns"), counting(name="threads", scope="thread")]
    driver = drive(Agent(ScriptedModel(["one", "two"]), filters=stack, checkpointer=any_saver))
    first, _ = driver.start("go", thread="t")
    assert first.filter_state["turns"] == first.filter_state["threads"] == {"n": 110, "names": ["turn", "chat"]}
    second, _ = driver.start("go on", thread="t")
    assert second.filter_state["turns"] == {"n": 110, "names": ["turn", "chat"]}
    assert second.filter_state["threads"] == {"n": 220, "names": ["turn", "chat"] * 2}


@pytest.mark.parametrize("turns", [True, False])
def test_what_lasts_is_there_behind_a_turn_of_an_agent_without_the_filter(
    drive: Drive, any_saver: Any, turns: bool
) -> None:
    def count(request: Any, state: Any, next: Any) -> Any:
        return next(request), {"n": state["n"] + 1}

    def counted(*filters: Filter) -> Any:
        result, _ = drive(Agent(ScriptedModel(["ok"]), filters=filters, checkpointer=any_saver)).start("Go", thread="t")
        return {name: state["n"] for name, state in result.filter_state.items()}

    around = in_chain("turn" if turns else "chat", count, init={"n": 0}, scope="thread")
    short = in_chain("chat", count, init={"n": 0}, name="short")
    assert counted(around, short) == {"f": 1, "short": 1}
    assert counted() == {}
    assert counted(around, short) == {"f": 2, "short": 1}


def test_re_entry_keeps_the_state_of_inner_filters(drive: Drive, any_saver: Any) -> None:
    """A turn filter that calls `next` twice sees the loop's filters go on counting."""

    def again(r: Any, state: Any, next: Any) -> Any:
        out = next(r)
        return next(r.replace(messages=[*out.messages, HumanMessage("better")], load_history=False))

    def count(r: Any, state: Any, next: Any) -> Any:
        return next(r), {"n": 1}

    stack = [
        Filter("again", around_turn=again),
        Filter("count", around_chat=count, init={"n": 0}, state_schema=Sums),
    ]
    result, _ = drive(Agent(ScriptedModel(["bad", "good"]), filters=stack, checkpointer=any_saver)).start(
        "go", thread="t"
    )
    assert (result.answer, result.attempts) == ("good", 2)
    assert result.filter_state["count"] == {"n": 2}


def test_state_is_a_mapping_that_cannot_be_assigned_to() -> None:
    """Only `update` changes it, so that every change is kept over a pause."""

    def assigns(r: Any, state: Any, next: Any) -> Any:
        assert dict(state) == {"n": 0}
        state["n"] = 1
        return next(r)

    with pytest.raises(FilterError) as caught:
        compose([Filter("f", around_chat=assigns, init={"n": 0})], "chat", lambda r: reply("chat"))(REQUESTS["chat"])
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("chain", ["turn", "chat", "tool"])
def test_a_filter_that_is_added_to_a_paused_turn_starts_from_its_init(drive: Drive, any_saver: Any, chain: str) -> None:
    def added(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return reply, {"n": state["n"] + 1, "seen": [chain]}

    def build(*more: Any) -> Agent:
        desk = Desk()
        gate = filters.approval({"refund": True})
        model = ScriptedModel([asks(call("refund", order=1)), "done"] if not more else ["done"])
        return Agent(model, tools=[desk.refund()], filters=[*more, gate], checkpointer=any_saver)

    schema = {"n": int, "seen": Annotated[list[str], operator.add]}
    around = {"turn": around_turn, "chat": around_chat, "tool": around_tool}[chain]
    new = around(name="new", init={"n": 0, "seen": ["init"]}, state_schema=TypedDict("Seen", schema))(added)
    drive(build()).start("go", thread="t")
    result, _ = drive(build(new)).resume("t", approve())
    assert result.filter_state["new"] == {"n": 1, "seen": ["init", chain]}
    assert new.init == {"n": 0, "seen": ["init"]}


@pytest.mark.parametrize("new", [filters.limit_calls(5), filters.usage(), filters.todo()], ids=lambda one: one.name)
def test_the_filters_of_the_catalogue_can_be_added_to_a_paused_turn(drive: Drive, any_saver: Any, new: Any) -> None:
    def build(*more: Any) -> Agent:
        model = ScriptedModel([asks(call("refund", order=1))] * (not more) + ["done"])
        gate = filters.approval({"refund": True})
        return Agent(model, tools=[Desk().refund()], filters=[*more, gate], checkpointer=any_saver)

    drive(build()).start("go", thread="t")
    result, _ = drive(build(new)).resume("t", approve())
    assert result.answer == "done"
    assert result.filter_state[new.name].keys() == new.init.keys()


def test_a_key_that_is_new_in_the_state_of_a_thread_starts_from_its_init(drive: Drive, any_saver: Any) -> None:
    def build(**init: Any) -> Agent:
        @around_chat(name="kept", init=init, scope="thread")
        def kept(request: Any, state: Any, next: Any) -> Any:
            return next(request), {key: state[key] + 1 for key in init}

        return Agent(ScriptedModel(["ok"]), filters=[kept], checkpointer=any_saver)

    drive(build(old=0)).start("one", thread="t")
    result, _ = drive(build(old=0, new=10)).start("two", thread="t")
    assert result.filter_state["kept"] == {"old": 2, "new": 11}


def test_an_output_filter_that_is_added_to_a_paused_turn_is_kept(drive: Drive, any_saver: Any) -> None:
    def build(*more: Any) -> Agent:
        model = ScriptedModel([asks(call("refund", order=1))] * (not more) + ["a secret", "next"])
        gate = filters.approval({"refund": True})
        return Agent(model, tools=[Desk().refund()], filters=[*more, gate], checkpointer=any_saver)

    @around_turn(name="hide")
    def hide(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(message=AIMessage("a ***"))

    drive(build()).start("go", thread="t")
    agent = build(hide)
    result, _ = drive(agent).resume("t", approve())
    assert result.answer == "a ***"
    done, _ = drive(agent).start("on", thread="t")
    assert [one.type for one in done.messages] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert done.messages[3].text == "a ***"
