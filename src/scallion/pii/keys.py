"""Keys of services, tokens, private keys, and addresses with a password in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scallion.pii.detector import Detector, Place
from scallion.pii.key_forms import key_forms
from scallion.pii.private_keys import PrivateKeyOpenings, private_keys
from scallion.pii.urls import whole_urls
from scallion.pii.words import HARD

SHORTEST = 16
"""Characters of the word that a key is in, passwords aside. To look for a hundred beginnings in long words is fast."""
_forms = list(key_forms())
_header = re.compile(
    r"(?i:authorization:\s?(?:bearer|basic|token|apikey)\s|(?<![a-z])bearer\s(?=[\w.~+/-]{0,200}[0-9]))[\w.~+/-]{16,}={0,2}"
)
_telegram = re.compile(r":AA[A-Za-z0-9_-]{32,}")
_digits = re.compile(r"[0-9]{8,12}")
_login = re.compile(rf"://[^{HARD}/?#@:']{{0,256}}:[^{HARD}/?#@']{{1,256}}@(?=[\w\[])")
_scheme = re.compile(r"[A-Za-z0-9+.-]{1,32}")


def _places(text: str, since: int) -> Iterator[Place]:
    long = " ".join(word for word in text.split() if len(word) >= SHORTEST or "=" in word)
    for begin, form in _forms:
        if begin in long:
            yield from (match.span() for match in form.finditer(text, since))
    if "earer" in text or "EARER" in text or "uthorization:" in text or "UTHORIZATION:" in text:
        yield from (match.span() for match in _header.finditer(text, since))
    if "://" in text and "@" in text:
        yield from whole_urls(text, _with_password(text, since))
    if ":AA" in text:
        yield from _of_bot(text, since)
    yield from private_keys(text, since)


def _with_password(text: str, since: int) -> Iterator[Place]:
    """`postgresql://user:password@host/name`, all of it."""
    for login in _login.finditer(text, since):
        scheme = _scheme.match(text[max(since, login.start() - 32) : login.start()][::-1])
        if scheme:
            yield login.start() - scheme.end(), login.end()


def _of_bot(text: str, since: int) -> Iterator[Place]:
    """`123456789:AA...`, of Telegram."""
    for match in _telegram.finditer(text, since):
        number = _digits.match(text[max(since, match.start() - 12) : match.start()][::-1])
        if number:
            yield match.start() - number.end(), match.end()


API_KEY = Detector(
    _places,
    letters=r"\w.+=!@$%&*~\-;:",
    gaps="|".join(
        rf"(?<={end})\s"
        for end in (
            "[Ee][Aa][Rr][Ee][Rr]",
            "[Aa][Ss][Ii][Cc]",
            "[Tt][Oo][Kk][Ee][Nn]",
            "[Pp][Ii][Kk][Ee][Yy]",
            "[Aa][Tt][Ii][Oo][Nn]:",
        )
    ),
    has_tail=True,
    hint=r"\S{16}|=|://|-----",
    openings=PrivateKeyOpenings,
)
