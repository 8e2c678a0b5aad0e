"""Detectors of a user's own: regular expressions, run by RE2 in linear time, and functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from scallion.errors import ConfigurationError
from scallion.growing import Automaton, OpenStarts, Undecidable
from scallion.pii.detector import Detector, Place

MISSING = "a regular expression of your own is run by google-re2, which is not installed: pip install 'scallion[pii]'"
CANNOT = (
    "detector is no regular expression that RE2 can run in linear time ({}): it has no look-ahead, no look-behind, no "
    "references to groups, and no repeats above 1000. Leave them away, or give a function"
)
NOT_HELD = "detector cannot be held back exactly in a stream ({}): change that, or give a function"
AS_RE2: dict[int, str | int | None] = {0x0B: 1}
"""What RE2 does not take for a space, and `re` does."""
WITHOUT_CASE: dict[int, str | int | None] = {**AS_RE2, 0x17F: "s", 0x212A: "k"}
"""And letters that are an s and a k without case, which `re` in ASCII mode does not know."""
_without_case = re.compile(r"\(\?[a-zA-Z]*i")
_surrogates = re.compile(r"[\ud800-\udfff]")


def expression(pattern: str, wrong: Callable[[str], ConfigurationError]) -> Detector:
    """The detector of a regular expression in the syntax of RE2: `\\d`, `\\w`, `\\s` and `\\b` know ASCII only.

    In a stream that is held back which can still become a match, or a longer one: all, behind a pattern without a
    greatest length. Raises what `wrong` makes of the reason.
    """
    compiled = _compiled(pattern, wrong)
    is_caseless = _without_case.search(pattern) is not None
    if is_caseless and not pattern.isascii():
        raise wrong(NOT_HELD.format("write both cases of a letter beyond ASCII instead of (?i)"))
    try:
        automaton = Automaton(re.compile(pattern, re.ASCII))
    except Undecidable as error:
        raise wrong(NOT_HELD.format(error)) from None
    except (re.error, RecursionError, OverflowError):
        raise wrong(
            NOT_HELD.format("the module re has to read it, too, which knows no \\pL, [[:alpha:]] or \\z")
        ) from None

    characters = WITHOUT_CASE if is_caseless else AS_RE2

    def places(text: str, since: int) -> Iterator[Place]:
        try:
            found = list(compiled.finditer(text, since))
        except UnicodeEncodeError:
            found = list(compiled.finditer(_surrogates.sub("\ufffd", text), since))
        return (match.span() for match in found)

    return Detector(places, letters=r"\w", openings=lambda: ExpressionOpenings(automaton, characters))


def _compiled(pattern: str, wrong: Callable[[str], ConfigurationError]) -> Any:
    try:
        import re2
    except ImportError:
        raise wrong(MISSING) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else "it cannot be read"
    except UnicodeEncodeError:
        reason = "half of a character"
    raise wrong(CANNOT.format(reason))


class ExpressionOpenings:
    """The starts of a match that one growing text leaves open."""

    def __init__(self, automaton: Automaton, characters: dict[int, str | int | None]) -> None:
        self._starts = OpenStarts(automaton)
        self._characters = characters
        self._read = 0

    def first(self, text: str, done: int, limit: int) -> int | None:
        """The first of them."""
        self._starts.read(text[self._read :].translate(self._characters), self._read)
        self._read = len(text)
        return self._starts.first

    def move(self, by: int) -> None:
        """The text was cut in front."""
        self._starts.move(by)
        self._read -= by


def by_function(kind: str, detect: Callable[[str], Any], text: str) -> list[Place]:
    """The places that a function gives for a text.

    Raises ValueError, which names the type and holds nothing of the text, where the function raises or gives something
    else than places in the text: what it did not find would pass.
    """
    failed, found = None, None
    try:
        found = detect(text)
        if inspect.iscoroutine(found):
            found.close()
        found = list(found) if isinstance(found, Iterable) and not isinstance(found, str | Mapping) else None
    except Exception as error:  # its message may hold the text, so that it is not even the context of ours
        failed = type(error).__name__
    if failed:
        raise ValueError(f"pii: the detector of {kind!r} raised {failed}")
    if found is None:
        raise ValueError(f"pii: the detector of {kind!r} gave no list of places")
    return [_place(kind, one, text, number) for number, one in enumerate(found)]


def _place(kind: str, given: Any, text: str, number: int) -> Place:
    wrong = f"pii: the detector of {kind!r} gave a bad place (number {number}): "
    if isinstance(given, Mapping):
        if "start" not in given or "end" not in given:
            raise ValueError(f"{wrong}a mapping has start and end, in characters")
        start, end = given["start"], given["end"]
        value = given.get("value", given.get("text"))
    elif isinstance(given, tuple | list) and len(given) == 2:
        (start, end), value = given, None
    else:
        raise ValueError(f"{wrong}it is (start, end), or a mapping with start and end")
    if type(start) is not int or type(end) is not int:
        raise ValueError(f"{wrong}start and end are whole numbers")
    if not 0 <= start < end <= len(text):
        raise ValueError(f"{wrong}{start} to {end} is no part of a text of {len(text)} characters")
    if value is not None and value != text[start:end]:
        raise ValueError(
            f"{wrong}what it says stands at {start} to {end} is not there: count in characters, not in bytes"
        )
    return start, end
