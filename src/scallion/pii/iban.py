"""Numbers of bank accounts (IBAN): by country, length and check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scallion.pii.detector import Detector, Place

LENGTHS = {
    15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG DJ",
    25: "LY PT ST", 26: "IS TR BI", 27: "BF CM FR GR IT MC MR SM",
    28: "AL AZ BJ BY CI CY DO EG GT HN HU LB MG ML NI PL SN SV",

    29: "BR PS QA UA", 30: "JO KW MU", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
LENGTH = {country: length for length, countries in LENGTHS.items() for country in countries.split()}
LONGEST = 48
"""Characters of the longest, in groups."""
_begin = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?=[ \u00a0-]?[A-Za-z0-9])")
_group = re.compile(r"[ \u00a0-]?[A-Za-z0-9]{1,4}")
_groups = re.compile(r"[A-Za-z]{2}[0-9]{2}(?:[ \u00a0-]?[A-Za-z0-9]{1,4}){0,11}")
_open = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?:[ \u00a0-]?[A-Za-z0-9]{1,4}){0,9}[ \u00a0-]?[A-Za-z0-9]*\Z")


def _places(text: str, since: int) -> Iterator[Place]:
    for begin in _begin.finditer(text, since):
        end = _end(text, begin.start(), LENGTH.get(begin[0][:2].upper(), 0))
        if end and is_iban(re.sub("[ \u00a0-]", "", text[begin.start() : end])):
            yield begin.start(), end


def _end(text: str, start: int, length: int) -> int | None:
    """Where a number of this many characters ends, plain or in groups of four, if one can stand here."""
    end, count = start, 0
    while count < length:
        group = _group.match(text, end)
        if not group:
            return None
        used = min(sum(map(str.isalnum, group[0])), length - count)
        count += used
        end = group.end() if used == sum(map(str.isalnum, group[0])) else group.end() - 4 + used
    is_whole = count and not re.match("[A-Za-z0-9]", text[end : end + 1])
    return end if is_whole else None


def is_iban(number: str) -> bool:
    """Whether the check digits are right."""
    turned = number[4:] + number[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


class IbanOpenings:
    """A number in groups that the text may end in."""

    def first(self, text: str, done: int, limit: int) -> int | None:
        """Where it begins. One may also end in the last word, right before what is taken out of that."""
        found = _open.search(text, max(done, len(text) - LONGEST - 2))
        groups = (
            _groups.match(text, one.start()) for one in _begin.finditer(text, max(done, limit - LONGEST), limit + 2)
        )
        across = (one.start() for one in groups if one is not None and one.start() < limit < one.end())
        return min([one for one in (next(across, None), found and found.start()) if one is not None], default=None)

    def move(self, by: int) -> None:
        """It remembers no places."""


IBAN = Detector(_places, letters="A-Za-z0-9", hint="[A-Za-z]{2}[0-9]{2}", openings=IbanOpenings)
