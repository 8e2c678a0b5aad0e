"""What nearly every message says of itself is stored as two bytes, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import select, text

from scallion.sql.encoding import Blob
from scallion.sql.phrases import FIRST, ITSELF, LEAST, MARK, MOST, PHRASES, lengthened, shortened, sign
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import StrictSerializer

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "input", "step": -1, "parents": {}}
CALL: Any = {"name": "look", "args": {"order": 7}, "id": "c7"}
USAGE: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
MESSAGES: list[AnyMessage] = [
    HumanMessage("Where is it?", id="1"),
    AIMessage("", id="2", tool_calls=[CALL], usage_metadata=USAGE),
    ToolMessage("In Rome.", id="3", tool_call_id="c7", name="look"),
    AIMessage("It is in Rome.", id="4", response_metadata={"finish_reason": "stop", "model_name": "m"}),
    SystemMessage("Be brief.", id="5"),
]

pieces = st.one_of(
    st.sampled_from(PHRASES),
    st.sampled_from([sign(number) for number in range(len(PHRASES))]),
    st.sampled_from([MARK, ITSELF, MARK * 2, b"\x00", bytes([FIRST])]),
    st.binary(max_size=12),
    st.builds(lambda phrase, cut: phrase[: cut % len(phrase)], st.sampled_from(PHRASES), st.integers(0)),
)


@given(st.lists(pieces, max_size=40).map(b"".join))
def test_all_bytes_come_back(data: bytes) -> None:
    kind, short = shortened("msgpack", data)
    assert lengthened(kind, short) == ("msgpack", data)
    assert len(short) <= len(data)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: str(one.type))
def test_messages_become_much_smaller(message: AnyMessage) -> None:
    serializer = StrictSerializer()
    blob = Blob.of(*serializer.dumps_typed(message))
    assert len(blob.data) < 0.6 * len(serializer.dumps_typed(message)[1])
    assert serializer.loads_typed(blob.typed) == message


@pytest.mark.parametrize("kind", ["json", "bytes", "null", "form"])
def test_only_msgpack_is_shortened(kind: str) -> None:
    data = b"".join(PHRASES)
    assert shortened(kind, data) == lengthened(kind, data) == (kind, data)


@pytest.mark.parametrize("size", [0, LEAST - 1, MOST + 1])
def test_what_has_nothing_to_save_stays_as_it_is(size: int) -> None:
    data = (PHRASES[0] * size)[:size]
    assert shortened("msgpack", data) == ("msgpack", data)


def test_no_phrase_can_be_read_wrongly() -> None:
    assert len(set(PHRASES)) == len(PHRASES) < 0x80 - FIRST
    numbers = {0, *range(FIRST, FIRST + len(PHRASES))}
    for phrase in PHRASES:
        assert MARK not in phrase
        assert phrase[0] not in numbers
        assert len(phrase) > 2


def test_phrases_keep_their_numbers() -> None:
    """What is stored names them: add new ones behind the last."""
    known = Path(__file__).parent / "released" / "phrases.txt"
    written = [f"{sign(number).hex()} {phrase!r}" for number, phrase in enumerate(PHRASES)]
    assert written[: len(lines := known.read_text().splitlines())] == lines
    assert len(lines) == len(written), "add the new phrases to the file"


def test_a_text_is_found_in_what_is_stored(saver: SQLCheckpointer) -> None:
    new = {**empty_checkpoint(), "channel_values": {"messages": MESSAGES}, "channel_versions": {"messages": 1}}
    saver.put(CONFIG, new, METADATA, {"messages": 1})  # type: ignore[arg-type]
    i = saver.database.tables.items.c
    rows = saver.database.run(lambda conn: conn.execute(select(i.type, i.data)).all())
    stored = b"".join(bytes(row.data) for row in rows)
    assert all(str(one.content).encode() in stored for one in MESSAGES)
    assert b"additional_kwargs" not in stored


def test_items_of_before_are_read_beside_new_ones(saver: SQLCheckpointer) -> None:
    """A database has values of both forms; those of old are not written again."""
    serializer = StrictSerializer()
    new = {**empty_checkpoint(), "channel_values": {"messages": MESSAGES[:2]}, "channel_versions": {"messages": 1}}
    at = saver.put(CONFIG, new, METADATA, {"messages": 1})  # type: ignore[arg-type]

    def as_before(conn: Any) -> None:
        i = saver.database.tables.items
        for row in conn.execute(select(i.c.session, i.c.id, i.c.type, i.c.data).where(i.c.type == "m")).all():
            kind, data = lengthened(row.type, bytes(row.data))
            this = {"type": kind, "data": data, "hash": Blob(kind, data).hash}
            conn.execute(i.update().where(i.c.session == row.session, i.c.id == row.id).values(this))

    saver.database.run(as_before, write=True)
    with SQLCheckpointer(saver.database.engine) as later:
        later.setup()
        assert later.get_tuple(at).checkpoint["channel_values"]["messages"] == MESSAGES[:2]  # type: ignore[union-attr]
        again = {**empty_checkpoint(), "channel_values": {"messages": MESSAGES}, "channel_versions": {"messages": 2}}
        at = later.put(at, again, METADATA, {"messages": 2})  # type: ignore[arg-type]
        assert later.get_tuple(at).checkpoint["channel_values"]["messages"] == MESSAGES  # type: ignore[union-attr]
        assert serializer.loads_typed(serializer.dumps_typed(MESSAGES)) == MESSAGES
        kinds = later.database.run(lambda conn: conn.execute(text("SELECT DISTINCT type FROM items")).scalars().all())
    assert {"m", "msgpack"} <= set(kinds)
