"""Personal data: what is found in public corpora, how fast, and what it costs a stream, beside LangChain."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from langchain.agents.middleware._redaction import BUILTIN_DETECTORS
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from personal_data import CORPORA, SHARED, ours, presidio, score, theirs

from scallion.pii import Redaction, Rule

SIX = ("email", "credit_card", "ip", "mac_address", "url", "api_key")
MEGABYTE = 1_000_000
STREAMED = 4_000
"""Words of the answer that is streamed."""


def scores() -> dict[str, Any]:
    """Places, missed, false and wrong rows of each corpus, ours and theirs."""
    found = {}
    for name, corpus in CORPORA.items():
        rows = corpus()
        pair = [score(rows, ours), score(rows, theirs)]
        found[name] = {
            "rows": len(rows),
            "places": pair[0].places,
            **{what: [len(getattr(one, what)) for one in pair] for what in ("missed", "false", "wrong")},
        }
    return found


def _text() -> str:
    text = "\n".join(row.text for row in presidio("email"))
    return (text * (MEGABYTE // len(text) + 1))[:MEGABYTE]


def _seconds(run: Callable[[], Any], rounds: int = 5) -> float:
    """The processor's time of the fastest round."""

    def one() -> float:
        begun = time.process_time()
        run()
        return time.process_time() - begun

    return min(one() for _ in range(rounds))


def batch(text: str) -> dict[str, list[float]]:
    """Milliseconds a megabyte for each type, and for those that both have at once."""
    found = {}
    for kind in SIX:
        one = Redaction([Rule(kind)])
        detect = BUILTIN_DETECTORS.get(kind)
        found[kind] = [
            _seconds(lambda one=one: one.redact(text)),
            detect and _seconds(lambda detect=detect: detect(text)),
        ]
    both = Redaction([Rule(kind) for kind in BUILTIN_DETECTORS])
    found["all five"] = [
        _seconds(lambda: both.redact(text)),
        _seconds(lambda: [detect(text) for detect in BUILTIN_DETECTORS.values()]),
    ]
    return {kind: [one and round(1_000 * one, 1) for one in pair] for kind, pair in found.items()}


def stream(text: str) -> dict[str, float]:
    """Pieces a second of `model.stream()`, and of the same with six types redacted, as a ratio; and what is held."""
    answer = " ".join(text.split()[:STREAMED])
    one = Redaction([Rule(kind) for kind in SIX])

    def pieces() -> Iterator[str]:
        model = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
        yield from (str(chunk.content) for chunk in model.stream("go"))

    def redacted() -> None:
        redaction = one.stream()
        for piece in pieces():
            redaction.push(piece)
        redaction.finish()

    plain, guarded = _seconds(lambda: list(pieces())), _seconds(redacted)
    return {"speed": round(plain / guarded, 3), **_held(one, text[:100_000])}


def _held(one: Redaction, text: str) -> dict[str, float]:
    """Microseconds a piece of 1 to 8 characters, and how many are held back after each."""
    cuts, redaction, held = random.Random(6), one.stream(), []
    pieces, at = [], 0
    while at < len(text):
        pieces.append(text[at : at + cuts.randint(1, 8)])
        at += len(pieces[-1])
    begun = time.process_time()
    for piece in pieces:
        redaction.push(piece)
        held.append(redaction.held)
    spent = time.process_time() - begun
    return {
        "microseconds": round(1e6 * spent / len(pieces), 1),
        "held": round(sum(held) / len(held), 1),
        "most held": max(held),
    }


def main() -> None:
    """Measure and print; nothing without the folder `shared`."""
    if not SHARED.exists():
        print("{}")
        return
    text = _text()
    print(json.dumps({"scores": scores(), "batch": batch(text), "stream": stream(text)}))


if __name__ == "__main__":
    main()
