"""`filters.openai_moderation`: the real client against a local server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from modes import Drive

from scallion import Agent, Blocked, ConfigurationError, FilterError, filters
from scallion.testing import ScriptedModel

openai = pytest.importorskip("openai")
NAMES = ("harassment", "harassment/threatening", "violence")


class Endpoint:
    """Answers as `/v1/moderations` does: a text that has "kill" is violence. `status`: an error instead."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.short = False
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.asked.append((self.path, asked["model"], asked["input"]))
                endpoint.keys.append(self.headers["authorization"])
                data = json.dumps(endpoint.answer(asked["input"])).encode()
                self.send_response(endpoint.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, texts: list[str]) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"message": "no", "type": "server_error"}}
        results = [_result("kill" in text) for text in texts]
        return {"id": "modr-1", "model": "omni-moderation-latest", "results": results[: len(results) - self.short]}


def _result(violent: bool) -> dict[str, Any]:
    return {
        "flagged": violent,
        "categories": {name: violent and name != "harassment" for name in NAMES},
        "category_scores": {"harassment": 0.4, "harassment/threatening": 0.6 * violent, "violence": 0.98 * violent},
        "category_applied_input_types": {name: ["text"] for name in NAMES},
    }


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def check_on(endpoint: Endpoint, **options: Any) -> Any:
    return filters.openai_moderation(base_url=endpoint.url, api_key="not-a-key", max_retries=0, **options)


def test_a_turn_is_judged(drive: Drive, endpoint: Endpoint) -> None:
    """All texts of a step in one request; categories have OpenAI's names."""
    guard = filters.moderation(check_on(endpoint), failure_response="Flagged: {categories}.")
    agent = Agent(ScriptedModel(["Fine.", "I kill time."]), filters=[guard])
    assert drive(agent).start([HumanMessage("Hi"), HumanMessage("there")])[0].answer == "Fine."
    model = "omni-moderation-latest"
    assert endpoint.asked == [("/v1/moderations", model, ["Hi", "there"]), ("/v1/moderations", model, ["Fine."])]
    result, _ = drive(agent).start("And you?")
    assert result.answer == "Flagged: harassment/threatening, violence."


def test_thresholds_are_by_category(endpoint: Endpoint) -> None:
    guard = filters.moderation(check_on(endpoint), on=["input"], exit="error", thresholds={"harassment": 0.3})
    with pytest.raises(Blocked) as caught:
        Agent(ScriptedModel(["never"]), filters=[guard]).invoke("Hi")
    assert caught.value.findings == {"harassment": 1}
    lenient = filters.moderation(check_on(endpoint), on=["input"], thresholds=0.99)
    assert Agent(ScriptedModel(["Fine."]), filters=[lenient]).invoke("I kill time").answer == "Fine."


def test_an_asynchronous_client_is_awaited(endpoint: Endpoint) -> None:
    client = openai.AsyncOpenAI(base_url=endpoint.url, api_key="not-a-key", max_retries=0)
    guard = filters.moderation(filters.openai_moderation("omni-moderation-2024-09-26", client=client), on=["input"])
    agent = Agent(ScriptedModel(["Fine."]), filters=[guard])
    assert agent.invoke("Hi").answer == "Fine."
    assert endpoint.asked[0][1] == "omni-moderation-2024-09-26"


@pytest.mark.parametrize("broken", ["status", "short"])
def test_what_the_endpoint_does_not_say_passes_nothing(drive: Drive, endpoint: Endpoint, broken: str) -> None:
    endpoint.status, endpoint.short = (500, False) if broken == "status" else (200, True)
    driver = drive(Agent(ScriptedModel(["never"]), filters=[filters.moderation(check_on(endpoint))]))
    with pytest.raises(FilterError, match="moderation"):
        driver.start("Hi")
    opened = filters.moderation(check_on(endpoint), fail_open=True)
    assert drive(Agent(ScriptedModel(["Fine."]), filters=[opened])).start("Hi")[0].answer == "Fine."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "OPENAI_API_KEY"),
        ({"api_kay": "x"}, "api_kay"),
        ({"client": object()}, "client is an openai client"),
        ({"client": object(), "api_key": "x"}, "not both"),
    ],
)
def test_what_makes_no_client_is_refused(monkeypatch: pytest.MonkeyPatch, given: Any, told: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=told):
        filters.openai_moderation(**given)
