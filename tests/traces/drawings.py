"""Traces as lines, without times, to be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scallion.tracing import Span, Trace


def drawn(trace: Trace) -> list[str]:
    """A line for each part and each span, deeper ones further in."""
    return [line for part in trace.parts for line in (part.status, *lines(part.spans, 1))]


def lines(spans: Sequence[Span], depth: int = 0) -> Iterator[str]:
    """A line for each span."""
    for one in spans:
        told = [one.kind, one.name, *([] if one.status == "ok" else [one.status]), *([one.error] if one.error else [])]
        told += [f"[{', '.join(one.actions)}]"] if one.actions else []
        told += [f"({'; '.join(one.change)})"] if one.change else []
        yield "  " * depth + " ".join(told)
        yield from lines(one.inside, depth + 1)
