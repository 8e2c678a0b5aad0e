"""`hold_release`: the stream of the answer is held back until a check has seen it, whole or piece by piece."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from scallion.bridge import awaited
from scallion.errors import ConfigurationError
from scallion.events import Token
from scallion.filters.filter import Filter, check_takes
from scallion.filters.replies import BadReply
from scallion.filters.tokens import TokenTransform

Check = Callable[[str], Any]
Window = Literal["whole", "sentence"] | int
SENTENCE_END = re.compile(r"[.!?…][\"')\]”’»]*\s+|[。！？][」』）”’]*|\n+")
"""Where a sentence is over: a mark with a space behind it, a mark of Chinese or Japanese, the end of a line."""
UNFINISHED = re.compile(r"[.!?…][\"')\]”’»]*\Z")
"""What can still become such an end."""


def due(text: str, window: Window, since: int = 0) -> tuple[int, int]:
    """How much of the held text is to be checked now, and how much of it may leave then; no sentence ends before
    `since`.
    """
    if window == "whole":
        return 0, 0
    if window == "sentence":
        end = max((found.end() for found in SENTENCE_END.finditer(text, since)), default=0)
        return end, end
    return (len(text), len(text) - int(window)) if len(text) >= 2 * int(window) else (0, 0)


class Held:
    """What is held back of one text, in the pieces in which it came."""

    def __init__(self) -> None:
        self.text = ""
        self.is_blocked = False
        self._looked = 0
        """Before it no sentence ends, and none will."""
        self._tokens: deque[Token] = deque()
        self._since = 0.0

    def add(self, token: Token) -> None:
        """Hold one more piece."""
        if not self._tokens:
            self._since = time.monotonic()
        self._tokens.append(token)
        self.text += token.text

    def is_over(self, max_chars: float, max_seconds: float) -> bool:
        """Whether more is held than may be, or for longer."""
        return len(self.text) >= max_chars or time.monotonic() - self._since >= max_seconds

    def due(self, window: Window) -> tuple[int, int]:
        """What is due of it; each character is looked at once."""
        found = due(self.text, window, self._looked)
        if window == "sentence":
            unfinished = UNFINISHED.search(self.text, self._looked)
            self._looked = unfinished.start() if unfinished else len(self.text)
        return found

    def take(self, length: int) -> list[Token]:
        """Let that many characters go."""
        self.text, self._looked, out = self.text[length:], max(0, self._looked - length), []
        while self._tokens and len(self._tokens[0].text) <= length:
            out.append(self._tokens.popleft())
            length -= len(out[-1].text)
        if length:
            first = self._tokens[0]
            out.append(first.replace(text=first.text[:length]))
            self._tokens[0] = first.replace(text=first.text[length:])
        self._since = time.monotonic()
        return out


class Gate:
    """The steps of the token transform."""

    def __init__(self, check: Check, window: Window, max_chars: float | None, max_seconds: float | None) -> None:
        self._check = check
        self._window = window
        self._most = (float("inf") if max_chars is None else max_chars, max_seconds or float("inf"))

    def step(self, token: Token, held: Held | None) -> tuple[list[Token | str], Held]:
        """Hold a piece, and let go what is due and passes."""
        held = held or Held()
        if held.is_blocked:
            return [], held
        held.add(token)
        everything = len(held.text)
        checked, leaving = (everything, everything) if held.is_over(*self._most) else held.due(self._window)
        return self._checked(held, checked, leaving), held

    def flush(self, held: Held | None) -> list[Token | str]:
        """Let the rest go, if it passes."""
        if held is None or held.is_blocked:
            return []
        return self._checked(held, len(held.text), len(held.text))

    def _checked(self, held: Held, checked: int, leaving: int) -> list[Token | str]:
        if not checked:
            return []
        verdict = self._check(held.text[:checked])
        verdict = awaited(verdict)
        if verdict is True:
            return [*held.take(leaving)]
        if verdict is not False and not isinstance(verdict, str):
            raise BadReply(f"the check gives True, False or a text, not {type(verdict).__name__}")
        held.is_blocked = True
        return [verdict] if verdict else []


def hold_release(
    check: Check,
    window: Window = "whole",
    *,
    max_chars: int | None = None,
    max_seconds: float | None = None,
    name: str = "hold_release",
) -> Filter:
    """Hold back what a stream delivers until `check` has seen it.

    `check(text)`, `def` or `async def`: True lets the text go; a text is delivered in its place, and nothing behind it;
    False delivers nothing any more. What it raises, or gives beside that, fails the turn with FilterError, and an error
    of the model ends the stream: what is held does not leave then. All this is by model call: after one whose text
    did not pass, and that called tools, the text of the next one is checked and delivered for itself.
    `window`: "whole" checks the whole text, once; "sentence" whole sentences as they end; a number of characters:
    whatever is at most that long is seen whole before any of it leaves. `max_chars`, `max_seconds`: where as much is
    held, or for so long (looked at with each piece), all that is held is checked, and leaves if it passes. None: no
    such limit.
    Raises ConfigurationError for another window, and for limits that are not above 0.
    """
    if not callable(check):
        raise ConfigurationError(f"filter {name!r}: check is a function of a text, not {type(check).__name__}")
    check_takes(name, "check", check, "text")
    if window not in ("whole", "sentence") and not _is_number(window, int):
        told = '"whole", "sentence" or a number of characters above 0'
        raise ConfigurationError(f"filter {name!r}: window is {told}, not {window!r}")
    if max_chars is not None and not _is_number(max_chars, int):
        raise ConfigurationError(f"filter {name!r}: max_chars is a number of characters above 0, not {max_chars!r}")
    if max_chars is not None and isinstance(window, int) and max_chars < 2 * window:
        raise ConfigurationError(f"filter {name!r}: max_chars is at least twice the window of {window}")
    if max_seconds is not None and not _is_number(max_seconds, int, float):
        raise ConfigurationError(f"filter {name!r}: max_seconds is a number of seconds above 0, not {max_seconds!r}")
    gate = Gate(check, window, max_chars, max_seconds)
    return Filter(name, token_transform=TokenTransform(gate.step, flush=gate.flush, may_wait=True))


def _is_number(value: Any, *kinds: type) -> bool:
    return type(value) in kinds and value > 0
