"""Effects: tool calls that are made at most once, and the ledger that keeps what came of them.

The ledger is what a saver offers as `.effects`. Its rows are attempts at a call, and the newest counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol

AttemptStatus = Literal["begun", "done", "failed", "open", "stopped"]
"""`begun`: nobody knows more. `done`, `failed`: it ended, with this result. `open`: it did not happen, and may be begun
again. `stopped`: a person had it left alone."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that is to be made, as the ledger knows it: digests, and the checkpoint that holds the call."""

    thread: str
    call: str
    args: str
    key: str
    tool: str
    ns: str
    checkpoint: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a call. `is_new`: it was begun just now, by whoever asked."""

    number: int
    status: AttemptStatus
    args: str
    key: str
    result: Mapping[str, Any] | None = None
    is_new: bool = False


class EffectLedger(Protocol):
    """What is asked of a saver's `.effects`; each verb has its async half, named with an `a` in front."""

    begin: Callable[..., Attempt | None]
    """`(wanted, *, over)` begins an attempt, or gives the one in the way; None while the call itself is not stored.

    In the way stands what was begun, done, stopped or failed, unless its number is `over`."""
    abegin: Callable[..., Any]
    end: Callable[..., None]
    """`(wanted, number, status, result)` says what came of an attempt; raises LeaseLost if somebody else did."""
    aend: Callable[..., Any]
    known: Callable[..., Mapping[str, Attempt]]
    """`(thread, calls)` gives the newest attempt at each of these calls."""
    aknown: Callable[..., Any]


def call_digest(message: str, call: str) -> str:
    """What a call is known by in its thread: the message of the model that it is in, and its own id."""
    return digest([message, call])


def digest(value: Any) -> str:
    """64 hexadecimal digits that are the same for equal JSON, in any process."""
    try:
        text = json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError):  # keys that cannot be sorted
        text = repr(value)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
