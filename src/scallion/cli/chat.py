"""`chat`: a conversation in the terminal, where whoever talks also decides."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from scallion.cli.cards import Cards
from scallion.cli.failure import DONE, PAUSED, describe, failed
from scallion.cli.options import by_option, database_option
from scallion.cli.screen import Live, watch
from scallion.cli.standing import standing
from scallion.cli.target import load
from scallion.cli.turns import new_thread, thread_option
from scallion.errors import ThreadPaused
from scallion.values import Paused

if TYPE_CHECKING:
    from scallion.agent import Agent

HELP = "Ctrl-C stops a turn, Ctrl-D leaves; /resume goes on with what is open."


@click.command()
@click.argument("graph")
@thread_option
@database_option
@by_option
def chat(graph: str, thread: str | None, by: str) -> int:
    """Talk with an agent, and decide what it asks.

    Ctrl-C stops the turn and leaves a thread that goes on, Ctrl-D leaves the chat: with status 3 if it is paused.
    """
    agent = load(graph, keeps=True)
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives `input` its line editing
    return Chat(agent, graph, thread or new_thread(), by).talk()


class Chat:
    """One sitting on one thread."""

    def __init__(self, agent: Agent, graph: str, thread: str, by: str) -> None:
        self._agent = agent
        self._graph = graph
        self._thread = thread
        self._by = by
        self._screen = Live()
        self._cards = Cards(getattr(agent.checkpointer, "approvals", None), by)

    def talk(self) -> int:
        """Until the input ends; the exit status."""
        click.echo(f"thread {self._thread}. {HELP}")
        with contextlib.suppress(EOFError):
            self._go_on()
            while True:
                self._next()
        self._screen.end()
        click.echo()
        return self._leave()

    def _leave(self) -> int:
        status = standing(self._agent, self._thread).status
        if status != "idle":
            again = f"scallion chat {self._graph} --thread {self._thread}"
            click.echo(f"the thread is {status}; to go on: {again}, or scallion resume {self._graph} {self._thread}")
        return PAUSED if status == "paused" else DONE

    def _next(self) -> None:
        """Read one line and do what it says."""
        try:
            line = input("you> ").strip()
        except KeyboardInterrupt:
            click.echo(f"\n{HELP}")
            return
        if line == "/resume":
            self._go_on(asked=True)
        elif line:
            self._turn(self._agent.stream(line, thread=self._thread))

    def _go_on(self, asked: bool = False) -> None:
        """Go on with a pause or an interrupted turn, if there is one."""
        now = standing(self._agent, self._thread)
        if now.status == "paused":
            self._decide(Paused(now.approvals))
        elif now.status == "interrupted":
            if asked or self._wanted("The last turn was interrupted. Go on with it? [Y/n] "):
                self._turn(self._agent.stream_resume(self._thread))
        elif asked:
            click.echo("nothing is open")

    def _wanted(self, question: str) -> bool:
        try:
            return not input(question).strip().lower().startswith("n")
        except KeyboardInterrupt:
            click.echo()
            return False

    def _turn(self, events: Iterator[Any]) -> None:
        """Show a turn; where it pauses, ask and go on."""
        result = self._watch(events)
        if isinstance(result, Paused):
            self._decide(result)

    def _decide(self, paused: Paused) -> None:
        try:
            decided = self._cards.review(paused.approvals)
        except KeyboardInterrupt:
            click.echo()
            decided = False
        if decided:
            self._turn(self._agent.stream_resume(self._thread, self._cards.take(), by=self._by))
        else:
            click.echo(
                f"left for later: /resume here, or scallion resume {self._graph} {self._thread} when it is decided"
            )

    def _watch(self, events: Iterator[Any]) -> Any:
        """The result, also of a message that a pause refused; None where the turn did not come to one."""
        try:
            return watch(events, self._screen)
        except KeyboardInterrupt:
            self._screen.line(f"stopped{self._way_on()}")
        except ThreadPaused as error:
            self._screen.line("the thread waits for a decision first; the message was not sent")
            return Paused(error.approvals)
        except Exception as error:
            self._screen.end()
            sys.stdout.flush()
            failed(f"{describe(error)}{self._way_on()}")
        finally:
            self._screen.end()
        return None

    def _way_on(self) -> str:
        left = standing(self._agent, self._thread).status
        return "" if left == "idle" else f"; the thread is {left}: /resume goes on, a new message gives up that turn"
