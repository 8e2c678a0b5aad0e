"""`trim`: the model reads the end of a long conversation. The thread keeps the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scallion.filters.filter import Filter
from scallion.filters.journal import current_frame
from scallion.filters.windows import Bounds, Conversation, Count
from scallion.values import ChatReply, ChatRequest


class Trim(Filter):
    """Where the window starts is the filter's state: `{"start": message id}`."""

    scope = "thread"

    def __init__(self, name: str, bounds: Bounds) -> None:
        super().__init__(name)
        bounds.check(name)
        self._bounds = bounds

    def around_chat(self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]) -> ChatReply:
        """Show the window."""
        if request.aside:
            return next(request)
        conversation = Conversation.of(request.messages, current_frame.get().run.asked)
        start = self._bounds.start(conversation, state.get("start"), request.model, ())
        if start and (id := conversation.id_at(start)) != state.get("start"):
            state.update(start=id)
        shown = [*conversation.lead, *conversation.since(start)]
        return next(request if len(shown) == len(request.messages) else request.replace(messages=shown))


def trim(
    *,
    max_messages: int | None = None,
    max_tokens: int | None = None,
    keep: float = 0.75,
    count: Count | None = None,
    name: str = "trim",
) -> Filter:
    """Show the model the end of the conversation, where the whole is longer than `max_messages` or `max_tokens`.

    What is over is cut to the share `keep` of the maximum, and the cut stays where it is until the rest is too long
    again: until then the provider's prompt cache holds. A call is never parted from its results, the window begins with
    a person, and the question of the turn and the last message are always in it, even if they alone are too long.
    That question is what the turn was given. Leading system messages stay, and are not among `max_messages`.
    `count(messages) -> int` counts tokens; by default the model does (that of Anthropic asks the provider), and
    where it has no counter or that fails they are estimated by `count_tokens_approximately` of langchain-core.
    Raises ConfigurationError.
    """
    return Trim(name, Bounds(max_messages, max_tokens, keep, count))
