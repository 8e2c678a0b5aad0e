"""Telephone numbers: international ones, and those of North America in their usual form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from scallion.errors import ConfigurationError
from scallion.pii.detector import Detector, Place

MISSING = "telephone numbers are known by phonenumberslite, which is not installed: pip install 'scallion[pii]'"
SIGNS = r"().\-\u2010-\u2015"
APART = rf"[{SIGNS}]{{0,2}}\s?[{SIGNS}]{{0,2}}"
_international = re.compile(rf"(?<![\w+])\+\d(?:{APART}\d){{6,15}}(?!\d)")
_last_group = re.compile(r"\D*\d+\Z")
_american = re.compile(
    r"(?<![\w.+\-])(?:1[\s.\-])?(?P<own>(?:\(\d{3}\)\s?|\d{3}[\s.\-])\d{3}[\s.\-]\d{4})(?![\w\-]|\.\d)"
)


def _shorter(value: str) -> Iterator[str]:
    """The number, and then without its last groups: digits behind it may be of the text, a year or a count."""
    while _international.fullmatch(value):
        yield value
        value = _last_group.sub("", value)


def phone(wrong: Callable[[str], ConfigurationError]) -> Detector:
    """The detector; raises what `wrong` makes of the reason where the extra is missing."""
    try:
        import phonenumbers
    except ImportError:
        raise wrong(MISSING) from None

    def is_number(value: str, region: str | None) -> bool:
        """Behind a `+` it need not be in use yet."""
        try:
            number = phonenumbers.parse(value, region)
        except phonenumbers.NumberParseException:
            return False
        return bool(phonenumbers.is_valid_number(number) if region else phonenumbers.is_possible_number(number))

    def places(text: str, since: int) -> Iterator[Place]:
        for match in _international.finditer(text, since):
            ends = (match.start() + len(one) for one in _shorter(match[0]) if is_number(one, None))
            if (end := next(ends, None)) is not None:
                yield match.start(), end
        for match in _american.finditer(text, since):
            starts = (at for at in (match.start(), match.start("own")) if is_number(text[at : match.end()], "US"))
            if (start := next(starts, None)) is not None:
                yield start, match.end()

    return Detector(places, letters=rf"\d+{SIGNS}", hint=r"\d", gaps=rf"(?<=[\d{SIGNS}])\s(?=[\d{SIGNS}])")
