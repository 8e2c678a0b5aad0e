"""Two runs side by side: marks at the words that differ, and no picture that takes minutes to find them."""

from __future__ import annotations

import random
import re
from difflib import SequenceMatcher
from typing import Any

import pytest

from scallion.inspect import to_html
from scallion.inspect.html import difference
from scallion.session import Difference

MOST = 3_000_000
"""Steps of the search for what is equal; a second or two."""


def compared(*pairs: tuple[str, str]) -> str:
    """The picture of two runs that differ in these answers."""
    messages: list[Any] = []
    for one, other in pairs:
        data = {"role": "assistant", "name": None, "tool_calls": [], "tool_call_id": None, "status": None, "id": None}
        messages += [("a", {**data, "content": one}), ("b", {**data, "content": other})]
        messages.append(("both", {**data, "content": "and"}))
    return to_html(Difference(messages, {}, {}))


def marks(page: str) -> list[str]:
    return re.findall(r"<(?:del|ins)>(.*?)</", page, re.DOTALL)


@pytest.mark.parametrize(
    ("one", "other", "marked"),
    [
        ("hello world", "hello moon", ["world", "moon"]),
        ("hello world", "oh hello", ["world", "oh"]),
        ("a b c d", "a x y d", ["b c", "x y"]),
        ("a b\nc", "a  b\nc", [" ", "  "]),
        ("same", "same\n", []),
        ("", "new", ["new"]),
    ],
)
def test_what_differs_is_marked(one: str, other: str, marked: list[str]) -> None:
    assert marks(compared((one, other))) == marked


def words(kinds: str, seed: int) -> str:
    made = random.Random(seed)
    return " ".join(made.choice(kinds) for _ in range(600))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x a " * 300, "y a " * 300),
        ("- " * 600, "- - - = " * 150),
        (words("01|", 1), words("01|", 2)),
        ("".join(f"| {n} | x |\n" for n in range(100)), "".join(f"| {n + 7} | y |\n" for n in range(100))),
        ("".join(f"x w{n % 60} " for n in range(300)), "".join(f"y w{n % 60} " for n in range(300))),
    ],
    ids=["every second", "one sign", "digits", "table", "many blocks"],
)
def test_texts_that_repeat_themselves_take_no_minutes(one: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; what is not marked is shown all the same."""
    steps = 0

    class Counting(SequenceMatcher[str]):
        def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Any:
            nonlocal steps
            steps += sum(1 + len(self.b2j.get(word, ())) for word in self.a[alo:ahi])  # type: ignore[attr-defined]
            return super().find_longest_match(alo, ahi, blo, bhi)

    monkeypatch.setattr(difference, "SequenceMatcher", Counting)
    page = compared(*[(one, other)] * 30)
    assert steps < MOST
    assert page.count("sca-only sca-a") == 30
