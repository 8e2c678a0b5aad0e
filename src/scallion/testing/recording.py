"""A filter that writes down what passes it in the three chains."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from scallion.filters.filter import Filter
from scallion.filters.onion import PauseSignal


@dataclass
class Recorded:
    """One passage: its request, and the reply that came back, or what was raised instead."""

    request: Any
    reply: Any = None
    error: BaseException | None = None

    @property
    def paused(self) -> bool:
        """Whether it ended with a pause."""
        return isinstance(self.error, PauseSignal)


class Recording(Filter):
    """Changes nothing, and keeps the requests and replies in `turns`, `chats` and `calls`, in order.

    Its place in the list of filters says what it sees: the first one what comes in, the last one what model and tools
    get. After a pause the hooks run again, and what the chain inside gives again is recorded again.
    """

    def __init__(self, name: str = "recording") -> None:
        super().__init__(name)
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.turns: list[Recorded] = []
        self.chats: list[Recorded] = []
        self.calls: list[Recorded] = []

    def around_turn(self, request: Any, state: Any, next: Any) -> Any:
        """Record a turn."""
        return self._record(self.turns, request, next)

    def around_chat(self, request: Any, state: Any, next: Any) -> Any:
        """Record a model call."""
        return self._record(self.chats, request, next)

    def around_tool(self, request: Any, state: Any, next: Any) -> Any:
        """Record a tool call."""
        return self._record(self.calls, request, next)

    def _record(self, kept: list[Recorded], request: Any, next: Any) -> Any:
        one = Recorded(request)
        with self._lock:
            kept.append(one)
        try:
            one.reply = next(request)
        except BaseException as error:  # a pause is one
            one.error = error
            raise
        return one.reply
