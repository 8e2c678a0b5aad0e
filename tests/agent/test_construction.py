"""An agent that cannot work is refused where it is built, and one that can says what it is."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from tests.loop.scripts import Log

from scallion import Agent, ConfigurationError, Filter, SQLCheckpointer, around_chat, around_tool, around_turn, filters
from scallion.testing import ScriptedModel
from scallion.tools import ask_human

MODEL = ScriptedModel(["ok"])


def passes(request: Any, state: Any, next: Any) -> Any:
    """Do nothing."""
    return next(request)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"model": 42}, "BaseChatModel"),
        ({"model": "no-such-provider:x"}, "no-such-provider"),
        ({"tools": [42]}, r"tools\[0\]"),
        ({"tools": [lambda x: x]}, r"tools\[0\]"),
        ({"tools": [Log().tool("a"), Log().tool("a")]}, "'a'"),
        ({"tools": [Log().tool("a")], "filters": [Filter("brings", tools=[Log().tool("a")])]}, "'a'"),
        ({"filters": [42]}, r"filters\[0\]"),
        ({"filters": [passes]}, "decorate"),
        ({"filters": around_chat(passes)}, "brackets"),
        ({"filters": [Filter("x", around_chat=passes), Filter("x", around_tool=passes)]}, "'x'"),
        ({"filters": [Filter("x", around_chat=lambda request: request)]}, "'x'"),
        ({"filters": [Filter("x")]}, "'x'"),
        ({"checkpointer": 42}, "checkpointer"),
        ({"on_message_while_paused": "perhaps"}, "on_message_while_paused"),
        ({"on_changed": "perhaps"}, "on_changed"),
        ({"filters": [filters.approval({"send": True})], "tools": [Log().tool("send")]}, "'approval'"),
        ({"tools": [Log().tool("robot", metadata={"external": True})]}, "'robot'"),
        ({"filters": [filters.approval({"sned": True})], "checkpointer": InMemorySaver()}, "'sned'"),
        ({"tools": [ask_human]}, "ask_human"),
        ({"limits": {"model_calls": 3}}, "limits"),
        ({"tool_concurrency": 0}, "tool_concurrency"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_where_the_agent_is_built(parts: dict[str, Any], said: str) -> None:
    model = parts.pop("model", MODEL)
    with pytest.raises(ConfigurationError, match=said):
        Agent(model, **parts)


def test_a_tool_that_asks_a_person_needs_a_checkpointer_at_the_latest_when_it_asks() -> None:
    from tests.loop.scripts import asks, call

    from scallion import ScallionError, pause

    def ask(text: str) -> str:
        """Ask."""
        return str(pause(text).message)

    agent = Agent(ScriptedModel([asks(call("ask", text="?")), "ok"]), tools=[ask])
    with pytest.raises(ScallionError, match="checkpointer"):
        agent.invoke("go")


def test_resume_without_a_checkpointer_is_refused_clearly() -> None:
    with pytest.raises(ConfigurationError, match="checkpointer"):
        Agent(MODEL).resume("t")


@pytest.mark.parametrize("verb", ["stream", "astream", "invoke", "ainvoke"])
def test_wrong_options_are_refused_by_name(verb: str) -> None:
    import asyncio

    model = ScriptedModel(["ok"])

    async def collected(items: Any) -> None:
        async for _ in items:
            pass

    def run() -> None:
        out = getattr(Agent(model), verb)("go", thred="t")
        if verb == "ainvoke":
            asyncio.run(out)
        elif verb == "astream":
            asyncio.run(collected(out))
        else:
            list(out) if verb == "stream" else None

    with pytest.raises(TypeError, match="thred"):
        run()
    assert model.calls == []


def test_a_url_becomes_a_saver(tmp_path: Any) -> None:
    agent = Agent(MODEL, checkpointer=f"sqlite:///{tmp_path / 'a.db'}")
    assert isinstance(agent.checkpointer, SQLCheckpointer)
    agent.checkpointer.close()


def test_layers_and_repr_show_the_onion_outermost_first() -> None:
    onion = [
        Filter("outer", around_turn=passes, around_tool=passes),
        around_chat(name="inner")(passes),
        around_turn(name="last")(passes),
        around_tool(name="gate")(passes),
    ]
    agent = Agent(MODEL, filters=onion, name="desk")
    assert agent.layers == {"turn": ["outer", "last"], "chat": ["inner"], "tool": ["outer", "gate"]}
    shown = repr(agent)
    assert "desk" in shown
    assert "outer > last > loop" in shown
    assert "inner > model" in shown
    assert "outer > gate > tool" in shown


def test_filters_cannot_be_added_after_construction() -> None:
    agent = Agent(MODEL, filters=[around_chat(name="a")(passes)])
    assert isinstance(agent.filters, tuple)


@pytest.mark.parametrize(
    "input",
    [
        "go",
        HumanMessage("go"),
        [HumanMessage("go")],
        ["go"],
        [("user", "go")],
        {"role": "user", "content": "go"},
        [{"role": "user", "content": "go"}],
        (HumanMessage("go"),),
    ],
    ids=lambda one: str(type(one)) + str(len(one) if isinstance(one, list | str) else ""),
)
def test_every_form_of_input_is_the_same_message(input: Any) -> None:
    model = ScriptedModel(["ok"])
    Agent(model).invoke(input)
    [shown] = model.calls[0]
    assert (shown.type, shown.text) == ("human", "go")
    assert shown.id


def test_a_list_with_an_earlier_dialogue_is_one_input() -> None:
    model = ScriptedModel(["ok"])
    Agent(model).invoke(
        [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": None,
             "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            AIMessage("two"),
            ("user", "three"),
        ]
    )  # fmt: skip
    assert [one.type for one in model.calls[0]] == ["human", "ai", "tool", "ai", "human"]


@pytest.mark.parametrize("empty", ["", [], (), None, 42, {}, [42], [None], [{"role": "user"}], {"content": "x"}],
                         ids=repr)  # fmt: skip
def test_an_empty_or_foreign_input_is_refused_clearly(empty: Any) -> None:
    model = ScriptedModel(["ok"])
    with pytest.raises(ConfigurationError, match="input"):
        Agent(model).invoke(empty)
    assert model.calls == []


def test_the_given_message_object_is_not_changed() -> None:
    message = HumanMessage("go")
    Agent(MODEL.model_copy(update={"calls": []})).invoke(message)
    assert message.id is None


def test_the_error_says_what_is_wanted_in_the_place_of_what_was_given() -> None:
    """Agents and LangChain's middleware lie near at hand, and are given as they are."""
    inner = Agent(ScriptedModel(["Hello"]), checkpointer="inherit")
    with pytest.raises(ConfigurationError, match=r"tools\[0\] is not a tool but Agent: give what its as_tool\("):
        Agent(ScriptedModel(["Hello"]), tools=[inner])
    with pytest.raises(ConfigurationError, match=r"from_langchain"):
        Agent(ScriptedModel(["Hello"]), filters=[HumanInTheLoopMiddleware({"pay": True})])
    for wanting in (
        lambda: Agent(ScriptedModel(["Hello"]), filters=[filters.approval(default=True)]),
        lambda: inner.resume("t"),
        lambda: inner.session("t"),
    ):
        with pytest.raises(ConfigurationError, match=r'=\.\.\. \("inherit" is for one that only runs inside of others'):
            wanting()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ImportError("please install it with `pip install -U langchain-openai`"), r"pip install 'scallion\[openai\]'$"),
        (ImportError("please install it with `pip install langchain-groq`"), "pip install 'langchain-groq'$"),
        (RuntimeError("S3CRET: set the OPENAI_API_KEY environment variable"), "it needs a key: OPENAI_API_KEY"),
        (ValueError("Unsupported provider='nope'. S3CRET"), "LangChain knows no such provider"),
        (ValueError("S3CRET"), "cannot be made: ValueError$"),
    ],
)
def test_why_a_model_cannot_be_made(monkeypatch: pytest.MonkeyPatch, error: Exception, told: str) -> None:
    """What is missing is named; the text of the error is not told."""

    def fails(name: str) -> Any:
        raise error

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("langchain.chat_models.init_chat_model", fails)
    with pytest.raises(ConfigurationError, match=told) as refused:
        Agent("openai:some")
    assert "S3CRET" not in str(refused.value)


def test_a_mistyped_option_of_pii_is_no_type() -> None:
    with pytest.raises(ConfigurationError, match=r"there is no parameter .stratgy.: did you mean strategy=\?"):
        filters.pii("email", stratgy="mask")
    with pytest.raises(ConfigurationError, match="there is no such type"):
        filters.pii("email", shoe_size="mask")
    assert filters.pii("email", stratgy="mask", detectors={"stratgy": "x"}).name == "pii"
