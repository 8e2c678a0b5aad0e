"""Any tool of langchain-core works in any mode: kinds, injected arguments, commands, blocks, marks."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from modes import Drive
from tests.loop.scripts import Log, asks, assert_valid, call, history, results, told

from scallion import Agent, Completed, Filter, Paused, approve, filters, respond
from scallion.testing import ScriptedModel


def ran(drive: Drive, tools: list[Any], *calls: Any, **parts: Any) -> Completed:
    """A turn in which the model makes these calls in one batch and then says ok."""
    result, _ = drive(Agent(ScriptedModel([asks(*calls), "ok"]), tools=tools, **parts)).start("go")
    assert isinstance(result, Completed)
    assert_valid(result.messages)
    return result


def result_of(done: Completed) -> ToolMessage:
    """The one tool result of a turn."""
    [one] = [message for message in done.messages if isinstance(message, ToolMessage)]
    return one


class SyncOnly(BaseTool):
    """A tool with the synchronous half only."""

    name: str = "sync_only"
    description: str = "Say it."

    def _run(self, text: str) -> str:
        return f"did {text}"


class AsyncOnly(BaseTool):
    """A tool with the asynchronous half only."""

    name: str = "async_only"
    description: str = "Say it."

    def _run(self, text: str) -> str:
        raise NotImplementedError

    async def _arun(self, text: str) -> str:
        return f"did {text}"


@tool
def decorated(text: str) -> str:
    """Say it."""
    return f"did {text}"


@tool
async def decorated_async(text: str) -> str:
    """Say it."""
    return f"did {text}"


def plain(text: str) -> str:
    """Say it."""
    return f"did {text}"


async def plain_async(text: str) -> str:
    """Say it."""
    return f"did {text}"


KINDS = [SyncOnly(), AsyncOnly(), decorated, decorated_async, plain, plain_async]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: getattr(kind, "name", None) or kind.__name__)
def test_every_kind_of_tool_runs(drive: Drive, kind: Any) -> None:
    name = getattr(kind, "name", None) or kind.__name__
    assert result_of(ran(drive, [kind], call(name, text="a"))).text == "did a"


def test_all_kinds_run_in_one_batch(drive: Drive) -> None:
    names = [getattr(kind, "name", None) or kind.__name__ for kind in KINDS]
    done = ran(drive, KINDS, *(call(name, name, text=name) for name in names))
    assert results(done.messages) == {name: f"did {name}" for name in names}


def test_the_call_id_is_injected(drive: Drive) -> None:
    @tool
    def own(text: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Say which call it is."""
        return f"{text} of {call_id}"

    assert result_of(ran(drive, [own], call("own", "c7", text="a"))).text == "a of c7"


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of langgraph, with create_agent too
def test_the_runtime_is_injected(drive: Drive) -> None:
    seen = []

    @tool
    def inside(text: str, runtime: ToolRuntime) -> str:
        """Look around."""
        seen.append(runtime)
        return text

    store = InMemoryStore()
    agent = Agent(ScriptedModel([asks(call("inside", "c7", text="a")), "ok"]), tools=[inside], store=store)
    drive(agent).start("go", env={"who": "ana"})
    [runtime] = seen
    assert runtime.tool_call_id == "c7"
    assert runtime.store is store
    assert runtime.context == {"who": "ana"}
    assert [one.type for one in runtime.state["messages"]] == ["human", "ai"]


def test_the_state_is_injected_whole_and_by_field(drive: Drive) -> None:
    seen: dict[str, Any] = {}

    @tool
    def write(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        return Command(update={"city": "Oslo", "messages": [ToolMessage("written", tool_call_id=call_id)]})

    @tool
    def look(state: Annotated[dict[str, Any], InjectedState], city: Annotated[str, InjectedState("city")]) -> str:
        """Read."""
        seen.update(whole=state["city"], field=city, messages=len(state["messages"]))
        return "read"

    agent = Agent(ScriptedModel([asks(call("write")), asks(call("look", "c2")), "ok"]), tools=[write, look])
    drive(agent).start("go")
    assert seen == {"whole": "Oslo", "field": "Oslo", "messages": 4}


def test_the_store_is_injected(drive: Drive) -> None:
    store = InMemoryStore()

    @tool
    def keep(text: str, shelf: Annotated[Any, InjectedStore()]) -> str:
        """Keep it."""
        shelf.put(("notes",), "one", {"text": text})
        return "kept"

    assert result_of(ran(drive, [keep], call("keep", text="a"), store=store)).text == "kept"
    assert store.get(("notes",), "one").value == {"text": "a"}


def test_the_model_neither_sees_nor_forges_what_is_injected(drive: Drive) -> None:
    seen: dict[str, Any] = {}

    @tool
    def guarded(
        text: str,
        call_id: Annotated[str, InjectedToolCallId],
        state: Annotated[dict[str, Any], InjectedState],
        store: Annotated[Any, InjectedStore()],
        runtime: ToolRuntime,
    ) -> str:
        """Look around."""
        seen.update(call_id=call_id, state=state, store=store, runtime=runtime)
        return text

    forged = {"call_id": "forged", "state": {"admin": True}, "store": "forged", "runtime": "forged"}
    store = InMemoryStore()
    model = ScriptedModel([asks(call("guarded", "c7", text="a", **forged)), "ok"])
    drive(Agent(model, tools=[guarded], store=store)).start("go")
    assert seen["call_id"] == "c7"
    assert "admin" not in seen["state"]
    assert seen["store"] is store
    assert isinstance(seen["runtime"], ToolRuntime)
    shown = model.settings[0]["tools"][0]["function"]["parameters"]["properties"]
    assert set(shown) == {"text"}


def test_a_person_cannot_forge_what_is_injected_by_an_edit(drive: Drive) -> None:
    from scallion import InvalidDecision, edit

    ran_with: list[str] = []

    @tool
    def own(text: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Say which call it is."""
        ran_with.append(call_id)
        return text

    agent = Agent(
        ScriptedModel([asks(call("own", "c7", text="a")), "ok"]),
        tools=[own],
        filters=[filters.approval({"own": True})],
        checkpointer=InMemorySaver(),
    )
    drive(agent).start("go", thread="t")
    with pytest.raises(InvalidDecision):
        drive(agent).resume("t", edit({"text": "a", "call_id": "forged"}))
    drive(agent).resume("t", edit({"text": "b"}))
    assert ran_with == ["c7"]


def test_a_command_writes_the_shared_state_and_gives_its_own_result(drive: Drive) -> None:
    @tool
    def write(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        return Command(update={"note": text, "messages": [ToolMessage("written", tool_call_id=call_id)]})

    agent = Agent(
        ScriptedModel([asks(call("write", text="a")), "ok"]), tools=[write], checkpointer=(saver := InMemorySaver())
    )
    result, _ = drive(agent).start("go", thread="t")
    assert result_of(result).text == "written"
    assert agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["state"] == {"note": "a"}
    assert saver


def test_a_command_without_a_result_is_given_one(drive: Drive) -> None:
    @tool
    def write() -> Command[Any]:
        """Write."""
        return Command(update={"note": "a"})

    one = result_of(ran(drive, [write], call("write")))
    assert (one.tool_call_id, one.status) == ("c1", "success")


@pytest.mark.parametrize(
    "command",
    [
        Command(goto="chat"),
        Command(update={"a": 1}, graph=Command.PARENT),
        Command(update={"messages": [ToolMessage("x", tool_call_id="other")]}),
    ],
    ids=["goto", "parent", "foreign result"],
)
def test_a_command_that_jumps_or_answers_another_call_is_refused_clearly(drive: Drive, command: Any) -> None:
    @tool
    def jumps() -> Command[Any]:
        """Jump."""
        return command

    one = result_of(ran(drive, [jumps], call("jumps")))
    assert one.status == "error"
    assert "Command" in one.text


def test_content_blocks_stay_blocks(drive: Drive) -> None:
    blocks = [{"type": "text", "text": "a picture"}, {"type": "image_url", "image_url": {"url": "data:image/png;x"}}]

    @tool
    def shows() -> list[dict[str, Any]]:
        """Show."""
        return blocks

    assert result_of(ran(drive, [shows], call("shows"))).content == blocks


def test_an_artifact_is_kept_and_not_shown_to_the_model(drive: Drive) -> None:
    @tool(response_format="content_and_artifact")
    def makes() -> tuple[str, dict[str, int]]:
        """Make."""
        return "made", {"rows": 3}

    one = result_of(ran(drive, [makes], call("makes")))
    assert (one.text, one.artifact) == ("made", {"rows": 3})


def direct(name: str, *, fails: bool = False) -> BaseTool:
    """A tool whose result is the answer."""

    def run() -> str:
        if fails:
            raise ValueError("no")
        return f"{name} says so"

    return StructuredTool.from_function(run, name=name, description="Answer.", return_direct=True)


def turn_of_direct(drive: Drive, tools: list[Any], *names: str) -> tuple[Completed, int]:
    """The turn and how many model calls it took."""
    model = ScriptedModel([asks(*(call(name, name) for name in names)), "model says so"])
    result, _ = drive(Agent(model, tools=tools)).start("go")
    assert isinstance(result, Completed)
    assert_valid(result.messages)
    return result, len(model.calls)


def test_return_direct_makes_the_result_the_answer_without_another_model_call(drive: Drive) -> None:
    done, calls = turn_of_direct(drive, [direct("first")], "first")
    assert (done.answer, calls) == ("first says so", 1)


def test_return_direct_of_all_calls_of_a_batch_is_the_answer(drive: Drive) -> None:
    done, calls = turn_of_direct(drive, [direct("first"), direct("second")], "first", "second")
    assert calls == 1
    assert "first says so" in done.answer
    assert "second says so" in done.answer


def test_return_direct_of_some_calls_only_goes_back_to_the_model(drive: Drive) -> None:
    done, calls = turn_of_direct(drive, [direct("first"), Log().tool("look")], "first", "look")
    assert (done.answer, calls) == ("model says so", 2)


def test_return_direct_that_failed_goes_back_to_the_model(drive: Drive) -> None:
    done, calls = turn_of_direct(drive, [direct("first", fails=True)], "first")
    assert (done.answer, calls) == ("model says so", 2)


def test_a_batch_with_a_serial_tool_runs_in_order(drive: Drive) -> None:
    log = Log()
    tools = [log.tool("send", metadata={"serial": True}), log.tool("look")]
    calls = [call("look" if number % 2 else "send", f"c{number}", text=str(number)) for number in range(6)]
    done = ran(drive, tools, *calls)
    assert [line[-1] for line in log] == list("012345")
    assert list(results(done.messages)) == [f"c{number}" for number in range(6)]


def test_calls_of_a_batch_without_a_serial_tool_overlap(drive: Drive) -> None:
    meet = threading.Barrier(2, timeout=20)

    @tool
    async def meets(text: str) -> str:
        """Wait for the other call."""
        import asyncio

        await asyncio.to_thread(meet.wait)
        return text

    done = ran(drive, [meets], call("meets", "c1", text="a"), call("meets", "c2", text="b"))
    assert results(done.messages) == {"c1": "a", "c2": "b"}


def test_tool_concurrency_bounds_how_many_run_at_once(drive: Drive) -> None:
    running, most, lock = [0], [0], threading.Lock()

    @tool
    async def busy() -> str:
        """Be busy."""
        import asyncio

        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        for _ in range(20):
            await asyncio.sleep(0.001)
        with lock:
            running[0] -= 1
        return "done"

    ran(drive, [busy], *(call("busy", f"c{number}") for number in range(8)), tool_concurrency=2)
    assert most[0] == 2


def test_an_external_tool_is_never_run_here_and_respond_gives_its_result(drive: Drive) -> None:
    log = Log()
    agent = Agent(
        ScriptedModel([asks(call("robot", text="a")), "ok"]),
        tools=[log.tool("robot", metadata={"external": True})],
        checkpointer=InMemorySaver(),
    )
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    [one] = paused.approvals
    assert (one.kind, one.tool, one.args, one.allowed) == ("external_call", "robot", {"text": "a"}, ("respond",))
    with pytest.raises(Exception, match="not allowed"):
        drive(agent).resume("t", approve())
    done, _ = drive(agent).resume("t", respond("moved"))
    assert isinstance(done, Completed)
    assert results(done.messages) == {"c1": "moved"}
    assert log == []


def test_a_tool_marked_sensitive_is_gated_by_a_gate_without_policies(drive: Drive) -> None:
    log = Log()
    agent = Agent(
        ScriptedModel([asks(call("send", "c1", text="a"), call("look", "c2")), "ok"]),
        tools=[log.tool("send", metadata={"sensitive": True}), log.tool("look")],
        filters=[filters.approval()],
        checkpointer=InMemorySaver(),
    )
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    assert [one.tool for one in paused.approvals] == ["send"]
    assert log == ["look"]
    drive(agent).resume("t", approve())
    assert log == ["look", "send a"]


def test_a_tool_that_runs_at_the_provider_is_passed_on_as_it_is(drive: Drive) -> None:
    search = {"type": "web_search", "max_uses": 3}
    log = Log()

    class Provider(ScriptedModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            self.bound.append(list(tools))
            return self

    model = Provider([asks(call("send", text="a")), "ok"])
    result, _ = drive(Agent(model, tools=[search, log.tool("send")])).start("go")
    assert isinstance(result, Completed)
    assert model.bound[0][0] == search
    assert log == ["send a"]


def test_a_filter_brings_tools_of_its_own(drive: Drive) -> None:
    log = Log()
    model = ScriptedModel([asks(call("send", text="a")), "ok"])
    brings = Filter("brings", tools=[log.tool("send")])
    result, _ = drive(Agent(model, filters=[brings])).start("go")
    assert isinstance(result, Completed)
    assert log == ["send a"]
    assert [one["function"]["name"] for one in model.settings[0]["tools"]] == ["send"]


def test_a_tool_that_a_filter_takes_from_a_request_is_not_shown_to_the_model(drive: Drive) -> None:
    from scallion import around_chat

    log = Log()

    @around_chat
    def fewer(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(tools=[one for one in request.tools if one.name != "send"]))

    model = ScriptedModel(["ok"])
    drive(Agent(model, tools=[log.tool("send"), log.tool("look")], filters=[fewer])).start("go")
    assert [one["function"]["name"] for one in model.settings[0]["tools"]] == ["look"]


def test_the_history_of_a_turn_with_tools_is_stored_once(drive: Drive, any_saver: Any) -> None:
    log = Log()
    agent = Agent(ScriptedModel([asks(call("send", text="a")), "ok"]), tools=[log.tool("send")], checkpointer=any_saver)
    drive(agent).start("go", thread="t")
    assert told(history(agent, "t")) == ["user: go", "model: send", "tool: send did a", "model: ok"]


def test_a_tool_that_pauses_itself_goes_on_with_the_answer(drive: Drive, any_saver: Any) -> None:
    from scallion.tools import ask_human

    agent = Agent(
        ScriptedModel([asks(call("ask_human", question="Which?")), "ok"]), tools=[ask_human], checkpointer=any_saver
    )
    paused, _ = drive(agent).start("go", thread="t")
    assert isinstance(paused, Paused)
    assert paused.approvals[0].description == "Which?"
    done, _ = drive(agent).resume("t", respond("the blue one"))
    assert results(done.messages) == {"c1": "the blue one"}


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_a_tool_may_use_langgraphs_own_interrupt(drive: Drive, layers: int) -> None:
    from langgraph.types import interrupt

    from scallion import around_tool

    @tool
    def asks_itself() -> str:
        """Ask twice."""
        return f"told {interrupt('which?')} and {interrupt('why?')}"

    onion = [around_tool(name=f"layer{number}")(lambda request, state, next: next(request)) for number in range(layers)]
    model = ScriptedModel([asks(call("asks_itself")), "ok"])
    agent = Agent(model, tools=[asks_itself], filters=onion, checkpointer=InMemorySaver())
    paused, _ = drive(agent).start("go", thread="t")
    assert [one.description for one in paused.approvals] == ["which?"]
    paused, _ = drive(agent).resume("t", respond("blue"))
    assert [one.description for one in paused.approvals] == ["why?"]
    done, _ = drive(agent).resume("t", respond("sky"))
    assert isinstance(done, Completed)
    result = results(done.messages)["c1"]
    assert result.index("blue") < result.index("sky")
