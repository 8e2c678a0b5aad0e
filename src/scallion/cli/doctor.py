"""`doctor`: what is wrong with the threads of a database, and mending it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import click

from scallion.cli.failure import DONE, ERROR, describe
from scallion.cli.options import database, database_option, json_option, place
from scallion.cli.output import print_json
from scallion.errors import NotSerializable, ThreadError
from scallion.inspect.escape import one_line
from scallion.sql.doctor.doctor import Doctor
from scallion.sql.doctor.findings import Finding
from scallion.sql.saver import SQLCheckpointer
from scallion.sql.serde import ShowingSerializer


@dataclass(frozen=True)
class Told:
    """A finding, whether it was mended, and why not."""

    finding: Finding
    repaired: bool = False
    why: str | None = None


@click.command()
@click.argument("thread", required=False)
@click.option("--repair", is_flag=True, help="Mend what can be mended safely; a second time there is nothing to mend.")
@click.option("--give-up", is_flag=True, help="With --repair: end turns that stopped in the middle, too.")
@click.option("--undo", is_flag=True, help="Take back what the last repair did to the conversation of THREAD.")
@database_option
@json_option
def doctor(thread: str | None, repair: bool, give_up: bool, undo: bool, as_json: bool) -> int:
    """Tell what is wrong with THREAD, or with all threads of the database; exit status 1 if something is left wrong.

    A thread that runs or waits for a person is not wrong. No tool and no model is run.
    """
    if give_up and not repair:
        raise click.BadParameter("it is an option of --repair", param_hint="--give-up")
    if undo and (thread is None or repair):
        raise click.BadParameter("it takes a THREAD and no other option", param_hint="--undo")
    with SQLCheckpointer(database(), serde=ShowingSerializer(), **place()) as saver:
        if undo:
            return _undo(saver.doctor, str(thread))
        found = _mended(saver.doctor, _found(saver.doctor, thread), give_up) if repair else _told(saver.doctor, thread)
        return _as_json(found) if as_json else _print(found)


def _undo(doctor: Doctor, thread: str) -> int:
    kinds = doctor.undo(thread)
    click.echo(f"taken back: {', '.join(kinds)}")
    return DONE


def _found(doctor: Doctor, thread: str | None) -> Iterator[Sequence[Finding]]:
    """What is wrong, by thread."""
    if thread is not None:
        yield doctor.examine(thread)
        return
    after = None
    while True:
        page = doctor.list(after=after)
        for name in dict.fromkeys(one.thread for one in page.items):
            yield [one for one in page.items if one.thread == name]
        if (after := page.next) is None:
            return


def _told(doctor: Doctor, thread: str | None) -> Iterator[Told]:
    return (Told(one) for those in _found(doctor, thread) for one in those)


def _mended(doctor: Doctor, found: Iterable[Sequence[Finding]], give_up: bool) -> Iterator[Told]:
    """What was mended, and what was found and was not."""
    for those in found:
        done, why = _repaired(doctor, those, give_up)
        yield from (Told(one, repaired=True) for one in done)
        yield from (Told(one, why=why) for one in those if one not in done)


def _repaired(doctor: Doctor, found: Sequence[Finding], give_up: bool) -> tuple[Sequence[Finding], str | None]:
    if not any(one.is_mended(give_up) for one in found):
        return [], None
    try:
        return doctor.repair(found[0].thread, give_up=give_up), None
    except (ThreadError, NotSerializable) as error:  # the next thread may be mended all the same
        return [], describe(error)


def _as_json(found: Iterable[Told]) -> int:
    told = list(found)
    items = [one.finding.to_json() | {"repaired": one.repaired} for one in told]
    print_json({"items": items})
    return _status(told)


def _print(found: Iterable[Told]) -> int:
    left = any_at_all = False
    for one in found:
        any_at_all = True
        left = left or _status([one]) == ERROR
        click.echo(one_line(f"{one.finding.thread}: {one.finding.what}"))
        click.echo(f"  {one_line(_way(one))}")
    if not any_at_all:
        click.echo("nothing is wrong")
    return ERROR if left else DONE


def _way(one: Told) -> str:
    if one.repaired:
        return "repaired: ended" if one.finding.by == "give_up" else f"repaired: {one.finding.remedy}"
    if one.why is not None:
        return f"not repaired: {one.why}"
    return f"--repair: {one.finding.remedy}" if one.finding.by == "repair" else one.finding.remedy


def _status(told: Sequence[Told]) -> int:
    return ERROR if any(one.finding.is_damage and not one.repaired for one in told) else DONE
