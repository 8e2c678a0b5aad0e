"""What takes the place of what was found, and how it is known again when it is met in a text."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from scallion.pii.builtin import BUILTIN
from scallion.pii.cards import APART
from scallion.pii.emails import LOCAL
from scallion.pii.rules import Finding, Rule

Tokens = Callable[[str, str], str]
"""`tokens(type, value)`: the text that stands for the value, such as `<email_1_omsd>`."""
HASH_DIGITS = 16
MASKS = {
    "credit_card": r"(?:\*{12}|\*{4}(?P<apart>[ -])\*{4}(?P=apart)\*{4}(?P=apart))\d{4}(?![0-9A-Za-z_])",
    "email": rf"[{LOCAL}]{{1,256}}@\*{{4}}(?:\.[^\W_]{{1,63}})?",
    "ip": r"\*\.\*\.\*\.[0-9]{1,3}|\*{4}:[0-9A-Fa-f]{0,4}",
    "mac_address": r"(?:\*\*:){5}[0-9A-Fa-f]{2}|(?:\*\*-){5}[0-9A-Fa-f]{2}|\*{4}\.\*{4}\.\*\*[0-9A-Fa-f]{2}",
}
SHOWN = 4
"""Characters that a mask shows, but for the name of an address."""
OTHER_MASK = rf"\*{{4,}}+(?:\w{{{SHOWN}}}(?![\w@]))?"
_goes_on = re.compile(rf"(?<=\w)(?:\d|[.:-]{{1,2}}[0-9A-Fa-f]|::)|(?<=\d)[{APART[2:]}]\d|(?<=\d\d\d\d)\s\d")
_opening = re.compile(r"[A-Za-z]{2}[0-9]{2}")
"""An account number may begin so, which it would once it stands apart from the rest of a key."""
_in_brackets = re.compile(r"[(\[{<].*[)\]}>]", re.DOTALL)


def replacement(finding: Finding, rule: Rule, value: str, key: bytes | None, tokens: Tokens | None) -> str:
    """The text in the place of a value."""
    if finding.strategy == "mask":
        return masked(finding.type, value)
    if finding.strategy == "hash":
        return f"<{finding.type}_hash:{_hashed(f'{finding.type}:{value}', key or b'')}>"
    if finding.strategy == "tokenise" and tokens is not None:
        return tokens(finding.type, value)
    return f"[REDACTED_{finding.type.upper()}]" if rule.replacement is None else rule.replacement


def masked(kind: str, value: str) -> str:
    """The value with most of it hidden: what is left is documented for each type."""
    if kind == "email":
        local, _, domain = value.rpartition("@")
        return f"{local}@****.{domain.rpartition('.')[2]}"
    if kind == "credit_card":
        apart = "-" if "-" in value else "" if value.isdecimal() else " "
        return apart.join(["****"] * 3 + ["".join(filter(str.isdecimal, value))[-4:]])
    if kind == "ip":
        is_fourth = ":" not in value
        return f"*.*.*.{value.rpartition('.')[2]}" if is_fourth else f"****:{_last_group(value)}"
    if kind == "mac_address":
        apart = next(one for one in ":-." if one in value)
        return f"****.****.**{value[-2:]}" if apart == "." else apart.join(["**"] * 5 + [value[-2:]])
    if kind == "url":
        return "[MASKED_URL]"
    shown = value[-SHOWN:]
    is_shown = (
        len(value) > 2 * SHOWN and re.fullmatch(r"\w+", shown) and not (kind == "api_key" and _opening.fullmatch(shown))
    )
    return f"****{shown}" if is_shown else "****"


def without_mask(finding: Finding, text: str, cut: int) -> Finding:
    """Redacted instead, where what a mask shows would be the beginning of what comes behind it."""
    goes_on = finding.strategy == "mask" and _goes_on.match(text, finding.end - cut)
    return replace(finding, strategy="redact") if goes_on else finding


def _hashed(value: str, key: bytes) -> str:
    """Digits of the hash, of which one is a letter: a number in this place would be one that somebody put there."""
    digest = hmac.new(key, value.encode(errors="surrogatepass"), "sha256").hexdigest()
    cuts = (digest[at : at + HASH_DIGITS] for at in range(len(digest) - HASH_DIGITS + 1))
    return next((one for one in cuts if not one.isdecimal()), "f" * HASH_DIGITS)


def _last_group(value: str) -> str:
    last = value.partition("%")[0].rpartition(":")[2]
    return "" if "." in last else last


def is_border(literal: str) -> bool:
    """Whether a user's own replacement is known again: in brackets. `XXX` may be the half of a word that is a value."""
    return _in_brackets.fullmatch(literal) is not None


def replaced(rules: Iterable[Rule]) -> re.Pattern[str]:
    """What these rules leave behind with nothing of a value in it: texts in which nothing is looked for again."""
    rules = list(rules)
    types = "|".join(sorted(rule.type for rule in rules))
    names = "|".join(sorted({rule.type.upper() for rule in rules} | set(map(str.upper, BUILTIN))))
    digits = rf"(?![0-9]{{{HASH_DIGITS}}}>)[0-9a-f]{{{HASH_DIGITS}}}"
    literals = {rule.replacement for rule in rules if rule.replacement and is_border(rule.replacement)}
    forms = [re.escape(literal) for literal in sorted(literals, key=lambda one: (-len(one), one))]
    forms += [
        rf"\[(?:REDACTED|MASKED)_(?:{names})\]",
        rf"<(?:{types})_(?:hash:{digits}|[1-9][0-9]{{0,8}}(?:_[a-z]{{4}})?)>",
    ]
    return re.compile("|".join(forms))


def masks(rules: Iterable[Rule]) -> re.Pattern[str] | None:
    """What these rules leave behind that shows a part of the value, if one does."""
    kinds = {rule.type for rule in rules if rule.strategy == "mask"} - {"url"}
    forms = [MASKS[kind] for kind in MASKS if kind in kinds] + ([OTHER_MASK] if kinds - MASKS.keys() else [])
    return re.compile("|".join(forms)) if forms else None
