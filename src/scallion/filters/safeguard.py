"""`safeguard`: forbidden words, or what a classifier says, end the turn with a refusal before the model is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, BaseMessage

from scallion.bridge import awaited
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter, check_takes
from scallion.filters.journal import current_frame
from scallion.filters.replies import BadReply
from scallion.filters.texts import texts
from scallion.filters.words import finder
from scallion.values import ChatReply, ChatRequest, Completed, TurnRequest

Scope = Literal["new", "every"]
Classifier = Callable[[str], Any]
REFUSAL = "I cannot help with that."


def refusal(text: str) -> AIMessage:
    """The answer in place of the model's, marked as one that was filtered."""
    return AIMessage(text, response_metadata={"finish_reason": "content_filtered", "safeguard": "blocked"})


def newest(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages behind the last answer of the model."""
    answers = [place for place, one in enumerate(messages, 1) if isinstance(one, AIMessage)]
    return messages[answers[-1] if answers else 0 :]


class Safeguard(Filter):
    """The guard around the model call: it checks all that the model would read but the agent's own system prompts."""

    def __init__(
        self, words: Sequence[str], answer: str, case_sensitive: bool, classifier: Classifier | None, name: str
    ) -> None:
        super().__init__(name)
        self._has_word = finder(words, case_sensitive=case_sensitive)
        self._answer = answer
        self._classifier = classifier

    def around_chat(self, request: ChatRequest, state: Any, next: Any) -> Any:
        """Refuse, or ask the model."""
        if not _went_on_before() and self._blocks(self._unchecked(request, state)):
            return ChatReply(refusal(self._answer))
        return next(request), {"passed": True}

    def _unchecked(self, request: ChatRequest, state: Any) -> Sequence[BaseMessage]:
        return [*current_frame.get().run.leading, *request.messages]

    def _blocks(self, messages: Iterable[BaseMessage]) -> bool:
        """Whether one of the messages may not pass; none is read together with another."""
        found = [text for message in messages for text in texts(message) if text]
        return any(map(self._has_word, found)) or any(map(self._is_refused, found))

    def _is_refused(self, text: str) -> bool:
        if self._classifier is None:
            return False
        verdict = self._classifier(text)
        verdict = awaited(verdict)
        if not isinstance(verdict, bool):
            raise BadReply(f"the classifier gives True or False, not {type(verdict).__name__}")
        return verdict


class InputSafeguard(Safeguard):
    """The guard around the turn: it checks what came in, once, and not what the loop is entered with again.

    System messages that lead the input reach no turn: the first model call checks them. In the bare graph, where
    nothing stands around a turn, it checks all that is new.
    """

    def around_turn(self, request: TurnRequest, state: Any, next: Any) -> Any:
        """Refuse, or let the turn in."""
        if not (state.get("entered") or _went_on_before()) and self._blocks(request.messages):
            message = refusal(self._answer)
            return Completed(message, [*request.messages, message])
        state.update(entered=True)
        return next(request)

    def _unchecked(self, request: ChatRequest, state: Any) -> Sequence[BaseMessage]:
        return unchecked(request, state)


def unchecked(request: ChatRequest, state: Any) -> Sequence[BaseMessage]:
    """What a guard has not seen that sees a turn come in (`entered`): its leading system messages, for the first call.

    In the bare graph that is all that is new.
    """
    run = current_frame.get().run
    if state.get("passed"):
        return ()
    if state.get("entered"):
        return run.leading
    return newest(request.messages) if run.lasting else request.messages


def _went_on_before() -> bool:
    """Whether the messages passed before a pause that now goes on: only then was anything inside begun."""
    record = current_frame.get().record
    return record is not None and bool(record["done"] or record["open"])


def safeguard(
    words: Iterable[str] = (),
    *,
    failure_response: str = REFUSAL,
    case_sensitive: bool = False,
    scope: Scope = "new",
    classifier: Classifier | None = None,
    name: str = "safeguard",
) -> Filter:
    """Answer with `failure_response`, without asking the model, where a message holds a forbidden word.

    The answer's `response_metadata["finish_reason"]` is "content_filtered"; a stream delivers it as any answer.
    `words` are found where they stand alone ("ass" is not in "class"), in any Unicode form and spacing, through
    invisible characters and look-alike letters, and in scripts without spaces anywhere; empty ones are never found.
    `scope`: "new" checks what came into the turn, once; "every" checks before each model call all that it would read,
    so results of tools and the history too: a thread that holds a forbidden word then stays closed.
    `classifier(text) -> bool`, `def` or `async def`: asked for each text without such a word; True refuses. What it
    raises, or gives beside True and False, fails the turn with FilterError, and the model is not asked.

    It cannot do what needs understanding: other words for the same thing, other languages, l33t and s p a c e d
    letters, inflected forms, pictures, files, a word cut in two by two messages. Whole words of another alphabet that
    look like a forbidden one are found too. Raises ConfigurationError for words that are no texts, and for another
    scope.
    """
    given = _checked(words, name)
    if scope not in get_args(Scope):
        raise ConfigurationError(f'filter {name!r}: scope is "new" or "every", not {scope!r}')
    if classifier is not None and not callable(classifier):
        raise ConfigurationError(f"filter {name!r}: classifier is a function of a text, not {classifier!r}")
    if not isinstance(failure_response, str) or not failure_response:
        raise ConfigurationError(f"filter {name!r}: failure_response is a text that is not empty")
    if classifier is not None:
        check_takes(name, "classifier", classifier, "text")
    kind = InputSafeguard if scope == "new" else Safeguard
    return kind(given, failure_response, case_sensitive, classifier, name)


def _checked(words: Any, name: str) -> list[str]:
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise ConfigurationError(f"filter {name!r}: words is a list of texts, not one {type(words).__name__}")
    given = list(words)
    if wrong := [one for one in given if not isinstance(one, str)]:
        raise ConfigurationError(f"filter {name!r}: words are texts, not {type(wrong[0]).__name__}")
    return given
