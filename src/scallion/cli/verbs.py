"""The verbs and where each is found. A verb's module is imported when it runs, so that each pays only for itself."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

from scallion.cli.options import database_option

VERBS = {
    "chat": ("chat", "Talk with an agent, and decide what it asks."),
    "run": ("turns", "Send one message and print the answer."),
    "resume": ("turns", "Go on with a thread that paused or was interrupted."),
    "cancel": ("turns", "Give up the open turn of a thread."),
    "pending": ("listing", "List what waits for a decision."),
    "approve": ("deciding", "Let a call run as it was shown."),
    "edit": ("deciding", "Let a call run with other arguments."),
    "reject": ("deciding", "Refuse a call."),
    "respond": ("deciding", "Answer a question, or answer in place of a tool."),
    "happened": ("deciding", "Say that a call of unknown outcome took effect, and what it gave."),
    "rerun": ("deciding", "Run a call again whose outcome is unknown, or that failed."),
    "stop": ("deciding", "Leave a call of unknown outcome alone, and end its turn."),
    "withdraw": ("deciding", "Take back a decision that was not used yet."),
    "sweep": ("sweep", "End what has expired, and escalate what is to be."),
    "sessions": ("listing", "List the threads."),
    "watch": ("watching", "Watch the threads that run or wait."),
    "show": ("showing", "Print a thread: its conversation, what happened in its last turn, open approvals."),
    "rules": ("rules", "What is allowed or denied without asking: list, add, revoke."),
    "audit": ("audit", "What was decided and done: list, export, verify."),
    "doctor": ("doctor", "Find what is wrong with threads, and mend it."),
    "outbox": ("outbox", "List what somebody is to be told, and was not."),
    "db": ("db", "Look after the database."),
}


class LazyGroup(click.Group):
    """A group that knows its verbs by name, and imports one to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs whose module is there."""
        return [verb for verb in VERBS if verb != "db" or find_spec("scallion.cli.db")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(import_module(f"scallion.cli.{VERBS[cmd_name][0]}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing any."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, VERBS[verb][1]) for verb in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="scallion")
@database_option
def scallion() -> None:
    """Agents that stop for a human and go on later.

    GRAPH is path/to/file.py:agent or package.module:agent. Exit status: 0 done, 3 paused, 1 error, 2 usage.
    """
