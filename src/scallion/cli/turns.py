"""`run`, `resume` and `cancel`: one turn of an agent in this process."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from scallion.cli.failure import DONE, PAUSED, describe, failed
from scallion.cli.options import (
    configurable_option,
    database,
    database_option,
    json_option,
    owner_option,
    place,
    requester_options,
)
from scallion.cli.output import console, print_json
from scallion.cli.screen import Screen, watch
from scallion.cli.standing import aside, behind_a_change, resuming, standing
from scallion.cli.target import load, load_graph
from scallion.errors import PauseChanged
from scallion.inspect.escape import one_line, printable
from scallion.values import Completed, Paused

if TYPE_CHECKING:
    from scallion.agent import Agent

thread_option = click.option("--thread", metavar="THREAD", help="The conversation (default: a new one).")

CANCELLED = "the turn was cancelled; it is closed now"


def new_thread() -> str:
    """A name for a thread that nobody named."""
    return uuid.uuid4().hex[:12]


@click.command()
@click.argument("graph")
@click.argument("message")
@thread_option
@requester_options
@database_option
@json_option
def run(graph: str, message: str, thread: str | None, user: str, owner: str | None, as_json: bool) -> int:
    """Send one message; print the answer, or what a person has to decide (exit status 3).

    GRAPH is path/to/file.py:agent or package.module:agent.
    """
    agent = load(graph)
    name = thread or new_thread()
    if thread is None and not as_json:
        click.echo(f"thread {name}", err=True)
    return _turn(agent, graph, name, lambda: agent.stream(message, thread=name, user=user, owner=owner), as_json)


@click.command()
@click.argument("graph")
@click.argument("thread")
@configurable_option
@owner_option
@database_option
@json_option
def resume(graph: str, thread: str, configurable: dict[str, Any], owner: str | None, as_json: bool) -> int:
    """Go on with a thread that paused or was interrupted, with the decisions that were recorded.

    GRAPH is path/to/file.py:agent or package.module:agent; a compiled graph of LangGraph is taken too.
    """
    from langgraph.pregel import Pregel

    agent = load_graph(graph)
    if isinstance(agent, Pregel):
        from scallion.cli.foreign import go_on

        if owner is not None:
            raise click.BadParameter("it is for agents; a graph takes --configurable", param_hint="--owner")
        return go_on(agent, graph, thread, configurable, as_json)
    config = {"configurable": configurable}
    return _turn(agent, graph, thread, lambda: agent.stream_resume(thread, config=config, owner=owner), as_json)


@click.command()
@click.argument("thread")
@click.option("--graph", metavar="GRAPH", help="The agent of the thread.")
@database_option
def cancel(thread: str, graph: str | None) -> int:
    """Give up the open turn of a thread.

    With --graph its open calls are answered "cancelled", and the thread takes a new message; a compiled graph of
    LangGraph is taken too, and has its open tasks dropped. Without it only the approvals are marked cancelled, so that
    nobody can decide them any more.
    """
    if graph is not None:
        if not _cancelled(graph, thread):
            return failed(f"thread {thread!r} has no open turn")
        click.echo("cancelled")
        return DONE
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        closed = inbox.approvals.close(thread, "cancelled")
    if not closed:
        return failed(f"thread {thread!r} has no open approvals")
    click.echo(f"{closed} approval(s) cancelled; give --graph to close the turn too")
    return DONE


def _cancelled(graph: str, thread: str) -> bool:
    from langgraph.pregel import Pregel

    loaded = load_graph(graph)
    if isinstance(loaded, Pregel):
        from scallion.cli.foreign import give_up

        return give_up(loaded, thread)
    return loaded.cancel(thread)


def _turn(agent: Agent, graph: str, thread: str, start: Callable[[], Iterator[Any]], as_json: bool) -> int:
    screen = Screen()
    way_on = f"; to go on: {resuming(graph, thread)}" if agent.checkpointer is not None else ""
    try:
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            result = watch(start(), screen, way_on)
    except KeyboardInterrupt:
        return failed(f"interrupted{_way_on(agent, graph, thread)}")
    except Exception as error:
        changed = isinstance(error, PauseChanged)
        way_on = behind_a_change(graph, thread) if changed else _way_on(agent, graph, thread)
        return failed(f"{describe(error)}{way_on}")
    if as_json:
        print_json(_document(result, screen.answer))
    else:
        _print(result, screen.answer, resuming(graph, thread))
        if told := aside(result, thread):
            click.echo(one_line(told), err=True)
    return PAUSED if isinstance(result, Paused) else DONE


def _way_on(agent: Agent, graph: str, thread: str) -> str:
    """How to go on with what is left of the turn; nothing where nothing is left."""
    try:
        left = standing(agent, thread).status
    except Exception:  # the error that is being told comes from the same database
        return ""
    return f"; to go on: {resuming(graph, thread)}" if left != "idle" else ""


def _print(result: Completed | Paused, answer: str, way_on: str) -> None:
    if isinstance(result, Completed):
        click.echo(printable(answer))
        return
    from scallion.inspect.card import card, offered

    screen = console()
    for approval in result.approvals:
        screen.print(card(approval))
    click.echo(f"paused; once decided ({offered(result.approvals)} ID): {way_on}")


def _document(result: Completed | Paused, answer: str) -> dict[str, Any]:
    place = {"thread": result.thread, "turn": result.turn}
    if isinstance(result, Paused):
        approvals = [one.to_json() for one in result.approvals]
        return {"status": "paused", **place, "approvals": approvals, "queued": result.queued}
    calls = [dict(call) for call in result.tool_calls]
    counted = {"usage": dict(result.usage), "attempts": result.attempts}
    return {"status": "completed", **place, "answer": answer, "tool_calls": calls, **counted}
