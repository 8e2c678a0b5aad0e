"""`approve --always` and its like: a decision that makes a standing rule too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from scallion.approvals.rules import RuleVerdict, Scope
    from scallion.inbox import Inbox
    from scallion.values import Approval

F = TypeVar("F", bound=Callable[..., Any])


def standing_options(function: F) -> F:
    """`--always`, `--this-thread` and `--any-args`."""
    for name, told in (
        ("any-args", "The rule is about calls of the tool with any arguments, not exactly these."),
        ("this-thread", "Make it a standing rule for this thread."),
        ("always", "Make it a standing rule for all threads, or all of the same owner if there is one."),
    ):
        function = click.option(f"--{name}", is_flag=True, help=told)(function)
    return function


@dataclass(frozen=True)
class Standing:
    """The rule that a decision makes."""

    verdict: RuleVerdict
    scope: Scope
    exact: bool

    def check(self, approval: Approval) -> None:
        """Raise DecisionError before anything is decided, where the approval makes no rule."""
        from scallion.approvals.rules import check_source

        check_source(approval, self.verdict)

    def make(self, inbox: Inbox, approval: Approval, by: str) -> None:
        """Make the rule, and tell it on standard error."""
        from scallion.cli.rules import told

        options: dict[str, Any] = {"verdict": self.verdict, "exact": self.exact, "thread": approval.thread, "by": by}
        rule = inbox.rules.add_from(approval.id, self.scope, **options)
        click.echo(one_line(told(rule)), err=True)


def standing(verdict: RuleVerdict, *, always: bool, this_thread: bool, any_args: bool) -> Standing | None:
    """What the options say; None without them. Raises a usage error for what does not go together."""
    if always and this_thread:
        raise click.UsageError("give either --always or --this-thread")
    if not always and not this_thread:
        if any_args:
            raise click.UsageError("--any-args says what a rule is about: give --always or --this-thread too")
        return None
    return Standing(verdict, "always" if always else "thread", exact=not any_args)
