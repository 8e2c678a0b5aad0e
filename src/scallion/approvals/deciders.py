"""Who may decide: what a policy says about people, as it is frozen in a question, and who of them has decided.

Names are those that are given with `by=`. Whoever runs the agent vouches for them: nobody is authenticated here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import category

from scallion.approvals.forms import EXPIRED
from scallion.errors import ConfigurationError, InvalidDecision
from scallion.values import Approval, Decision

ESCALATE = "escalate:"
LONGEST = 240
"""Characters of a name: a database holds 255, with what stands in front of the one to escalate to."""
NAME = f"a text of 1 to {LONGEST} characters, without spaces around it and without control characters"
CONTROL = ("Cc", "Zl", "Zp")
"""The kinds of characters that break a line, or are none to be seen."""


def rules(names: Sequence[str] | None, not_requester: bool, quorum: int) -> dict[str, Any]:
    """What is said about people, as plain data, without what has its default."""
    found: dict[str, Any] = {} if names is None else {"deciders": list(names)}
    return found | ({"not_requester": True} if not_requester else {}) | ({"quorum": quorum} if quorum > 1 else {})


def of(approval: Approval) -> dict[str, Any]:
    """What an approval says about people, as plain data."""
    return rules(approval.deciders, approval.not_requester, approval.quorum)


def is_stricter(now: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether fewer people may decide, or more of them have to agree, than was said when it was shown."""
    names, before = now.get("deciders"), shown.get("deciders")
    fewer = names is not None and (before is None or not set(before) <= set(names))
    asker = bool(now.get("not_requester")) and not shown.get("not_requester")
    return fewer or asker or now.get("quorum", 1) > shown.get("quorum", 1)


def check(approval: Approval, by: str | None) -> None:
    """Raise InvalidDecision unless this person may decide. Where anybody may, nobody has to be named."""
    counts_who = bool(of(approval))
    if by is None and counts_who:
        raise InvalidDecision("here it counts who decides: give by=...", approval)
    if not is_name(by) and (counts_who or isinstance(by, str)):
        raise InvalidDecision(f"who decides is {NAME}", approval)
    if not counts_who:
        return
    if approval.deciders is not None and by not in (*approval.deciders, approval.escalated):
        raise InvalidDecision(f"{by!r} is not among those who may decide this", approval)
    if not approval.not_requester:
        return
    if not approval.requested_by:
        told = "who asked for this may not decide it, and nobody knows who did: give user=... where the turn begins"
        raise InvalidDecision(told, approval)
    if by == approval.requested_by.strip():
        raise InvalidDecision(f"{by!r} asked for this, and may not decide it", approval)


def counts(approval: Approval, decision: Decision) -> bool:
    """Whether the decision is one voice among several, and does not decide by itself."""
    return approval.quorum > 1 and decision.type != "reject"


def behind(approval: Approval) -> list[str]:
    """The people behind the decision; nobody where it does not count who they are."""
    if not of(approval) or approval.decision is None or approval.decision.type == EXPIRED:
        return []
    agreed = [one.by for one in approval.votes if is_same(one.decision, approval.decision)]
    last = [approval.decided_by] if approval.decided_by and approval.decided_by not in agreed else []
    return agreed + last


def signed(answer: Any) -> tuple[Any, list[str]]:
    """What a graph resumes with, taken apart: the decision, and the names of the people behind it."""
    if not isinstance(answer, Mapping) or "by" not in answer:
        return answer, []
    by = answer["by"]
    names = [by] if isinstance(by, str) else by
    if not isinstance(names, list) or not all(map(is_name, names)):
        raise InvalidDecision("who decided is a list of names")
    return {key: value for key, value in answer.items() if key != "by"}, names


def is_same(one: Decision, other: Decision) -> bool:
    """Whether two people said the same; true and 1 are two things, as they are in JSON, and 7 and 7.0 are one."""
    return _is_equal(json.loads(json.dumps(one.to_json())), json.loads(json.dumps(other.to_json())))


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other) or (one != one and other != other)  # NaN, which Python writes as JSON


def agreeing(approval: Approval) -> int:
    """How many of those who voted said the same: those who are the most."""
    said = [one.decision for one in approval.votes]
    return max((sum(is_same(one, other) for other in said) for one in said), default=0)


def check_all(approval: Approval, decision: Decision, names: Sequence[str]) -> None:
    """Raise InvalidDecision unless these people may have decided so together."""
    if not of(approval):
        return
    # Whether and when it was escalated is known to the ledger, which these names come from.
    known = approval.replace(escalated=approval.escalated or role(approval.on_expire))
    if not names:
        check(known, None)
    for name in names:
        check(known, name)
    if counts(approval, decision) and len(set(names)) < approval.quorum:
        raise InvalidDecision(f"{approval.quorum} people have to decide the same", approval)


def role(on_expire: Any) -> str | None:
    """Who it is escalated to."""
    is_named = isinstance(on_expire, str) and on_expire.startswith(ESCALATE)
    return on_expire.removeprefix(ESCALATE) if is_named else None


def is_name(given: Any) -> bool:
    """Whether it can name a person."""
    is_short = isinstance(given, str) and 0 < len(given) <= LONGEST and given == given.strip()
    return is_short and not any(category(one) in CONTROL for one in given)


def check_name(what: str, given: str) -> None:
    """Raise ConfigurationError, saying whose name it is, unless the text can name a person."""
    if not is_name(given):
        raise ConfigurationError(f"the {what} is {NAME}")
