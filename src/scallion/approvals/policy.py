"""The policy of a gate: what a person may decide about a call, and how the call is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from scallion.approvals.forms import TYPES
from scallion.errors import ConfigurationError
from scallion.values import DecisionType


@dataclass(frozen=True)
class Policy:
    """How calls of a tool are approved.

    `allowed`: what may be decided. `describe`: a text, or a function of the tool call that gives one. `expires_in`:
    seconds. `deciders`, `not_requester`, `quorum` and `on_expire` say who may decide and what becomes of a request that
    nobody answers; values other than the defaults are refused for now.
    """

    allowed: Sequence[DecisionType] = ("approve", "edit", "reject", "respond")
    describe: str | Callable[[Mapping[str, Any]], str] | None = None
    expires_in: float | timedelta | None = None
    on_expire: str = "reject"
    deciders: Sequence[str] | None = None
    not_requester: bool = False
    quorum: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.allowed, str) or not self.allowed:
            raise ConfigurationError(f"Policy(allowed=...) is a sequence of kinds of decision, not {self.allowed!r}")
        if self.describe is not None and not isinstance(self.describe, str) and not callable(self.describe):
            raise ConfigurationError(f"Policy(describe=...) is a text or a function, not {self.describe!r}")
        seconds = self.expires_in.total_seconds() if isinstance(self.expires_in, timedelta) else self.expires_in
        if seconds is not None and (not isinstance(seconds, int | float) or not 0 < seconds < float("inf")):
            raise ConfigurationError(f"Policy(expires_in=...) is a number of seconds above zero, not {seconds!r}")
        wrong = [one for one in self.allowed if one not in TYPES]
        if wrong:
            raise ConfigurationError(f"Policy(allowed=...) knows no {wrong[0]!r}; there are {', '.join(TYPES[:4])}")
        if (self.on_expire, self.deciders, self.not_requester, self.quorum) != ("reject", None, False, 1):
            raise ConfigurationError("Policy(on_expire=, deciders=, not_requester=, quorum=) are not enforced yet")

    def is_stricter_than(self, shown: Mapping[str, Any]) -> bool:
        """Whether it allows less than what was `allowed` when a person was asked."""
        return not set(shown["allowed"]) <= set(self.allowed)

    def description(self, call: Mapping[str, Any]) -> str:
        """What the person reads about the call."""
        if callable(self.describe):
            return self.describe(call)
        return self.describe or f"The agent wants to call {call['name']}."
