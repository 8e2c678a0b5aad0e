"""Of places that overlap, one is made, whatever the order in which they were found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scallion.pii.rules import STRATEGIES, Finding, Rule

Found = tuple[int, int, Rule]


def merged(found: Iterable[Found]) -> Iterator[Finding]:
    """What overlaps, or hangs together by what overlaps, becomes one finding, from its first to its last character.

    It has the strictest strategy of them, and of the rules with that one the type that covers most, then the first by
    name. A mask shows a part of what it hides, so where two values meet, the place is redacted instead.
    """
    group: list[Found] = []
    end = -1
    for one in sorted(found, key=lambda one: one[:2]):
        if group and one[0] >= end:
            yield _one(group, end)
            group, end = [], -1
        group.append(one)
        end = max(end, one[1])
    if group:
        yield _one(group, end)


def _one(group: list[Found], end: int) -> Finding:
    start = group[0][0]
    if len(group) == 1:
        return Finding(group[0][2].type, start, end, group[0][2].strategy)
    first, last, rule = min(group, key=_rank)
    is_one_value = (first, last) == (start, end) and all(other.type == rule.type for _, _, other in group)
    return Finding(rule.type, start, end, "redact" if rule.strategy == "mask" and not is_one_value else rule.strategy)


def _rank(one: Found) -> tuple[int, int, str]:
    start, end, rule = one
    return STRATEGIES.index(rule.strategy), start - end, rule.type
