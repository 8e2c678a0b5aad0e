"""Scallion: agents that stop for a human and go on later.

The names are loaded at first use, so that a listing of approvals imports neither langgraph nor langchain.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scallion import errors, events, filters
    from scallion.agent import Agent
    from scallion.approvals.policy import Policy
    from scallion.errors import (
        AlreadyDecided,
        ApprovalExpired,
        Blocked,
        Closed,
        ConfigurationError,
        DecisionError,
        FilterError,
        InvalidDecision,
        LeaseLost,
        LimitExceeded,
        ModelError,
        NotPaused,
        NotSerializable,
        PauseChanged,
        ScallionError,
        SchemaError,
        StorageError,
        ThreadBusy,
        ThreadError,
        ThreadPaused,
        TypeBlocked,
        UnknownApproval,
        ValidationFailed,
        WrongKey,
    )
    from scallion.events import (
        FilterActed,
        GuardActed,
        ModelFinished,
        ModelStarted,
        Reasoning,
        Retracted,
        Token,
        ToolCallDelta,
        ToolFinished,
        ToolStarted,
        TurnStarted,
    )
    from scallion.filters.composing import compose
    from scallion.filters.filter import Filter, around_chat, around_tool, around_turn, token_transform
    from scallion.filters.pausing import pause
    from scallion.filters.tokens import TokenTransform
    from scallion.history import transient
    from scallion.inbox import Inbox
    from scallion.loop.state import Limits
    from scallion.session import Session
    from scallion.sql.saver import SQLCheckpointer
    from scallion.values import (
        Approval,
        ChatReply,
        ChatRequest,
        Completed,
        Decision,
        Paused,
        ToolFailure,
        ToolReply,
        ToolRequest,
        TurnRequest,
        approve,
        edit,
        happened,
        reject,
        rerun,
        respond,
        stop,
    )

_HOMES = {
    "scallion.agent": "Agent",
    "scallion.approvals.policy": "Policy",
    "scallion.errors": (
        "AlreadyDecided ApprovalExpired Blocked Closed ConfigurationError DecisionError FilterError InvalidDecision "
        "LeaseLost LimitExceeded ModelError NotPaused NotSerializable PauseChanged ScallionError SchemaError "
        "StorageError ThreadBusy ThreadError ThreadPaused TypeBlocked UnknownApproval ValidationFailed WrongKey"
    ),
    "scallion.events": (
        "FilterActed GuardActed ModelFinished ModelStarted Reasoning Retracted Token ToolCallDelta ToolFinished "
        "ToolStarted TurnStarted"
    ),
    "scallion.filters.filter": "Filter around_chat around_tool around_turn token_transform",
    "scallion.filters.composing": "compose",
    "scallion.filters.pausing": "pause",
    "scallion.filters.tokens": "TokenTransform",
    "scallion.history": "transient",
    "scallion.loop.state": "Limits",
    "scallion.inbox": "Inbox",
    "scallion.session": "Session",
    "scallion.sql.saver": "SQLCheckpointer",
    "scallion.values": (
        "Approval ChatReply ChatRequest Completed Decision Paused ToolFailure ToolReply ToolRequest TurnRequest "
        "approve edit happened reject rerun respond stop"
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = ("errors", "events", "filters")

__all__ = [
    "Agent",
    "AlreadyDecided",
    "Approval",
    "ApprovalExpired",
    "Blocked",
    "ChatReply",
    "ChatRequest",
    "Closed",
    "Completed",
    "ConfigurationError",
    "Decision",
    "DecisionError",
    "Filter",
    "FilterActed",
    "FilterError",
    "GuardActed",
    "Inbox",
    "InvalidDecision",
    "LeaseLost",
    "LimitExceeded",
    "Limits",
    "ModelError",
    "ModelFinished",
    "ModelStarted",
    "NotPaused",
    "NotSerializable",
    "PauseChanged",
    "Paused",
    "Policy",
    "Reasoning",
    "Retracted",
    "SQLCheckpointer",
    "ScallionError",
    "SchemaError",
    "Session",
    "StorageError",
    "ThreadBusy",
    "ThreadError",
    "ThreadPaused",
    "Token",
    "TokenTransform",
    "ToolCallDelta",
    "ToolFailure",
    "ToolFinished",
    "ToolReply",
    "ToolRequest",
    "ToolStarted",
    "TurnRequest",
    "TurnStarted",
    "TypeBlocked",
    "UnknownApproval",
    "ValidationFailed",
    "WrongKey",
    "approve",
    "around_chat",
    "around_tool",
    "around_turn",
    "compose",
    "edit",
    "errors",
    "events",
    "filters",
    "happened",
    "pause",
    "reject",
    "rerun",
    "respond",
    "stop",
    "token_transform",
    "transient",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    elif name in _MODULES:
        value = import_module(f"scallion.{name}")
    else:
        raise AttributeError(f"module 'scallion' has no attribute {name!r}")
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext scallion` runs: the magics `%scallion` and `%%chat`."""
    import_module("scallion.notebook.magics").load(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
