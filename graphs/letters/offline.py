"""A model that reads plain letters by rules: no network, and it makes one mistake that real models make.

It copies the date as the letter has it. Told that this is no date, it corrects itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from scallion.testing import ScriptedModel

NOTHING = "I find no order in this letter. (I am an offline scripted model: set SCALLION_MODEL for a real one.)"
WORDS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "a dozen": 12}
DATE = re.compile(r"\b\d{1,2} [A-Z][a-z]+ \d{4}\b")
LINE = re.compile(
    rf"\b(\d+|{'|'.join(sorted(WORDS, key=len, reverse=True))}) ([a-z]+(?: [a-z]+)?)(?= and\b| by\b| until\b|[,.;\n]|$)"
)


def offline_model() -> BaseChatModel:
    """The scripted model; it streams word by word."""
    return ScriptedModel(answer, chunk_size="word")


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """The order in the last letter, its date as a date if that was asked for."""
    letter, corrected = _letter(messages)
    order = read_order(letter, corrected)
    return AIMessage(f"```json\n{json.dumps(order, indent=2)}\n```" if order["lines"] else NOTHING)


def read_order(letter: str, corrected: bool) -> dict[str, Any]:
    """What a letter orders, by whom and for when."""
    found = DATE.search(letter)
    when = found.group() if found else None
    if when and corrected:
        when = datetime.strptime(when, "%d %B %Y").date().isoformat()
    lines = [
        {"product": name.removesuffix("s"), "quantity": WORDS.get(count) or int(count)}
        for count, name in LINE.findall(DATE.sub("", letter))
    ]
    *_, customer = letter.strip().split("\n")
    return {"customer": customer.strip(), "lines": lines, "deliver_by": when}


def _letter(messages: Sequence[BaseMessage]) -> tuple[str, bool]:
    """The last letter, and whether an answer to it was sent back."""
    texts = [str(message.text) for message in messages if isinstance(message, HumanMessage)]
    letters = [place for place, text in enumerate(texts) if not text.startswith("Your answer is not valid")]
    return (texts[letters[-1]], letters[-1] < len(texts) - 1) if letters else ("", False)
