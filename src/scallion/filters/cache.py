"""`cache`: what a model answered to the same request is not asked again."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from scallion.bridge import awaited, call
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.journal import current_frame
from scallion.history import TRANSIENT
from scallion.values import ChatReply, ChatRequest

IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
"""Under these names providers keep the id of a call, also in the blocks of a message's content."""
ARGUMENTS = ("args", "input", "arguments")
"""Under these names they keep what a tool is given, which may have ids of its own."""


def digest(value: Any) -> str:
    """A name for plain data that tells nothing of it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same data with the ids of calls changed."""
    if isinstance(value, Mapping):
        return {key: _renamed(key, one, names) for key, one in value.items()}
    return [renamed(one, names) for one in value] if isinstance(value, list | tuple) else value


def _renamed(key: str, value: Any, names: Mapping[str, str]) -> Any:
    if key in ARGUMENTS:
        return value
    return names.get(value, value) if key in IDS and isinstance(value, str) else renamed(value, names)


def call_ids(messages: Sequence[BaseMessage]) -> list[str]:
    """The ids of all calls in order."""
    return [str(call["id"]) for one in messages if isinstance(one, AIMessage) for call in one.tool_calls if call["id"]]


def rendered(messages: Sequence[BaseMessage]) -> list[Any]:
    """What of the messages a model reads: no ids of messages, no usage; calls by their place, as each has a new id."""
    names = {id: f"call {place}" for place, id in enumerate(dict.fromkeys(call_ids(messages)))}
    left_out = {"id", "response_metadata", "usage_metadata", "artifact", "example"}
    plain = [one.model_dump(exclude=left_out) for one in messages]
    for one in plain:
        extras = one.pop("additional_kwargs", {})
        one["extras"] = {key: value for key, value in extras.items() if key not in (TRANSIENT, "tool_calls")}
    return [renamed(one, names) for one in plain]


def setting(request: ChatRequest) -> list[Any]:
    """What else the answer depends on: the model and its parameters, the tools, the settings of the call."""
    model = request.model
    identity = [type(model).__qualname__, model._get_llm_string()] if isinstance(model, BaseChatModel) else None
    tools = [convert_to_openai_tool(one) if isinstance(one, BaseTool) else one for one in request.tools]
    return [identity, tools, request.tool_choice, dict(request.settings)]


def answer(found: Any) -> AIMessage | None:
    """The message of a cached generation as one of its own: fresh ids of its calls, and nothing used for it."""
    message = getattr(found[0], "message", None) if found else None
    if not isinstance(message, AIMessage):
        return None
    fresh = message.model_copy(deep=True)
    names = {id: f"call_{uuid.uuid4().hex}" for id in call_ids([fresh])}
    return fresh.model_copy(
        update={
            "id": None,
            "usage_metadata": None,
            "content": renamed(fresh.content, names),
            "tool_calls": renamed(fresh.tool_calls, names),
            "additional_kwargs": renamed(fresh.additional_kwargs, names),
            "response_metadata": {**fresh.response_metadata, "cached": True},
        }
    )


class Cache(Filter):
    """A cache that fails is no reason for a turn to fail: it goes on without."""

    on_error = "ignore"

    def __init__(self, name: str, store: BaseCache, key: Callable[[ChatRequest], Any] | None) -> None:
        super().__init__(name)
        if not isinstance(store, BaseCache):
            raise ConfigurationError(f"filter {name!r}: it takes a BaseCache of LangChain, not {store!r}")
        if key is not None and (not callable(key)):
            raise ConfigurationError(f"filter {name!r}: key is a function that takes a request and gives a text")
        self._store = store
        self._key = key

    def around_chat(self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]) -> ChatReply:
        """Answer what was asked before; keep what is answered now."""
        prompts = () if request.aside else current_frame.get().run.prompts
        apart = None if self._key is None else str(awaited(self._key(request)))
        prompt, rest = digest(rendered([*prompts, *request.messages])), digest([apart, *setting(request)])
        if (known := answer(call(self._store.lookup, self._store.alookup, prompt, rest))) is not None:
            return ChatReply(known, request.context)
        reply = next(request)
        if not reply.message.invalid_tool_calls:
            made = [ChatGeneration(message=reply.message.model_copy(deep=True))]
            call(self._store.update, self._store.aupdate, prompt, rest, made)
        return reply


def cache(store: BaseCache, *, key: Callable[[ChatRequest], Any] | None = None, name: str = "cache") -> Filter:
    """Answer a model call from `store`, any cache of langchain-core, where the same was asked before.

    The same: messages, system prompts, tools, settings, and the model with its parameters. Ids of messages and calls do
    not count. `key(request) -> str` keeps apart what may not be shared, by owner for example. A cached answer is
    streamed, has `response_metadata["cached"]` and counts as no model call. Errors and malformed calls are not kept.
    A store that fails is logged and passed by. The names under which the store keeps answers are hashes; the answers
    are as they are. Raises ConfigurationError.
    """
    return Cache(name, store, key)
