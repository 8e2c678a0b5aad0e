"""URLs: with a scheme, with `www.`, or a host of a known ending with a path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scallion.pii.detector import Detector, Place
from scallion.pii.domains import ENDINGS
from scallion.pii.ip import OCTET, is_sixth
from scallion.pii.words import HARD

SCHEMES = frozenset(
    "http https ftp ftps sftp ws wss ldap ldaps git ssh svn rtsp rtmp smb nfs s3 gs telnet gopher irc ircs".split()
)
LONGEST_HOST = 253
PORT = r"(?::[0-9]{1,5})?"
_rest = re.compile(rf"[^{HARD}]*")
_scheme = re.compile(r"[A-Za-z0-9]{1,6}")
_host_start = re.compile(rf"[\w%\u2100-\u2bff]|[^{HARD}/?#@]{{1,256}}@[\w\[]")
_sixth = re.compile(r"\[([0-9A-Fa-f:.]{2,45})")
_host = re.compile(rf"(?:[\w-]{{1,63}}\.){{1,10}}[^\W\d_][\w-]{{1,62}}{PORT}[/?#]?")
_ending = re.compile(rf"\.([^\W\d_]{{2,24}}|xn--[a-z0-9-]{{2,59}}){PORT}/")
_labels = re.compile(rf"[\w.-]{{1,{LONGEST_HOST}}}")
_numeric = re.compile(rf"\.{OCTET}\.{OCTET}\.{OCTET}{PORT}/[A-Za-z]")
_octet = re.compile(rf"(?<![\w.]){OCTET}\Z")
_bracket = re.compile(r"[()\[\]{}]")
BEHIND_HOST = frozenset("/?#")
CLOSES = {")": "(", "]": "[", "}": "{"}
POINTS = ".,:;!?*~([{"
"""What ends a sentence and not a URL."""


def _places(text: str, since: int) -> Iterator[Place]:
    if "://" in text:
        yield from whole_urls(text, _with_scheme(text, since))
    for www in ("www.", "WWW.", "Www."):
        yield from whole_urls(text, _with_www(text, since, www))
    if "/" in text:
        yield from whole_urls(text, _with_path(text, since))
        yield from whole_urls(text, _of_number(text, since))


def whole_urls(text: str, starts: Iterator[Place]) -> Iterator[Place]:
    """The URLs that start somewhere and have at least so much; those inside of others are parts of them.

    Behind a slash, question mark or number sign a URL goes on.
    """
    done = rest = 0
    for start, at_least in starts:
        if start >= done:
            goes_on = not BEHIND_HOST.isdisjoint(text[start:at_least])
            if goes_on and at_least > rest:
                rest = _rest.match(text, at_least).end()  # type: ignore[union-attr]
            done = _end(text, start, rest if goes_on else at_least)
            if done > start:
                yield start, done


def _with_scheme(text: str, since: int) -> Iterator[Place]:
    at = text.find("://", since)
    while at >= 0:
        start = _scheme_start(text, since, at)
        if start is not None and _has_host(text, at + 3):
            yield start, at + 4
        at = text.find("://", at + 1)


def _scheme_start(text: str, since: int, colon: int) -> int | None:
    """Where the scheme before this colon begins. `nhttp://` has one, as line breaks are written `\\n` in JSON."""
    before = _scheme.match(text[max(since, colon - 6) : colon][::-1])
    if not before:
        return None
    name = before[0][::-1].lower()
    known = next((name[cut:] for cut in range(len(name)) if name[cut:] in SCHEMES), None)
    if known is None or (known != name and not known.startswith("http")):
        return None
    return colon - len(known)


def _has_host(text: str, begin: int) -> bool:
    """Whether a host stands here, or a login before one."""
    if text[begin : begin + 1] == "[":
        number = _sixth.match(text, begin)
        return number is not None and is_sixth(number[1])
    return _host_start.match(text, begin) is not None


def _with_www(text: str, since: int, www: str) -> Iterator[Place]:
    at = text.find(www, since)
    while at >= 0:
        host = _host.match(text, at)
        if host and (at == 0 or _may_begin(text[at - 1])) and text[host.end() : host.end() + 1] != "@":
            yield at, host.end()
        at = text.find(www, at + 1)


def _with_path(text: str, since: int) -> Iterator[Place]:
    for match in _ending.finditer(text, since):
        labels = _labels.match(text[max(since, match.start() - LONGEST_HOST) : match.start()][::-1])
        if not labels or match[1].lower() not in ENDINGS:
            continue
        start = match.start() - len(labels[0].rstrip(".-"))
        if text[start : match.start()].strip(".-") and (start == 0 or text[start - 1] != "@"):
            yield start, match.end()


def _of_number(text: str, since: int) -> Iterator[Place]:
    """`192.168.0.1/status`, and not `10.0.0.0/8`."""
    for match in _numeric.finditer(text, since):
        octet = _octet.search(text, max(since, match.start() - 3), match.start())
        if octet:
            yield octet.start(), match.end()


def _may_begin(before: str) -> bool:
    return not (before in "@._-" or (before.isascii() and before.isalnum()))


def _end(text: str, start: int, end: int) -> int:
    """Where the URL ends whose characters do at `end`: without what belongs to the sentence around it."""
    if text[start - 1 : start] == "'":
        end = _before(text, "'", start, end)
    opened: list[str] = []
    for bracket in _bracket.finditer(text, start, end):
        if bracket[0] not in CLOSES:
            opened.append(bracket[0])
        elif not opened or opened.pop() != CLOSES[bracket[0]]:
            end = bracket.start()
            break
    return _without_points(text, start, end)


def _before(text: str, what: str, start: int, end: int) -> int:
    found = text.find(what, start, end)
    return end if found < 0 else found


def _without_points(text: str, start: int, end: int) -> int:
    points = POINTS + ("_" if text[start - 1 : start] == "_" else "")
    while end > start:
        last = text[end - 1]
        if last not in points and not (last == "'" and text.count("'", start, end) % 2):
            break
        end -= 1
    return end


URL = Detector(_places, letters=r"\w.\-:@", has_tail=True, hint=r"/|www\.|WWW\.|Www\.")
