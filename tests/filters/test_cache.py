"""`cache`: the same request is answered once, everything that may change the answer counts, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.caches import RETURN_VAL_TYPE, InMemoryCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from modes import Drive, delivered
from pydantic import BaseModel, PrivateAttr, SecretStr, create_model
from scenes import Desk, asks, call, heard, results

from scallion import (
    Agent,
    ChatReply,
    ConfigurationError,
    Filter,
    ModelError,
    SQLCheckpointer,
    approve,
    around_chat,
    filters,
    pause,
    reject,
    transient,
)
from scallion.filters.cache import answer, digest, rendered
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
    assert second.usage["model_calls"] == second.usage["total_tokens"] == 0
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


@pytest.mark.parametrize(
    "told",
    [
        {"finish_reason": "length"},
        {"stop_reason": "max_tokens"},
        {"finish_reason": "MAX_TOKENS"},
        {"status": "incomplete"},
        {"finish_reason": "content_filter"},
    ],
)
def test_what_was_cut_off_or_refused_is_not_kept(store: InMemoryCache, told: dict[str, str]) -> None:
    model = ScriptedModel([AIMessage("The answer is", response_metadata=told), "Five."])
    agent = Agent(model, filters=[filters.cache(store)])
    assert [agent.invoke("2 + 3?").answer for _ in range(3)] == ["The answer is", "Five.", "Five."]


@around_chat(name="stop")
def stop(request: Any, state: Any, next: Any) -> Any:
    """Answers itself."""
    return ChatReply(AIMessage("no"), request.context)


@around_chat(name="stop")
def asks_aside(request: Any, state: Any, next: Any) -> Any:
    """Asks the model for itself, and answers itself."""
    next(request.replace(aside=True))
    return ChatReply(AIMessage("no"), request.context)


@around_chat(name="stop")
def gives_up(request: Any, state: Any, next: Any) -> Any:
    """Answers for a layer that failed behind the model."""
    try:
        return next(request)
    except ModelError:
        return ChatReply(AIMessage("no"), request.context)


@filters.after_chat(name="late")
def fails_late(reply: ChatReply) -> None:
    """Fails when the model has answered."""
    raise ModelError("transient", "late")


@pytest.mark.parametrize(
    "behind",
    [
        [filters.safeguard(["sum"])],
        [filters.limit_calls(1, exit="finish"), filters.retry_model(0)],
        [filters.before_chat(lambda request: filters.end_turn("no"), name="stop")],
        [filters.after_chat(lambda reply: filters.end_turn("no"), name="stop")],
        [stop],
        [asks_aside],
        [gives_up, fails_late],
    ],
    ids=["safeguard", "limit", "before", "after", "own", "aside", "failed"],
)
def test_what_a_filter_said_instead_of_the_model_is_not_kept(
    drive: Drive, store: InMemoryCache, behind: list[Filter]
) -> None:
    """It may have reasons that another turn does not have."""
    known, desk = filters.cache(store), Desk()
    first = Agent(ScriptedModel(lambda _: asks(call("look", order=1))), tools=desk.tools, filters=[known, *behind])
    then = Agent(ScriptedModel([asks(call("look", order=1)), "Five."]), tools=desk.tools, filters=[known])
    assert drive(first).start("The sum?")[0].answer != "Five."
    assert drive(then).start("The sum?")[0].answer == "Five."


def test_what_another_model_answered_is_not_kept(store: InMemoryCache) -> None:
    """Where the cache stands outside of `fallback`; inside of it, what each model answered is kept for itself."""
    model = ScriptedModel([TimeoutError("slow"), "primary"])
    agent = Agent(model, filters=[filters.cache(store), filters.fallback(ScriptedModel(["spare"]))])
    assert [agent.invoke("?").answer for _ in range(3)] == ["spare", "primary", "primary"]


def test_one_cache_behind_another(store: InMemoryCache) -> None:
    """What the far one knows the near one keeps."""
    model, near = ScriptedModel(["Five."]), filters.cache(InMemoryCache(), name="near")
    Agent(model, filters=[filters.cache(store)]).invoke("?")
    Agent(model, filters=[near, filters.cache(store)]).invoke("?")
    assert Agent(model, filters=[near]).invoke("?").answer == "Five."


def test_what_a_person_says_is_not_passed_over(drive: Drive, store: InMemoryCache, any_saver: Any) -> None:
    """The layer that asks stands behind the cache; what became of one call is not kept for others."""

    @filters.after_chat(name="release")
    def release(reply: ChatReply) -> Any:
        if pause("release?", allowed=("approve", "reject")).type == "reject":
            return filters.replace_answer("withheld")
        return None

    model = ScriptedModel(lambda _: "the plan")
    agent = Agent(model, filters=[filters.cache(store), release], checkpointer=any_saver)
    driver = drive(agent)
    for thread in "abc":
        driver.start("?", thread=thread)
    said = [
        driver.resume(thread, decision)[0]
        for thread, decision in zip("abc", [reject(), approve(), reject()], strict=True)
    ]
    assert [one.answer for one in said] == ["withheld", "the plan", "withheld"]  # type: ignore[union-attr]
    assert len(model.calls) == 3


class Mine(BaseChatModel):
    """A model that does not say what its parameters are."""

    size: Any = "s"
    _held: Any = PrivateAttr(default=None)

    @property
    def _llm_type(self) -> str:
        return "mine"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"{self.size} {self._held}"))])


def test_a_model_that_does_not_tell_its_parameters_is_known_by_all_that_it_holds(store: InMemoryCache) -> None:
    models = [Mine(size="s"), Mine(size="l"), Mine(size="l")]
    models[2]._held = "more"
    known = filters.cache(store)
    for _ in range(2):
        answers = [Agent(one, filters=[known]).invoke("?").answer for one in models]
        assert answers == ["s None", "l None", "l more"]
    assert Agent(Mine(size="s"), filters=[known]).invoke("?").message.response_metadata["cached"]


def test_what_is_no_data_is_asked_each_time(store: InMemoryCache, caplog: pytest.LogCaptureFixture) -> None:
    known = filters.cache(store)
    sizes = [lambda: "s", SecretStr("s"), SecretStr("l"), object()]
    for _ in range(2):
        for size in sizes:
            reply = Agent(Mine(size=size), filters=[known]).invoke("?").message
            assert reply.response_metadata.get("cached") is None
    assert "filter 'cache' failed in around_chat and is ignored: TypeError" in caplog.text


def test_forms_of_one_name_are_two(store: InMemoryCache) -> None:
    old, same, new = (create_model("Order", **{field: (int, ...)}) for field in ("old", "old", "new"))  # type: ignore[call-overload]

    def agent(form: type[BaseModel]) -> Agent:
        give = around_chat(lambda r, s, next: next(r.replace(settings={"form": form})), name="give")
        return Agent(model, filters=[give, filters.cache(store)])

    model = ScriptedModel(["old", "new"])
    assert [agent(form).invoke("?").answer for form in (old, same, new)] == ["old", "old", "new"]


def test_tools_that_differ_in_what_only_a_provider_reads_are_two(store: InMemoryCache) -> None:
    def agent(**extras: Any) -> Agent:
        look = StructuredTool.from_function(lambda: "", name="look", description="Look.", extras=extras or None)
        return Agent(model, tools=[look], filters=[filters.cache(store)])

    model = ScriptedModel(["plain", "deferred"])
    answers = [one.invoke("?").answer for one in (agent(), agent(defer_loading=True), agent())]
    assert answers == ["plain", "deferred", "plain"]


def test_data_has_one_name() -> None:
    order = create_model("Order", number=(int, ...))
    same = [{"a": {1, 2}, "b": [order(number=1)]}, {"b": (order(number=1),), "a": {2, 1}}]
    assert digest(same[0]) == digest(same[1]) != digest({"a": {1, 2}, "b": [order(number=2)]})
    assert digest(b"x") != digest("x") != digest("b'x'")


def test_a_key_that_is_no_text_is_refused(store: InMemoryCache) -> None:
    """None and "None" would share an answer."""
    agent = Agent(ScriptedModel(["a"]), filters=[filters.cache(store, key=lambda request: request.context.owner)])
    with pytest.raises(ConfigurationError, match="filter 'cache': key gave NoneType: have it give a text"):
        agent.invoke("?")


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
