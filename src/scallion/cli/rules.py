"""`scallion rules`: standing approvals and denials."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from scallion.cli.db.pruning import Age
from scallion.cli.listing import after_option, document, limit_option, pages
from scallion.cli.options import by_option, database, database_option, json_option, place
from scallion.cli.output import ago, print_json, print_table
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scallion.approvals.rules import Rule


@click.group()
def rules() -> None:
    """What is allowed or denied without asking a person."""


@rules.command("list")
@click.option("--tool", help="Those about this tool.")
@click.option("--thread", help="Those about this thread alone.")
@click.option("--owner", help="Those about this owner alone.")
@click.option("--ended", is_flag=True, help="Those too that are revoked, expired or used up.")
@limit_option
@after_option
@database_option
@json_option
def listing(after: str | None, as_json: bool, **wanted: Any) -> None:
    """List the rules, the oldest first."""
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox, pages():
        page = inbox.rules.list(after=after, **wanted)
    if as_json:
        return print_json(document(page))
    columns = "id", "verdict", "tool", "arguments", "where", "used", "left", "by", "age", "ended"
    return print_table(columns, [_row(one) for one in page.items], "there are no rules", page.next)


def _row(one: Rule) -> Sequence[str]:
    left = "" if one.uses_left is None else str(one.uses_left)
    ended = f"revoked by {one.revoked_by}" if one.revoked_at else ""
    return (
        *(str(one.id), one.verdict, one.tool, _arguments(one), _where(one)),
        *(str(one.used), left, one.created_by, ago(one.created_at), ended),
    )


def _arguments(one: Rule) -> str:
    return f"exactly {one.args[:12]}" if one.args else ("a pattern" if one.pattern is not None else "any")


def _where(one: Rule) -> str:
    told = [f"thread {one.thread}"] if one.thread is not None else []
    return ", ".join([*told, *([f"owner {one.owner}"] if one.owner is not None else [])]) or "everywhere"


@rules.command()
@click.argument("tool")
@click.option("--deny", is_flag=True, help="Deny the calls; without it they are allowed.")
@click.option("--thread", help="Calls in this thread alone.")
@click.option("--owner", help="Calls in threads of this owner alone.")
@click.option("--args", metavar="JSON", help="Calls with exactly these arguments; - reads standard input.")
@click.option("--pattern", metavar="JSON", help="Calls whose arguments fit this JSON schema; - reads standard input.")
@click.option("--expires-in", type=Age(), help="For so long only: a number of m, h, d or w, as 30d.")
@click.option("--uses", type=click.IntRange(1), help="For so many calls only.")
@database_option
@by_option
@json_option
def add(
    tool: str, deny: bool, args: str | None, pattern: str | None, expires_in: Any, as_json: bool, **where: Any
) -> None:
    """Allow calls of TOOL without asking, or deny them. It is for calls that a gate would ask a person about."""
    from scallion.inbox import Inbox

    said: dict[str, Any] = {"args": _parsed(args, "--args"), "pattern": _parsed(pattern, "--pattern")}
    with Inbox(database(), **place()) as inbox:
        rule = inbox.rules.add(tool, "deny" if deny else "allow", **said, expires_in=expires_in, **where)
    _told(rule, as_json)


@rules.command()
@click.argument("id", type=click.IntRange(1))
@database_option
@by_option
@json_option
def revoke(id: int, by: str, as_json: bool) -> None:
    """End the rule of this number. What it allowed already stays allowed."""
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox:
        rule = inbox.rules.revoke(id, by=by)
    if as_json:
        return print_json(rule.to_json())
    return click.echo(one_line(f"{told(rule)}: revoked by {rule.revoked_by}"))


def _parsed(text: str | None, option: str) -> dict[str, Any] | None:
    """The JSON object in an option; anything else, null too, would make the rule be about any arguments."""
    from scallion.cli.editing import from_json

    if text is None:
        return None
    found = from_json(sys.stdin.read() if text == "-" else text, f"{option} is")
    if not isinstance(found, dict):
        raise click.BadParameter("give a JSON object", param_hint=option)
    return found


def _told(rule: Rule, as_json: bool) -> None:
    if as_json:
        print_json(rule.to_json())
    else:
        click.echo(one_line(told(rule)))


def told(rule: Rule) -> str:
    """A rule in a line."""
    return f"rule {rule.id}: {rule.verdict} {rule.tool}, arguments: {_arguments(rule)}, {_where(rule)}"
