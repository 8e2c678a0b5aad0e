"""Filters: the onion, and the catalogue of ready ones."""

from scallion.approvals.policy import Policy
from scallion.filters import presets
from scallion.filters.approval import approval, human_approval
from scallion.filters.approve_if import approve_if
from scallion.filters.before_after import after_chat, after_tool, after_turn, before_chat, before_tool, before_turn
from scallion.filters.cache import cache
from scallion.filters.environment import pause_on_environment_error
from scallion.filters.fallback import fallback
from scallion.filters.filter import Filter, around_chat, around_tool, around_turn, token_transform
from scallion.filters.filtering import MessageFilter, break_with, llm
from scallion.filters.hold_release import hold_release
from scallion.filters.input_output import filter_input, filter_output
from scallion.filters.limit_calls import limit_calls
from scallion.filters.logging import logging
from scallion.filters.memory import memory
from scallion.filters.once import once
from scallion.filters.onion import PauseSignal, compose
from scallion.filters.otel import otel
from scallion.filters.parallel import run_parallel
from scallion.filters.pausing import pause
from scallion.filters.rate_limit import rate_limit
from scallion.filters.redact_tokens import redact_tokens
from scallion.filters.retrieve import retrieve
from scallion.filters.retry_model import retry_model
from scallion.filters.retry_tool import retry_tool
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

__all__ = [
    "Filter",
    "MessageFilter",
    "PauseSignal",
    "Policy",
    "TokenTransform",
    "after_chat",
    "after_tool",
    "after_turn",
    "approval",
    "approve_if",
    "around_chat",
    "around_tool",
    "around_turn",
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
    "hold_release",
    "human_approval",
    "limit_calls",
    "llm",
    "logging",
    "memory",
    "once",
    "otel",
    "pause",
    "pause_on_environment_error",
    "presets",
    "rate_limit",
    "redact_tokens",
    "replace_answer",
    "retrieve",
    "retry_model",
    "retry_tool",
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
