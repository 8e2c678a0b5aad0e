"""Going on with a compiled graph that belongs to no Agent."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any

import click
from langgraph.constants import END

from scallion.cli.failure import DONE, PAUSED
from scallion.cli.output import console, print_json
from scallion.cli.standing import resuming
from scallion.errors import ConfigurationError, NotPaused
from scallion.inspect.card import card, offered
from scallion.inspect.conversation import message_data, text_of
from scallion.inspect.escape import one_line, printable
from scallion.sql import summary
from scallion.values import Approval


@dataclass(frozen=True)
class Stand:
    """What a run gave, and where the thread stands after it."""

    answer: Any
    waiting: Sequence[Approval]
    next: Sequence[str]
    """The nodes that come next, where the graph stopped before them."""


def go_on(graph: Any, target: str, thread: str, configurable: Mapping[str, Any], as_json: bool) -> int:
    """Go on with what was decided about the thread, or from where it was interrupted; print what the graph gives.

    That is its last message, or what it returns, or what it asks now. Raises ConfigurationError where its checkpointer
    keeps no decisions, and what `command_for` raises.
    """
    if not hasattr(graph.checkpointer, "command_for"):
        raise ConfigurationError(f"{target} keeps no decisions: compile it with checkpointer=SQLCheckpointer(...)")
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        stand = asyncio.run(_resumed(graph, thread, configurable))
    is_paused = bool(stand.waiting or stand.next)
    if as_json:
        print_json(_document(thread, stand) if is_paused else _completed(thread, stand))
    elif is_paused:
        _print(stand, resuming(target, thread))
    else:
        click.echo(_text(stand.answer))
    return PAUSED if is_paused else DONE


def give_up(graph: Any, thread: str) -> bool:
    """Close what is open on the thread; whether there was something. Nothing answers calls that the graph had made."""
    place = {"configurable": {"thread_id": thread}}
    if not graph.get_state(place).tasks:
        return False
    if (ledger := getattr(graph.checkpointer, "approvals", None)) is not None:
        ledger.close(thread, "cancelled")
    graph.update_state(place, None, as_node=END)
    return True


async def _resumed(graph: Any, thread: str, configurable: Mapping[str, Any]) -> Stand:
    saver = graph.checkpointer
    config = {"configurable": {**configurable, "thread_id": thread}}
    try:
        values = await graph.ainvoke(await _way_on(graph, thread, config), config)
        pages = [await saver.approvals.alist(status, thread=thread, limit=1000) for status in ("pending", "decided")]
        waiting = [one for page in pages for one in page.items]
        left = () if waiting else (await graph.aget_state(config)).next
        return Stand(_answer(graph, values), waiting, left)
    finally:
        await saver.aclose()


async def _way_on(graph: Any, thread: str, config: Any) -> Any:
    """What the graph goes on with: what was decided, or nothing where it was interrupted.

    Raises NotPaused, and ConfigurationError for a graph that does not wait for it, which would use the answers up.
    """
    tasks = (await graph.aget_state(config)).tasks
    try:
        command = await graph.checkpointer.acommand_for(thread)
        asked = {one.id for task in tasks for one in task.interrupts}
        if command.resume and not asked & command.resume.keys():
            raise ConfigurationError(f"nothing of this graph waits in thread {thread!r}: name the one that paused")
        return command
    except NotPaused:
        # What it asked is closed: it would only ask again, and whoever cancelled it wants that no more.
        if not tasks or any(task.interrupts for task in tasks):
            raise
        return None


def _answer(graph: Any, values: Any) -> Any:
    """The text of the last message, where the graph keeps messages; what a graph of the functional API returns."""
    if not isinstance(graph.output_channels, str):
        messages = summary.conversation(values) if isinstance(values, Mapping) else []
        return _said(messages[-1]) if messages else None
    said = _said(values)
    return values if said is None else said


def _said(message: Any) -> str | None:
    """The text of a message; None for what is none."""
    if not summary.is_message(message):
        return None
    data = message_data(message)
    return text_of(data["content"])


def _text(answer: Any) -> str:
    if answer is None:
        return "done"
    return printable(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str))


def _completed(thread: str, stand: Stand) -> dict[str, Any]:
    return {"status": "completed", "thread": thread, "answer": stand.answer}


def _document(thread: str, stand: Stand) -> dict[str, Any]:
    asked = {"status": "paused", "thread": thread, "approvals": [one.to_json() for one in stand.waiting]}
    return asked | ({"next": list(stand.next)} if stand.next else {})


def _print(stand: Stand, way_on: str) -> None:
    for approval in stand.waiting:
        console().print(card(approval))
    if stand.waiting:
        click.echo(f"paused; once decided ({offered(stand.waiting)} ID): {way_on}")
    else:
        click.echo(f"stopped before {one_line(', '.join(stand.next))}; to go on: {way_on}")
