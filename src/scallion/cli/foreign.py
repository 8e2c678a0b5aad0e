"""Going on with a compiled graph that belongs to no Agent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from typing import Any

import click
from langgraph.constants import END

from scallion.cli.failure import DONE, PAUSED
from scallion.cli.output import console, print_json
from scallion.cli.standing import resuming
from scallion.errors import ConfigurationError
from scallion.inspect.card import card
from scallion.inspect.escape import printable
from scallion.values import Approval


def go_on(graph: Any, target: str, thread: str, as_json: bool) -> int:
    """Resume the graph with what was decided about the thread; print its last message, or what it asks now.

    Raises ConfigurationError where its checkpointer keeps no decisions, and what `command_for` raises.
    """
    if not hasattr(graph.checkpointer, "command_for"):
        raise ConfigurationError(f"{target} keeps no decisions: compile it with checkpointer=SQLCheckpointer(...)")
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        values, waiting = asyncio.run(_resumed(graph, thread))
    answer = _answer(values)
    if as_json:
        asked = {"status": "paused", "thread": thread, "approvals": [one.to_json() for one in waiting]}
        print_json(asked if waiting else {"status": "completed", "thread": thread, "answer": answer})
    elif waiting:
        _print(waiting, resuming(target, thread))
    else:
        click.echo(printable(answer) if answer is not None else "done")
    return PAUSED if waiting else DONE


def give_up(graph: Any, thread: str) -> bool:
    """Close what is open on the thread; whether there was something. Nothing answers calls that the graph had made."""
    place = {"configurable": {"thread_id": thread}}
    if not graph.get_state(place).tasks:
        return False
    if (ledger := getattr(graph.checkpointer, "approvals", None)) is not None:
        ledger.close(thread, "cancelled")
    graph.update_state(place, None, as_node=END)
    return True


async def _resumed(graph: Any, thread: str) -> tuple[Any, Sequence[Approval]]:
    saver = graph.checkpointer
    try:
        command = await saver.acommand_for(thread)
        values = await graph.ainvoke(command, {"configurable": {"thread_id": thread}})
        pages = [await saver.approvals.alist(status, thread=thread, limit=1000) for status in ("pending", "decided")]
        return values, [one for page in pages for one in page.items]
    finally:
        await saver.aclose()


def _answer(values: Any) -> str | None:
    """The text of the last message, where the graph keeps messages."""
    messages = values.get("messages") if isinstance(values, Mapping) else None
    text = getattr(messages[-1], "text", None) if isinstance(messages, list) and messages else None
    return None if text is None else str(text)


def _print(waiting: Sequence[Approval], way_on: str) -> None:
    for approval in waiting:
        console().print(card(approval))
    click.echo(f"paused; once decided (approve|edit|reject|respond ID): {way_on}")
