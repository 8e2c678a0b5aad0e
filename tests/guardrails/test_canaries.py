"""No table, stream mode, handler, tracer, log or exception holds what a guard took out."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from guardrails.canaries import ANSWERED, BIG, CALLED, EMAIL, FETCHED, dumped, in_error, in_files, in_values, leaks
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.config import get_stream_writer
from langgraph.types import interrupt
from langsmith import utils as langsmith_utils
from modes import Drive
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scenes import asks, call

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    FilterError,
    ModelError,
    Paused,
    SQLCheckpointer,
    approve,
    filters,
    pause,
    respond,
)
from scallion.testing import ScriptedModel

MODES = ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"]


@tool(response_format="content_and_artifact")
def post(to: str, body: dict[str, Any]) -> tuple[str, Any]:
    """Send a letter."""
    get_stream_writer()({"sending": to, "for": FETCHED})
    return f"sent; {FETCHED} reads it too", {"copy": [FETCHED, BIG]}


@tool
def doubts(to: str) -> str:
    """Ask a person in the middle."""
    first = interrupt({"shall I really write to": [to, FETCHED]})
    second = pause(f"And what about {FETCHED}?")
    return f"{first['message']} {second.message} {to} {FETCHED}"


def story(*more: Any) -> ScriptedModel:
    """A model that thinks, says, calls and answers with canaries."""
    thought = {"additional_kwargs": {"reasoning_content": f"{ANSWERED} will do"}}
    meta = {"response_metadata": {"logprobs": {"content": [{"token": ANSWERED}]}, "model": "m"}}
    body = {"cards": [BIG], CALLED: "x"}
    first = AIMessage(f"I ask {ANSWERED}", tool_calls=[call("post", to=CALLED, body=body)], **thought, **meta)
    return ScriptedModel([first, *more, f"Done, {ANSWERED} knows."], chunk_size=3)


def guarded(model: Any, *more: Any, **options: Any) -> Agent:
    """The agent; its tool writes to the custom stream."""
    guard = filters.pii("email", "credit_card")
    return Agent(model, tools=[post, doubts], filters=[*more, guard], **options)


class Ears(BaseCallbackHandler):
    """Hears all that LangChain tells its handlers."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.names: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def hear(*args: Any, **kwargs: Any) -> None:
            self.names.append(name)
            self.heard.append((name, args, kwargs))

        return hear


class AsyncEars(AsyncCallbackHandler):
    """The same, for asyncio."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append((args, kwargs))

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append((args, kwargs))

    async def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append((args, kwargs))


def test_handlers_are_told_of_redacted_runs(drive: Drive) -> None:
    """Inherited ones, of both colours: the runs of model and tools are there, without what was found."""
    ears, others = Ears(), AsyncEars()
    result, _ = drive(guarded(story())).start(f"I am {EMAIL}", config={"callbacks": [ears, others]})
    assert isinstance(result, Completed)
    for name in ("on_chat_model_start", "on_llm_end", "on_tool_start", "on_tool_end"):
        assert ears.names.count(name) == (1 if "tool" in name else 2)
    assert "on_llm_new_token" not in ears.names
    assert len(others.heard) == 5
    assert in_values([ears.heard, others.heard]) == []


class Collector:
    """What a tracer of LangSmith sends, received by a local server."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer({"batch_ingest_config": {"use_multipart_endpoint": False, "size_limit": 100}})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                outer.bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
                self._answer({})

            do_PATCH = do_POST

            def _answer(self, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """The tracer of the environment sends to it."""
    one = Collector()
    names = {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_ENDPOINT": one.url,
        "LANGSMITH_API_KEY": "k",
        "LANGSMITH_PROJECT": "p",
        "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
    }
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    langsmith_utils.get_env_var.cache_clear()
    yield one
    monkeypatch.undo()
    langsmith_utils.get_env_var.cache_clear()
    one.close()


def test_the_tracer_of_the_environment_is_sent_redacted_runs(drive: Drive, collector: Collector) -> None:
    """Model and tools are in the trace, what was found is not."""
    model = story()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("langchain_core.tracers.langchain.get_client", _client_of(collector))
        drive(guarded(model)).start(f"I am {EMAIL}")
        wait_for_all_tracers()
        _flushed.flush()
    sent = b"".join(collector.bodies)
    assert b"ScriptedModel" in sent
    assert b"[REDACTED_EMAIL]" in sent
    assert leaks(sent) == []


class _Flushed:
    client: Any = None

    def flush(self) -> None:
        self.client.flush()


_flushed = _Flushed()


def _client_of(collector: Collector) -> Any:
    from langsmith import Client

    _flushed.client = Client(api_url=collector.url, api_key="k", auto_batch_tracing=False)
    return lambda *args, **kwargs: _flushed.client


def test_no_log_and_no_span_holds_it(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """At the finest level, with contents captured, outside of the guard and inside of it."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    watching = [
        filters.logging(),
        filters.otel(capture_content=True, tracer_provider=provider),
    ]
    guard = filters.pii("email", "credit_card")
    agent = Agent(story(), tools=[post], filters=[guard, *watching])
    with caplog.at_level(logging.DEBUG):
        drive(agent).start(f"I am {EMAIL}")
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert "REDACTED_EMAIL" in caplog.text + "".join(spans)
    assert leaks((caplog.text + "".join(spans)).encode()) == []


def test_no_exception_holds_it(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """Not a provider's error with its causes and notes either, which keep their classes."""
    inner = KeyError(ANSWERED)
    failure = ExceptionGroup("several", [ValueError(f"cannot write {CALLED}"), inner])
    failure.add_note(FETCHED)
    outer = TimeoutError(EMAIL)
    outer.__cause__ = failure
    with caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as caught:
        drive(guarded(ScriptedModel([outer]))).start(f"I am {EMAIL}")
    assert caught.value.kind == "transient"
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert isinstance(caught.value.__cause__.__cause__, ExceptionGroup)
    assert in_error(caught.value) == []
    assert leaks(caplog.text.encode()) == []


def refused(error: Exception) -> Any:
    """An error of Scallion that another one caused."""
    error.__cause__ = ValueError(f"refused {ANSWERED}")
    return error


@tool
def misbuilt() -> str:
    """Raise what a tool that builds agents may raise."""
    raise refused(ConfigurationError(f"no address {FETCHED}"))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ([refused(ConfigurationError(f"no key of {ANSWERED}"))], ConfigurationError),
        ([refused(ModelError("semantic", f"quoted {ANSWERED}"))], ModelError),
        ([refused(FilterError("mine", "around_chat", f"of {ANSWERED}"))], FilterError),
        ([asks(call("misbuilt")), "done"], ConfigurationError),
    ],
    ids=["configuration", "model", "filter", "tool"],
)
def test_no_error_of_our_own_holds_it(
    drive: Drive, sql: SQLCheckpointer, tmp_path: Path, said: list[Any], kind: type[Exception]
) -> None:
    """What a model or a tool raises of Scallion's classes: exception, handlers, database, and what the model reads."""
    ears, guard = Ears(), filters.pii("email")
    agent = Agent(ScriptedModel(said), tools=[misbuilt], filters=[guard], checkpointer=sql)
    with pytest.raises(kind) as caught:
        drive(agent).start("Hello", thread="t", config={"callbacks": [ears]})
    assert in_error(caught.value) == []
    assert "REDACTED_EMAIL" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    heard = [one for one in ears.heard if one[0].endswith("_error")]
    assert heard
    assert [leak for _, (error, *_), _ in heard for leak in in_error(error)] == []
    assert in_files(tmp_path) == []


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_no_stream_mode_of_the_graph_holds_it(sql: SQLCheckpointer, tmp_path: Path, asynchronous: bool) -> None:
    """What model and tools say; what the caller gives to the bare graph is stored before, which it warns of."""
    graph = guarded(story(), checkpointer=sql).graph
    config: Any = {"configurable": {"thread_id": "t"}}
    start = {"messages": [("user", "Hello")]}

    async def collected() -> list[Any]:
        return [one async for one in graph.astream(start, config, stream_mode=MODES)]

    with pytest.warns(UserWarning, match="stores its input before"):
        parts = asyncio.run(collected()) if asynchronous else list(graph.stream(start, config, stream_mode=MODES))
    assert {mode for mode, _ in parts} == set(MODES)
    assert [part for mode, part in parts if mode == "custom"] == [
        {"sending": "[REDACTED_EMAIL]", "for": "[REDACTED_EMAIL]"}
    ]
    assert in_values(parts) == []
    assert in_values(list(graph.get_state_history(config))) == []
    assert in_files(tmp_path) == []


def test_no_question_of_a_tool_holds_it(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """LangGraph's interrupt, and a pause, in a tool that was given the values."""
    model = ScriptedModel([asks(call("doubts", to="<email_1_omsd>")), "Fine."])
    guard = filters.pii("email", strategy="tokenise", key="a secret of some length")
    driver = drive(Agent(model, tools=[doubts], filters=[guard], checkpointer=sql))
    first, events = driver.start(f"I am {EMAIL}", thread="t")
    assert isinstance(first, Paused)
    assert in_files(tmp_path) == []
    second, more = driver.resume("t", respond("yes"))
    assert isinstance(second, Paused)
    last, most = driver.resume("t", respond("sure"))
    assert isinstance(last, Completed)
    assert last.messages[2].text == "yes sure <email_1_omsd> <email_2_sdko>"
    assert in_values([first, *events, second, *more, last, *most, sql.approvals.list(status=None)]) == []
    assert in_files(tmp_path) == []


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_dump_of_postgresql_holds_nothing(database: str) -> None:
    """Every table, as `pg_dump` copies it, after a turn with a pause in its middle."""
    with SQLCheckpointer(database) as saver:
        agent = guarded(story(), filters.approval(default=True), filters.once(), checkpointer=saver)
        agent.invoke([HumanMessage(f"I am {EMAIL}", name=EMAIL)], thread="t")
        agent.resume("t", approve())
    dump = dumped(database)
    assert b"[REDACTED_EMAIL]".hex().encode() in dump
    assert leaks(dump) == []


def test_the_bare_graph_warns_of_itself_alone() -> None:
    """An agent that is used as one does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guarded(ScriptedModel(["Hello"])).invoke("Hi")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("strategy", ["redact", "tokenise"])
def test_no_stream_mode_of_a_graph_with_its_turns_holds_it(
    sql: SQLCheckpointer, tmp_path: Path, asynchronous: bool, strategy: Any
) -> None:
    """`agent.as_graph()`: its input neither, also in its subgraph, its handlers and what is stored."""
    guard = filters.pii("email", "credit_card", strategy=strategy, key="a secret of some length")
    graph = Agent(story(), tools=[post], filters=[guard], checkpointer=sql).as_graph()
    ears = Ears()
    config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [ears], "metadata": {"from": EMAIL}}
    start = {"messages": [HumanMessage(f"I am {EMAIL}", name=EMAIL)]}
    options: Any = {"stream_mode": MODES, "subgraphs": True}

    async def collected() -> list[Any]:
        return [one async for one in graph.astream(start, config, **options)]

    parts = asyncio.run(collected()) if asynchronous else list(graph.stream(start, config, **options))
    assert {mode for _, mode, _ in parts} == set(MODES)
    assert in_values([parts, ears.heard, list(graph.get_state_history(config))]) == []
    assert in_files(tmp_path) == []
    answer = graph.get_state(config).values["messages"][-1].text
    assert answer == ("Done, [REDACTED_EMAIL] knows." if strategy == "redact" else "Done, <email_2_xbie> knows.")
