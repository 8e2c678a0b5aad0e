"""Texts with the places of personal data in them, from the folder `shared`, and how detectors do on them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from langchain.agents.middleware._redaction import BUILTIN_DETECTORS

from scallion.pii import Redaction, Rule

SHARED = Path(__file__).parents[2] / "shared" / "data"
VECTORS = SHARED / "vectors"
Place = tuple[int, int]
Detect = Callable[[str], Sequence[Place]]


@dataclass(frozen=True)
class Row:
    """One text of a corpus: what a detector of the type `kind` should find in it. `exactly`: these places, no wider."""

    name: str
    kind: str
    text: str
    places: tuple[Place, ...]
    exactly: bool = False


@dataclass(frozen=True)
class Score:
    """How many places there are; which of them are not wholly covered, which findings touch none; which rows differ."""

    places: int
    missed: tuple[str, ...]
    false: tuple[str, ...]
    wrong: tuple[str, ...]


def ours(kind: str) -> Detect:
    """This library's detector."""
    one = Redaction([Rule(kind)])
    return lambda text: [(found.start, found.end) for found in one.find(text)]


def theirs(kind: str) -> Detect | None:
    """LangChain's detector, overlapping places as it gives them; None where it has none."""
    detect = BUILTIN_DETECTORS.get(kind)
    return detect and (lambda text: [(found["start"], found["end"]) for found in detect(text)])


def score(rows: Sequence[Row], detector: Callable[[str], Detect | None]) -> Score:
    """How a detector of each row's type does on these rows."""
    detectors = {kind: detector(kind) for kind in {row.kind for row in rows}}
    missed, false, wrong = [], [], []
    for row in rows:
        detect = detectors[row.kind]
        found = sorted(detect(row.text)) if detect else []
        covered = {at for start, end in found for at in range(start, end)}
        misses = [place for place in row.places if not covered.issuperset(range(*place))]
        hits = [one for one in found if not any(one[0] < end and start < one[1] for start, end in row.places)]
        missed += [row.name] * len(misses)
        false += [row.name] * len(hits)
        wrong += [row.name] if (found != sorted(row.places) if row.exactly else misses or hits) else []
    return Score(sum(len(row.places) for row in rows), tuple(missed), tuple(false), tuple(wrong))


def _lines(name: str) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (VECTORS / name).read_text().splitlines())


def vectors() -> list[Row]:
    """Texts of all types, with exact places."""
    return [
        Row(one["id"], one["kind"], one["text"], tuple(map(tuple, one["spans"])), exactly=True)
        for one in _lines("pii_vectors.jsonl")
    ]


def policies() -> set[str]:
    """The names of vectors on which opinions differ: what is done with them is a decision."""
    return {one["id"] for one in _lines("pii_vectors.jsonl") if one["level"] == "policy"}


def cards() -> list[Row]:
    """Numbers of all brands, plain and in groups, and numbers that are none, also as decimals."""
    rows = []
    for one in _lines("credit_cards.jsonl"):
        number = one["pan"]
        is_decimal = "decimal" in one.get("note", "")
        text = f"paid with {'0.' if is_decimal else ''}{number}, thanks"
        place = ((10, 10 + len(number)),) if one["expect"] else ()
        rows.append(Row(f"{one['brand']} {number[:6]}", "credit_card", text, place))
        if len(number) == 16 and not is_decimal:
            grouped = " ".join(re.findall("....", number))
            place = ((0, 19),) if one["expect"] else ()
            rows.append(Row(f"{one['brand']} {number[:6]} in groups", "credit_card", grouped, place))
    return rows


def keys() -> list[Row]:
    """Keys of many services in their surroundings, and what only looks like one."""
    rows = []
    for one in _lines("api_keys.jsonl"):
        value = "".join(one["parts"])
        start = len(one["prefix"])
        places = ((start, start + len(value)),) if one["expect"] else ()
        rows.append(Row(one["id"], "api_key", one["prefix"] + value + one["suffix"], places))
    return rows


def formats(form: str, kind: str) -> list[Row]:
    """Strings of the JSON Schema tests that are, or are not, of a format as a whole."""
    given = [one for one in _lines("format_strings.jsonl") if one["format"] == form]
    return [
        Row(one["why"], kind, one["text"], ((0, len(one["text"])),) if one["valid"] else (), exactly=one["valid"])
        for one in given
    ]


TYPES = {
    "EMAIL_ADDRESS": "email",
    "CREDIT_CARD": "credit_card",
    "IP_ADDRESS": "ip",
    "DOMAIN_NAME": "url",
    "IBAN_CODE": "iban",
}


def presidio(kind: str) -> list[Row]:
    """Sentences with made-up values; which are labelled by template, so that some are no real ones."""
    rows = json.loads((SHARED / "presidio-research" / "synth.json").read_text())
    return [
        Row(
            one["full_text"][:60],
            kind,
            one["full_text"],
            tuple(
                (span["start_position"], span["end_position"])
                for span in one["spans"]
                if TYPES.get(span["entity_type"]) == kind
            ),
        )
        for one in rows
    ]


def links() -> list[Row]:
    """The links of linkify-it, those of e-mail addresses aside."""
    lines = iter(
        (SHARED / "url-email-ip-corpora" / "linkify-it" / "test" / "fixtures" / "links.txt").read_text().splitlines()
    )
    rows = []
    for line in lines:
        text = _uncommented(line)
        if not text:
            continue
        link = _uncommented(next(lines, "")) or text
        start = text.find(link)
        if start >= 0 and not re.search(r"(?i)^mailto:|^[^/]*@", link):
            rows.append(Row(text, "url", text, ((start, start + len(link)),), exactly=True))
    return rows


def no_links() -> list[Row]:
    """What linkify-it does not take for a link."""
    path = SHARED / "url-email-ip-corpora" / "linkify-it" / "test" / "fixtures" / "not_links.txt"
    return [Row(text, "url", text, ()) for line in path.read_text().splitlines() if (text := _uncommented(line))]


def _uncommented(line: str) -> str:
    return re.sub(r"(^%|\s+(%|//) ).*", "", line).strip()


def addresses() -> list[Row]:
    """The addresses of isemail that are good for the wide world, and those that are none at all."""
    root = ElementTree.parse(SHARED / "url-email-ip-corpora" / "isemail" / "test" / "tests.xml").getroot()
    rows = []
    for one in root.iter("test"):
        text, category = one.findtext("address") or "", one.findtext("category")
        if category in ("ISEMAIL_VALID_CATEGORY", "ISEMAIL_DNSWARN", "ISEMAIL_ERR") and text:
            places = () if category == "ISEMAIL_ERR" else ((0, len(text)),)
            rows.append(Row(text, "email", text, places))
    return rows


CORPORA: dict[str, Callable[[], list[Row]]] = {
    "vectors": vectors,
    "cards": cards,
    "keys": keys,
    "presidio, e-mail": lambda: presidio("email"),
    "presidio, card": lambda: presidio("credit_card"),
    "presidio, IP": lambda: presidio("ip"),
    "presidio, URL": lambda: presidio("url"),
    "linkify, links": links,
    "linkify, no links": no_links,
    "isemail": addresses,
    "formats, IPv4": lambda: formats("ipv4", "ip"),
    "formats, IPv6": lambda: formats("ipv6", "ip"),
    "formats, e-mail": lambda: formats("email", "email"),
    "formats, e-mail of any script": lambda: formats("idn-email", "email"),
    "formats, URI": lambda: formats("uri", "url"),
    "formats, host name": lambda: formats("hostname", "url"),
}
"""By name. The rows of one corpus have the same meaning of `exactly`."""
