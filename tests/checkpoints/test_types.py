"""What the serializer takes comes back equal and of the same type, down to the last part; all else it refuses."""

from __future__ import annotations

import os
import re
import threading
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from io import BytesIO
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pytest
from checkpoints.kinds import (
    ALLOWED,
    Bag,
    Bits,
    Box,
    Boxed,
    Colour,
    Doubled,
    Frozen,
    Guarded,
    Late,
    Level,
    Many,
    Model,
    Named,
    Number,
    Numbers,
    Old,
    Open,
    Pair,
    Plain,
    Ratio,
    Raw,
    Rights,
    Row,
    Slotted,
    Strict,
    Table,
    Tagged,
    Text,
    Typed,
    Unknown,
    Word,
    told,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.content import create_image_block, create_text_block
from langchain_core.messages.tool import invalid_tool_call, tool_call_chunk
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import SecretStr

from scallion.sql.encoding import Refused
from scallion.sql.serde import StrictSerializer

SERDE = StrictSerializer(ALLOWED)
NOW = datetime(2026, 10, 25, 2, 30, 1, 5)


ITEM = Item(value={"a": (1,)}, key="k", namespace=("a",), created_at=NOW, updated_at=NOW)
EXAMPLES = int(os.environ.get("SCALLION_TEST_EXAMPLES", "150"))


def back(value: Any) -> Any:
    """What comes back of it."""
    return SERDE.loads_typed(SERDE.dumps_typed(value))


def tagged(text: str, tag: Any) -> Tagged:
    """A text with an attribute."""
    made = Tagged(text)
    made.tag = tag
    return made


def changed(model: Any, **values: Any) -> Any:
    """The model after assignments, which are not validated."""
    for name, value in values.items():
        setattr(model, name, value)
    return model


KINDS: dict[str, Any] = {
    "numbers": [0, -1, 2**63, -(2**63), 2**64, -(2**200), True, 1.5, -0.0, 1e-320, float("nan"), float("-inf"), 1 - 2j],
    "bytes": [b"", b"\0\xff", bytearray(b"ab"), {"deep": (bytearray(),)}],
    "texts": ["", "\0", "é\U0001f600", "\ud800", {"\udfff": "\ud800x"}, ("\ud800",)],
    "keys": [{True: "a"}, {1.0: 1}, {None: 1}, {(1, (b"x", 2**70)): 1}, {b"x": 1}, {2**70: 1}],
    "other keys": {
        Colour.RED: 1,
        Word.YES: 2,
        NOW: 3,
        uuid.UUID(int=1): 4,
        frozenset((1,)): 5,
        Text("t"): 6,
        Decimal(8): 7,
    },
    "containers": [(), ((1,), [2]), {1, (2, 3)}, frozenset({frozenset()}), deque([1], 3), deque(), range(1, 2**70, 2)],
    "ordered": [OrderedDict(b=1, a=(2,)), Counter("hello"), defaultdict(list, {(1,): [2]}), defaultdict(None, a=1)],
    "times": [
        NOW,
        NOW.replace(fold=1),
        NOW.replace(tzinfo=UTC),
        date.max,
        time(1, 2, 3, 4, fold=1),
        timedelta(-1, 5, 7),
    ],
    "zones": [
        NOW.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        NOW.replace(tzinfo=timezone(timedelta(hours=-3, minutes=-7), "here")),
        time(1, tzinfo=ZoneInfo("Asia/Kolkata")),
        timezone(timedelta(seconds=1)),
    ],
    "ids": [uuid.uuid4(), ip_address("::1%eth0"), ip_network("10.0.0.0/8"), ip_interface("fe80::1/64"), Path("/a/b")],
    "decimals": [Decimal(text) for text in ("-0", "1.10", "1E+7", "NaN", "-sNaN12", "Infinity", "0E-20")],
    "patterns": [re.compile("a+", re.I | re.X), re.compile(b"\xff")],
    "enums": [
        Colour.CRIMSON,
        Colour.BLUE,
        Level.LOW,
        Word.YES,
        Rights.READ | Rights.WRITE,
        Bits(3),
        Bits(8),
        Model.Mood.CALM,
    ],
    "models": [Model(n=(1, Model(n={2}))), Strict(inner=Model(), many=[Model(n=b"x")]), Model.Part(n=3), Boxed(held=1)],
    "open model": [Open(n=1, other=(1,), more=Model()), Numbers([1, 2]), Guarded(secret=SecretStr("s"))],
    "named model": changed(Named(Number=4), _count=[1]),
    "doubled": [Doubled(n=2), changed(Doubled(), n="not an int"), Doubled.model_construct(n=3)],
    "v1 model": [Old(n=(1,), more={2}), changed(Old(), n=2)],
    "dataclasses": [Plain((1,)), Frozen(), Slotted({1}), Late(1, seed=5), changed(Late(), other="x"), Typed[int](1)],
    "tuples": [Pair(1), Pair((1,), [Pair(2)]), Row((1, 2))],
    "subclasses": [
        Text("a"),
        tagged("a", (1,)),
        Number(7),
        Number(2**70),
        Ratio(1.5),
        Raw(b"a"),
        Bag({1}),
        Many([(1,)]),
    ],
    "dict subclass": changed(Table({(1,): Text("x")}), note="n"),
    "messages": [
        HumanMessage("\ud800", id="1", name="ana", mood=("calm",)),
        SystemMessage([create_text_block("hi"), create_image_block(url="https://x/y.png")]),
        AIMessage([{"type": "reasoning", "reasoning": "so"}, "text"], response_metadata={"model": "m", "t": NOW}),
        AIMessage("", tool_calls=[{"name": "f", "args": {"x": (2**80,)}, "id": "1", "type": "tool_call"}]),
        AIMessage("", invalid_tool_calls=[invalid_tool_call(name="f", args="{", id="1", error="e")]),
        AIMessage("x", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
        AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="f", args='{"a', id="1", index=0)]),
        HumanMessageChunk("x"),
        ToolMessage("x", tool_call_id="1", status="error", artifact=[Document("x", metadata={"a": (1,)}), Model()]),
        FunctionMessage("x", name="f"),
        ChatMessage("x", role="critic"),
        RemoveMessage(id="1"),
    ],
    "assigned": changed(AIMessage("", additional_kwargs={"tool_calls": [{"id": "1", "function": {}}]}), tool_calls=[]),
    "text of a message": AIMessage("x").text,
    "langgraph": [
        *(Send("n", {"x": (1,)}), Send("n", 1, timeout=timedelta(seconds=3)), Interrupt(value=(1,), id="1")),
        *(Command(goto=[Send("n", 2)], update={"a": (1,)}, resume={"a": 1}, graph="x"), Overwrite((1,))),
        *(
            _DeltaSnapshot([HumanMessage("x"), (1,)]),
            Item(value={"a": (1,)}, key="k", namespace=("a",), created_at=NOW, updated_at=NOW),
        ),
    ],
    "arrays": [
        numpy.arange(6).reshape(2, 3),
        numpy.arange(6).reshape(2, 3).T,
        numpy.zeros((2, 0)),
        numpy.array(1.5),
        numpy.arange(9)[::2],
        numpy.array(["a", "bcd"]),
        numpy.array(["2026-01-01"], "M8[s]"),
    ],
    "scalars": [
        numpy.float64(1.5),
        numpy.float32("nan"),
        numpy.int8(3),
        numpy.bool_(True),
        numpy.str_("x"),
        numpy.complex64(1j),
        numpy.datetime64("2026-01-01", "25s"),
        numpy.timedelta64(3, "D"),
        numpy.datetime64("NaT", "s"),
    ],
}


@pytest.mark.parametrize("value", KINDS.values(), ids=KINDS)
def test_it_comes_back(value: Any) -> None:
    assert told(back(value)) == told(value)
    assert told(back({"deep": [value, (value,)]})) == told({"deep": [value, (value,)]})


def test_it_equals_what_it_was() -> None:
    values = {name: value for name, value in KINDS.items() if name not in ("numbers", "decimals", "arrays", "scalars")}
    assert back(values) == values


def test_arrays_can_be_written_to() -> None:
    array = back({"a": numpy.arange(3)})["a"]
    array[0] = 7
    assert array.tolist() == [7, 1, 2]


def itself() -> Any:
    """A list that contains itself."""
    held: list[Any] = []
    held.append({"a": held})
    return held


def nested(depth: int, kind: Any) -> Any:
    """A value inside of so many others."""
    value = kind()
    for _ in range(depth):
        value = kind([value])
    return value


def half() -> Model:
    """A model without one of its fields."""
    model = Model()
    del model.__dict__["n"]
    return model


class Shadow(Text):
    """Hidden by what has its name."""


HIDDEN, Shadow = Shadow, None  # type: ignore[assignment,misc]


def local() -> Any:
    """Of a class that nobody finds again."""

    class Model(Text):
        pass

    return Model("x")


def boxed(text: str) -> Any:
    """Of a class that is made here and nowhere else."""
    return Box[str](held=text)


ZONE = b"TZif" + bytes(32) + b"\0\0\0\1\0\0\0\4" + bytes(6) + b"UTC\0"
"""A file of a time zone, which then has no name."""

REFUSED: dict[str, tuple[Any, str]] = {
    "object": (Unknown(), "Unknown"),
    "function": (nested, "function"),
    "lambda": ([{"a": lambda: 1}], "function"),
    "class": (Model, "ModelMetaclass"),
    "generator": ((n for n in ()), "generator"),
    "lock": (Plain(threading.Lock()), "lock"),
    "memory": ([memoryview(b"x")], "memoryview"),
    "view": ({"a": {}.keys()}, "dict_keys"),
    "proxy": (types.MappingProxyType({}), "mappingproxy"),
    "module": (os, "module"),
    "error": (ValueError("x"), "ValueError"),
    "errors": ([ValueError("x")], "ValueError"),
    "itself": (itself(), ""),
    "deep": (nested(3000, list), ""),
    "deep tuple": (nested(3000, tuple), "tuple"),
    "made by a function": (defaultdict(lambda: 1), "defaultdict"),
    "generic": (boxed("x"), "Box[str]"),
    "half": (half(), "Model"),
    "private": (changed(Named(), _count=threading.Lock()), "lock"),
    "local": ([local()], "Model"),
    "hidden": ([HIDDEN("x")], "Shadow"),
    "pure path": (PurePosixPath("a"), "PurePosixPath"),
    "own path": (type("Own", (type(Path()),), {})("a"), "Own"),
    "own time": (type("Own", (datetime,), {})(2026, 1, 1), "Own"),
    "own ordered": (type("Own", (OrderedDict,), {})(), "Own"),
    "objects": (numpy.array([object()]), "ndarray"),
    "records": (numpy.zeros(2, "i4,f8"), "ndarray"),
    "matrix": (numpy.ma.masked_array([1], [True]), "MaskedArray"),
    "long double": (numpy.longdouble(1), numpy.longdouble.__name__),
    "zone": (NOW.replace(tzinfo=ZoneInfo.from_file(BytesIO(ZONE))), "ZoneInfo"),
}


@pytest.mark.parametrize(("value", "type"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(value: Any, type: str) -> None:
    with pytest.raises(Refused) as refused:
        StrictSerializer(True).dumps_typed(value)
    assert refused.value.type == type


@pytest.mark.parametrize(
    "value", [Model(), Plain(), Colour.RED, Pair(1), Text("x"), Old(), Model.Part(), SecretStr("s")]
)
def test_a_type_must_be_allowed(value: Any) -> None:
    with pytest.raises(Refused, match="is not on the allow-list"):
        StrictSerializer().dumps_typed([{"a": (value,)}])


hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=5)
    | st.binary(max_size=5)
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.complex_numbers()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.sampled_from([*Colour, *Level, *Word, *Rights, Bits(3), Model.Mood.CALM])
    | st.builds(Text, st.text(max_size=5))
    | st.builds(Number, st.integers()),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3) | st.builds(Pair, inner, inner)
    ),
    max_leaves=4,
)


def _grown(inner: Any) -> Any:
    keyed = st.dictionaries(hashable, inner, max_size=3)
    named = st.dictionaries(st.text(max_size=3), inner, max_size=3)
    listed = st.lists(inner, max_size=3)
    message = st.builds(AIMessage, st.text(max_size=5), additional_kwargs=named, response_metadata=named)
    return (
        listed
        | keyed
        | named
        | st.sets(hashable, max_size=3)
        | st.builds(deque, listed, st.none() | st.integers(0, 5))
        | st.builds(OrderedDict, keyed)
        | st.builds(defaultdict, st.sampled_from([None, list, int]), keyed)
        | st.builds(Many, listed)
        | st.builds(Table, keyed)
        | st.builds(tagged, st.text(max_size=3), inner)
        | st.one_of(*(st.builds(kind, n=inner) for kind in (Model, Plain, Frozen, Slotted, Old, Late, Typed)))
        | st.builds(Open, more=inner)
        | message
        | st.builds(ToolMessage, st.just("x"), tool_call_id=st.just("1"), artifact=inner)
    )


values = st.recursive(hashable | st.builds(bytearray, st.binary(max_size=5)) | st.builds(Unknown), _grown, max_leaves=8)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values)
def test_whatever_it_is_it_comes_back_or_is_refused(value: Any) -> None:
    try:
        stored = SERDE.dumps_typed(value)
    except Refused as error:
        refused = error.type
    else:
        refused = ""
        assert told(SERDE.loads_typed(stored)) == told(value)
    assert refused == ("Unknown" if "Unknown" in repr(told(value)) else "")
