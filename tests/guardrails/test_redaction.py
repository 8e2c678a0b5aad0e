"""What holds for every text, every order of rules and every way to cut a stream."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from guardrails.redactions import KEY, cut, places, redaction, streamed, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from scallion.errors import ConfigurationError
from scallion.pii import Finding, Redaction, Rule
from scallion.pii.builtin import BUILTIN

STRATEGIES = ("redact", "mask", "hash", "block", "tokenise")
rules = st.lists(
    st.builds(Rule, st.sampled_from(sorted(BUILTIN)), st.sampled_from(STRATEGIES)),
    min_size=1,
    max_size=len(BUILTIN),
    unique_by=lambda rule: rule.type,
)


@settings(max_examples=120, deadline=None)
@given(texts, rules, places)
def test_a_stream_becomes_what_the_whole_text_becomes(text: str, rules: list[Rule], places: list[int]) -> None:
    """`join(pieces) == redact(text)`, for every chunking, down to single characters; with the same findings."""
    one = Redaction(rules, key=KEY)
    whole = one.redact(text)
    assert streamed(one, cut(text, places)) == whole
    assert streamed(one, text) == whole


@pytest.mark.parametrize("strategy", ["redact", "mask"])
@pytest.mark.parametrize(
    "number", ["DE89 370400440532013000", "DE89 3704 0044 0532 0130 00", "GB29-NWBK60161331926819"]
)
@pytest.mark.parametrize(
    "behind", ["Authorization:Bearer abcdefghijklmnop", "https://example.com/a b", "ana@example.com "]
)
def test_a_number_is_kept_back_that_ends_where_another_value_may_begin(number: str, behind: str, strategy: str) -> None:
    """Glued to it, it is a number only once that is taken out."""
    one = Redaction([Rule(kind, strategy) for kind in ("api_key", "iban", "url", "email")], key=KEY)
    whole = one.redact(number + behind)
    assert streamed(one, number + behind) == whole
    for place in range(len(number + behind)):
        assert streamed(one, cut(number + behind, [place])) == whole


@settings(max_examples=120, deadline=None)
@given(texts, rules)
def test_redacting_twice_is_redacting_once(text: str, rules: list[Rule]) -> None:
    """What stands in place of a value is not found again, alone or together with what is beside it."""
    one = Redaction(rules, key=KEY)
    once = one.redact(text)[0]
    assert one.redact(once) == (once, [])


KEY_OF_AWS = "AK" + "IA37XEPNIKWPVTBLY5"
CARD = "4111 1111 1111 1111"
DIGITS = CARD.replace(" ", "")
DISGUISES = [
    f"[REDACTED_{KEY_OF_AWS}]", f"<email_hash:{DIGITS}>", f"{KEY_OF_AWS}@****", f"{DIGITS}@****.com",
    "10.0.0.7@****.x", "ana@example.com,bob@****.com", "ana@example.com.bob@****.com", f"****:{CARD}",
    f"**** **** **** {CARD}",
    "**** **** **** 1111@example.com", "****10.0.0.7", "https://example.com/x?t=abc@****", "(x)ana@example.com",
    "maXXX@example.com",
]  # fmt: skip


@pytest.mark.parametrize("text", DISGUISES)
@pytest.mark.parametrize("strategy", ["redact", "mask", "block"])
def test_nothing_passes_as_a_replacement(text: str, strategy: str) -> None:
    """Neither inside of what looks like one nor behind it; the same in a stream, in every order of the rules."""
    kinds = ["email", "ip", "credit_card", "api_key", "url"]
    rules = [Rule(kind, strategy) for kind in kinds[1:]]
    rules.insert(0, Rule("email", replacement="XXX") if strategy == "redact" else Rule("email", "mask"))
    one = Redaction(rules, key=KEY)
    whole = one.redact(text)
    assert whole[1]
    assert not any(secret in whole[0] for secret in (KEY_OF_AWS, CARD, DIGITS, "10.0.0.7", "example.com"))
    assert streamed(one, text) == whole == Redaction(rules[::-1], key=KEY).redact(text)


def test_what_cannot_be_a_type_or_a_token_is_text() -> None:
    """A number of more than nine digits, a name that nobody gave, a hash of digits alone."""
    one = redaction(Rule("number", detector=r"[0-9]{12,}"))
    for text in ("[REDACTED_{}]", "[MASKED_{}]", "<number_{}>", "<email_{}>"):
        assert one.redact(text.format("4" * 12))[0] == text.format("[REDACTED_NUMBER]")
    hashes = redaction(Rule("number", "hash", detector="[0-9]+")).redact(" ".join(map(str, range(5_000))))[0]
    assert not re.search("hash:[0-9]+>", hashes)


@settings(max_examples=60, deadline=None)
@given(texts, rules.flatmap(lambda given: st.tuples(st.just(given), st.permutations(given))))
def test_the_order_of_rules_says_nothing(text: str, orders: tuple[list[Rule], list[Rule]]) -> None:
    """Two orders of the same rules give the same text and findings, which are in order and apart."""
    first, second = (Redaction(order, key=KEY).redact(text) for order in orders)
    assert first == second
    assert all(one.end <= other.start for one, other in pairwise(first[1]))


def test_a_finding_does_not_hold_what_was_found() -> None:
    """Type, place and strategy; neither attributes nor repr have the text."""
    text = "mail ana@example.com now"
    (found,) = redaction("email").find(text)
    assert found == Finding("email", 5, 20, "redact")
    assert "ana" not in repr(found)


def test_what_a_rule_may_not_be() -> None:
    """Each mistake is an error where the rule is made, and names the rule."""
    for wrong in (
        {"type": "e mail"},
        {"type": "shoe_size"},
        {"type": "email", "strategy": "hide"},
        {"type": "email", "detector": 5},
        {"type": "email", "strategy": "mask", "replacement": "x"},
        {"type": "email", "replacement": 5},
    ):
        with pytest.raises(ConfigurationError, match="pii: .*" + str(wrong["type"])):
            Rule(**wrong)
    for rules, key in (([], None), (["email", "email"], None), (["email"], b""), (["email"], "key")):
        with pytest.raises(ConfigurationError, match="pii: "):
            Redaction([Rule(rule) for rule in rules], key=key)
    with pytest.raises(ConfigurationError, match="'email': the strategy hash needs a key"):
        Redaction([Rule("email", "hash")])


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=2, max_size=5).map("".join), rules, places)
def test_words_that_are_too_long_to_hold_are_read_in_parts(text: str, rules: list[Rule], places: list[int]) -> None:
    """The same parts for every chunking and in the whole text; what is held stays below the limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scallion.pii.words.MOST", 40)
        patch.setattr("scallion.pii.words.WIDEST", 16)
        patch.setattr("scallion.pii.stream.MOST_HELD", 82)
        patch.setattr("scallion.pii.redaction.MOST_HELD", 82)
        one = Redaction(rules, key=KEY)
        whole = one.redact(text)
        assert one.find(text) == whole[1]
        assert streamed(one, cut(text, places)) == whole
        assert streamed(one, text) == whole


def test_a_url_longer_than_any_hold_leaves_nothing_behind() -> None:
    """The rest of it is dropped as it comes, up to the space behind it."""
    one = redaction("url", "email")
    text = f"see https://example.com/{'a' * 50_000}?token=TOPSECRET end"
    stream = one.stream()
    held, out = [], []
    for start in range(0, len(text), 7):
        out.append(stream.push(text[start : start + 7]))
        held.append(stream.held)
    assert "".join([*out, stream.finish()]) == one.redact(text)[0] == "see [REDACTED_URL] end"
    assert [(one.start, one.end) for one in stream.findings] == [(4, len(text) - 4)]
    assert max(held) < 17_000


@pytest.mark.parametrize("strategy", ["mask", "redact", "hash"])
@pytest.mark.parametrize("behind", ["DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19"])
def test_what_a_mask_shows_of_a_key_begins_nothing_else(strategy: str, behind: str) -> None:
    """An account number that is glued to a key is a part of it; behind the mask it would be one by itself."""
    one = redaction(Rule("api_key", strategy="mask"), Rule("iban", strategy=strategy))  # type: ignore[arg-type]
    made = one.redact(f"x_{KEY_OF_AWS}{behind}:")[0]
    assert made.startswith("x_****")
    assert one.redact(made)[0] == made
