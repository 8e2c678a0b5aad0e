"""`chat`: a conversation in the terminal, where whoever talks also decides."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from scallion.cli.cards import Cards
from scallion.cli.failure import DONE, PAUSED, describe, failed
from scallion.cli.options import by_option, database_option, requester_options
from scallion.cli.screen import Live, watch
from scallion.cli.standing import Standing, aside, behind_a_change, resuming, standing
from scallion.cli.target import load
from scallion.cli.turns import CANCELLED, new_thread, thread_option
from scallion.errors import PauseChanged, ThreadPaused
from scallion.inspect.escape import one_line
from scallion.values import Paused

if TYPE_CHECKING:
    from scallion.agent import Agent

HELP = "Ctrl-C stops a turn, Ctrl-D leaves; /resume goes on with what is open, /help tells more."
COMMANDS = """\
/resume  go on with what is open: a card that was left for later, or a turn that was interrupted
/quit    leave, as Ctrl-D does
/help    this
Ctrl-C stops the turn after its current step; a second Ctrl-C leaves at once.
A space in front sends a /word as a message."""
GO_ON = "Go on with it? [Y/n] "
COMMAND = re.compile(r"/\w*(?=\s|$)")


@click.command()
@click.argument("graph")
@thread_option
@requester_options
@database_option
@by_option
def chat(graph: str, thread: str | None, user: str, owner: str | None, by: str) -> int:
    """Talk with an agent, and decide what it asks.

    GRAPH is path/to/file.py:agent or package.module:agent. Ctrl-C stops the turn and leaves a thread that goes on,
    here with /resume. Ctrl-D leaves the chat: with status 3 if it is paused. /help lists the commands.
    """
    agent = load(graph, keeps=True)
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives `input` its line editing
    return Chat(agent, graph, thread or new_thread(), by, user, owner).talk()


class _Quit(Exception):
    """Somebody wants to leave."""


class Chat:
    """One sitting on one thread."""

    def __init__(self, agent: Agent, graph: str, thread: str, by: str, user: str, owner: str | None) -> None:
        self._agent = agent
        self._graph = graph
        self._thread = thread
        self._by = by
        self._user = user
        self._owner = owner
        self._resuming = resuming(graph, thread)
        self._behind_a_change = behind_a_change(graph, thread)
        self._typed: list[str] = []
        self._screen = Live()
        self._cards = Cards(getattr(agent.checkpointer, "approvals", None), by)

    def talk(self) -> int:
        """Until the input ends; the exit status."""
        click.echo(f"thread {self._thread}. {HELP}")
        try:
            self._go_on()
            while True:
                self._next()
        except EOFError:
            self._screen.end()
            click.echo()
        except _Quit:
            pass
        return self._leave()

    def _leave(self) -> int:
        status = standing(self._agent, self._thread).status
        if status in ("paused", "interrupted"):
            again = shlex.join(["scallion", "chat", self._graph, "--thread", self._thread])
            click.echo(f"the thread is {status}; to go on: {again}, or {self._resuming}")
        return PAUSED if status == "paused" else DONE

    def _next(self) -> None:
        """Read one line and do what it says."""
        try:
            line = self._line()
        except KeyboardInterrupt:
            click.echo(f"\n{HELP}")
            return
        if command := COMMAND.match(line):
            self._command(command[0])
        elif line.strip():
            self._turn(self._agent.stream(line.strip(), thread=self._thread, user=self._user, owner=self._owner))

    def _line(self) -> str:
        """What was typed too early, or else the next line."""
        if not self._typed:
            return input("you> ")
        click.echo(one_line(f"you> {self._typed[0]}"))
        return self._typed.pop(0)

    def _command(self, name: str) -> None:
        if name == "/resume":
            self._go_on(asked=True)
        elif name == "/help":
            click.echo(COMMANDS)
        elif name in ("/quit", "/exit"):
            raise _Quit
        else:
            click.echo(f"unknown command {one_line(name)}: /resume, /quit or /help")

    def _go_on(self, asked: bool = False) -> None:
        """Go on with a pause or an interrupted turn, if there is one."""
        now = standing(self._agent, self._thread)
        if now.status == "paused":
            self._cards.anew()
            self._decide(Paused(now.approvals))
        elif now.status == "cancelled":
            self._agent.cancel(self._thread)
            click.echo(CANCELLED)
        elif now.status == "interrupted":
            told = _may_have_run(now)
            if asked and told:
                click.echo(told)
            if asked or self._wanted(" ".join(filter(None, ["The last turn was interrupted.", told, GO_ON]))):
                self._turn(self._agent.stream_resume(self._thread, owner=self._owner))
        elif asked:
            click.echo("nothing is open")

    def _wanted(self, question: str) -> bool:
        """Whether somebody says yes. What they type instead is kept until they have answered."""
        while True:
            try:
                line = input(question)
            except KeyboardInterrupt:
                click.echo()
                return False
            reply = line.strip().lower()
            if reply in ("", "y", "yes", "n", "no", "/resume"):
                return not reply.startswith("n")
            if command := COMMAND.match(line):
                self._command(command[0])
            else:
                self._typed.append(line)
                click.echo("y or n first; what you typed comes after it (n and a new message give up that turn)")

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
            self._turn(self._agent.stream_resume(self._thread, self._cards.take(), by=self._by, owner=self._owner))
        else:
            click.echo(f"left for later: /resume here, or {self._resuming} when it is decided")

    def _watch(self, events: Iterator[Any]) -> Any:
        """The result; None where the turn did not come to one. A message that a pause refused leads to its cards."""
        try:
            result = watch(events, self._screen, f"; to go on: {self._resuming}")
            if told := aside(result, self._thread):
                self._screen.line(told)
                self._cards.anew()
            return result
        except KeyboardInterrupt:
            self._screen.line(f"stopped{self._way_on()}")
        except ThreadPaused as error:
            self._screen.line("the thread waits for a decision first; the message was not sent")
            self._cards.anew()
            return Paused(error.approvals)
        except Exception as error:
            self._screen.end()
            sys.stdout.flush()
            way_on = self._behind_a_change if isinstance(error, PauseChanged) else self._way_on()
            failed(f"{describe(error)}{way_on}")
        finally:
            self._screen.end()
        return None

    def _way_on(self) -> str:
        left = standing(self._agent, self._thread).status
        return "" if left == "idle" else f"; the thread is {left}: /resume goes on, a new message gives up that turn"


def _may_have_run(now: Standing) -> str:
    """What going on runs again; nothing where no tool had begun."""
    names = list(dict.fromkeys(now.unfinished))
    if not names:
        return ""
    return one_line(
        f"{', '.join(names)} may have run already; going on runs {'it' if len(names) == 1 else 'them'} again."
    )
