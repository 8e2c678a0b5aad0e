"""Cassettes: recorded from real clients over HTTP, replayed in each mode, without secrets, and strict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from modes import MODES, Drive, Driver, delivered
from pydantic import BaseModel

from scallion import Agent, Completed, ConfigurationError, filters
from scallion.testing import CassetteMiss, ReplayModel, ScriptedModel, asks, call, executions

KEY = "sk-live-canary-0123456789"


def look_up(order: int) -> str:
    """Look an order up."""
    return f"order {order}: delivered"


def refund(order: int, amount: float, reason: str) -> str:
    """Refund an order."""
    return f"refunded {amount}"


def desk(model: Any, **options: Any) -> Agent:
    return Agent(model, tools=[look_up, refund], system_prompt="You serve a shop.", **options)


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
@pytest.mark.parametrize("recorded_in", ["invoke", "astream"])
def test_what_a_real_client_gave_is_replayed_in_each_mode(tmp_path: Path, protocol: str, recorded_in: Any) -> None:
    """Without the provider, without its key, and with the same tools run; a header or key is nowhere in the file."""
    pytest.importorskip("langchain_openai")
    pytest.importorskip("langchain_anthropic")
    from tests.providers.clients import client
    from tests.providers.replies import CALLS, TEXT, stream
    from tests.providers.server import FakeProvider

    path = tmp_path / "cassettes" / "refund.json"
    with FakeProvider() as provider:
        provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-text"))
        real = client(protocol, provider.url, api_key=KEY, default_headers={"X-Tenant": "canary-tenant"})
        with ReplayModel(path, records=real) as model:
            first, _ = Driver(desk(model), recorded_in).start(f"Refund 1042, please. My key is {KEY}.")
        assert len(provider.requests) == 2
        assert provider.requests[0].body["tools"]
    assert isinstance(first, Completed)
    held = path.read_text()
    assert KEY not in held
    assert "canary-tenant" not in held
    assert "My key is [SECRET]." in held
    for mode in MODES:
        with ReplayModel(path) as model, executions() as ran:
            driver = Driver(desk(model), mode)
            result, events = driver.start("Refund 1042, please. My key is [SECRET].")
        assert isinstance(result, Completed)
        assert (result.answer, result.usage["total_tokens"]) == (TEXT, first.usage["total_tokens"])
        assert sorted((one.tool, str(one.args)) for one in ran) == sorted((name, str(args)) for name, args in CALLS)
        assert not driver.streams or delivered(events).endswith(TEXT)


def recorded(path: Path, *replies: Any, **options: Any) -> ReplayModel:
    return ReplayModel(path, records=ScriptedModel(replies), **options)


def test_a_miss_shows_the_nearest_difference(tmp_path: Path, drive: Drive) -> None:
    """Of the request that is most like it; the error passes every filter, and is told again at the end."""
    path = tmp_path / "c.json"
    model = recorded(path, asks(call("look_up", order=1)), "It is here.", "Bye.")
    for text in ("Where is order 1?", "Thank you, and good bye to all of you"):
        desk(model).invoke(text)
    model = ReplayModel(path)
    agent = desk(model, filters=[filters.retry_model(2, retry_on=("transient", "semantic"))])
    with pytest.raises(CassetteMiss) as caught:
        drive(agent).start("Where is order 2?")
    error = caught.value
    assert '-   "content": "Where is order 1?",\n+   "content": "Where is order 2?",' in str(error)
    assert "nearest is that of exchange 1" in str(error)
    assert error.nearest["messages"][-1]["content"] == "Where is order 1?"
    assert error.request["settings"]["tools"][0]["function"]["name"] == "look_up"
    with pytest.raises(AssertionError, match=r"exchange 1 of .* was not asked for; .* exchange 3 .*had no reply to 1 "):
        model.assert_done()


def test_a_changed_tool_is_a_miss(tmp_path: Path) -> None:
    """What the model is told about its tools is part of the request; ids and the place of a block are not."""
    path = tmp_path / "c.json"
    desk(recorded(path, "Hello.")).invoke("Hi")

    def look_up(order: int, shop: str = "") -> str:
        """Look an order up."""
        return ""

    with pytest.raises(CassetteMiss, match=r'\+ .*"shop": \{'):
        Agent(ReplayModel(path), tools=[look_up, refund], system_prompt="You serve a shop.").invoke("Hi")
    with pytest.raises(CassetteMiss, match="serve a bank"):
        Agent(ReplayModel(path), tools=[look_up], system_prompt="You serve a bank.").invoke("Hi")


def test_each_reply_is_given_once(tmp_path: Path) -> None:
    """The same request twice has two replies, in order; a third one is a change of the program."""
    path = tmp_path / "c.json"
    model = recorded(path, "heads", "tails")
    assert [model.invoke("toss").text for _ in range(2)] == ["heads", "tails"]
    model = ReplayModel(path)
    assert [model.invoke("toss").text for _ in range(2)] == ["heads", "tails"]
    model.assert_done()
    with pytest.raises(CassetteMiss, match=r"has 2 reply\(s\) to this request, and it was made once more"):
        model.invoke("toss")


def test_only_what_is_missing_is_recorded_unless_it_is_to_be_recorded_again(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    recorded(path, "one").invoke("a")
    real = ScriptedModel(["two"])
    model = ReplayModel(path, records=real)
    assert [model.invoke(text).text for text in ("a", "b")] == ["one", "two"]
    assert [messages[0].text for messages in real.calls] == ["b"]
    assert recorded(path, "three", again=True).invoke("a").text == "three"
    assert [one["reply"]["content"] for one in json.loads(path.read_text())["exchanges"]] == ["three"]
    real = ScriptedModel([TimeoutError("slow"), "four"])
    model = ReplayModel(path, records=real)
    with pytest.raises(TimeoutError):
        model.invoke("c")
    assert model.invoke("c").text == "four"


def test_what_is_redacted_is_nowhere_and_the_recorded_turn_is_the_replayed_one(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    hide = lambda text: text.replace("ana@example.com", "[MAIL]")  # noqa: E731
    model = recorded(path, "Written to ana@example.com.", redact=hide)
    first = desk(model).invoke("Write to ana@example.com").answer
    assert "ana@example.com" not in path.read_text()
    again = desk(ReplayModel(path, redact=hide)).invoke("Write to ana@example.com").answer
    assert first == again == "Written to [MAIL]."


def test_settings_that_are_secrets_by_name_are_left_out(tmp_path: Path) -> None:
    """They are no part of what is compared either; other settings are."""
    path = tmp_path / "c.json"
    secret = {"api_key": KEY, "extra_headers": {"Authorization": KEY}, "extra_body": {"user": "u", "accessToken": KEY}}
    recorded(path, "ok").bind(temperature=1, max_tokens=5, **secret).invoke("a")
    assert KEY not in path.read_text()
    held = json.loads(path.read_text())["exchanges"][0]["request"]["settings"]
    assert held == {"temperature": 1, "max_tokens": 5, "extra_body": {"user": "u"}}
    assert ReplayModel(path).bind(temperature=1, max_tokens=5, extra_body={"user": "u"}).invoke("a").text == "ok"
    with pytest.raises(CassetteMiss, match='"temperature": 0'):
        ReplayModel(path).bind(temperature=0, max_tokens=5, extra_body={"user": "u"}).invoke("a")


def test_headers_of_an_answer_are_left_out(tmp_path: Path) -> None:
    """What else a provider says about its answer is kept."""
    path = tmp_path / "c.json"
    meta = {"headers": {"set-cookie": KEY}, "model_name": "gpt-test", "finish_reason": "stop"}
    recorded(path, AIMessage("ok", response_metadata=meta)).invoke("a")
    assert KEY not in path.read_text()
    assert ReplayModel(path).invoke("a").response_metadata == {"model_name": "gpt-test", "finish_reason": "stop"}


HIDDEN = {"authorization": KEY, "headers": {"Authorization": f"Bearer {KEY}", "X-Api-Key": KEY}}


@pytest.mark.parametrize(
    "settings",
    [
        {"tools": [{"type": "mcp", "server_label": "gh", **HIDDEN}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}, **HIDDEN}]},
        {"tool_choice": {"type": "mcp", "server_label": "gh", **HIDDEN}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": {}}, **HIDDEN}},
        {"mcp_servers": [{"type": "url", "url": "https://mcp.example", "authorization_token": KEY}]},
        {"extra_query": {"sig": KEY, "page": 1}},
        *({"model_kwargs": {name: KEY}} for name in ("apikey", "APIKEY", "bearer", "passphrase", "private_key_pem")),
        *({"extra_body": {"a": [{name: [KEY]}]}} for name in ("keys", "api_keys", "tokens", "secrets", "passwords")),
    ],
)
def test_a_secret_is_left_out_wherever_it_stands(tmp_path: Path, settings: dict[str, Any]) -> None:
    """In tools that the provider runs too; it is not needed for the replay."""
    path = tmp_path / "c.json"
    recorded(path, "ok").bind(**settings).invoke("a")
    assert KEY not in path.read_text()
    assert next(iter(settings)) in path.read_text()
    assert ReplayModel(path).bind(**settings).invoke("a").text == "ok"


def test_what_is_named_like_a_secret_and_is_none_stays(tmp_path: Path) -> None:
    """The arguments of a tool, the fields of a form, numbers."""

    def unlock(key: str, headers: dict[str, str], tokens: int = 3) -> str:
        """Unlock a door."""
        return ""

    class Door(BaseModel):
        password: str

    path = tmp_path / "c.json"
    form = {"type": "json_schema", "json_schema": {"name": "door", "schema": Door.model_json_schema()}}
    counts = {"max_tokens": 5, "extra_body": {"tokens": {"most": 7}, "sort_keys": True}}
    recorded(path, "ok").bind_tools([unlock]).bind(response_format=form, **counts).invoke("a")
    held = json.loads(path.read_text())["exchanges"][0]["request"]["settings"]
    parameters = held["tools"][0]["function"]["parameters"]
    assert list(parameters["properties"]) == parameters["required"] + ["tokens"] == ["key", "headers", "tokens"]
    assert held["response_format"] == form
    assert {name: held[name] for name in counts} == counts


def test_secrets_in_the_blocks_of_a_content_are_left_out(tmp_path: Path) -> None:
    """Of what is sent and of what is answered; what the model gave to a tool stays."""
    path = tmp_path / "c.json"
    used = {"type": "tool_use", "id": "c", "name": "unlock", "input": {"key": "front door"}}
    listed = {"type": "mcp_list_tools", "server_label": "gh", "headers": {"Authorization": KEY}}
    for real in (ScriptedModel([AIMessage([listed, used])]), None):
        reply = ReplayModel(path, records=real).invoke(
            [HumanMessage([{"type": "text", "text": "a"}, {"type": "file", "api_key": KEY}])]
        )
        assert reply.content == [{"type": "mcp_list_tools", "server_label": "gh"}, used]
    assert KEY not in path.read_text()


def test_structured_output_takes_the_way_that_was_recorded(tmp_path: Path) -> None:
    """The profile of the model is in the cassette: with it a provider's own structured output is asked for."""

    class Order(BaseModel):
        number: int

    path = tmp_path / "c.json"
    real = ScriptedModel([Order(number=7)], profile={"structured_output": True})
    for records in (real, None):
        model = ReplayModel(path, records=records)
        result = Agent(model, filters=[filters.validate_schema(Order)]).invoke("Which?")
        assert result.parsed == Order(number=7)
        assert "response_format" in model.settings[0]


def test_half_of_a_surrogate_pair_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert ReplayModel(path, records=ScriptedModel(["a \ud83e b"])).invoke("\ud800").text == "a \ud83e b"
    assert ReplayModel(path).invoke("\ud800").text == "a \ud83e b"


def test_what_is_no_cassette_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no cassette .*none.json: give ReplayModel\(records="):
        ReplayModel(tmp_path / "none.json")
    path = tmp_path / "c.json"
    for text, told in (
        ("[]", "is no cassette"),
        ("{", "is no cassette"),
        ('{"version": 9, "exchanges": []}', "version 9"),
        ('{"version": 1, "exchanges": [{"request": 1, "reply": 2}]}', "is no cassette"),
        ('{"version": 1, "exchanges": [], "profile": 5}', "is no cassette"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=told):
            ReplayModel(path)
    with pytest.raises(ConfigurationError, match="is a folder"):
        ReplayModel(tmp_path)
    with pytest.raises(ConfigurationError, match="is a function of a text, not int"):
        ReplayModel(path, redact=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is a chat model, not str"):
        ReplayModel(path, records="openai:gpt")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="needs records="):
        ReplayModel(path, again=True)
