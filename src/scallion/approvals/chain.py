"""The chain of hashes that the audit is: what a row is, the lines of its file, and whether rows are one chain.

    hash = SHA-256 of the JSON of [hash before, no, at, event, thread, subject, by, detail]

A file has a header, `{"scallion": "audit", "format": 1, "after": HEAD}`, a line for each row, and `{"end": HEAD}`. A
head is the number and the hash of a row as a text, `41:9c0e...`. No database is needed to check a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from scallion.errors import ConfigurationError, StorageError

GENESIS = "0" * 64
"""What stands for the hash before the first row."""
FORMAT = 1
"""The form of the file that this program writes, and the newest that it reads."""
FARTHEST = 64
"""How many rows may have been taken out together, the rest renumbered, so that it is told from a changed row."""

Problem = Literal["changed", "missing", "put in", "moved", "head"]
"""What is wrong with the first row that does not fit; "head": with the row that says where the chain ends."""


class Link(NamedTuple):
    """What the hash of a row covers, beside the hash before it; in this order. `at`: microseconds since 1970, UTC."""

    no: int
    at: int
    event: str
    thread: str
    subject: str | None
    by: str | None
    detail: str

    def hash(self, before: str) -> str:
        """The hash of the row behind the one with the hash `before`."""
        return sha256(json.dumps([before, *self], separators=(",", ":")).encode()).hexdigest()


class Head(NamedTuple):
    """The number and the hash of a row: where a chain ends, or where one goes on."""

    no: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.no}:{self.hash}"


def head(text: Head | str | None) -> Head:
    """The head that a text names; None is that of an empty chain. Raises ConfigurationError for what names none."""
    if text is None or isinstance(text, Head):
        return text or Head()
    no, colon, hash = str(text).strip().partition(":")
    if not colon or not no.isascii() or not no.isdigit() or len(no) > 18 or len(hash) != len(GENESIS):
        raise ConfigurationError("the head of an audit is what `verify` gives: a number, a colon, a hash of 64 digits")
    return Head(int(no), hash)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the audit. `at` is UTC and aware; `detail` holds ids, digests, kinds and numbers only."""

    no: int
    at: datetime
    event: str
    thread: str
    subject: str | None
    by: str | None
    detail: Mapping[str, Any]
    hash: str

    def to_json(self) -> dict[str, Any]:
        """Plain data, the time as an ISO 8601 text."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {"at": self.at.isoformat(), "detail": dict(self.detail)}


@dataclass(frozen=True, slots=True)
class Verified:
    """Whether a chain is whole. `head` is where it ends: remember it, so that a later look sees what is gone by then.

    `broken`: the number of the first row that does not fit; `problem` and `reason` say why. `since`: behind which head
    a file begins. `rows`: how many rows fit.
    """

    rows: int
    since: str
    head: str
    broken: int | None = None
    problem: Problem | None = None
    reason: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every row fits."""
        return self.problem is None

    def behind(self, former: Verified) -> Verified:
        """Both together, where this goes on behind the former one."""
        return replace(self, rows=former.rows + self.rows, since=former.since)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"whole": self.is_whole, **{name: getattr(self, name) for name in self.__slots__}}


class Walk:
    """Sees the rows of a chain, one after the other, and keeps what it needs of them: the last one that fits."""

    def __init__(self, begin: Head, remembered: Head) -> None:
        self.last = begin.no
        """The number of the row that was seen last, whether it fits or not."""
        self._begin = self._fits = begin
        self._remembered = remembered
        self._break: _Break | None = None
        if begin.no > remembered.no > 0:
            self._break = _Break(self._fits, told=("missing", f"it begins behind row {begin.no}"))
        self._compare(begin)

    def see(self, link: Link, hash: str) -> None:
        """The next row."""
        self.last = link.no
        if self._break is not None:
            self._break.see(link, hash)
        elif link.no == self._fits.no + 1 and link.hash(self._fits.hash) == hash:
            self._fits = Head(link.no, hash)
            self._compare(self._fits)
        else:
            self._break = _Break(self._fits, link, hash)

    def end(self, head: Head | None) -> Verified:
        """What came of it, where the chain is said to end at `head`; None where nothing says where."""
        found = self._break or self._end(head)
        done = Verified(self._fits.no - self._begin.no, str(self._begin), str(self._fits))
        if found is None:
            return done
        problem, reason = found.told(head)
        return Verified(done.rows, done.since, done.head, found.no, problem, reason)

    def _compare(self, here: Head) -> None:
        if here.no == self._remembered.no and here.no and here.hash != self._remembered.hash and not self._break:
            before = Head(here.no - 1)
            self._break = _Break(before, told=("changed", f"row {here.no} is not the one that was remembered"))

    def _end(self, head: Head | None) -> _Break | None:
        no = self._fits.no
        if head is not None and head.no > no:
            return _Break(self._fits, told=("missing", f"rows {no + 1} to {head.no} are missing: the end was cut off"))
        if self._remembered.no > no:
            gone = f"rows {no + 1} to {self._remembered.no}, which were there, are missing: the end was cut off"
            return _Break(self._fits, told=("missing", gone))
        if head != self._fits and (head is not None or no):
            told = "nothing says where it ends" if head is None else f"it says row {head.no}, of another hash or before"
            return _Break(self._fits, told=("head", f"the head does not fit: {told}; the rows end with {no}"))
        return None


class _Break:
    """The first row that does not fit, and what the rows behind it tell about why."""

    def __init__(
        self, before: Head, link: Link | None = None, hash: str = "", *, told: tuple[Problem, str] | None = None
    ) -> None:
        self.no = before.no + 1
        self._before = before
        self._link = link
        self._hash = hash
        self._told = told
        self._seen = 0
        self._problem: Problem | None = None
        self._gap = link.no - self.no if link is not None else 0
        if self._gap < 0 and link is not None:
            self.no, self._told = link.no, ("put in", f"row {link.no} stands behind row {before.no}")

    def see(self, link: Link, hash: str) -> None:
        """A row behind it."""
        self._seen += 1
        if self._told is not None or self._link is None:
            return
        if self._gap:
            if link.no == self.no:
                self._told = "moved", f"row {self.no} stands at another place"
        elif self._seen == 1 and link.hash(self._hash) == hash:
            self._told = "changed", f"row {self.no} was changed: its hash is of something else"
        else:
            self._compare(self._link, link, hash)

    def _compare(self, broken: Link, link: Link, hash: str) -> None:
        """Whether the rows belong elsewhere: a hash knows its number and the hash before it."""
        places = ((link.no + 1, hash), (link.no, hash))
        if any(broken._replace(no=no).hash(before) == self._hash for no, before in places):
            self._told = "moved", f"row {self.no} belongs elsewhere"
        elif link._replace(no=self.no).hash(self._before.hash) == hash:
            self._problem = "moved" if self._problem == "missing" else "put in"
        elif self._seen == 1 and any(
            link._replace(no=link.no + by).hash(self._hash) == hash for by in range(1, FARTHEST)
        ):
            self._problem = "missing"

    def told(self, head: Head | None) -> tuple[Problem, str]:
        """Why it does not fit."""
        if self._told is not None:
            return self._told
        if self._gap:
            rows = f"row {self.no} is" if self._gap == 1 else f"rows {self.no} to {self.no + self._gap - 1} are"
            return "missing", f"{rows} missing"
        if self._problem is None and not self._seen and head == self._before:
            self._problem = "put in"
        reasons: dict[Problem, str] = {
            "missing": f"a row in front of row {self.no} is missing, and those behind it were renumbered",
            "put in": f"row {self.no} was put in",
            "moved": f"row {self.no} stands at another place",
        }
        problem: Problem = self._problem or "changed"
        return problem, reasons.get(problem, f"row {self.no} does not fit: it, or all from there on, was changed")


def header(after: Head) -> dict[str, Any]:
    """The first line of a file whose rows come behind that one."""
    return {"scallion": "audit", "format": FORMAT, "after": str(after)}


def verify(lines: Iterable[str | bytes], *, since: Head | str | None = None) -> Verified:
    """Whether the file of an audit is whole; `since`: a head that was remembered, which it has to have, or go on from.

    Raises StorageError for what is no such file, ConfigurationError for what is no head.
    """
    rows = (_parsed(line, n) for n, line in enumerate(filter(str.strip, map(_decoded, lines)), 1))
    first = next(rows, {})
    if first.get("scallion") != "audit" or first.get("format") != FORMAT or not isinstance(first.get("after"), str):
        raise StorageError("this is not the file of an audit that this program reads: its first line is another one")
    walk = Walk(_stored_head(first["after"]), head(since))
    end: Head | None = None
    for row in rows:
        if "end" in row:
            end = _stored_head(row["end"])
        else:
            end = None  # what stands behind the end is no part of the chain that ended there
            walk.see(Link(*(row[name] for name in Link._fields)), row["hash"])
    return walk.end(end)


def _stored_head(text: Any) -> Head:
    try:
        return head(text if isinstance(text, str) else "")
    except ConfigurationError as error:
        raise StorageError(f"the file of the audit is damaged: {error}") from None


def _decoded(line: str | bytes) -> str:
    return line if isinstance(line, str) else line.decode("utf-8", "replace")


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if number == 1:  # told by whoever reads the header
        return found if isinstance(found, dict) else {}
    if not isinstance(found, dict) or not ("end" in found or _is_row(found)):
        raise StorageError(f"line {number} of the file is no row of an audit")
    return found


def _is_row(found: Mapping[str, Any]) -> bool:
    kinds: dict[str, Any] = {"no": int, "at": int, "subject": str | None, "by": str | None}
    return all(name in found and isinstance(found[name], kinds.get(name, str)) for name in (*Link._fields, "hash"))
