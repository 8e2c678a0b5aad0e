"""`cache`: what a model answered to the same request is not asked again."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, TypeAdapter

from scallion.bridge import awaited, call
from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.filters.given import as_key
from scallion.filters.journal import current_frame
from scallion.filters.replies import ends
from scallion.filters.revision import is_final
from scallion.history import TRANSIENT
from scallion.values import ChatReply, ChatRequest

IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
"""Under these names providers keep the id of a call, also in the blocks of a message's content."""
ARGUMENTS = ("args", "input", "arguments")
"""Under these names they keep what a tool is given, which may have ids of its own."""
CUT = frozenset("length max_tokens max_output_tokens model_length model_context_window_exceeded incomplete".split())
"""How a model call ends whose answer is cut off, in small letters: by OpenAI, Anthropic, Amazon, Google and Mistral."""
VALUES = (bytes, date, time, timedelta, Decimal, Enum, PurePath, uuid.UUID)
"""What is no JSON, and is all in its `repr`."""


def digest(value: Any) -> str:
    """A name for data that tells nothing of it; raises for what is none: two that differ would look the same."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_data).encode()).hexdigest()


def _data(value: Any) -> Any:
    if isinstance(value, type):
        return [named(value), TypeAdapter(value).json_schema()]
    if isinstance(value, BaseModel):
        return [named(type(value)), dict(value)]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return sorted(map(digest, value))
    if isinstance(value, VALUES):
        return [named(type(value)), repr(value)]
    raise TypeError(f"{type(value).__name__} is no data")


def named(kind: type) -> str:
    """The full name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


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
    tools = [[convert_to_openai_tool(one), one.extras] if isinstance(one, BaseTool) else one for one in request.tools]
    return [identity(request.model), tools, request.tool_choice, request.settings]


def identity(model: Any) -> Any:
    """The class and the parameters of a model; all that it holds, where it does not say which those are."""
    if not isinstance(model, BaseChatModel):
        return model
    kind = type(model)
    if model.is_lc_serializable():
        told: Any = model._get_llm_string()
    elif kind._identifying_params is not BaseChatModel._identifying_params:
        told = model._identifying_params
    else:
        own = kind.model_fields.keys() - BaseChatModel.model_fields.keys()
        held = model.__pydantic_extra__, model.__pydantic_private__
        told = [{name: getattr(model, name) for name in own}, *held]
    return [named(kind), told, model.output_version]


def is_whole(message: AIMessage) -> bool:
    """Whether a model said all that it had to say: it was not cut off, no guard answered for it, no call is broken."""
    return not (message.invalid_tool_calls or is_final(message) or ends(message) & CUT)


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
        frame = current_frame.get()
        if frame.went_on:  # a person was asked inside, and what he says is for this call only
            return next(request)
        prompts = () if request.aside else frame.run.prompts
        apart = None if self._key is None else as_key(awaited(self._key(request)), self.name)
        prompt, rest = digest(rendered([*prompts, *request.messages])), digest([apart, *setting(request)])
        if (known := answer(call(self._store.lookup, self._store.alookup, prompt, rest))) is not None:
            frame.reached = request  # a model answered it once
            return ChatReply(known, request.context)
        reply = next(request)
        by_model = frame.reached is not None and frame.reached.model is request.model
        if by_model and is_whole(reply.message):
            made = [ChatGeneration(message=reply.message.model_copy(deep=True))]
            call(self._store.update, self._store.aupdate, prompt, rest, made)
        return reply


def cache(store: BaseCache, *, key: Callable[[ChatRequest], Any] | None = None, name: str = "cache") -> Filter:
    """Answer a model call from `store`, any cache of langchain-core, where the same was asked before.

    The same: messages, system prompts, tools, settings, and the model with its parameters. Ids of messages and calls do
    not count. `key(request) -> str` keeps apart what may not be shared, by owner for example; what is no text fails the
    turn with a ConfigurationError. A cached answer is streamed, has `response_metadata["cached"]` and counts as no
    model call. Kept is what the model of the request answered, whole: no errors or malformed calls, nothing that was
    cut off or refused, and nothing that a filter or another model behind the cache said instead. A call in which a
    person is asked behind the cache is not kept, and his answer never passed over. A store that fails is logged and
    passed by, and so is a request with something in it that is no data. The names under which the store keeps answers
    are hashes; the answers are as they are. Raises ConfigurationError.
    """
    return Cache(name, store, key)
