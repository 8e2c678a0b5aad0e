"""`cache`: the same request is answered once, everything that may change the answer counts, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.caches import RETURN_VAL_TYPE, InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration
from modes import Drive, delivered
from scenes import Desk, asks, call, heard, results

from scallion import Agent, ConfigurationError, ModelError, SQLCheckpointer, around_chat, filters, transient
from scallion.filters.cache import answer, rendered
from scallion.testing import ScriptedModel


@pytest.fixture
def store() -> InMemoryCache:
    return InMemoryCache()


def test_the_same_is_asked_once_and_streamed_each_time(drive: Drive, store: InMemoryCache) -> None:
    model = ScriptedModel(["The answer is five."])
    driver = drive(Agent(model, filters=[filters.cache(store), filters.usage()]))
    first, _ = driver.start("2 + 3?")
    second, events = driver.start("2 + 3?")
    assert first.answer == second.answer == "The answer is five."
    assert len(model.calls) == 1
    assert second.message.response_metadata["cached"] is True
    assert second.usage.get("model_calls", 0) == 0
    assert second.filter_state["usage"]["models"] == {}
    if driver.streams:
        assert delivered(events) == "The answer is five."


def test_a_neighbour_asks_again_where_it_streams(store: InMemoryCache) -> None:
    """The cache that LangChain has in the model is not looked into by `stream`."""
    theirs, ours = ScriptedModel(["a", "a"], cache=store), ScriptedModel(["a"])
    for _ in range(2):
        list(theirs.stream("?"))
    agent = Agent(ours, filters=[filters.cache(InMemoryCache())])
    for _ in range(2):
        list(agent.stream("?"))
    assert (len(theirs.calls), len(ours.calls)) == (2, 1)


class Sized(ScriptedModel):
    """A model with a parameter."""

    size: str = "s"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"size": self.size}


@pytest.mark.parametrize(
    "other",
    [
        {"question": "2 + 4?"},
        {"call": {"system_prompt": "Be rude."}},
        {"agent": {"system_prompt": "Be rude."}},
        {"agent": {"tools": Desk().tools}},
        {"filters": [around_chat(lambda r, s, next: next(r.replace(settings={"stop": ["."]})), name="set")]},
        {"model": Sized(["other"], size="m")},
    ],
    ids=["question", "prompt of the call", "prompt of the agent", "tools", "settings", "model"],
)
def test_what_may_change_the_answer_counts(store: InMemoryCache, other: dict[str, Any]) -> None:
    """The filters in front of the cache change what it sees."""
    Agent(Sized(["one"]), filters=[filters.cache(store)]).invoke("2 + 3?")
    model = other.get("model") or Sized(["other"])
    stack = [*other.get("filters", ()), filters.cache(store)]
    result = Agent(model, filters=stack, **other.get("agent", {})).invoke(
        other.get("question", "2 + 3?"), **other.get("call", {})
    )
    assert result.answer == "other"


def test_a_whole_conversation_with_tools_comes_from_the_cache(
    drive: Drive, store: InMemoryCache, any_saver: Any
) -> None:
    """Ids of calls are new each time: an effect that is made once for an id is made for the second call too."""
    desk, model = Desk(), ScriptedModel([asks(call("refund", "c1", order=7)), "Done."])
    agent = Agent(model, tools=desk.tools, filters=[filters.cache(store)], checkpointer=any_saver)
    ids = []
    for thread in ("a", "b"):
        result, _ = drive(agent).start("Refund 7.", thread=thread)
        assert results(result.messages) == ["refunded 7"]
        ids.append(next(one.tool_call_id for one in result.messages if isinstance(one, ToolMessage)))
    assert len(model.calls) == 2
    assert desk.ran == ["refund 7", "refund 7"]
    assert ids[0] == "c1" != ids[1]


def test_the_same_call_again_in_one_thread(sql: SQLCheckpointer, store: InMemoryCache) -> None:
    """With `once` around: the cached call is another one."""

    @around_chat
    def last_only(request: Any, state: Any, next: Any) -> Any:
        start = max(n for n, one in enumerate(request.messages) if isinstance(one, HumanMessage))
        return next(request.replace(messages=request.messages[start:]))

    desk, model = Desk(), ScriptedModel([asks(call("refund", "c1", order=7)), "Done."])
    stack = [last_only, filters.cache(store), filters.once("refund")]
    agent = Agent(model, tools=desk.tools, filters=stack, checkpointer=sql)
    for _ in range(2):
        agent.invoke("Refund 7.", thread="t")
    assert desk.ran == ["refund 7", "refund 7"]


def test_errors_are_not_kept(drive: Drive, store: InMemoryCache) -> None:
    model = ScriptedModel([TimeoutError("slow"), "Five."])
    driver = drive(Agent(model, filters=[filters.cache(store)]))
    with pytest.raises(ModelError):
        driver.start("2 + 3?")
    assert driver.start("2 + 3?")[0].answer == "Five."


def test_malformed_calls_are_not_kept(store: InMemoryCache) -> None:
    broken = {"name": "look", "args": "{", "id": "c1", "error": None, "type": "invalid_tool_call"}
    model = ScriptedModel([AIMessage("", invalid_tool_calls=[broken]), "Sorry.", "Five."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.cache(store)])
    assert [agent.invoke("2 + 3?").answer for _ in range(2)] == ["Sorry.", "Five."]


def test_owners_are_kept_apart(store: InMemoryCache) -> None:
    model = ScriptedModel(["Ana's.", "Ben's."])

    async def owner(request: Any) -> str:
        return str(request.context.owner)

    apart = filters.cache(store, key=owner)
    agent = Agent(model, filters=[apart])
    assert [agent.invoke("Mine?", owner=owner).answer for owner in ("ana", "ben", "ana")] == [
        "Ana's.",
        "Ben's.",
        "Ana's.",
    ]


def test_the_names_in_the_store_tell_nothing() -> None:
    class Watched(InMemoryCache):
        def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
            asked.append(prompt + llm_string)
            return super().lookup(prompt, llm_string)

    asked: list[str] = []
    Agent(ScriptedModel(["a"]), filters=[filters.cache(Watched())]).invoke("a secret")
    assert len(asked) == 1
    assert len(asked[0]) == 128
    assert "secret" not in asked[0]


@pytest.mark.parametrize("half", ["lookup", "update"])
def test_a_store_that_fails_is_passed_by(drive: Drive, half: str) -> None:
    class Down(InMemoryCache):
        def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
            return self._fail("lookup")

        def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
            self._fail("update")

        async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
            return self._fail("lookup")

        async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE, **kwargs: Any) -> None:
            self._fail("update")

        def _fail(self, where: str) -> None:
            if where == half:
                raise ConnectionError("no redis")

    model = ScriptedModel(["Five."])
    result, _ = drive(Agent(model, filters=[filters.cache(Down())])).start("2 + 3?")
    assert result.answer == "Five."
    assert len(model.calls) == 1


def test_what_is_in_the_store_is_not_changed_by_a_turn(store: InMemoryCache) -> None:
    agent = Agent(ScriptedModel(["Five."]), filters=[filters.cache(store)])
    for _ in range(2):
        result = agent.invoke("2 + 3?")
        result.message.additional_kwargs["mine"] = True
    assert "mine" not in agent.invoke("2 + 3?").message.additional_kwargs


def test_ids_in_blocks_of_the_content_go_with_those_of_the_calls() -> None:
    """Anthropic's client sends the blocks."""
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {"id": "c1"}}
    message = AIMessage([block], tool_calls=[{"name": "look", "args": {"id": "c1"}, "id": "c1"}])
    fresh = answer([ChatGeneration(message=message)])
    assert fresh is not None
    assert fresh.content[0]["id"] == fresh.tool_calls[0]["id"] != "c1"  # type: ignore[index]
    assert fresh.tool_calls[0]["args"] == fresh.content[0]["input"] == {"id": "c1"}  # type: ignore[index]


def test_what_a_model_does_not_read_is_not_in_the_key() -> None:
    one = [transient(HumanMessage("q", id="1")), asks(call("look", "x")), ToolMessage("r", tool_call_id="x", id="9")]
    two = [HumanMessage("q", id="2"), asks(call("look", "y")), ToolMessage("r", tool_call_id="y", artifact=7)]
    assert rendered(one) == rendered(two)
    assert rendered(one) != rendered([*two[:2], ToolMessage("r", tool_call_id="y", status="error")])
    assert heard(one) == heard(two)


def test_what_cannot_work_is_refused(store: InMemoryCache) -> None:
    with pytest.raises(ConfigurationError, match="filter 'known': it takes a BaseCache"):
        filters.cache({}, name="known")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="filter 'known': key is a function"):
        filters.cache(store, key="owner", name="known")  # type: ignore[arg-type]
