"""What guards tell: a reader of the stream, and the spans of OpenTelemetry, learn what was found and where."""

from typing import Any

from langchain_core.messages import AIMessage
from modes import Drive
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scallion import Agent, Completed, GuardActed, around_turn, filters
from scallion.filters.guarding import tell
from scallion.testing import ScriptedModel


@around_turn
def counting(request: Any, state: Any, next: Any) -> Completed:
    """A guard that finds two of a kind in each input, and nothing in any answer."""
    tell("counting", "input", ["redact", "mask", "redact"], {"email": 2})
    result: Completed = next(request)
    tell("counting", "output", [], {})
    return result


def test_a_stream_tells_what_a_guard_found(drive: Drive) -> None:
    """Once, with the counts; nothing where nothing was found."""
    driver = drive(Agent(ScriptedModel(["Fine."]), filters=[counting]))
    _, events = driver.start("Hello")
    found = [one for one in events if isinstance(one, GuardActed)]
    assert found == ([GuardActed("counting", "input", "mask,redact", {"email": 2})] if driver.streams else [])


def test_a_span_has_it_as_an_event() -> None:
    """Counts by type."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    model = ScriptedModel([AIMessage("Fine.")])
    Agent(model, filters=[filters.otel(tracer_provider=provider), counting]).invoke("Hello")
    events = [event for span in exporter.get_finished_spans() for event in span.events]
    (told,) = [dict(one.attributes or {}) for one in events if one.name == "scallion.guard"]
    assert told["scallion.found.email"] == 2
    assert told["scallion.place"] == "input"
