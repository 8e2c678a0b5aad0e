"""The JSON forms of decisions: what each kind carries. Anything else would be lost without a word, so it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, get_args

from scallion.errors import ConfigurationError, InvalidDecision
from scallion.values import Decision, DecisionType

EXPIRED: DecisionType = "expired"
"""What time decides, and nobody else can."""
TYPES: tuple[DecisionType, ...] = tuple(one for one in get_args(DecisionType) if one != EXPIRED)
"""What people decide."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "approve": (),
    "edit": ("args", "edited_action"),
    "reject": ("message",),
    "respond": ("message",),
    "happened": ("message", "result"),
    "rerun": (),
    "stop": (),
}
"""The fields beside `type`; where there are two, either of them is given."""

INSTEAD = {
    "reason": "the reason is called 'message'",
    "feedback": "the reason is called 'message'",
    "name": "the tool stands in 'edited_action', beside the arguments",
    "action": "the call is called 'edited_action'",
    "answer": "the answer is called 'message'",
    "content": "the answer is called 'message'",
}
"""What is meant by fields that others use."""


def check(decision: Any) -> None:
    """Raise InvalidDecision unless it is a Decision, or its JSON, with nothing but what its kind carries."""
    given = decision.to_json() if isinstance(decision, Decision) else decision
    if not isinstance(given, Mapping) or given.get("type") not in TYPES:
        raise InvalidDecision(
            "a decision is approve(), edit(args), reject(), respond(message), or "
            f'{{"type": ...}} of {", ".join(TYPES)}; not {_shape(decision)}'
        )
    _check_fields(given)


def check_allowed(given: Any, name: str) -> None:
    """Raise ConfigurationError unless it is a sequence of kinds of decision."""
    if isinstance(given, str) or not isinstance(given, Sequence | Set) or not given:
        raise ConfigurationError(f"{name} is a sequence of kinds of decision, not {given!r}")
    if wrong := [one for one in given if one not in TYPES]:
        raise ConfigurationError(f"{name} knows no {wrong[0]!r}; there are {', '.join(TYPES)}")


def _check_fields(given: Mapping[Any, Any]) -> None:
    kind = given["type"]
    fields = FIELDS[kind]
    known = {name for names in FIELDS.values() for name in names}
    wrong = [name for name in given if name not in ("type", *fields) and (name not in known or given[name] is not None)]
    if wrong:
        told = ", ".join(repr(name) if isinstance(name, str) else type(name).__name__ for name in wrong)
        takes = " or ".join(map(repr, fields)) or "nothing else"
        hint = next((f"; {INSTEAD[name]}" for name in wrong if name in INSTEAD and fields), "")
        raise InvalidDecision(f"a decision of type {kind!r} takes {takes}, not {told}{hint}")
    if sum(given.get(name) is not None for name in fields) > 1:
        raise InvalidDecision(f"a decision of type {kind!r} takes either {' or '.join(map(repr, fields))}")
    if (edited := given.get("edited_action")) is not None:
        _check_action(edited)


def _check_action(edited: Any) -> None:
    """LangChain's form of an edit names the tool, and gives it whole arguments."""
    is_action = isinstance(edited, Mapping) and set(edited) == {"name", "args"} and isinstance(edited["name"], str)
    if not is_action:
        raise InvalidDecision('an edited action is {"name": ..., "args": {...}}')


def _shape(decision: Any) -> str:
    if isinstance(decision, Mapping):
        return f"a mapping of type {decision.get('type')!r}"
    return type(decision).__name__
