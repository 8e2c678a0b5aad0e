"""Any chat model in any mode, and filters that change the call, the model or the reply."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive, delivered
from tests.loop.scripts import Log, asks, assert_valid, call, history, results
from tests.loop.test_tools import KINDS

from scallion import Agent, ChatReply, Completed, ModelError, Paused, around_chat, filters, reject
from scallion.testing import ScriptedModel


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_model_of_one_colour_works_in_every_mode(drive: Drive, colour: str) -> None:
    log = Log()
    script = [asks(call("send", text="a")), AIMessage("ok")]
    model = ScriptedModel(script, async_only=True) if colour == "async" else SyncOnly(replies=script)
    result, events = drive(Agent(model, tools=[log.tool("send")])).start("go")
    assert (result.answer, log) == ("ok", ["send a"])
    assert not events or delivered(events) == "ok"


class SyncOnly(BaseChatModel):
    """A model with `_generate` alone, as the simplest ones have."""

    replies: list[Any]

    @property
    def _llm_type(self) -> str:
        return "sync-only"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.replies.pop(0))])


class StreamOnly(BaseChatModel):
    """A model that streams, asynchronously, and nothing else (LangChain cannot `ainvoke` such a one either)."""

    @property
    def _llm_type(self) -> str:
        return "stream-only"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        from langchain_core.messages import AIMessageChunk

        for text in ("a", "b", "c"):
            yield ChatGenerationChunk(message=AIMessageChunk(text))


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_a_model_that_only_streams_asynchronously_works(drive: Drive) -> None:
    result, events = drive(Agent(StreamOnly())).start("go")
    assert result.answer == "abc"
    assert not events or delivered(events) == "abc"


def test_a_model_that_a_filter_puts_in_gets_the_same_tools_prompt_and_settings(drive: Drive) -> None:
    other = ScriptedModel([asks(call("send", text="a")), "from the other"])

    @around_chat
    def fallback(request: Any, state: Any, next: Any) -> Any:
        try:
            return next(request.replace(settings={"temperature": 0}))
        except ModelError:
            return next(request.replace(model=other, settings={"temperature": 0}))

    log = Log()
    first = ScriptedModel([TimeoutError("slow"), TimeoutError("slow")])
    agent = Agent(first, tools=[log.tool("send")], filters=[fallback], system_prompt="Be kind.")
    result, events = drive(agent).start("go")
    assert result.answer == "from the other"
    assert not events or delivered(events) == "from the other"
    assert log == ["send a"]
    assert other.settings == first.settings
    assert [one[0].text for one in other.calls] == ["Be kind.", "Be kind."]
    assert result.usage["model_calls"] == 4


def test_a_filter_may_choose_the_tool(drive: Drive) -> None:
    @around_chat
    def forces(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(tool_choice="send" if len(request.messages) == 1 else None))

    model = ScriptedModel([asks(call("send")), "ok"])
    drive(Agent(model, tools=[Log().tool("send")], filters=[forces])).start("go")
    assert [one.get("tool_choice") for one in model.settings] == ["send", None]


def test_calls_that_a_filter_makes_up_run(drive: Drive) -> None:
    @around_chat
    def scripted(request: Any, state: Any, next: Any) -> Any:
        if len(request.messages) == 1:
            return ChatReply(asks(call("send", text="made up")))
        return next(request)

    log = Log()
    result, _ = drive(Agent(ScriptedModel(["ok"]), tools=[log.tool("send")], filters=[scripted])).start("go")
    assert log == ["send made up"]
    assert_valid(result.messages)


def test_calls_that_a_filter_takes_out_do_not_run(drive: Drive) -> None:
    @around_chat
    def harmless(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        return reply.replace(message=AIMessage("I must not", id=reply.message.id))

    log = Log()
    agent = Agent(ScriptedModel([asks(call("send"))]), tools=[log.tool("send")], filters=[harmless])
    result, _ = drive(agent).start("go")
    assert (result.answer, log) == ("I must not", [])
    assert_valid(result.messages)


def test_the_request_of_a_chat_filter_is_a_view_that_does_not_change_the_thread(drive: Drive) -> None:
    @around_chat
    def meddles(request: Any, state: Any, next: Any) -> Any:
        request.messages.clear()
        return next(request.replace(messages=[HumanMessage("other")]))

    model = ScriptedModel(["ok"])
    agent = Agent(model, filters=[meddles], checkpointer=InMemorySaver())
    drive(agent).start("go", thread="t")
    assert [one.text for one in model.calls[0]] == ["other"]
    assert [one.text for one in history(agent, "t")] == ["go", "ok"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: getattr(kind, "name", None) or kind.__name__)
def test_a_denied_call_never_runs_whatever_kind_of_tool_it_is(drive: Drive, kind: Any) -> None:
    name = getattr(kind, "name", None) or kind.__name__
    agent = Agent(
        ScriptedModel([asks(call(name, text="a")), "ok"]),
        tools=[kind],
        filters=[filters.approval(default=True)],
        checkpointer=InMemorySaver(),
    )
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    done, _ = drive(agent).resume("t", reject("never"))
    assert isinstance(done, Completed)
    assert "did a" not in results(done.messages)["c1"]
    assert "never" in results(done.messages)["c1"]


def test_many_turns_at_once_do_not_mix() -> None:
    log = Log()

    def model(messages: Any) -> Any:
        last = messages[-1]
        return asks(call("send", text=last.text)) if last.type == "human" else AIMessage(f"after {last.text}")

    agent = Agent(ScriptedModel(model), tools=[log.tool("send")], checkpointer=InMemorySaver())

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(agent.ainvoke(f"m{number}", thread=f"t{number}") for number in range(24)))

    answers = [one.answer for one in asyncio.run(all_of_them())]
    assert answers == [f"after send did m{number}" for number in range(24)]
    assert sorted(log) == sorted(f"send m{number}" for number in range(24))


def test_turns_in_a_running_loop_may_be_synchronous_as_in_a_notebook() -> None:
    async def cell() -> Any:
        return Agent(ScriptedModel(["ok"], async_only=True)).invoke("go").answer

    assert asyncio.run(cell()) == "ok"


def test_an_empty_answer_of_the_model_ends_the_turn(drive: Drive) -> None:
    result, _ = drive(Agent(ScriptedModel([""]))).start("go")
    assert isinstance(result, Completed)
    assert result.answer == ""


@pytest.mark.parametrize(
    ("error", "kind"),
    [(TimeoutError("slow"), "transient"), (PermissionError("key"), "environment"), (ValueError("bad"), "semantic")],
)
def test_what_the_model_raises_is_a_model_error_of_a_kind_with_its_cause(
    drive: Drive, error: Exception, kind: str
) -> None:
    with pytest.raises(ModelError) as caught:
        drive(Agent(ScriptedModel([error]))).start("go")
    assert caught.value.kind == kind
    assert isinstance(caught.value.__cause__, type(error))
    assert str(error) not in str(caught.value)


def test_settings_reach_the_client_with_the_tools_and_are_those_of_the_call(drive: Drive) -> None:
    """Some settings change the form of the tools, so that the client has to see both at once; no call gets old ones."""
    given: list[dict[str, Any]] = []

    class Client(ScriptedModel):
        """A client whose tools depend on a setting."""

        def bind_tools(self, tools: Any, *, exact: int = 0, **kwargs: Any) -> Any:
            given.append({"exact": exact, **kwargs})
            return super().bind_tools(tools, **kwargs)

    @around_chat
    def setting(request: Any, state: Any, next: Any) -> Any:
        next(request)
        next(request.replace(settings={"exact": 1, "temperature": 0}))
        return next(request.replace(settings={"exact": 1, "temperature": 2}, tool_choice="send"))

    model = Client(["one", "two", "three"])
    drive(Agent(model, tools=[Log().tool("send")], filters=[setting])).start("go")
    assert given == [
        {"exact": 0},
        {"exact": 1, "temperature": 0},
        {"exact": 1, "temperature": 2, "tool_choice": "send"},
    ]
    assert [one.get("temperature") for one in model.settings] == [None, 0, 2]
