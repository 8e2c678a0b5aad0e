"""A chat model that answers from a cassette, and records one from a real model."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import PrivateAttr

from scallion.errors import ConfigurationError
from scallion.loop.model import QUIET, bind_tools
from scallion.testing.cassette import Cassette
from scallion.testing.played import PlayedModel
from scallion.testing.rendering import Redact, edited, reply_of, request_of, secrets_of
from scallion.testing.replies import Answer, answer

APART: RunnableConfig = {**QUIET, "callbacks": []}
"""The real model's run is no one else's to see: the replaying one is."""


class ReplayModel(PlayedModel):
    """Answer from the cassette at `path`: each recorded reply once, to the request that it was recorded for.

    A request is its messages, tools and settings, without ids and without what is a secret by its name. One that the
    cassette does not have is a CassetteMiss, which shows the difference to the nearest one. `records`: a model that is
    asked for those instead, and what it answers is added to the file; its errors are raised, and not kept. `again`:
    record all anew. `redact`: a function of a text, by which all texts of the file go, and those of requests before
    they are compared; the turn that is recorded goes on with what the file has too. Keys and headers are never in it.

    `assert_done()` tells of exchanges that were not asked for. Streams are cut by `chunk_size`, also while recording.
    Raises ConfigurationError where there is no cassette and nothing that records one.
    """

    _cassette: Cassette = PrivateAttr()
    _records: BaseChatModel | None = PrivateAttr(default=None)
    _redact: list[Redact] = PrivateAttr(default_factory=list)
    _beyond: int = PrivateAttr(default=0)

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        records: BaseChatModel | None = None,
        again: bool = False,
        redact: Redact | None = None,
        **fields: Any,
    ) -> None:
        if not isinstance(path, str | PathLike):
            raise ConfigurationError(f"ReplayModel(path) is the path of a cassette, not {type(path).__name__}")
        if records is not None and not isinstance(records, BaseChatModel):
            raise ConfigurationError(f"ReplayModel(records=...) is a chat model, not {type(records).__name__}")
        if redact is not None and not callable(redact):
            raise ConfigurationError(f"ReplayModel(redact=...) is a function of a text, not {type(redact).__name__}")
        if again and records is None:
            raise ConfigurationError("ReplayModel(again=True) needs records=..., the model to record anew from")
        cassette = Cassette(Path(path), records=records is not None, again=again)
        if records is not None:
            cassette.profile = dict(records.profile or {})
        super().__init__(**{"profile": cassette.profile or None, **fields})
        self._cassette = cassette
        self._records = records
        self._redact = [one for one in (_without(secrets_of(records)) if records else None, redact) if one is not None]

    @property
    def _llm_type(self) -> str:
        return "replayed"

    def problems(self) -> list[str]:
        """What `assert_done` tells: the exchanges that were not asked for, and how many requests were not in it."""
        unused = [self._cassette.exchanges.index(one) + 1 for one in self._cassette.unused]
        found = [f"exchange {at} of cassette {self._cassette.path} was not asked for" for at in unused]
        if self._beyond:
            found.append(f"cassette {self._cassette.path} had no reply to {self._beyond} request(s)")
        return found

    def _ask(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Answer:
        request = self._requested(messages, kwargs)
        if (known := self._known(request, messages)) is not None:
            return known
        return self._kept(request, self._real(kwargs).invoke(messages, APART), messages)

    async def _aask(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Answer:
        request = self._requested(messages, kwargs)
        if (known := self._known(request, messages)) is not None:
            return known
        return self._kept(request, await self._real(kwargs).ainvoke(messages, APART), messages)

    def _requested(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Any:
        self._note(messages, kwargs)
        return self._cleaned(request_of(messages, kwargs))

    def _known(self, request: Any, messages: list[BaseMessage]) -> Answer | None:
        reply = self._cassette.take(request)
        if reply is not None:
            return answer(AIMessage(**reply), messages)
        if self._records is not None:
            return None
        with self._lock:
            self._beyond += 1
        raise self._cassette.miss(request)

    def _kept(self, request: Any, message: AIMessage, messages: list[BaseMessage]) -> Answer:
        reply = self._cleaned(reply_of(message))
        self._cassette.keep(request, reply)
        return answer(AIMessage(**reply), messages)

    def _real(self, kwargs: dict[str, Any]) -> Runnable[Any, Any]:
        """The model that is recorded, with the tools and settings of the call."""
        assert self._records is not None
        settings = {name: value for name, value in kwargs.items() if name not in ("tools", "tool_choice")}
        return bind_tools(self._records, kwargs.get("tools") or (), kwargs.get("tool_choice"), settings)

    def _cleaned(self, value: Any) -> Any:
        for redact in self._redact:
            value = edited(value, redact)
        return value


def _without(secrets: list[str]) -> Redact:
    def redact(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "[SECRET]")
        return text

    return redact
