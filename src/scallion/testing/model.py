"""A chat model that answers by a script: no network, no randomness, the same in sync, async and streams."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from scallion.errors import ScallionError
from scallion.testing.pieces import ChunkSize, cut, words


class ScriptExhausted(ScallionError):
    """A scripted model was called more often than its script has replies."""


@dataclass(frozen=True)
class BreaksOff:
    """A reply whose stream ends in `error` after `chunks` chunks; without streaming `error` is raised at once."""

    reply: str | AIMessage
    error: Exception
    chunks: int = 1


Reply = str | AIMessage | Exception | BreaksOff
"""What one call of the model gives: a text, a message, or an exception that it raises."""

Script = Sequence[Reply | Callable[[list[BaseMessage]], Reply]] | Callable[[list[BaseMessage]], Reply]
"""Replies in order, or one function of the messages that makes every reply."""


class ScriptedModel(BaseChatModel):
    """Answer by a script, and record what was asked.

    `replies`: texts, messages, exceptions or functions `(messages) -> one of these`, one a call; or one such function
    for all calls. `chunk_size`: characters in a streamed chunk, or "word". `delay`: seconds before a reply.
    `sync_only` and `async_only` raise NotImplementedError in the other colour. A reply too few is a ScriptExhausted.
    """

    replies: Any = ()
    chunk_size: ChunkSize = 4
    delay: float = 0
    sync_only: bool = False
    async_only: bool = False
    calls: list[list[BaseMessage]] = Field(default_factory=list)
    """The messages of every call, in order."""
    settings: list[dict[str, Any]] = Field(default_factory=list)
    """The keyword arguments of every call, with the tools as sent to a provider."""
    bound: list[list[Any]] = Field(default_factory=list)
    """The tools of every `bind_tools`, as they were given."""

    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, replies: Script = (), **fields: Any) -> None:
        super().__init__(**{**fields, "replies": replies})

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """None: a cache takes all scripts for one model."""
        return {}

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The same model with these tools; they are recorded in `bound`."""
        with self._lock:
            self.bound.append(list(tools))
        choice = {"tool_choice": tool_choice} if tool_choice is not None else {}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._refuse("async_only", "synchronous")
        time.sleep(self.delay)
        return _result(self._reply(messages, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._refuse("sync_only", "asynchronous")
        await asyncio.sleep(self.delay)
        return _result(self._reply(messages, kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._refuse("async_only", "synchronous")
        time.sleep(self.delay)
        yield from self._chunks(messages, kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._refuse("sync_only", "asynchronous")
        await asyncio.sleep(self.delay)
        for chunk in self._chunks(messages, kwargs):
            yield chunk
            await asyncio.sleep(0)  # a reader that cancels gets its turn between chunks

    def _refuse(self, mark: Literal["sync_only", "async_only"], colour: str) -> None:
        if getattr(self, mark):
            raise NotImplementedError(f"this scripted model is {mark}: no {colour} call")

    def _chunks(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages, kwargs)
        broken = reply if isinstance(reply, BreaksOff) else None
        whole = _message(reply.reply, messages) if isinstance(reply, BreaksOff) else reply
        for chunk in islice(cut(whole, self.chunk_size), broken.chunks if broken else None):
            yield ChatGenerationChunk(message=chunk)
        if broken:
            raise broken.error

    def _reply(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage | BreaksOff:
        """The next reply as a message of its own; exceptions of the script are raised."""
        with self._lock:
            number = len(self.calls)
            self.calls.append(list(messages))
            self.settings.append(kwargs)
        reply = self._scripted(number)
        if callable(reply):
            reply = reply(list(messages))
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, BreaksOff) else _message(reply, messages)

    def _scripted(self, number: int) -> Any:
        if callable(self.replies):
            return self.replies
        if number >= len(self.replies):
            raise ScriptExhausted(f"the script has {len(self.replies)} replies, and this is call number {number + 1}")
        return self.replies[number]


def _result(reply: AIMessage | BreaksOff) -> ChatResult:
    if isinstance(reply, BreaksOff):
        raise reply.error
    return ChatResult(generations=[ChatGeneration(message=reply)])


def _message(reply: str | AIMessage, messages: Sequence[BaseMessage]) -> AIMessage:
    """A copy with an id and a count of words as usage: a script may give the same message twice."""
    if not isinstance(reply, str | AIMessage):
        raise TypeError(f"a scripted reply is a text, an AIMessage or an exception, not {type(reply).__name__}")
    message = AIMessage(reply) if isinstance(reply, str) else reply.model_copy(deep=True)
    read, written = sum(map(words, messages)), words(message)
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    changes = {"id": message.id or f"scripted-{uuid4()}", "usage_metadata": message.usage_metadata or usage}
    return message.model_copy(update=changes)
