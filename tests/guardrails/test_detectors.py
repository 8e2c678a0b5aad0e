"""What each type finds, at its edges, and what it costs on texts that are made to cost."""

from __future__ import annotations

import sys
import time

import pytest
from guardrails.redactions import redaction

from scallion.errors import ConfigurationError
from scallion.pii import Redaction, Rule
from scallion.pii.builtin import BUILTIN

FOUND = {
    "email": [
        "ana@example.com", "'o'brien@x.ie"[1:], "josé@例子.广告", "a\u200bna@example.com", "ana\u200e@example.com",
        "ana@\u2066example\u2069.com", "ANA@EXAMPLE.CO.UK",
    ],
    "credit_card": [
        "2221000000000009", "4222222222222", "6205500000000000004", "4111 1111 1111 1111", "3782-822463-10005",
        "4111.1111.1111.1111", "4111\u200b1111\u200b1111\u200b1111", "4111\u200e1111\u200e1111\u200e1111",
        "4111 1111\n1111 1111",
    ],
    "ip": ["10.0.0.1", "2001:db8::1", "::1", "fe80::1", "::ffff:1.2.3.4", "fe80::1%eth0"],
    "mac_address": ["0011.2233.4455", "00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "00:11:22:33:44:55:66:77"],
    "url": ["https://example.com/a_(b)", "www.example.com", "example.com:80/x?y=1", "ftp://a.b/c", "http://[::1]:80/"],
    "api_key": [
        "xoxb" + "-324563880681-539838563599-vvdAJwfpSO", "Authorization: " + "Bearer QSSPfWK3WO_WRIPPISi4u245",
        "postgresql+psycopg://bot:pw@db.example/x", "123456789:AA" + "HdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
        "AccountKey=" + "QUJDQUJDQUJDQUJDQUJDQUJDQUJD==",
    ],
    "iban": ["DE89 3704 0044 0532 0130 00", "gb29nwbk60161331926819"],
    "phone": ["+49 30 1234567", "+46 (0)8 928 571 38", "(201) 555-0123"],
}  # fmt: skip
NOT_FOUND = {
    "email": ["a@b.c", "user@localhost", "user@.com", "me @ noon", "@ana", "foo@example.c|m"],
    "credit_card": [
        "1748503543012", "0.4111111111111111", "4111111111111111.5", "41111111111111111111", "4111 1111 1111 1112",
        "41 11 11 11 11 11 11 11", "a4111111111111111", "4111.1111 1111.1111",
    ],
    "ip": [
        "1.2.3", "999.1.1.1", "1.2.3.4.5", "12:30:45", "a::b", "std::vector", "00:1A:2B:3C:4D:5E", "::", "1.2.3.4rc1",
        "a[1::2]", "x[::1]", "s[1::]", "12:30::", "ratio 1::2", "C::1", "f::0", "m[0][::2]",
    ],
    "mac_address": [
        "00:11-22:33-44:55", "GG:11:22:33:44:55", "001A2B3C4D5E", "00:11:22:33:44:55:66", "1.0011.2233.4455",
    ],
    "url": [
        "harold.smith@gmail.com", "os.system", "rpc.py:30", "Node.js/Express", "and/or", "3.5/5", "https://",
        "10.0.0.0/8", 'File "main.py", line 3, in os.path/x', "google.com", "ana@example.com/x",
    ],
    "api_key": [
        "sk-learn is a library", "task-force-2024-planning-committee-report", "xoxb-your-token", "Bearer of bad news",
        "550e8400-e29b-41d4-a716-446655440000", "-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY----- is how",
    ],
    "iban": ["DE89 3704 0044 0532 0130 01", "XX12 3456 7890 1234"],
    "phone": ["2024-11-30 12:00", "10.0.0.1", "192-168-1-1", "+1", "1,234,567.890"],
}  # fmt: skip


@pytest.mark.parametrize("kind", BUILTIN)
def test_the_edges_of_each_type(kind: str) -> None:
    """One place each, as it is, in a sentence and in brackets; and the rest of the text is as it was."""
    one = redaction(kind)
    for value in FOUND[kind]:
        for around in ("{}", "see {}, then", "({})", "看：{}。", "x={}\n"):
            assert one.redact(around.format(value))[0] == around.format(f"[REDACTED_{kind.upper()}]"), value
    for text in NOT_FOUND[kind]:
        for around in ("{}", "see {} then", "({})"):
            assert one.redact(around.format(text)) == (around.format(text), []), text


def test_a_traceback_is_no_list_of_urls() -> None:
    """Nor an e-mail address two."""
    text = 'Traceback:\n  File "/srv/app/rpc.py", line 3, in call\n    os.system(cmd.txt)\n  harold.smith@gmail.com'
    assert redaction("url").redact(text) == (text, [])


MASKS = {
    "email": ("ana@mail.example.co.uk", "ana@****.uk"),
    "credit_card": ("4111-1111-1111-1111", "****-****-****-1111"),
    "ip": ("10.0.0.12", "*.*.*.12"),
    "mac_address": ("00:1A:2B:3C:4D:5E", "**:**:**:**:**:5E"),
    "url": ("https://example.com/x", "[MASKED_URL]"),
    "api_key": ("AK" + "IA37XEPNIKWPVTBLY5", "****BLY5"),
    "iban": ("DE89 3704 0044 0532 0130 10"[:-2] + "00", "****"),
    "phone": ("+49 30 1234567", "****4567"),
}


@pytest.mark.parametrize("kind", BUILTIN)
def test_the_strategies_of_each_type(kind: str) -> None:
    """What stands in the place of a value, for each strategy."""
    value, masked = MASKS[kind]
    one = {strategy: redaction(Rule(kind, strategy)) for strategy in ("redact", "mask", "hash", "block", "tokenise")}
    assert one["redact"].redact(value)[0] == f"[REDACTED_{kind.upper()}]"
    assert one["block"].redact(value)[1][0].strategy == "block"
    assert one["mask"].redact(value)[0] == masked
    assert (
        one["tokenise"].redact(value, tokens=lambda kind, value: f"<{kind}_{len(value)}>")[0]
        == f"<{kind}_{len(value)}>"
    )
    hashed = one["hash"].redact(value)[0]
    assert hashed.startswith(f"<{kind}_hash:")
    assert hashed != Redaction([Rule(kind, "hash")], key=b"another").redact(value)[0]
    assert Redaction([Rule(kind, replacement="(gone)")]).redact(f"a {value} b")[0] == "a (gone) b"


def test_what_overlaps_is_one_finding_of_the_strictest_rule() -> None:
    """An e-mail address in a URL, a key in a URL, a login in a URL."""
    text = "https://example.com/?to=ana@example.com"
    assert redaction("url", "email").redact(text)[0] == "[REDACTED_URL]"
    assert redaction(Rule("url", "mask"), Rule("email", "block")).redact(text)[0] == "[REDACTED_EMAIL]"
    assert redaction(Rule("url", "mask"), Rule("email", "mask")).redact(text)[0] == "[REDACTED_URL]"
    assert redaction("email", "url").redact("http://user:pa%20ss@example.com/x")[0] == "[REDACTED_URL]"


def test_both_names_of_a_hardware_address() -> None:
    """LangChain calls it mac_address, and so is it called in what is found."""
    assert Rule("mac") == Rule("mac_address")


@pytest.mark.parametrize("number", ["+12015550123", "+1 201-555-0123", "+44 20 7946 0958"])
@pytest.mark.parametrize("behind", [" 7 times", " 2026", " 12 31", "-1", ") 4"])
def test_digits_behind_a_phone_number_are_of_the_text(number: str, behind: str) -> None:
    assert Redaction([Rule("phone")]).redact(f"call {number}{behind}")[0] == f"call [REDACTED_PHONE]{behind}"


def test_a_number_that_begins_behind_what_is_none() -> None:
    assert Redaction([Rule("phone")]).redact("::1\u2009(201) 555-0123.")[0] == "::1\u2009[REDACTED_PHONE]."


def test_a_line_ends_what_is_no_address_yet() -> None:
    assert Redaction([Rule("ip")]).redact("1\n.2.3.4")[1] == []


def test_phone_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    with pytest.raises(ConfigurationError, match=r"'phone'.*scallion\[pii\]"):
        Redaction([Rule("phone")])


COSTLY = [
    "a@", "@", "a.", "http://", "http://a)", "http://a'", "a.com/", "www.a.b", "1.", "1:", "::", "1 ", "1111 ", "00:",
    "0000.", "eyJ-", "eyJa.", "sk-", "sk-1", "password=", "a://b:c@d,", "-----BEGIN PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----{'A' * 16}", "[", "<", "****", "ana@example.com", "4111111111111111.", "Bearer ",
    "DE89", "DE89 ", "+1", "((", "\u200b", "[REDACTED_", "é",
]  # fmt: skip


@pytest.mark.parametrize("piece", COSTLY)
def test_time_grows_with_the_text(piece: str) -> None:
    """Twice the text takes about twice the time, whole and in a stream, with all types."""
    one = redaction(*BUILTIN)

    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        begun = time.process_time()
        one.redact(text)
        stream = one.stream()
        for start in range(0, length, 50):
            stream.push(text[start : start + 50])
        stream.finish()
        return time.process_time() - begun

    short = min(seconds(5_000) for _ in range(2))
    assert seconds(20_000) < 4 * 2.5 * short + 0.2
