"""Standing rules: what was said beforehand about calls of a tool, and which calls a rule fits.

The rule book is what a saver offers as `.rules`. A gate asks it before it asks a person.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from scallion.approvals import deciders, patterns, taken
from scallion.approvals.effects import digest
from scallion.approvals.patterns import speaks_of, strict
from scallion.approvals.policy import Policy
from scallion.approvals.schemas import validator
from scallion.errors import ConfigurationError, DecisionError
from scallion.values import Approval

RuleVerdict = Literal["allow", "deny"]
VERDICTS: tuple[RuleVerdict, ...] = get_args(RuleVerdict)
Scope = Literal["thread", "always"]
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing approval or denial of a tool. Times are UTC and aware.

    `thread`, `owner`: whose calls it is about; None: everybody's. `args`: the digest of the exact arguments that it is
    about, `pattern`: the JSON schema that they have to fit; neither: whatever the arguments are. `uses_left`: None
    where they are not counted.
    """

    id: int
    tool: str
    verdict: RuleVerdict
    thread: str | None
    owner: str | None
    args: str | None
    pattern: Mapping[str, Any] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    uses_left: int | None = None
    used: int = 0
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 texts."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {name: one.isoformat() if isinstance(one, datetime) else one for name, one in plain.items()}

    def fits(self, call: Asked) -> bool:
        """Whether it is about a call with these arguments. Where it cannot tell, it denies and does not allow."""
        if self.args is None and self.pattern is None:
            return True
        try:
            return self._allows(call) if self.verdict == "allow" else self._denies(call)
        except Exception:
            return self.verdict == "deny"

    def _allows(self, call: Asked) -> bool:
        """Exactly these arguments, or what the pattern lets pass and the tool takes as it stands, without more."""
        if self.pattern is None:
            return self.args == digest(call.args)
        of_tool = {"additionalProperties": False, **(call.args_schema or {"not": {}})}
        return all(validator(one).is_valid(dict(call.args)) for one in (strict(self.pattern), of_tool))

    def _denies(self, call: Asked) -> bool:
        """Whatever the tool may take for what it denies, and all that does not fit the tool's own schema."""
        args, schema = dict(call.args), call.args_schema
        if schema is None or not validator(schema).is_valid(args):
            return True
        if self.pattern is None:
            return self.args in taken.digests(args, schema)
        full, unknown = taken.completed(args, schema)
        fits = validator(self.pattern).is_valid
        return any(map(fits, (args, full, taken.plain(full)))) or speaks_of(self.pattern, unknown)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that a gate is about to ask a person about. `call`: the digest that it is known by in its thread.

    `checkpoint`: namespace and id of the one that it is made from.
    """

    thread: str
    call: str
    call_id: str
    checkpoint: tuple[str, str]
    tool: str
    args: Mapping[str, Any]
    args_schema: Mapping[str, Any] | None = None
    deny_only: bool = False
    """Whether only certain people may allow it: then a rule may not."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule says about a call."""

    rule: int
    verdict: RuleVerdict


@runtime_checkable
class RuleBook(Protocol):
    """What is asked of a saver's `.rules`."""

    def under(self, lease: Any) -> RuleBook:
        """The same for a turn that holds this lease."""

    def use(self, call: Asked) -> Ruling | None:
        """Use the rule that fits the call, and count that, once for a call; None where no rule fits."""

    async def ause(self, call: Asked) -> Ruling | None:
        """As `use`."""


def leaves_to_rules(policy: Policy) -> bool:
    """Whether a rule may allow what the policy asks about: not where it says who has to decide, and how many."""
    return not policy.who and "approve" in policy.allowed


def check_source(approval: Approval, verdict: RuleVerdict) -> None:
    """Raise DecisionError unless a rule can be made of what the approval shows: a call that a gate asks about.

    A rule that would allow nothing is none: see `leaves_to_rules`.
    """
    if approval.kind != "tool_call" or not approval.bound.get("layer") or approval.args is None:
        raise DecisionError(f"approval {approval.id!r} makes no rule: it is no call that filters.approval asks about")

    if verdict == "allow" and (deciders.of(approval) or "approve" not in approval.allowed):
        raise DecisionError(
            f"approval {approval.id!r} makes no rule: its policy says who decides, and what may be decided"
        )


def condition(args: Any, pattern: Any, verdict: RuleVerdict) -> str:
    """What a rule says of arguments, as a text to store. Raises ConfigurationError."""
    if args is not None and pattern is not None:
        raise ConfigurationError("a rule is about exact args= or about a pattern=, not both")
    if args is not None:
        _check_data("args=", args)
        return json.dumps({"args": digest(args if verdict == "allow" else taken.plain(args))})
    if pattern is None:
        return "{}"
    _check_data("pattern=", pattern)
    patterns.check(pattern, allows=verdict == "allow")
    return json.dumps({"pattern": pattern})


def _check_data(what: str, given: Any) -> None:
    try:
        same = isinstance(given, Mapping) and json.loads(json.dumps(given, allow_nan=False)) == given
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise ConfigurationError(f"{what} of a rule is a mapping of JSON data, not {type(given).__name__}")
