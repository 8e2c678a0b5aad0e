"""A part of a trace as bytes: what the database keeps of it. It is JSON, with times in microseconds, of a bounded size.

[format, began, seconds, status, error, asked, omitted, spans, {what else is not as usual}]
[kind, name, at, seconds, {what else is not as usual}, spans]      a span
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from scallion.tracing.trace import Part, PartStatus, Span, SpanKind, SpanStatus, sums
from scallion.values import EMPTY

FORMAT = 1
BYTES = 65_536
"""How large a part is at most, beside the ids of approvals: the spans that began last are left out of a larger one."""
DEPTH = 64
"""How deep spans stand in each other at most."""
REST = ("answered", "tokens", "cost")
"""The fields of a part that are written where they are not as usual."""
SENT = ("status", "error", "hook", "actions", "change", "calls", "call_id", "tokens", "cost")
"""The fields of a span that are written where they are not as usual."""
_USUAL = {one.name: one.default for one in fields(Span)} | {"tokens": {}}
_KINDS, _STATUSES, _ENDS = get_args(SpanKind), get_args(SpanStatus), get_args(PartStatus)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


def dump(part: Part) -> bytes:
    """The bytes of a part."""
    data = _dumped(part)
    return data if len(data) <= BYTES else _cut(part, len(data))


def _cut(part: Part, size: int) -> bytes:
    most, ids = sum(1 for one in part.spans for _ in one.walk()), len(_json([*part.asked, *part.answered]))
    data = b""
    while size > BYTES + ids and most:
        most = most * (BYTES + ids) * 9 // (size * 10)
        data = _dumped(_with_first(part, most))
        size = len(data)
    return data or _dumped(part)


def _with_first(part: Part, most: int) -> Part:
    """The part with its first spans; tokens and costs of the others are added up."""
    kept, left = _first(part.spans, most)
    calls = [(one.tokens, one.cost) for one in left if one.kind == "model"]
    tokens, cost = sums([(part.tokens, part.cost), *calls])
    return replace(part, spans=kept, omitted=part.omitted + len(left), tokens=tokens, cost=cost)


def load(data: bytes) -> Part:
    """The part of these bytes. Raises ValueError, TypeError, AttributeError or OverflowError for what is none."""
    try:
        return _part(*json.loads(data))
    except RecursionError:
        raise ValueError("this is no part of a trace: it is too deep") from None


def _part(format: int, began: int, seconds: int, status: Any, *more: Any) -> Part:
    error, asked, omitted, spans, rest = more if len(more) == 5 else (*more, EMPTY)
    if format != FORMAT or status not in _ENDS or not rest.keys() <= set(REST):
        raise ValueError("this is no part of a trace that this program reads")
    _check(isinstance(omitted, int) and _is_name(error) and _are_names([*asked, *rest.get("answered", ())]))
    _check(_are_tokens(rest.get("tokens", {})) and _is_number(rest.get("cost", 0)) and _is_number(seconds))
    began_at = _EPOCH + began * _MICRO
    about: dict[str, Any] = {**rest, "answered": tuple(rest.get("answered", ()))}
    return Part(began_at, seconds / 1e6, status, _spans(spans, 0), error, tuple(asked), omitted, **about)


def _dumped(part: Part) -> bytes:
    began = (part.began_at - _EPOCH) // _MICRO
    head = [FORMAT, began, _micros(part.seconds), part.status, part.error, list(part.asked), part.omitted]
    rest = {name: value for name in REST if (value := getattr(part, name)) not in ((), {}, None)}
    return _json([*head, [_plain(one) for one in part.spans], *([rest] if rest else [])])


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _plain(span: Span, depth: int = 0) -> list[Any]:
    """What stands too deep inside stands directly in the deepest span that may have some."""
    flat = depth == DEPTH - 2
    inside = [replace(one, inside=()) for next in span.inside for one in next.walk()] if flat else span.inside
    rest = {name: value for name in SENT if (value := getattr(span, name)) != _USUAL[name]}
    return [
        span.kind, span.name, _micros(span.at), _micros(span.seconds), rest, [_plain(one, depth + 1) for one in inside]
    ]  # fmt: skip


def _spans(plain: Any, depth: int) -> tuple[Span, ...]:
    _check(depth <= DEPTH)
    return tuple(_span(one, depth) for one in plain)


def _span(plain: Any, depth: int) -> Span:
    kind, name, at, seconds, rest, inside = plain
    if kind not in _KINDS or rest.get("status", "ok") not in _STATUSES or not rest.keys() <= set(SENT):
        raise ValueError("this is no span of a trace that this program reads")
    about: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in rest.items()}
    _check(_is_number(at) and _is_number(seconds) and _is_number(about.get("cost", 0)))
    _check(all(_is_name(about.get(one)) for one in ("error", "hook", "call_id")))
    _check(all(_are_names(about.get(one, ())) for one in ("actions", "change")))
    _check(isinstance(about.get("calls", 1), int) and _are_tokens(about.get("tokens", {})))
    return Span(kind, str(name), at / 1e6, seconds / 1e6, **about, inside=_spans(inside, depth + 1))


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError("this is no part of a trace: a value is not what it should be")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_name(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _are_tokens(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, int) for one in value.values())


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)


def _first(spans: Sequence[Span], most: int) -> tuple[tuple[Span, ...], list[Span]]:
    """The first so many spans, each before those inside of it, and the others."""
    room, left = [most], list[Span]()

    def kept(spans: Sequence[Span]) -> Iterator[Span]:
        for one in spans:
            if room[0] > 0:
                room[0] -= 1
                yield replace(one, inside=tuple(kept(one.inside)))
            else:
                left.extend(one.walk())

    return tuple(kept(spans)), left
