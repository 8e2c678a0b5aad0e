"""What the models of this package share: both colours, streams, a record of what was asked, what is left at the end."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, field_validator

from scallion.errors import ConfigurationError
from scallion.testing.pieces import ChunkSize
from scallion.testing.replies import Answer


class PlayedModel(BaseChatModel):
    """A chat model that a test plays: it gives answers that are known beforehand, and records what was asked.

    `chunk_size`: characters in a streamed chunk, or "word". `delay`: seconds before a reply. `sync_only` and
    `async_only` raise NotImplementedError in the other colour. As a context manager it checks at the end of the block
    that all was asked for (`assert_done`), unless the block raised.
    """

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

    @field_validator("chunk_size", mode="before")
    @classmethod
    def _check_size(cls, size: Any) -> Any:
        if size != "word" and (type(size) is not int or size < 1):
            raise ConfigurationError(f'chunk_size is a number of characters from 1, or "word", not {size!r}')
        return size

    @field_validator("delay", mode="before")
    @classmethod
    def _check_delay(cls, delay: Any) -> Any:
        if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay < float("inf"):
            raise ConfigurationError(f"delay is a number of seconds from 0, not {delay!r}")
        return delay

    @abstractmethod
    def problems(self) -> list[str]:
        """What is wrong at the end of a test: what was not asked for, and what was asked beyond it."""

    @abstractmethod
    def _ask(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Answer:
        """The answer to one call."""

    async def _aask(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Answer:
        return self._ask(messages, kwargs)

    def assert_done(self) -> None:
        """Raise AssertionError where the model was asked for less than it has, or for more."""
        if problems := self.problems():
            raise AssertionError("; ".join(problems))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is None:
            self.assert_done()

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """None: a cache takes all of a kind for one model."""
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
        return self._ask(messages, _asked(stop, kwargs)).whole()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._refuse("sync_only", "asynchronous")
        await asyncio.sleep(self.delay)
        return (await self._aask(messages, _asked(stop, kwargs))).whole()

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._refuse("async_only", "synchronous")
        time.sleep(self.delay)
        for chunk in self._ask(messages, _asked(stop, kwargs)).chunks(self.chunk_size):
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._refuse("sync_only", "asynchronous")
        await asyncio.sleep(self.delay)
        for chunk in (await self._aask(messages, _asked(stop, kwargs))).chunks(self.chunk_size):
            yield ChatGenerationChunk(message=chunk)
            await asyncio.sleep(0)  # a reader that cancels gets its turn between chunks

    def _refuse(self, mark: Literal["sync_only", "async_only"], colour: str) -> None:
        if getattr(self, mark):
            raise NotImplementedError(f"this {self._llm_type} model is {mark}: no {colour} call")

    def _note(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> int:
        """Record a call; returns its number, from 0."""
        with self._lock:
            self.calls.append(list(messages))
            self.settings.append(kwargs)
            return len(self.calls) - 1


def _asked(stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    return kwargs if stop is None else {**kwargs, "stop": stop}
