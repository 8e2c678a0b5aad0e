"""`filter_input` and `filter_output`: what a turn is given, and what it came to, edited once a turn.

What the input filter made of the input is what the turn goes on with, also in the database: what it was before is not
kept. The answer is delivered to a stream when the output filter has seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from scallion.bridge import awaited
from scallion.errors import Blocked
from scallion.filters.before_after import arity, end
from scallion.filters.conversation import Conversation, InputConversation, OutputConversation
from scallion.filters.filter import Filter, decorator, is_async
from scallion.filters.filtering import Break, Filtering, checked, entered
from scallion.filters.journal import current_frame
from scallion.filters.onion import Run
from scallion.filters.replies import BadReply, final, spoken, without_calls
from scallion.history import with_final
from scallion.values import Completed, TurnRequest

UNFILTERED = "skip_output"
"""The mark of an answer that output filters leave as it is; it names the turn, which no model knows."""


class Editor(Filter):
    """A filter around the turn that has a function, or a message filter, edit a conversation."""

    def __init__(self, function: Any, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        is_filter = isinstance(function, type) or hasattr(function, "filter")
        self.needs_resolve = isinstance(function, type)
        self._asynchronous = not is_filter and is_async(function)
        if is_filter:
            self._function: Callable[..., Any] = partial(_applied, checked(function))
            self._takes = 1
        else:
            self._function = function
            self._takes = arity(function, ("conversation", "state"), name)

    def edit(self, conversation: Conversation, state: Any) -> Break | None:
        """Edit the conversation; gives what ended the turn, if that is what the function wants."""
        run = current_frame.get().run
        stopped: Break | None = None
        with entered(Filtering(conversation, run.means, self._asynchronous)):
            try:
                _check_silent(awaited(self._function(*(conversation, state)[: self._takes])))
            except Break as stop:
                stopped = stop
        if not conversation.messages:
            raise Blocked(self.name)
        if conversation.is_changed:
            run.acted(self.name, "changed")
        return stopped


def _check_silent(said: Any) -> None:
    """A function that gives an edited text instead of editing would change nothing, and nobody would notice."""
    if said is not None and not isinstance(said, bool):
        raise BadReply(f"it returned {type(said).__name__}: edit the conversation, what is returned is not used")


def _applied(what: Any, conversation: Conversation) -> None:
    conversation.apply(what)


class InputFilter(Editor):
    """Edits what the turn is given, once: not what another filter enters the loop with again.

    Where the turn is one of before that is run again it may end it; what it edited then is left as it is.
    """

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Completed:
        """What the turn gives with the conversation as it was edited."""
        run = current_frame.get().run
        if not request.load_history or (request.resume is not None and self.name in run.rewritten):
            given: Completed = next(request)
            return given
        conversation = InputConversation(request.messages)
        stopped = self.edit(conversation, state)
        messages = _edited_once(request.messages, conversation.messages, self.name)
        run.rewrite(self.name, messages)
        edited = request.replace(messages=messages)
        if stopped is not None:
            answer = _marked(spoken(stopped.text), stopped)
            return end(Completed(answer, [*messages, answer]), edited, next)
        completed: Completed = next(edited)
        return completed


class OutputFilter(Editor):
    """Edits what the turn came to."""

    sees_ended = True
    holds_stream = True

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Completed:
        """The turn's result, edited."""
        result: Completed = next(request)
        if result.message.response_metadata.get(UNFILTERED) == _turn_id():
            return result
        conversation = OutputConversation(with_final(result.messages, result.message), _given(request))
        stopped = self.edit(conversation, state)
        if stopped is not None:
            answer = _marked(without_calls(result.message, stopped.text), stopped)
            return result.replace(message=answer, messages=with_final(conversation.messages, answer), parsed=None)
        if not conversation.is_changed:
            return result
        return _edited(result, conversation.messages, self.name)


def _edited_once(given: Sequence[BaseMessage], edited: list[BaseMessage], name: str) -> list[BaseMessage]:
    """What the filter made of the messages, but for those that it has edited when the turn was run before."""
    here = getattr(current_frame.get().run.extra, "here", None)
    known = here.edited.get(name, ()) if here is not None else ()
    before = {one.id: one for one in given if one.id in known}
    if len(before) == len(given):
        return list(given)
    return [before.get(one.id, one) for one in edited]


def _given(request: TurnRequest) -> list[BaseMessage]:
    """What the turn was given, as all input filters made it."""
    run: Run = current_frame.get().run
    return list(request.messages if run.given is None else run.given)


def _turn_id() -> str:
    """The name of the turn that runs; a chain without an agent is of none."""
    id: str = getattr(current_frame.get().run.extra, "id", UNFILTERED)
    return id


def _marked(answer: AIMessage, stopped: Break) -> AIMessage:
    mark = {UNFILTERED: _turn_id()} if stopped.skip_output else {}
    return final(answer.model_copy(update={"response_metadata": {**answer.response_metadata, **mark}}))


def _edited(result: Completed, messages: list[BaseMessage], name: str) -> Completed:
    answer = messages[-1]
    if not isinstance(answer, AIMessage) or answer.tool_calls:
        raise Blocked(name)
    parsed = result.parsed if answer == result.message else None
    return result.replace(message=answer, messages=messages, parsed=parsed)


filter_input = decorator(
    "filter_input",
    InputFilter,
    """Make a Filter of a function `(conversation)` or `(conversation, state)` that edits what each turn is given.

    `@filter_input` or `@filter_input(name=..., init=...)`, `def` or `async def`; or `filter_input(MyFilter())` with a
    message filter, or its class, which the agent's `resolve` makes an instance. `conversation.input`, `input_message`
    and `message` may be set; `replace`, `remove` and `apply` change the latest message. Raises ConfigurationError for
    what cannot take a conversation. A turn of which no message is left ends with Blocked. Put it first in the list
    where it takes out secrets: a layer outside of it that ends the turn or asks a person keeps the input as it came.
    """,
)
filter_output = decorator(
    "filter_output",
    OutputFilter,
    """Make a Filter of a function `(conversation)` or `(conversation, state)` that edits what each turn came to.

    As `filter_input`, with `conversation.output`, `output_message` and `message` to be set, and `input` to be read. A
    stream delivers the answer when the last output filter has seen it. An answer that is dropped ends the turn with
    Blocked.
    """,
)
