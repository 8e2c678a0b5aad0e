"""What a call brings along, and what a result shows: config, durability, threads, decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive
from tests.loop.scripts import Log, asks, assert_valid, call, history, results, told

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    NotPaused,
    Paused,
    SQLCheckpointer,
    ThreadPaused,
    UnknownApproval,
    approve,
    around_turn,
    filters,
    reject,
)
from scallion.testing import ScriptedModel


def gated(saver: Any, *script: Any, onion: Any = (), **parts: Any) -> tuple[Agent, Log]:
    """An agent whose one tool is gated."""
    log = Log()
    replies = list(script) or [asks(call("send", text="a")), "ok", "fine"]
    onion = [*onion, filters.approval({"send": True})]
    model = ScriptedModel(replies)
    return Agent(model, tools=[log.tool("send")], filters=onion, checkpointer=saver, **parts), log


def test_a_result_has_all_its_fields(drive: Drive, any_saver: Any) -> None:
    log = Log()
    model = ScriptedModel([asks(call("send", text="a")), "ok"])
    agent = Agent(model, tools=[log.tool("send")], checkpointer=any_saver)
    result, _ = drive(agent).start("go", thread="t")
    assert isinstance(result, Completed)
    assert result.answer == result.message.text == "ok"
    assert told(result.messages) == ["user: go", "model: send", "tool: send did a", "model: ok"]
    assert result.messages[-1] == result.message
    assert [dict(one) for one in result.tool_calls] == [
        {"id": "c1", "name": "send", "args": {"text": "a"}, "status": "success"}
    ]
    assert (result.usage["model_calls"], result.usage["tool_calls"]) == (2, 1)
    assert result.usage["total_tokens"] == result.usage["input_tokens"] + result.usage["output_tokens"]
    assert (result.attempts, result.parsed, result.thread) == (1, None, "t")
    assert isinstance(result.filter_state, Mapping)
    assert result.turn


def test_a_pause_has_all_its_fields(drive: Drive, any_saver: Any) -> None:
    agent, _ = gated(any_saver)
    result, _ = drive(agent).start("go", thread="t", user="ana")
    assert isinstance(result, Paused)
    assert (result.thread, told(result.messages)) == ("t", ["user: go", "model: send"])
    [one] = result.approvals
    assert (one.kind, one.status, one.tool, one.call_id, one.args) == ("tool_call", "pending", "send", "c1", {"text": "a"})  # noqa: E501  # fmt: skip
    assert (one.thread, one.requested_by, one.path) == ("t", "ana", ("approval",))
    assert one.created_at is not None
    assert one.created_at.tzinfo is not None
    done, _ = drive(agent).resume("t", approve())
    assert done.turn == result.turn


def test_a_turn_without_a_thread_gets_one_of_its_own(drive: Drive) -> None:
    agent = Agent(ScriptedModel(["a", "b"]), checkpointer=InMemorySaver())
    first, _ = drive(agent).start("one")
    second, _ = drive(agent).start("two")
    assert first.thread
    assert first.thread != second.thread
    assert told(history(agent, first.thread)) == ["user: one", "model: a"]


def test_turns_of_one_thread_have_different_names(drive: Drive) -> None:
    agent = Agent(ScriptedModel(["a", "b"]), checkpointer=InMemorySaver())
    assert drive(agent).start("one", thread="t")[0].turn != drive(agent).start("two", thread="t")[0].turn


class Watching(BaseCallbackHandler):
    """Notes what LangChain tells a handler."""

    def __init__(self) -> None:
        self.tools: list[Any] = []
        self.chains: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
        self.chains.append((more.get("tags"), more.get("metadata")))

    def on_tool_start(self, serialized: Any, input_str: Any, **more: Any) -> None:
        self.tools.append((serialized["name"], more.get("metadata")))


@pytest.mark.parametrize("saver", [lambda: None, InMemorySaver], ids=["no saver", "memory"])
def test_callbacks_tags_metadata_and_configurable_are_langchains(drive: Drive, saver: Any) -> None:
    seen: dict[str, Any] = {}
    watching = Watching()

    @tool
    def inside(config: RunnableConfig) -> str:
        """Look around."""
        seen.update(config["configurable"], metadata=config["metadata"], tags=config["tags"])
        return "done"

    agent = Agent(ScriptedModel([asks(call("inside")), "ok"]), tools=[inside], checkpointer=saver())
    config = {"callbacks": [watching], "tags": ["mine"], "metadata": {"m": 1}, "configurable": {"tenant": "acme"}}
    result, _ = drive(agent).start("go", thread="t", user="ana", config=config)
    assert isinstance(result, Completed)
    assert (seen["tenant"], seen["thread_id"]) == ("acme", "t")
    assert (seen["metadata"]["m"], seen["metadata"]["user"]) == (1, "ana")
    assert [name for name, _ in watching.tools] == ["inside"]
    assert any("mine" in (tags or ()) for tags, _ in watching.chains)
    assert config["configurable"] == {"tenant": "acme"}


def test_config_is_taken_on_resume_too(drive: Drive) -> None:
    watching = Watching()
    agent, _ = gated(InMemorySaver())
    drive(agent).start("go", thread="t")
    drive(agent).resume("t", approve(), config={"callbacks": [watching], "metadata": {"m": 2}})
    assert [(name, (data or {})["m"]) for name, data in watching.tools] == [("send", 2)]


PASSES = around_turn(name="passes")(lambda request, state, next: next(request))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("onion", [[], [PASSES]], ids=["plain", "turn filter"])
def test_every_durability_pauses_and_resumes(drive: Drive, any_saver: Any, durability: Any, onion: Any) -> None:
    agent, log = gated(any_saver, onion=onion)
    paused, _ = drive(agent).start("go", thread="t", durability=durability)
    assert isinstance(paused, Paused)
    done, _ = drive(agent).resume("t", approve(), durability=durability)
    assert isinstance(done, Completed)
    drive(agent).start("more", thread="t", durability=durability)
    assert log == ["send a"]
    assert told(history(agent, "t")) == [
        "user: go", "model: send", "tool: send did a", "model: ok", "user: more", "model: fine",
    ]  # fmt: skip


def test_resume_of_an_idle_thread_says_so(drive: Drive, any_saver: Any) -> None:
    agent, _ = gated(any_saver, "ok")
    with pytest.raises(NotPaused, match="'never seen'"):
        drive(agent).resume("never seen", approve())
    drive(agent).start("go", thread="t")
    for decisions in (None, approve(), {"x": approve()}):
        with pytest.raises(NotPaused):
            drive(agent).resume("t", decisions)
    assert told(history(agent, "t")) == ["user: go", "model: ok"]


def test_a_second_resume_of_the_same_pause_says_so_and_runs_nothing(drive: Drive, any_saver: Any) -> None:
    agent, log = gated(any_saver)
    drive(agent).start("go", thread="t")
    drive(agent).resume("t", approve())
    with pytest.raises(NotPaused):
        drive(agent).resume("t", approve())
    assert log == ["send a"]


def test_resume_without_decisions_shows_the_pause_again(drive: Drive, any_saver: Any) -> None:
    agent, log = gated(any_saver)
    first, _ = drive(agent).start("go", thread="t")
    again, _ = drive(agent).resume("t")
    assert isinstance(again, Paused)
    assert [one.id for one in again.approvals] == [one.id for one in first.approvals]
    assert log == []


@pytest.mark.parametrize(
    "decisions",
    [approve(), {"type": "approve"}, {"decisions": [{"type": "approve"}]}],
    ids=["one for all", "plain", "langchain's"],
)
def test_every_form_of_decision_is_taken(drive: Drive, decisions: Any) -> None:
    agent, log = gated(InMemorySaver())
    drive(agent).start("go", thread="t")
    assert isinstance(drive(agent).resume("t", decisions)[0], Completed)
    assert log == ["send a"]


def test_an_unknown_approval_is_refused_and_the_pause_stays(drive: Drive, any_saver: Any) -> None:
    agent, log = gated(any_saver)
    paused, _ = drive(agent).start("go", thread="t")
    with pytest.raises(UnknownApproval):
        drive(agent).resume("t", {"nobody": approve(), paused.approvals[0].id: approve()})
    assert log == []
    assert isinstance(drive(agent).resume("t", approve())[0], Completed)


def test_partial_decisions_leave_the_rest_open(drive: Drive, any_saver: Any) -> None:
    script = asks(*(call("send", f"c{number}", text=str(number)) for number in range(3)))
    agent, log = gated(any_saver, script, "ok")
    paused, _ = drive(agent).start("go", thread="t")
    assert [one.call_id for one in paused.approvals] == ["c0", "c1", "c2"]
    rest, _ = drive(agent).resume("t", {paused.approvals[1].id: approve()})
    assert isinstance(rest, Paused)
    assert [one.call_id for one in rest.approvals] == ["c0", "c2"]
    assert log == ["send 1"]
    done, _ = drive(agent).resume("t", {rest.approvals[0].id: reject(), rest.approvals[1].id: approve()})
    assert isinstance(done, Completed)
    assert log == ["send 1", "send 2"]
    assert list(results(done.messages)) == ["c0", "c1", "c2"]
    assert_valid(history(agent, "t"))


def test_a_message_while_paused_is_refused_and_the_pause_stays(drive: Drive, any_saver: Any) -> None:
    agent, log = gated(any_saver)
    paused, _ = drive(agent).start("go", thread="t")
    with pytest.raises(ThreadPaused) as caught:
        drive(agent).start("hurry", thread="t")
    assert [one.id for one in caught.value.approvals] == [one.id for one in paused.approvals]
    assert told(history(agent, "t")) == ["user: go", "model: send"]
    drive(agent).resume("t", approve())
    assert log == ["send a"]


@pytest.mark.parametrize("onion", [[], [PASSES]], ids=["plain", "turn filter"])
def test_a_message_while_paused_may_supersede_the_pause(drive: Drive, any_saver: Any, onion: Any) -> None:
    agent, log = gated(any_saver, onion=onion, on_message_while_paused="supersede")
    drive(agent).start("go", thread="t")
    done, _ = drive(agent).start("never mind", thread="t")
    assert isinstance(done, Completed)
    assert results(history(agent, "t")) == {"c1": "not run: the person went on with another message"}
    assert_valid(history(agent, "t"))
    assert log == []
    with pytest.raises(NotPaused):
        drive(agent).resume("t", approve())


def test_a_model_error_during_resume_leaves_the_decision_and_repeats_no_tool(drive: Drive, any_saver: Any) -> None:
    agent, log = gated(any_saver, asks(call("send", text="a")), TimeoutError("slow"), "ok")
    drive(agent).start("go", thread="t")
    with pytest.raises(Exception, match="Timeout"):
        drive(agent).resume("t", approve())
    done, _ = drive(agent).resume("t")
    assert isinstance(done, Completed)
    assert log == ["send a"]
    assert_valid(history(agent, "t"))


def test_a_failed_turn_can_be_recovered_without_a_new_message(drive: Drive, any_saver: Any) -> None:
    log = Log()
    model = ScriptedModel([asks(call("send", text="a")), ConnectionError("gone"), "ok"])
    agent = Agent(model, tools=[log.tool("send")], checkpointer=any_saver)
    with pytest.raises(Exception, match="Connection"):
        drive(agent).start("go", thread="t")
    done = agent.recover("t")
    assert isinstance(done, Completed)
    assert (done.answer, log) == ("ok", ["send a"])
    assert agent.recover("t") is None


def test_recover_of_a_healthy_or_unknown_thread_is_nothing(any_saver: Any) -> None:
    agent = Agent(ScriptedModel(["ok"]), checkpointer=any_saver)
    assert agent.recover("never seen") is None
    agent.invoke("go", thread="t")
    assert agent.recover("t") is None


def test_without_a_checkpointer_a_thread_is_only_a_name() -> None:
    """Filters and tools see it, and the next turn on it begins anew, as the page on persistence says."""
    agent = Agent(ScriptedModel(lambda messages: str(len(messages))))
    results = [agent.invoke("hi", thread="t") for _ in range(2)]
    assert [(one.answer, one.thread) for one in results] == [("1", "t"), ("1", "t")]


def test_who_asks_is_a_text_which_ints_and_uuids_become(sql: Any) -> None:
    agent, log = gated(sql, *([asks(call("send", text="a")), "ok"] * 2))
    for n, who in enumerate((7, UUID(int=7))):
        found = agent.invoke("go", thread=f"t{n}", user=who, owner=who)  # type: ignore[arg-type]
        assert isinstance(found, Paused)
        assert [(one.requested_by, one.owner) for one in found.approvals] == [(str(who), str(who))]
        assert isinstance(agent.session(f"t{n}", owner=who, user=who).resume(approve(), by="ana"), Completed)  # type: ignore[arg-type]
    assert log == ["send a"] * 2
    for none in (b"x", 1.5, True, {"a": 1}):
        for name in ("owner", "user"):
            with pytest.raises(ConfigurationError, match=f"the {name} is a text, an int or a UUID"):
                agent.invoke("go", thread="t", **{name: none})  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match=f"the {name} is a text, an int or a UUID"):
                agent.session("t", **{name: none})  # type: ignore[arg-type]
    assert sql.sessions.get("t") is None


BAD_USERS = {
    "x" * 256: "has 256 characters: 255 are the most",
    "a\0b": "must not hold a NUL",
    "\ud83d": "must not hold half of a surrogate pair",
}


@pytest.mark.parametrize("user", list(BAD_USERS), ids=["long", "nul", "half"])
def test_a_user_that_no_database_holds_is_refused_before_anything_is_stored(
    drive: Drive, sql: SQLCheckpointer, user: str
) -> None:
    """Given by keyword, by the config or by a session, to a new turn and to one that goes on."""
    agent = Agent(ScriptedModel(["ok", "ok"]), checkpointer=sql)
    config: Any = {"metadata": {"user": user}}
    for options in ({"user": user}, {"config": config}):
        with pytest.raises(ConfigurationError, match=f"the user {BAD_USERS[user]}"):
            drive(agent).start("hi", thread="t", **options)
        with pytest.raises(ConfigurationError, match=f"the user {BAD_USERS[user]}"):
            drive(agent).resume("t", **options)
    with pytest.raises(ConfigurationError, match=f"the user {BAD_USERS[user]}"):
        agent.session("t", user=user)
    assert sql.sessions.get("t") is None
    assert drive(agent).start("hi", thread="t", user="é" * 255)[0].answer == "ok"
