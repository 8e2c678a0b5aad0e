"""Redactions and texts that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from hypothesis import strategies as st

from scallion.pii import Finding, Redaction, Rule

KEY = b"a key of the tests"


def redaction(*rules: str | Rule) -> Redaction:
    """Of types by name, or whole rules."""
    return Redaction([Rule(rule) if isinstance(rule, str) else rule for rule in rules], key=KEY)


def streamed(one: Redaction, pieces: Iterable[str]) -> tuple[str, list[Finding]]:
    """What a stream of these pieces becomes, and what was found in it."""
    stream = one.stream()
    text = "".join([*map(stream.push, pieces), stream.finish()])
    assert stream.held == 0
    return text, stream.findings


def cut(text: str, places: Sequence[int]) -> list[str]:
    """The text in pieces; an empty one is a piece, too."""
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


PRIVATE_KEY = (
    f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEpAIB' * 8}\n{'QUJD' * 5}\nQUJDRA==\n-----END RSA PRIVATE KEY-----"
)
FRAGMENTS = [
    "DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "DE89 37", " 0130 00", "+49 (0)30 1234567",
    "(201) 555-0123", "+12015550123", " 2026", ". 2026", "( 7", " -1", "+1",
    "ana@example.com", "user@", "@b", ".co", "bob+x@sub.example.co.uk", "first..last@example.com", "用户@例子.广告",
    "4111 1111 1111 1111", "4111111111111111", "3782 822463 10005", "4111", " 1111", "5555-5555-5555-4444",
    "1748503543012", "0.", "192.168.0.1", "10.0.0.1", "::1", "fe80::1%eth0", "::ffff:1.2.3.4", "2001:db8::1", "1.2.3",
    "12:30:45", "00:1A:2b:3c:4d:5e", "00-1a-2b-3c-4d-5e", "0011.2233.4455", ":22", "https://", "http://user:pw@",
    "a.com/p?u=http://b.com[1]", "www.example.com", "example.com/x", "Node.js/Express", "(https://example.com/a_(b))",
    "sk-" + "ant-api03-Ldnsyd36dBxT3wGa06qx7H", "gh" + "p_xSJr4IkNpYlMLrYCuI4TTs48czJkGqVIr9kk",
    "AK" + "IA37XEPNIKWPVTBLY5", "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.6sF9jQefBC655Z", "Authorization: ",
    "Bearer ", "QSSPfWK3WO_WRIPPISi4", "Server=db;Password=s3cret;", "postgresql://bot:pw1@db.example/x", PRIVATE_KEY,
    PRIVATE_KEY[:60], "-----BEGIN ", "RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----",
    "\nQUJDQUJDQUJDQUJDQUJD", "\\n", "[REDACTED_EMAIL]", "[REDACTED_", "<email_1_omsd>", "<ip_hash:0123456789abcdef>",
    "****", "@****.com", "**** **** **** 1111", "*.*.*.7", "****:1",
    "[", "]", "<", ">", "*", "the", "x", "é", "看", " ", "  ", "\n", ".", ",", "-", "_", "/", "?",
    "'", '"', "7", "(", ")", "\u200b", "@", ":", "::", "//", ";", "=",
]  # fmt: skip
"""Pieces of which texts are made: whole values, parts of them, and what stands around them."""

texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=14).map("".join)
places = st.lists(st.integers(min_value=0, max_value=400), max_size=12)
