"""What differs between a pause and the program that is to resume it, in words.

A pause that cannot be resumed as it was shown is answered with `again(...)` in place of a decision: its task begins
anew and asks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

AGAIN = "changed"
"""The type of the answer that is no decision."""
ASIDE = frozenset({"description", "title", "examples", "$comment"})
"""What a schema only tells, without a rule for the arguments."""
WHERE = {"around_turn": "turns", "around_chat": "model calls", "around_tool": "tool calls"}


def again(difference: str) -> dict[str, Any]:
    """The answer to a question that has to be asked again."""
    return {"type": AGAIN, "difference": difference}


def asks_again(answers: Sequence[Any]) -> str | None:
    """The difference, where the last of these answers says that all has to be asked again."""
    last = answers[-1] if answers else None
    is_again = isinstance(last, Mapping) and last.get("type") == AGAIN
    return str(last.get("difference")) if is_again and isinstance(last, Mapping) else None


def of_layers(before: Sequence[str], now: Sequence[str], everywhere: Sequence[str], hook: str) -> str | None:
    """What became of the filters around; more of them are no difference.

    `now`: those with that hook. `everywhere`: all.
    """
    if (gone := next((name for name in before if name not in everywhere), None)) is not None:
        return f"filter {gone!r} is gone"
    if (moved := next((name for name in before if name not in now), None)) is not None:
        return f"filter {moved!r} is not around {WHERE.get(hook, hook)} any more"
    order = [name for name in now if name in before]
    if order != list(before):
        return f"the order of the filters was {' > '.join(before)} and is {' > '.join(order)}"
    return None


def of_schema(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str | None:
    """What became of the rules for a tool's arguments."""
    old, new = _rules(before or {}), _rules(now or {})
    if old == new:
        return None
    told = list(_of_arguments(old, new))
    return "; ".join(told) or "the rules for its arguments are others"


def _of_arguments(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before, now = old.get("properties") or {}, new.get("properties") or {}
    yield from (f"argument {name!r} is gone" for name in before if name not in now)
    yield from (f"argument {name!r} is new" for name in now if name not in before)
    for name in (one for one in before if one in now):
        if before[name] != now[name]:
            was, is_ = _type(before[name]), _type(now[name])
            yield f"argument {name!r} " + (f"is {is_} now, was {was}" if was != is_ else "has other rules")
    needed, needs = set(old.get("required") or ()), set(new.get("required") or ())
    both = before.keys() & now.keys()
    yield from (f"argument {name!r} is required now" for name in sorted((needs - needed) & both))
    yield from (f"argument {name!r} is not required any more" for name in sorted((needed - needs) & both))


def _type(rules: Any) -> str:
    if not isinstance(rules, Mapping):
        return "anything"
    options = rules.get("anyOf") or rules.get("oneOf")
    if isinstance(options, list):
        return " or ".join(map(_type, options))
    found = rules.get("type", "anything")
    return " or ".join(map(str, found)) if isinstance(found, list) else str(found)


def _rules(schema: Any, *, names: bool = False) -> Any:
    """The schema without what it only tells; `names`: the keys are those of arguments."""
    if isinstance(schema, list | tuple):
        return [_rules(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: value if key in ("enum", "const", "default") and not names else _rules(value, names=_names(key, names))
        for key, value in schema.items()
        if names or key not in ASIDE
    }


def _names(key: str, inside: bool) -> bool:
    return not inside and key in ("properties", "$defs", "definitions", "patternProperties")
