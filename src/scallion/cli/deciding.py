"""The verbs that write a decision into the inbox, or take one back; `resume` uses it later."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from scallion.cli.named import find
from scallion.cli.options import by_option, database, database_option, json_option, place
from scallion.cli.output import print_json
from scallion.cli.remembering import Standing, standing, standing_options
from scallion.inspect.card import heading, outcome
from scallion.inspect.escape import one_line
from scallion.values import Approval, Decision

F = TypeVar("F", bound=Callable[..., Any])


thread_option = click.option("--thread", metavar="THREAD", help="Whose approval, where a copied thread has it too.")


RECORDED = "The decision is recorded; `scallion resume` goes on with it."


def _deciding(function: F) -> F:
    return click.argument("id")(thread_option(database_option(by_option(json_option(function)))))


@click.command(epilog=RECORDED)
@_deciding
@standing_options
def approve(id: str, thread: str | None, by: str, as_json: bool, **kept: bool) -> None:
    """Let the call run exactly as it was shown. ID may be a beginning that only one approval has.

    With --always or --this-thread a standing rule is made too, which lets such calls run without asking anybody.
    """
    _decide(id, thread, lambda approval: Decision("approve"), by, as_json, standing("allow", **kept))


@click.command(epilog=RECORDED)
@_deciding
@click.argument("reason", required=False)
@click.option("-m", "--message", metavar="REASON", help="The same as REASON.")
@standing_options
def reject(
    id: str, thread: str | None, by: str, as_json: bool, reason: str | None, message: str | None, **kept: bool
) -> None:
    """Refuse the call, with REASON, which the model reads.

    With --always or --this-thread a standing rule is made too, which denies such calls without asking anybody.
    """
    decision = Decision("reject", message=_once(reason, message))
    _decide(id, thread, lambda approval: decision, by, as_json, standing("deny", **kept))


@click.command(epilog=RECORDED)
@_deciding
@click.argument("message", required=False)
@click.option("-m", "--message", "option", metavar="MESSAGE", help="The same as MESSAGE.")
@click.option("--json-answer", metavar="JSON", help="The answer as JSON, instead of MESSAGE; - reads standard input.")
def respond(
    id: str,
    thread: str | None,
    by: str,
    as_json: bool,
    message: str | None,
    option: str | None,
    json_answer: str | None,
) -> None:
    """Answer the question, or answer in place of the tool.

    MESSAGE is read as JSON where the question has a schema for something else than a text; --json-answer always is.
    """
    from scallion.cli import editing

    message = _once(message, option)
    if json_answer is None:
        if message is None:
            raise click.UsageError("give MESSAGE or --json-answer")
        _decide(id, thread, lambda one: Decision("respond", message=editing.answer(one, message)), by, as_json)
        return
    if message is not None:
        raise click.UsageError("give either MESSAGE or --json-answer")
    given = editing.from_json(sys.stdin.read() if json_answer == "-" else json_answer, "the answer is")
    _decide(id, thread, lambda _: Decision("respond", message=given), by, as_json)


@click.command(epilog=RECORDED)
@_deciding
@click.argument("result", default="done")
def happened(id: str, thread: str | None, by: str, as_json: bool, result: str) -> None:
    """Say that a call of unknown outcome took effect, with RESULT, which the model reads. It is not run again."""
    _decide(id, thread, lambda approval: Decision("happened", message=result), by, as_json)


@click.command(epilog=RECORDED)
@_deciding
def rerun(id: str, thread: str | None, by: str, as_json: bool) -> None:
    """Run a call again that did not take effect, or that failed for something that is mended now."""
    _decide(id, thread, lambda approval: Decision("rerun"), by, as_json)


@click.command(epilog=RECORDED)
@_deciding
def stop(id: str, thread: str | None, by: str, as_json: bool) -> None:
    """Leave the call alone and end its turn with an error."""
    _decide(id, thread, lambda approval: Decision("stop"), by, as_json)


@click.command(epilog=RECORDED)
@_deciding
@click.option("--args", "whole", metavar="JSON", help="The whole new arguments; - reads them from standard input.")
@click.option("--set", "changes", metavar="KEY=VALUE", multiple=True, help="Change one argument; may be repeated.")
def edit(id: str, thread: str | None, by: str, as_json: bool, whole: str | None, changes: tuple[str, ...]) -> None:
    """Let the call run with other arguments; without --args and --set they are edited in $EDITOR."""
    from scallion.cli import editing

    def decision(approval: Approval) -> Decision:
        if whole is not None:
            args: dict[str, Any] = editing.parsed(sys.stdin.read() if whole == "-" else whole)
        elif changes:
            args = dict(approval.args or {})
        else:
            return editing.edited(approval)
        return Decision("edit", args=editing.changed(approval, args, changes))

    _decide(id, thread, decision, by, as_json)


@click.command()
@_deciding
def withdraw(id: str, thread: str | None, by: str, as_json: bool) -> None:
    """Take back a decision that was not used yet, or your vote; the approval is pending again."""
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        shown = find(inbox, id, thread)
        approval = inbox.approvals.withdraw(shown.id, by=by, thread=shown.thread)
    _told(approval, "pending again" if shown.decision else f"without the vote of {by}", as_json)


def _once(argument: str | None, option: str | None) -> str | None:
    """A text that may be given as an argument or as an option."""
    if argument is not None and option is not None:
        raise click.UsageError("give the text once, as an argument or with --message")
    return argument if option is None else option


def _decide(
    id: str,
    thread: str | None,
    make: Callable[[Approval], Decision],
    by: str,
    as_json: bool,
    rule: Standing | None = None,
) -> None:
    from scallion.approvals.decisions import check_open
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        shown = find(inbox, id, thread)
        check_open(shown)  # before an editor is opened for nothing
        if rule is not None:
            rule.check(shown)
        approval = inbox.approvals.decide(shown.id, make(shown), by=by, thread=shown.thread)
        if rule is not None and approval.decision is not None:  # a vote alone makes none
            rule.make(inbox, approval, by)
    _told(approval, outcome(approval, by), as_json)


def _told(approval: Approval, what: str, as_json: bool) -> None:
    if as_json:
        print_json(approval.to_json())
        return
    click.echo(one_line(f"{approval.id} ({heading(approval)}, thread {approval.thread}): {what}"))
