"""The policy of a gate: what a person may decide about a call, and how the call is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from scallion.approvals import deciders
from scallion.approvals.deciders import is_name, role
from scallion.approvals.forms import check_allowed
from scallion.errors import ConfigurationError
from scallion.values import DecisionType

LONGEST = timedelta(days=36_525)
"""A hundred years: no clock gets beyond its last day by adding that."""


@dataclass(frozen=True)
class Policy:
    """How calls of a tool are approved.

    `allowed`: what may be decided. `describe`: a text, or a function of the tool call that gives one. `expires_in`:
    seconds. `on_expire`, where nobody has decided by then: "reject" (the call does not run, and the model is told that
    the request expired), "keep" (it may still be decided, and is marked overdue), or "escalate:NAME" (that person may
    decide too, and the time starts anew, once).
    `deciders`: the names that may decide, as they are given with `by=`; None for anybody. `not_requester`: who asked
    for it may not. `quorum`: how many different people have to decide the same; a rejection by one is enough.
    """

    allowed: Sequence[DecisionType] = ("approve", "edit", "reject", "respond")
    describe: str | Callable[[Mapping[str, Any]], str] | None = None
    expires_in: float | timedelta | None = None
    on_expire: str = "reject"
    deciders: Sequence[str] | None = None
    not_requester: bool = False
    quorum: int = 1

    def __post_init__(self) -> None:
        check_allowed(self.allowed, "Policy(allowed=...)")
        if self.describe is not None and not isinstance(self.describe, str) and not callable(self.describe):
            raise ConfigurationError(f"Policy(describe=...) is a text or a function, not {self.describe!r}")
        self._check_expiry()
        self._check_people()

    def _check_expiry(self) -> None:
        check_span(self.expires_in, "Policy(expires_in=...)")
        name = role(self.on_expire)
        if self.on_expire not in ("reject", "keep") and (name is None or not is_name(name)):
            raise ConfigurationError(
                f'Policy(on_expire=...) is "reject", "keep" or "escalate:NAME", not {self.on_expire!r}'
            )
        if self.on_expire != "reject" and self.expires_in is None:
            raise ConfigurationError("Policy(on_expire=...) says nothing without expires_in=")

    def _check_people(self) -> None:
        named = self.deciders
        if named is not None and (isinstance(named, str) or not named or not all(map(is_name, named))):
            raise ConfigurationError(
                f"Policy(deciders=...) is a list of names, without spaces around them, not {self.deciders!r}"
            )
        if not isinstance(self.not_requester, bool):
            raise ConfigurationError(f"Policy(not_requester=...) is True or False, not {self.not_requester!r}")
        if isinstance(self.quorum, bool) or not isinstance(self.quorum, int) or self.quorum < 1:
            raise ConfigurationError(f"Policy(quorum=...) is a number of people, at least 1, not {self.quorum!r}")
        if named is not None and len(set(named)) < self.quorum:
            raise ConfigurationError(f"Policy(quorum={self.quorum}) is more than the {len(set(named))} deciders")

    @property
    def who(self) -> dict[str, Any]:
        """What it says about people, as plain data; empty where it says nothing."""
        return deciders.rules(self.deciders, self.not_requester, self.quorum)

    @property
    def terms(self) -> dict[str, Any]:
        """What of it is frozen in a question, besides what is allowed."""
        return {"who": self.who, "on_expire": self.on_expire}

    @property
    def needs_ledger(self) -> bool:
        """Whether only a saver that keeps approvals can do what it says."""
        return self.quorum > 1 or role(self.on_expire) is not None

    def is_stricter_than(self, shown: Mapping[str, Any]) -> bool:
        """Whether it allows less, or fewer people, than when a person was asked."""
        is_narrower = not set(shown["allowed"]) <= set(self.allowed)
        return is_narrower or deciders.is_stricter(self.who, shown.get("who") or {})

    def description(self, call: Mapping[str, Any]) -> str:
        """What the person reads about the call."""
        if callable(self.describe):
            return self.describe(call)
        return self.describe or f"The agent wants to call {call['name']}."


def as_shown(shown: Mapping[str, Any]) -> Policy:
    """The policy that a question was asked with, as far as it is about deciding."""
    return Policy(tuple(shown["allowed"]), **(shown.get("who") or {}))


def check_span(given: Any, name: str) -> None:
    """Raise ConfigurationError unless it is a span of time above zero and of at most `LONGEST`, or None."""
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if seconds is not None and (not is_number or not 0 < seconds <= LONGEST.total_seconds()):
        raise ConfigurationError(f"{name} is a number of seconds above zero, and at most a hundred years: {seconds!r}")
