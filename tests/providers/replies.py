"""The streams of this folder, and the recorded ones of the shared folder beside the checkout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .server import Event, Stream

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "data" / "sse-transcripts" / "vercel-ai" / "packages"

LAST_OF_ANSWER = {"message_stop", "response.completed", "response.failed"}

TEXT = "Order 1042 was delivered on Tuesday. It cost 30 €,\n\nand the parcel was signed for – by “Ana”."
REASONING = "The order is too old."
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("look_up", {"order": 1042}),
    ("look_up", {"order": 1043}),
    ("refund", {"order": 1042, "amount": 30.0, "reason": 'broken "lamp" €'}),
]


def stream(name: str, turn: int = 1, **options: Any) -> Stream:
    """The stream of that file; another `turn` gives it other ids, as a provider would."""
    text = (HERE / "streams" / f"{name}.jsonl").read_text()
    return Stream(_events(text if turn == 1 else _with_other_ids(text, turn)), **options)


def recorded(path: str) -> list[list[Event]]:
    """The answers in a file of the shared folder: some hold several, some of these without any content."""
    answers: list[list[Event]] = []
    for event in _events((SHARED / path).read_text()):
        ended = not answers or answers[-1][-1].get("type") in LAST_OF_ANSWER
        answers.append([event]) if ended else answers[-1].append(event)
    return [answer for answer in answers if len(answer) > 2]


def _events(text: str) -> list[Event]:
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _with_other_ids(text: str, turn: int) -> str:
    return re.sub(r'"(call|toolu|resp|msg|rs|fc|chatcmpl)([_-])(?!id")', rf'"\1\g<2>t{turn}', text)
