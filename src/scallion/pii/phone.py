"""Telephone numbers: international ones, and those of North America in their usual form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from scallion.errors import ConfigurationError
from scallion.pii.detector import Detector, Place

MISSING = "telephone numbers are known by phonenumberslite, which is not installed: pip install 'scallion[pii]'"
APART = r"[().\-\u2010-\u2015]{0,2}\s?[().\-\u2010-\u2015]{0,2}"
_international = re.compile(rf"(?<![\w+])\+\d(?:{APART}\d){{6,15}}(?!\d)")
_american = re.compile(r"(?<![\w.+\-])(?:1[\s.\-])?(?:\(\d{3}\)\s?|\d{3}[\s.\-])\d{3}[\s.\-]\d{4}(?![\w\-]|\.\d)")


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
        for pattern, region in ((_international, None), (_american, "US")):
            for match in pattern.finditer(text, since):
                if is_number(match[0], region):
                    yield match.span()

    return Detector(places, letters=r"\d+().\-\u2010-\u2015", hint=r"\d", gaps=r"(?<=[\d)])\s(?=[\d(])")
