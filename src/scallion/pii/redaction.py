"""Finding what a set of rules is about in a whole text, and replacing it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from scallion.errors import ConfigurationError
from scallion.pii.builtin import BUILTIN
from scallion.pii.custom import by_function, expression
from scallion.pii.detector import Detector
from scallion.pii.merging import Found, merged
from scallion.pii.replacing import SHOWN, Tokens, is_border, masks, replaced, replacement, without_mask
from scallion.pii.rules import Finding, Rule
from scallion.pii.stream import MOST_HELD, RedactionStream
from scallion.pii.words import Words, has_breaks

BRACKETS = "[<*"
"""One of them is in each replacement that is not a user's own."""
BEYOND = "\0"
"""What a detector sees in the place of a replacement: no part of anything."""
SHORT = 1_000
"""Characters. In a longer text something mostly hints at a match, and looking for matches costs less than for hints."""


class Redaction:
    """What these rules find in texts, and the texts without it. It holds no text, and may be shared by threads.

    All rules read the same text, and their order says nothing (see merging.merged). What a rule left behind is a
    border: nothing is found in it, or across it, so that `redact(redact(text)) == redact(text)`. `key`: for the
    strategy hash, bytes that are kept secret: without them, a hash of a card number is found by trying.

    Raises ConfigurationError.
    """

    def __init__(self, rules: Iterable[Rule], key: bytes | None = None) -> None:
        listed = list(rules)
        self.rules = {rule.type: rule for rule in listed}
        if len(self.rules) < len(listed):
            raise ConfigurationError("pii: a type has two rules: give it one")
        if not listed:
            raise ConfigurationError("pii: there is no rule: name at the least one type")
        if key is None and (hashed := next((rule for rule in listed if rule.strategy == "hash"), None)):
            raise hashed.wrong("the strategy hash needs a key: bytes that are kept secret")
        if key is not None and not (isinstance(key, bytes) and key):
            raise ConfigurationError("pii: key is bytes, and not empty")
        self._key = key
        self.functions = [(rule.detector, rule) for rule in listed if callable(rule.detector)]
        self.detectors = [(_detector(rule), rule) for rule in listed if not callable(rule.detector)]
        self.replaced = replaced(listed)
        self.masks = masks(listed)
        self.literals = [rule.replacement for rule in listed if rule.replacement and is_border(rule.replacement)]
        hints = [detector.hint for detector, _ in self.detectors]
        self._hint = re.compile("|".join(hints)) if hints and all(hints) and not self.functions else None
        self.words = Words([detector for detector, _ in self.detectors], self.masks is not None)

    def find(self, text: str) -> list[Finding]:
        """What is found, in the order of the text; none overlaps another."""
        if self._has_long_words(text):
            stream = self.stream()
            stream.push(text)
            stream.finish()
            return stream.findings
        return self.between(text, 0, len(text))

    def redact(self, text: str, tokens: Tokens | None = None) -> tuple[str, list[Finding]]:
        """The text with all findings replaced, and where they were. `tokens`: gives a token for (type, value)."""
        if self._has_long_words(text):
            stream = self.stream(tokens)
            return stream.push(text) + stream.finish(), stream.findings
        findings = self.find(text)
        return self.replace(text, 0, len(text), findings, tokens), findings

    def stream(self, tokens: Tokens | None = None) -> RedactionStream:
        """A new text, to be given in pieces: together they become what `redact` makes of the whole."""
        return RedactionStream(self, tokens)

    def replace(
        self, text: str, start: int, end: int, findings: Sequence[Finding], tokens: Tokens | None = None
    ) -> str:
        """The part of a text with what was found in it replaced."""
        if not findings:
            return text[start:end]
        out = []
        for one in findings:
            value = text[one.start : one.end]
            out += [text[start : one.start], replacement(one, self.rules[one.type], value, self._key, tokens)]
            start = one.end
        return "".join([*out, text[start:end]])

    def _has_long_words(self, text: str) -> bool:
        """Whether the text has to be read in parts, as a stream of it is."""
        if len(text) <= MOST_HELD or self.functions or has_breaks(text):
            return False
        return len(text) - self.words.decided(text, 0) > MOST_HELD

    def between(
        self, text: str, start: int, end: int, is_behind: bool = False, is_before: bool = False
    ) -> list[Finding]:
        """What begins in a part of a text that begins and ends with whole words, or is between replacements."""
        if self._hint and end - start < SHORT and not self._hint.search(text, start, end):
            return []
        given = [(*place, rule) for detect, rule in self.functions for place in by_function(rule.type, detect, text)]
        found: list[Finding] = []
        parts = [(part, given) for part in self._parts(text, (start, end, is_behind, is_before), given)]
        while parts:
            part, given = parts.pop()
            inside = self._in_part(text, part, given)
            found += inside
            parts += [(touched, []) for touched in self._touched(text, part, inside)]
        return sorted(found, key=lambda one: one.start)

    def _parts(self, text: str, whole: Part, given: Sequence[Found]) -> Iterator[Part]:
        """The parts between replacements: whether a part begins, and ends, at one."""
        if not self.literals and not any(bracket in text for bracket in BRACKETS):
            yield whole
            return
        for part in _between(self.replaced.finditer(text, *whole[:2]), whole):
            borders = list(self.masks.finditer(text, *part[:2])) if self.masks else []
            inside = self._in_part(text, part, given) if borders else []
            yield from _between((one for one in borders if not _hides(one, inside)), part)

    def _in_part(self, text: str, part: Part, given: Sequence[Found]) -> list[Finding]:
        """What is found in a part by all detectors: beyond a replacement they see nothing, not even the end."""
        start, end, is_behind, is_before = part
        cut = start if is_behind else 0
        text = text[cut:end] + BEYOND if is_before else text[cut:] if cut else text
        found = [
            (first + cut, min(last + cut, end) if is_before else last + cut, rule)
            for detector, rule in self.detectors
            for first, last in detector.places(text, start - cut)
            if first + cut < end
        ]
        found += [
            (max(first, start), min(last, end), rule) for first, last, rule in given if first < end and last > start
        ]
        findings = merged(found)
        return [without_mask(one, text, cut) for one in findings] if self.masks else list(findings)

    def _touched(self, text: str, part: Part, found: Sequence[Finding]) -> Iterator[Part]:
        """The parts beside findings in which a replacement, once it stands there, would end a word of its own."""
        since, end, is_behind, is_before = part
        for one in found:
            edges = text[one.start - 1] + (text[since] if is_behind else "") if since < one.start else ""
            if any(map(self.words.reads, edges)):
                yield since, one.start, is_behind, True
            since, is_behind = one.end, True
        if found and since < end and self.words.reads(text[since]):
            yield since, end, True, is_before


def _between(borders: Iterable[re.Match[str]], part: Part) -> Iterator[Part]:
    since, end, is_behind, is_before = part
    for border in borders:
        if since < border.start():
            yield since, border.start(), is_behind, True
        since, is_behind = border.end(), True
    if since < end:
        yield since, end, is_behind, is_before


def _hides(mask: re.Match[str], found: Iterable[Finding]) -> bool:
    """Whether what looks like a mask has more in it than a mask shows, or is a part of something."""
    start, end = mask.span()
    return any(
        one.start < end and one.end > start and (one.start < start or one.end > end or one.end - one.start > SHOWN)
        for one in found
    )


def _detector(rule: Rule) -> Detector:
    if isinstance(rule.detector, str):
        return expression(rule.detector, rule.wrong)
    found = BUILTIN[rule.type]
    return found if isinstance(found, Detector) else found(rule.wrong)


Part = tuple[int, int, bool, bool]
