"""Numbers of payment cards: by length and issuer, and with the check digit of Luhn."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scallion.pii.detector import Detector, Place

APART = r"\s.\-\u2010-\u2015\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
"""What may stand between two groups of digits, once."""
FEWEST, MOST = 12, 19
_run = re.compile(rf"\d(?:[{APART}]?\d){{{FEWEST - 1},}}")
_group = re.compile(r"\d+")
GROUPS = {
    (4, 4, 4, 4, 3), (4, 4, 4, 4, 2), (4, 4, 4, 4, 1), (4, 4, 4, 4), (4, 4, 4, 1), (4, 4, 5), (4, 4, 4),
    (4, 6, 5), (4, 6, 4), (4, 4, 8), (4, 8, 4), (8, 4, 4), (8, 8), (4, 12), (12, 4), (6, 13), (6, 10),
}  # fmt: skip
"""How the digits of cards are written in groups. `41 11 11 ...` is not: two digits each are times, sizes and dates."""
MOST_GROUPS = max(len(groups) for groups in GROUPS)

SIXTEEN, TO_NINETEEN, ANY = frozenset({16}), frozenset(range(16, 20)), frozenset(range(FEWEST, MOST + 1))
ISSUERS = (
    ("Visa", "4", "4", frozenset({13, 16, 19})),
    ("Mastercard", "51", "55", SIXTEEN),
    ("Mastercard", "2221", "2720", SIXTEEN),
    ("American Express", "34", "34", frozenset({15})),
    ("American Express", "37", "37", frozenset({15})),
    ("Diners Club", "300", "305", TO_NINETEEN | {14}),
    ("Diners Club", "3095", "3095", TO_NINETEEN | {14}),
    ("Diners Club", "36", "36", TO_NINETEEN | {14}),
    ("Diners Club", "38", "39", TO_NINETEEN | {14}),
    ("JCB", "35", "35", TO_NINETEEN),
    ("JCB", "1800", "1800", frozenset({15})),
    ("JCB", "2131", "2131", frozenset({15})),
    ("Mir", "2200", "2204", TO_NINETEEN),
    ("Discover, RuPay, Hipercard", "60", "60", TO_NINETEEN),
    ("UnionPay", "62", "62", TO_NINETEEN),
    ("Discover, RuPay, Troy", "64", "65", TO_NINETEEN),
    ("RuPay, UnionPay", "81", "82", TO_NINETEEN),
    ("Maestro, Elo, Verve", "50", "50", ANY),
    ("Maestro", "0604", "0604", ANY),
    ("Maestro", "56", "58", ANY),
    ("Maestro", "63", "63", ANY),
    ("Maestro", "67", "67", ANY),
    ("Troy", "9792", "9792", SIXTEEN),
    ("Uzcard", "8600", "8600", SIXTEEN),
    ("Humo", "9860", "9860", SIXTEEN),
)
"""The first digits of a brand's numbers, from and to, and how many digits they have."""


def _by_first_two() -> dict[str, list[tuple[str, str, frozenset[int]]]]:
    found: dict[str, list[tuple[str, str, frozenset[int]]]] = {f"{number:02}": [] for number in range(100)}
    for _, low, high, lengths in ISSUERS:
        for first, ranges in found.items():
            if low[:2] <= first[: len(low)] <= high[:2]:
                ranges.append((low, high, lengths))
    return found


_issuers = _by_first_two()
_doubled = str.maketrans("0123456789", "0246813579")
"""Each digit to the sum of the digits of its double."""


def is_card(digits: str) -> bool:
    """Whether these digits (of ASCII) are the number of a card: issuer, length and check digit."""
    length = len(digits)
    ranges = _issuers[digits[:2]]
    return any(
        length in lengths and low <= digits[: len(low)] <= high for low, high, lengths in ranges
    ) and passes_luhn(digits)


def passes_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of those before."""
    return sum(map(int, digits[-1::-2] + digits[-2::-2].translate(_doubled))) % 10 == 0


def _places(text: str, since: int) -> Iterator[Place]:
    for run in _run.finditer(text, since):
        groups = list(_group.finditer(text, run.start(), run.end()))
        at = 0
        while at < len(groups):
            used = _card(text, groups[at : at + MOST_GROUPS])
            if used:
                yield groups[at].start(), groups[at + used - 1].end()
            at += used or 1


def _card(text: str, groups: list[re.Match[str]]) -> int:
    """How many of these groups are a card that begins with the first of them: the most that are, 0 for none."""
    if not _may_begin(text, groups[0].start()):
        return 0
    sizes = tuple(len(group[0]) for group in groups)
    for count in range(len(groups), 0, -1):
        start, end = groups[0].start(), groups[count - 1].end()
        is_shape = sizes[:count] in GROUPS if count > 1 else FEWEST <= sizes[0] <= MOST
        is_alone = count == 1 or sum(sizes[:count]) > 13 or not _has_neighbours(text, start, end)
        if is_shape and is_alone and _may_end(text, end) and _are_apart_alike(text, groups[:count]):
            digits = "".join(group[0] for group in groups[:count])
            digits = digits if digits.isascii() else "".join(str(int(digit)) for digit in digits)
            if is_card(digits):
                return count
    return 0


def _may_begin(text: str, place: int) -> bool:
    """Not inside of a word or a number, and not behind a decimal point."""
    before = text[max(0, place - 2) : place]
    if not before:
        return True
    return not (_is_word(before[-1]) or (before[-1] == "." and before[0].isdigit() and len(before) == 2))


def _may_end(text: str, place: int) -> bool:
    after = text[place : place + 2]
    if not after:
        return True
    return not (_is_word(after[0]) or (after[0] == "." and after[1:].isdigit()))


def _has_neighbours(text: str, start: int, end: int) -> bool:
    """Whether more groups of digits stand beside these: among many, three that fit by chance are likely."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return (len(before) == 2 and before[0].isdigit()) or (len(after) == 2 and after[1].isdigit())


def _is_word(character: str) -> bool:
    """A letter of ASCII, a digit or `_`: texts without spaces, as in Chinese, have letters beside a number."""
    return character.isdecimal() or character == "_" or (character.isascii() and character.isalpha())


def _are_apart_alike(text: str, groups: list[re.Match[str]]) -> bool:
    """A dot stands between all groups or between none: else it is a point of a number, or the end of a sentence."""
    apart = {text[one.end()] for one in groups[:-1]}
    return "." not in apart or len(apart) == 1


CREDIT_CARD = Detector(_places, letters=rf"\d{APART[2:]}", hint=r"\d{4}", gaps=r"(?<=\d\d\d\d)\s(?=\d)")
