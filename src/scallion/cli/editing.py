"""New arguments and answers, read from the command line or an editor, and checked before they are taken."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from scallion.errors import InvalidDecision
from scallion.inspect.card import arguments
from scallion.inspect.escape import one_line
from scallion.values import Approval, Decision


class GivenUp(InvalidDecision):
    """Nothing was decided, and whoever edits knows why."""


def parsed(text: str) -> dict[str, Any]:
    """The arguments in a JSON text. Raises InvalidDecision, without quoting it."""
    args = from_json(text, "the arguments are")
    if not isinstance(args, dict):
        raise InvalidDecision(f"the arguments are a JSON object, not {type(args).__name__}")
    return args


def from_json(text: str, what: str) -> Any:
    """What a JSON text says. Raises InvalidDecision, without quoting it."""
    try:
        return json.loads(text)
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidDecision(f"{what} not JSON{where}") from None


def changed(approval: Approval, args: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The arguments with every KEY=VALUE put in."""
    result = dict(args)
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key:
            raise click.BadParameter("give it as KEY=VALUE", param_hint="--set")
        result[key] = _value(_property(approval, key), value)
    return result


def answer(approval: Approval, text: str) -> Any:
    """The answer: a text, or what its JSON says where the question has a schema for something else."""
    return text if approval.schema is None else _value(approval.schema, text)


def _property(approval: Approval, key: str) -> Mapping[str, Any]:
    found = ((approval.args_schema or {}).get("properties") or {}).get(key)
    return found if isinstance(found, Mapping) else {}


def _value(schema: Mapping[str, Any], text: str) -> Any:
    """JSON where it is some, and the schema does not say that a text is meant."""
    return text if schema.get("type") == "string" else json_or_text(text)


def json_or_text(text: str) -> Any:
    """What the text says as JSON, or the text where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def edited(approval: Approval) -> Decision:
    """An edit made in $EDITOR, asked for again until it fits. Raises InvalidDecision where nothing is changed."""
    from scallion.approvals.decisions import check_fit

    if "edit" not in approval.allowed:
        check_fit(approval, Decision("edit"))
    if not sys.stdin.isatty() and not (os.environ.get("VISUAL") or os.environ.get("EDITOR")):
        raise click.UsageError("no terminal and no EDITOR to edit in; scallion edit takes --args and --set")
    text = arguments(approval.args)
    while True:
        new = click.edit(text + "\n", extension=".json")
        if new is None:
            raise InvalidDecision("the editor saved no change; nothing was decided", approval)
        try:
            decision = Decision("edit", args=parsed(new))
            check_fit(approval, decision)
        except InvalidDecision as error:
            text = new.rstrip("\n")
            if not _again(error):
                raise GivenUp("nothing was decided", approval) from None
        else:
            return decision


def _again(error: InvalidDecision) -> bool:
    """Say why it was not taken; whether somebody wants to try again."""
    click.echo(f"not taken: {one_line(str(error))}", err=True)
    click.echo("edit again? [Y/n] ", err=True, nl=False)  # standard output may be one JSON document
    try:
        return not input().strip().lower().startswith("n")
    except EOFError:
        return False
