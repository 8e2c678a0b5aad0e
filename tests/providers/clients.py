"""The real clients, pointed at the local server."""

from __future__ import annotations

from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI

PROTOCOLS = ("chat", "responses", "messages")


def client(protocol: str, url: str, **settings: Any) -> BaseChatModel:
    """The client of that protocol: it never retries by itself."""
    settings = {"api_key": "not-a-key", "max_retries": 0, **settings}
    if protocol == "messages":
        return ChatAnthropic(model="claude-test", base_url=url, **settings)
    if protocol == "responses":
        settings = {"use_responses_api": True, "store": False, "include": ["reasoning.encrypted_content"], **settings}
    return ChatOpenAI(model="gpt-test", base_url=f"{url}/v1", stream_usage=True, **settings)
