"""IP addresses of both versions. The standard library says what one is; a pattern finds what to ask it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from scallion.pii.detector import Detector, Place

OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_dots = re.compile(rf"\.{OCTET}\.{OCTET}\.{OCTET}(?![0-9A-Za-z_]|\.\d)")
_octet = re.compile(rf"{OCTET}\Z")
_colons = re.compile(r":[0-9A-Fa-f]{0,4}:")
LONGEST = 45
"""Characters of an address of version 6 that ends like one of version 4."""
_around = re.compile(r"[0-9A-Fa-f:.]+")
_before = re.compile(rf"[0-9A-Fa-f:]{{0,{LONGEST}}}")
_of_program = re.compile(r"[0-9A-Fa-f]{1,2}::[0-9A-Fa-f]{0,2}|[0-9]{1,2}:[0-9]{2}::")
"""`C::1`, `1::2`, and a time with colons behind it: no network has such numbers."""
_slice = re.compile(r"[0-9]{0,4}::[0-9]{0,4}")
_zone = re.compile(r"%[0-9A-Za-z]{1,15}")


def _places(text: str, since: int) -> Iterator[Place]:
    for match in _dots.finditer(text, since):
        start = _first_octet(text, since, match.start())
        if start is not None:
            yield start, match.end()
    done = since
    for match in _colons.finditer(text, since):
        if match.start() >= done:
            place, done = _sixth(text, done, match.start())
            if place:
                yield place


def _first_octet(text: str, since: int, dot: int) -> int | None:
    """Where the octet before this dot begins, if it is one, and the first."""
    octet = _octet.search(text, max(since, dot - 3), dot)
    if not octet:
        return None
    before = text[max(0, octet.start() - 2) : octet.start()]
    is_inside = before[-1:].isdigit() or (
        len(before) == 2 and before[0].isdigit() and (before[1] in "._" or before[1].isalpha())
    )
    return None if is_inside else octet.start()


def _sixth(text: str, since: int, colon: int) -> tuple[Place | None, int]:
    """The address of version 6 around this colon, and up to where the text was looked at."""
    start = colon - len(_before.match(text[max(since, colon - 4) : colon][::-1])[0])  # type: ignore[index]
    end = _around.match(text, colon).end()  # type: ignore[union-attr]
    if end - start > 2 * LONGEST:
        return None, end
    if start > 0 and _is_word(text[start - 1]):  # as in addr:fe80::1, of which `add` could be digits
        start = colon
    if end < len(text) and _is_word(text[end]):
        return None, end
    for first, last in _trimmed(text, start, end):
        if _is_address(text[first:last]) and not _is_in_program(text, first, last):
            zone = _zone.match(text, last)
            return (first, zone.end() if zone else last), end
    return None, end


def _trimmed(text: str, start: int, end: int) -> Iterator[Place]:
    """The run as it is, and without a colon or a full stop that belongs to the sentence."""
    ends = [end]
    while len(ends) < 4 and end > start and text[end - 1] in ".:":
        end -= 1
        ends.append(end)
    is_behind_name = (
        text[start] == ":" and text[start + 1 : start + 2] != ":" and text[max(0, start - 1) : start].strip()
    )
    starts = [start, start + 1] if is_behind_name else [start]
    yield from ((first, last) for first in starts for last in ends)


def _is_address(value: str) -> bool:
    """Whether it is an address, and not a part of a program such as `::` or `abc::def`."""
    if "::" in value and not any(character.isdigit() for character in value) and value.count(":") < 4:
        return False
    return is_sixth(value)


def _is_in_program(text: str, first: int, last: int) -> bool:
    """Whether it is a part of `f::0`, of `values[::1]` or of a path behind colons."""
    value, before = text[first:last], text[max(0, first - 2) : first]
    if value.endswith("::") and text[last : last + 1] == "/":
        return True
    is_index = before[1:] == "[" and (_is_word(before[0]) or before[0] in ")]")
    return _of_program.fullmatch(value) is not None or (is_index and _slice.fullmatch(value) is not None)


def is_sixth(value: str) -> bool:
    """Whether it is an address of version 6."""
    try:
        ipaddress.IPv6Address(value)
    except ValueError:
        return False
    return True


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


IP = Detector(_places, letters=r"0-9A-Fa-f:.", gaps=r"%[0-9A-Za-z]*+", hint=r"[0-9]\.[0-9]|:[0-9A-Fa-f]{0,4}:")
