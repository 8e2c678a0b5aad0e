"""No content is in the table of traces, whatever went wrong, and whoever changed what."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from modes import Drive
from scenes import call
from sqlalchemy import select

from scallion import (
    Agent,
    ChatReply,
    Paused,
    ScallionError,
    SQLCheckpointer,
    ToolReply,
    around_chat,
    around_tool,
    around_turn,
    edit,
    filters,
)
from scallion.testing import ScriptedModel

CANARY = "canary-"


@around_turn(init={"kept": CANARY})
def rewords(request: Any, state: Any, next: Any) -> Any:
    """Another question, and another answer."""
    result = next(request.replace(messages=[HumanMessage(CANARY + "reworded")]))
    message = AIMessage(CANARY + "in the end", id=result.message.id)
    return result.replace(message=message, parsed={CANARY: CANARY}), {"kept": CANARY + "more"}


@around_chat
def adds(request: Any, state: Any, next: Any) -> Any:
    """Messages, settings by names of the program, and another text of the reply."""
    request = request.replace(messages=[*request.messages, HumanMessage(CANARY + "added")], settings={"stop": [CANARY]})
    reply = next(request)
    message = reply.message.model_copy(update={"content": CANARY + "more"})
    return ChatReply(message)


@around_tool
def bends(request: Any, state: Any, next: Any) -> Any:
    """Other arguments, other results, and slots."""
    args = {**request.call["args"], CANARY + "new": CANARY}
    reply = next(request.replace(call={**request.call, "args": args}))
    message = reply.message.model_copy(update={"content": CANARY + "result"})
    return ToolReply(message, {CANARY + "slot": CANARY})


def told(sql: SQLCheckpointer) -> list[bytes]:
    """What the rows hold."""
    t = sql.database.tables.traces
    return [bytes(data) for data in sql.database.run(lambda conn: conn.execute(select(t.c.data)).scalars().all())]


def send(to: str, **more: Any) -> str:
    """Send a letter."""
    return CANARY + "sent"


def fails(to: str) -> str:
    """Fail."""
    raise RuntimeError(CANARY + "failure")


CALLS = [
    [call("send", "c1", to=CANARY, body=CANARY)],
    [call("fails", "c2", to=CANARY)],
    [call(CANARY + "tool", "c3", **{CANARY: CANARY})],
]
ENDS: list[Any] = [CANARY + "answer", ValueError(CANARY + "error"), TimeoutError(CANARY + "error")]


@pytest.mark.parametrize("end", ENDS, ids=["answer", "error", "timeout"])
@pytest.mark.parametrize("calls", CALLS, ids=["tool", "failing", "unknown"])
def test_no_content_is_in_a_trace(drive: Drive, sql: SQLCheckpointer, calls: Any, end: Any) -> None:
    """Of questions, answers, arguments and their names, results, errors, states; after a pause with an edit too."""
    model = ScriptedModel([AIMessage(CANARY, tool_calls=calls), end, end, end])
    stack = [
        rewords,
        filters.moderation(lambda text: filters.Verdict("b0mb" in text, ())),
        filters.retry_model(max_retries=1, initial_delay=0),
        adds,
        filters.approval({"send": True}),
        bends,
        filters.pii("email"),
    ]
    agent = Agent(model, tools=[send, fails], filters=stack, checkpointer=sql, system_prompt=CANARY)
    with suppress(ScallionError):
        result, _ = drive(agent).start(f"{CANARY} me@example.com", thread="t", user="ana")
        if isinstance(result, Paused):
            drive(agent).resume("t", edit({"to": CANARY + "edited"}))
    rows = told(sql)
    assert rows
    assert b"layer" in b"".join(rows)
    assert [one for one in rows if CANARY.encode() in one or b"me@example" in one] == []
