"""`%scallion` and `%%chat`: listings and a conversation without a line of Python. Loaded by `%load_ext scallion`."""

from __future__ import annotations

import argparse
import shlex
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn
from weakref import ref

from scallion.agent import Agent
from scallion.errors import ConfigurationError, ScallionError, ThreadError, ThreadPaused
from scallion.inspect.escape import one_line
from scallion.notebook.buttons import Panel, panel
from scallion.notebook.extra import needed
from scallion.notebook.live import watch
from scallion.notebook.pictures import Picture, graph_picture, talk_picture
from scallion.values import Paused

STATUSES = ("idle", "running", "paused", "failed")


def load(shell: Any) -> None:
    """Give the shell the magics. Raises ConfigurationError where the extra `notebook` is missing."""
    needed("IPython")
    magics = Magics(shell)
    shell.register_magic_function(magics.scallion, "line", "scallion")
    shell.register_magic_function(magics.chat, "cell", "chat")
    shell.set_hook("complete_command", magics.complete, str_key="%scallion")
    shell.set_hook("complete_command", magics.complete, str_key="%%chat")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as IPython does: one line, no traceback."""

    def error(self, message: str) -> NoReturn:
        raise _usage(f"{message}\n{self.format_usage().strip()}")


class Magics:
    """The magics of one shell; it remembers on which thread it talks with an agent."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._threads: dict[tuple[Any, ...], str] = {}

    def scallion(self, line: str) -> Any:
        """What waits, and what is kept: `%scallion pending`, `sessions`, `show THREAD`, `graph AGENT`.

        `--db URL` names the database of the first three; without it SCALLION_DB does, or scallion.db in this folder.
        AGENT is the name of a variable.
        """
        asked = _parsed(_listings(), line)
        with _told(ScallionError):
            return asked.do(self, asked)

    def chat(self, line: str, cell: str) -> Panel | None:
        """Send the text of the cell to an agent: `%%chat AGENT [--thread THREAD] [--by NAME] [--user NAME]`.

        The answer streams into the output. Where the turn pauses, a panel is shown below it, and goes on with it.
        Without --thread it is the thread that AGENT had in the cell before, also where it was built anew meanwhile: as
        long as the name of the agent and the database are the same. The name of a new thread is printed.
        """
        asked = _parsed(_chats(), line)
        agent, text = self._agent(asked.agent), cell.strip()
        if not text:
            raise _usage("the cell has no text to send")
        thread = self._thread(asked, agent)
        who = {name: value for name in ("user", "owner") if (value := getattr(asked, name)) is not None}
        with _told(ConfigurationError, ThreadError):
            return self._said(agent, text, thread, asked.by, who)

    def complete(self, shell: Any, event: Any) -> Sequence[str]:
        """Verbs, and the names of agents."""
        words = event.line.split()
        agents = [name for name, value in self._shell.user_ns.items() if isinstance(value, Agent)]
        if (words and words[0] == "%%chat") or words[1:2] == ["graph"]:
            return agents
        return list(VERBS)

    def _thread(self, asked: Any, agent: Agent) -> str:
        """The one that was asked for, or the last one of what AGENT names, or a new one."""
        known = (asked.agent, agent.name, *_place(agent.checkpointer))
        if asked.thread is None and known not in self._threads:
            self._threads[known] = uuid.uuid4().hex[:12]
            print(f"thread {self._threads[known]}")
        if asked.thread is not None:
            self._threads[known] = asked.thread
        return self._threads[known]

    def _said(self, agent: Agent, text: str, thread: str, by: str | None, who: dict[str, Any]) -> Panel | None:
        try:
            result = watch(agent.stream(text, thread=thread, **who))
        except ThreadPaused:
            print("The thread waits for a decision first; the message was not sent.")
            return panel(agent, thread, by=by, **who)
        if not isinstance(result, Paused):
            return None
        return panel(agent, result.thread or thread, by=by, **who)

    def _agent(self, name: str) -> Agent:
        """The agent that a variable holds, or an attribute of one: nothing is run."""
        first, *rest = name.split(".")
        if first not in self._shell.user_ns:
            raise _usage(f"there is no variable {first!r}; AGENT is the name of one that holds a scallion Agent")
        found = self._shell.user_ns[first]
        for step in rest:
            found = getattr(found, step, None)
        if not isinstance(found, Agent):
            raise _usage(f"{name} is a {type(found).__name__}, not a scallion Agent")
        return found

    # The verbs.

    def pending(self, asked: Any) -> Any:
        """What waits for a decision."""
        with _inbox(asked.db) as inbox:
            return inbox.approvals.list(thread=asked.thread)

    def sessions(self, asked: Any) -> Any:
        """The threads."""
        with _inbox(asked.db) as inbox:
            return inbox.sessions.list(status=asked.status, search=asked.search)

    def show(self, asked: Any) -> Picture:
        """One thread."""
        return _shown(asked.db, asked.thread)

    def graph(self, asked: Any) -> Picture:
        """The graph of an agent."""
        return graph_picture(self._agent(asked.agent))


VERBS: dict[str, Callable[[Magics, Any], Any]] = {
    "pending": Magics.pending,
    "sessions": Magics.sessions,
    "show": Magics.show,
    "graph": Magics.graph,
}


def _listings() -> _Parser:
    parser = _Parser(prog="%scallion", add_help=False)
    verbs = parser.add_subparsers(dest="verb", required=True, parser_class=_Parser)
    made = {name: verbs.add_parser(name, add_help=False) for name in VERBS}
    for name, one in made.items():
        one.set_defaults(do=VERBS[name])
        if name != "graph":
            one.add_argument("--db", metavar="URL")
    made["pending"].add_argument("--thread")
    made["sessions"].add_argument("--status", choices=STATUSES)
    made["sessions"].add_argument("--search", metavar="TEXT")
    made["show"].add_argument("thread", metavar="THREAD")
    made["graph"].add_argument("agent", metavar="AGENT")
    return parser


def _chats() -> _Parser:
    parser = _Parser(prog="%%chat", add_help=False)
    parser.add_argument("agent", metavar="AGENT")
    for name in ("thread", "by", "user", "owner"):
        parser.add_argument(f"--{name}", metavar="THREAD" if name == "thread" else "NAME")
    return parser


def _parsed(parser: _Parser, line: str) -> Any:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _usage(str(error)) from None
    return parser.parse_args(words)


def _place(saver: Any) -> tuple[Any, ...]:
    """What two savers of one place have in common; one that keeps threads nowhere else stands for itself."""
    database = getattr(saver, "database", None)
    if database is None or (database.is_sqlite and database.url.database in (None, "", ":memory:")):
        return (saver and ref(saver),)
    return (database.url, database.tables.prefix, database.tables.schema, saver.owner)


def _usage(told: str) -> Exception:
    """IPython's error that is shown without a traceback."""
    made: Exception = needed("IPython.core.error").UsageError(told)
    return made


@contextmanager
def _told(*kinds: type[ScallionError]) -> Iterator[None]:
    """These errors are told in a line; what goes wrong within a turn is raised as anywhere."""
    try:
        yield
    except kinds as error:
        raise _usage(one_line(str(error))) from None


def _inbox(url: str | None) -> Any:
    from scallion.inbox import Inbox
    from scallion.sql.environment import database, place

    return Inbox(database(url), **place())


def _shown(url: str | None, thread: str) -> Picture:
    from scallion.sql.environment import database, place
    from scallion.sql.saver import SQLCheckpointer
    from scallion.sql.serde import ShowingSerializer
    from scallion.sql.transcript import transcript

    with SQLCheckpointer(database(url), serde=ShowingSerializer(), **place()) as saver:
        row = saver.sessions.get(thread)
        if row is None:
            raise ThreadError(thread, f"there is no thread {thread!r}")
        asked = saver.approvals.list(thread=thread, limit=1000).items
        return talk_picture(thread, row, asked, transcript(saver, thread), saver.sessions.trace(thread))
