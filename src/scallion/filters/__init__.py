"""Filters: the onion, and the catalogue of ready ones."""

from typing import TYPE_CHECKING, Never

from scallion.approvals.policy import Policy
from scallion.filters import presets
from scallion.filters.approval import approval, human_approval
from scallion.filters.approve_if import approve_if
from scallion.filters.before_after import after_chat, after_tool, after_turn, before_chat, before_tool, before_turn
from scallion.filters.cache import cache
from scallion.filters.composing import compose
from scallion.filters.environment import pause_on_environment_error
from scallion.filters.fallback import fallback
from scallion.filters.filter import Filter, around_chat, around_tool, around_turn, token_transform
from scallion.filters.filtering import MessageFilter, break_with, llm
from scallion.filters.hold_release import hold_release
from scallion.filters.input_output import filter_input, filter_output
from scallion.filters.limit_calls import limit_calls
from scallion.filters.llm_judge import llm_judge
from scallion.filters.logging import logging
from scallion.filters.meant import no_such_filter
from scallion.filters.memory import memory
from scallion.filters.middleware.inward import from_langchain
from scallion.filters.middleware.outward import as_langchain
from scallion.filters.moderating import Verdict
from scallion.filters.moderation import moderation
from scallion.filters.once import once
from scallion.filters.onion import PauseSignal
from scallion.filters.openai_moderation import openai_moderation
from scallion.filters.otel import otel
from scallion.filters.parallel import run_parallel
from scallion.filters.pausing import pause
from scallion.filters.pii import pii
from scallion.filters.rate_limit import rate_limit
from scallion.filters.redact_tokens import redact_tokens
from scallion.filters.retrieve import retrieve
from scallion.filters.retry_model import retry_model
from scallion.filters.retry_tool import retry_tool
from scallion.filters.review_answer import review_answer
from scallion.filters.safeguard import safeguard
from scallion.filters.summarise import summarise
from scallion.filters.timeout import timeout
from scallion.filters.todo import todo
from scallion.filters.tokens import TokenTransform
from scallion.filters.tool_search import tool_search
from scallion.filters.trim import trim
from scallion.filters.usage import usage
from scallion.filters.validate_answer import validate_answer
from scallion.filters.validate_schema import validate_schema
from scallion.filters.verbs import ask_model_again, end_turn, replace_answer
from scallion.pii import Rule

__all__ = [
    "Filter",
    "MessageFilter",
    "PauseSignal",
    "Policy",
    "Rule",
    "TokenTransform",
    "Verdict",
    "after_chat",
    "after_tool",
    "after_turn",
    "approval",
    "approve_if",
    "around_chat",
    "around_tool",
    "around_turn",
    "as_langchain",
    "ask_model_again",
    "before_chat",
    "before_tool",
    "before_turn",
    "break_with",
    "cache",
    "compose",
    "end_turn",
    "fallback",
    "filter_input",
    "filter_output",
    "from_langchain",
    "hold_release",
    "human_approval",
    "limit_calls",
    "llm",
    "llm_judge",
    "logging",
    "memory",
    "moderation",
    "once",
    "openai_moderation",
    "otel",
    "pause",
    "pause_on_environment_error",
    "pii",
    "presets",
    "rate_limit",
    "redact_tokens",
    "replace_answer",
    "retrieve",
    "retry_model",
    "retry_tool",
    "review_answer",
    "run_parallel",
    "safeguard",
    "summarise",
    "timeout",
    "todo",
    "token_transform",
    "tool_search",
    "trim",
    "usage",
    "validate_answer",
    "validate_schema",
]


if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> Never:
        raise no_such_filter(name, __all__)
