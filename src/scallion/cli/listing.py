"""`pending` and `sessions`: queries of the inbox; neither langgraph nor langchain is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from scallion.approvals.deciders import agreeing
from scallion.cli.options import F, database, database_option, json_option, place
from scallion.cli.output import ago, print_json, print_table
from scallion.errors import ConfigurationError
from scallion.inspect.card import answer_of, heading
from scallion.inspect.escape import one_line
from scallion.values import Approval, ApprovalKind

if TYPE_CHECKING:
    from scallion.sql.sessions import Page

STATUSES = ("pending", "decided", "used", "expired", "superseded", "cancelled", "all")

SHORT = 100
"""Characters of a description in the table."""

limit_option = click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Rows at most.")
SESSION_OPTIONS = (
    click.option("--owner", help="Those of this owner."),
    click.option("--tag", help="Those with this tag."),
    click.option("--agent", metavar="NAME", help="Those of this agent."),
    click.option("--archived", is_flag=True, help="Those that were put away, which are left out otherwise."),
    click.option("--search", metavar="TEXT", help="Those where all of these words were said."),
)

after_option = click.option("--after", metavar="NEXT", help="Go on behind the page that gave this `next`.")


def session_options(function: F) -> F:
    """What chooses among sessions: `--owner`, `--tag`, `--agent`, `--archived`, `--search`."""
    for option in reversed(SESSION_OPTIONS):
        function = option(function)
    return function


@click.command()
@click.option("--status", type=click.Choice(STATUSES), default="pending", show_default=True, help="Which approvals.")
@click.option("--thread", help="Those of this thread.")
@click.option("--tool", help="Those about this tool.")
@click.option("--kind", type=click.Choice(get_args(ApprovalKind)), help="Those of this kind.")
@click.option("--owner", help="Those of this owner.")
@click.option("--check", metavar="GRAPH", help="Those that are open and that this agent could not resume as shown.")
@limit_option
@after_option
@database_option
@json_option
def pending(status: Any, check: str | None, limit: int, after: str | None, as_json: bool, **wanted: Any) -> int | None:
    """List what waits for a decision, the oldest first.

    With --check: what is open on the threads of an agent and changed since it was shown (its tool, schema, gate or
    filters), each with the difference; exit status 1 if there is any. GRAPH is path/to/file.py:agent or
    package.module:agent.
    """
    if check is not None:
        _refuse("status", "limit", "after")
        from scallion.cli.checking import check as checked

        return checked(check, wanted, as_json)
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox, pages():
        page = inbox.approvals.list(None if status == "all" else status, limit=limit, after=after, **wanted)
    if as_json:
        print_json(document(page))
        return None
    rows = [
        (
            one.id,
            one.thread,
            heading(one),
            _short(f"{one.description} {answer_of(one) or ''}"),
            _standing(one),
            ago(one.created_at),
        )
        for one in page.items
    ]
    print_table(("id", "thread", "about", "asks", "status", "age"), rows, "nothing is pending", page.next)
    return None


def _refuse(*names: str) -> None:
    """Say so where one of these options was given: all that is open is checked."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.BadParameter("all that is open is checked", param_hint=f"--{name}")


@click.command()
@click.option("--status", type=click.Choice(["idle", "running", "paused", "failed"]), help="Those in this state.")
@session_options
@click.option("--order", type=click.Choice(["updated", "created"]), default="updated", help="The newest by this first.")
@limit_option
@after_option
@database_option
@json_option
def sessions(after: str | None, as_json: bool, **wanted: Any) -> None:
    """List the threads, the newest first."""
    from scallion.inbox import Inbox

    with Inbox(database(), **place()) as inbox, pages():
        page = inbox.sessions.list(after=after, **wanted)
    if as_json:
        return print_json(document(page))
    rows = [
        (
            one.thread,
            one.status,
            str(one.message_count),
            str(one.pending_count),
            ago(one.updated),
            one.found or one.title or "",
        )
        for one in page.items
    ]
    columns = ("thread", "status", "messages", "pending", "age", "found" if wanted["search"] else "title")
    return print_table(columns, rows, "there are no threads", page.next)


class pages:
    """Says that `--after` is wrong where its text is no `next` of a page."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ConfigurationError) and "`after`" in str(error):
            raise click.BadParameter("this is not the `next` of a page", param_hint="--after") from error


def _short(text: str) -> str:
    """The beginning; `show` and the cards have the whole."""
    line = one_line(text)
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def _standing(one: Approval) -> str:
    """The status, and what a decision waits for beside it."""
    told: list[str] = [one.status]
    if one.status == "pending":
        told += ["overdue"] if one.overdue else []
        told += [f"escalated to {one.escalated}"] if one.escalated else []
        told += [f"{agreeing(one)} of {one.quorum} votes"] if one.quorum > 1 else []
    return ", ".join(told)


def document(page: Page[Any]) -> dict[str, Any]:
    """A page as one JSON document."""
    return {"items": [one.to_json() for one in page.items], "next": page.next}
