"""Cards in a chat: one per approval, with a key for everything that may be decided about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from scallion.approvals.decisions import check_fit
from scallion.cli.editing import GivenUp, answer, edited
from scallion.cli.failure import describe
from scallion.cli.output import console
from scallion.errors import AlreadyDecided, DecisionError, InvalidDecision
from scallion.inspect.card import card, heading, outcome, verdict
from scallion.inspect.escape import one_line
from scallion.values import Approval, Decision, DecisionType

KEYS: dict[DecisionType, tuple[str, str]] = {
    "approve": ("a", "(a)pprove"),
    "edit": ("e", "(e)dit"),
    "reject": ("r", "(r)eject"),
    "respond": ("s", "re(s)pond"),
    "happened": ("h", "it (h)appened"),
    "rerun": ("u", "rer(u)n"),
    "stop": ("x", "stop (x)"),
}
LATER = ("l", "(l)ater")


class Cards:
    """Asks for decisions and keeps them: in the ledger of the saver, or here where it has none."""

    def __init__(self, ledger: Any, by: str) -> None:
        self._ledger = ledger
        self._by = by
        self._kept: dict[str, Decision] = {}
        self._left: set[str] = set()

    def take(self) -> dict[str, Decision] | None:
        """The decisions that no ledger has, for the resume."""
        kept, self._kept = self._kept, {}
        return kept or None

    def anew(self) -> None:
        """Ask again what was left for later."""
        self._left.clear()

    def review(self, approvals: Iterable[Approval]) -> bool:
        """Show every card that was not left; whether there is a decision to go on with. EOFError where input ends."""
        decided = False
        for approval in approvals:
            if approval.status == "decided":
                _say("decided already", approval)
                decided = True
            elif approval.status == "expired":
                click.echo(f"expired: {one_line(heading(approval))}; nobody decided in time")
                decided = True
            elif approval.id not in self._left:
                decided = self._one(approval) or decided
        return decided

    def _one(self, approval: Approval) -> bool:
        console().print(card(approval))
        while True:
            try:
                decision = _asked(approval)
                if decision is None:
                    self._left.add(approval.id)
                    return False
                check_fit(approval, decision)
            except GivenUp:
                continue
            except (InvalidDecision, click.ClickException) as error:
                click.echo(f"not taken: {one_line(str(error))}")
                continue
            return self._record(approval, decision)

    def _record(self, approval: Approval, decision: Decision) -> bool:
        if self._ledger is None:
            self._kept[approval.id] = decision
            _say("recorded", approval.replace(decision=decision, decided_by=self._by))
            return True
        try:
            now = self._ledger.decide(approval.id, decision, by=self._by)
        except DecisionError as error:  # somebody was first, or it expired meanwhile
            click.echo(f"not taken: {one_line(describe(error))}")
            return isinstance(error, AlreadyDecided) and error.status == "decided"
        if now.decision is None:  # others have to agree
            self._left.add(approval.id)
            click.echo(f"recorded: {one_line(heading(now))}, {one_line(outcome(now, self._by))}")
            return False
        _say("recorded", now)
        return True


def _say(how: str, approval: Approval) -> None:
    click.echo(f"{how}: {one_line(heading(approval))}, {verdict(approval)}")


def _asked(approval: Approval) -> Decision | None:
    """What the person decides; None for later. Raises InvalidDecision for what cannot be taken."""
    kind = _key(approval)
    if kind is None:
        return None
    if kind == "edit":
        return edited(approval)
    if kind == "reject":
        return Decision("reject", message=input("reason (may stay empty): ").strip() or None)
    if kind in ("respond", "happened"):
        return Decision(kind, message=_answered(approval))
    return Decision(kind)


def _answered(approval: Approval) -> Any:
    text = input("answer: ").strip()
    if not text:
        raise InvalidDecision("an answer is needed", approval)
    return answer(approval, text)


def _key(approval: Approval) -> DecisionType | None:
    offered = {kind: KEYS[kind] for kind in KEYS if kind in approval.allowed}
    prompt = " ".join([*(label for _, label in offered.values()), LATER[1]])
    while True:
        pressed = input(f"{prompt} > ").strip().lower()
        if pressed in (LATER[0], "later"):
            return None
        for kind, (key, _) in offered.items():
            if pressed in (key, kind):
                return kind
        click.echo(f"one of: {', '.join([*(key for key, _ in offered.values()), LATER[0]])}")
