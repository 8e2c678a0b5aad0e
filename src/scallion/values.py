"""The values that travel: requests and replies of the onion, results of a turn, approvals and decisions.

All are frozen; `replace(...)` gives a changed copy. Nothing here imports langchain or langgraph, so that a listing of
approvals stays cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from scallion.shown import Shown, brief

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
    from langchain_core.tools import BaseTool

FailureKind = Literal["transient", "environment", "semantic"]
ApprovalKind = Literal["tool_call", "question", "external_call", "unknown_outcome", "answer", "environment"]
ApprovalStatus = Literal["pending", "decided", "used", "expired", "superseded", "cancelled"]
DecisionType = Literal["approve", "edit", "reject", "respond", "happened", "rerun", "stop", "expired"]
"""`expired` is what time decided: `pause` may return it, and nobody can send it."""

EMPTY: Mapping[str, Any] = MappingProxyType({})
"""A mapping that nobody can fill."""


def _empty() -> Mapping[str, Any]:
    return EMPTY


class _Value:
    __slots__ = ()

    def replace(self, **changes: Any) -> Self:
        """A copy with these fields changed."""
        return replace(self, **changes)  # type: ignore[type-var]


def identity(message: BaseMessage) -> Any:
    """What tells the message from those of other threads: a person's has an id of the caller, who may count `msg-1`."""
    return (message.id, str(message.content)) if message.type == "human" and message.id else message.id


@dataclass(frozen=True, slots=True)
class Context(_Value):
    """What surrounds a request: `env` is the caller's and not stored, `state` is the thread's shared plain data."""

    env: Any = None
    state: Mapping[str, Any] = field(default_factory=_empty)
    user: str | None = None
    owner: str | None = None
    thread: str | None = None
    turn: str | None = None


NO_CONTEXT = Context()


@dataclass(frozen=True, slots=True)
class TurnRequest(_Value):
    """One turn: `messages` are its new ones only; `load_history=False` says that they are the whole sequence.

    `keep_attempts`: where the loop is entered again, the thread keeps the answer before and the feedback on it.
    """

    messages: Sequence[BaseMessage]
    resume: Any = None
    load_history: bool = True
    context: Context = NO_CONTEXT
    keep_attempts: bool = False
    ended: Completed | None = None
    """The result of a turn that a hook has ended: hooks behind the turn see it, and the loop is not entered."""


@dataclass(frozen=True, slots=True)
class ChatRequest(_Value):
    """One model call. System prompts are put in front later: `messages` never holds those of the agent."""

    messages: Sequence[BaseMessage]
    tools: Sequence[BaseTool | dict[str, Any]] = ()
    tool_choice: Any = None
    model: BaseChatModel | None = None
    settings: Mapping[str, Any] = field(default_factory=_empty)
    context: Context = NO_CONTEXT
    aside: bool = False
    """Whether a filter asks for itself: counted as any call, without the agent's system prompts, and not streamed."""
    stored: Sequence[BaseMessage] | None = None
    """What the thread holds, where filters may show something else as `messages`; None where nothing is known of it."""


@dataclass(frozen=True, slots=True)
class ChatReply(_Value):
    """What the model answered.

    `stored`: what the thread holds in front of `message` from now on; None: what it held. `results`: those of calls of
    `message` that are answered already, which do not run.
    """

    message: AIMessage
    context: Context | None = None
    stored: Sequence[BaseMessage] | None = None
    results: Sequence[ToolMessage] = ()


@dataclass(frozen=True, slots=True)
class ToolRequest(_Value):
    """One tool call; `tool` is None for a name that is not registered."""

    call: ToolCall
    tool: BaseTool | None = None
    context: Context = NO_CONTEXT


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """Why a tool failed; a replayed failure has no `exception`. `retry_after`: seconds that the other side asks for."""

    kind: FailureKind
    exception: BaseException | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class ToolReply(_Value):
    """The result of one tool call and the slots of the shared state that it writes."""

    message: ToolMessage
    writes: Mapping[str, Any] = field(default_factory=_empty)
    context: Context | None = None
    error: ToolFailure | None = None


@dataclass(frozen=True, repr=False)
class Completed(_Value, Shown, drawn_as="completed"):
    """A turn that came to its answer.

    `messages`: the whole sequence that led to it. `usage`: counts and tokens over all attempts of the turn.
    `filter_state`: the final private state by filter name. `parsed_json`: the JSON that `parsed` was made of, where it
    is of a type of Python; it goes when another `parsed` comes.
    """

    message: AIMessage
    messages: Sequence[BaseMessage]
    tool_calls: Sequence[Mapping[str, Any]] = ()
    usage: Mapping[str, Any] = field(default_factory=_empty)
    attempts: int = 1
    parsed: Any = None
    filter_state: Mapping[str, Mapping[str, Any]] = field(default_factory=_empty)
    thread: str | None = None
    turn: str | None = None
    trace: Any = field(default=None, compare=False, repr=False)
    parsed_json: str | None = field(default=None, compare=False, repr=False)

    def replace(self, **changes: Any) -> Self:
        """A copy with these fields changed."""
        is_same = changes.get("parsed", self.parsed) is self.parsed
        return super().replace(**changes if is_same else {"parsed_json": None, **changes})

    @property
    def answer(self) -> str:
        """The text of the final message."""
        text = self.message.text
        return str(text() if callable(text) and not isinstance(text, str) else text)

    def __repr__(self) -> str:
        counts = {"attempts": self.attempts, "tool_calls": len(self.tool_calls), "messages": len(self.messages)}
        return brief(self, answer=self.answer, thread=self.thread, turn=self.turn, **counts)


@dataclass(frozen=True, repr=False)
class Paused(_Value, Shown, drawn_as="paused"):
    """A turn that waits for a person: decide each of `approvals`, then resume the thread."""

    approvals: Sequence[Approval]
    messages: Sequence[BaseMessage] = ()
    thread: str | None = None
    turn: str | None = None
    trace: Any = field(default=None, compare=False, repr=False)
    queued: int = 0
    """How many messages wait for the end of the pause, where the agent keeps them (`on_message_while_paused`)."""

    def __repr__(self) -> str:
        asked = [f"{one.tool or one.kind} {one.id}" for one in self.approvals]
        counts = {"messages": len(self.messages), "queued": self.queued}
        return brief(self, approvals=asked, thread=self.thread, turn=self.turn, **counts)


@dataclass(frozen=True, slots=True)
class Queued(_Value):
    """The messages of one turn that wait for the end of a pause; the time is UTC and aware.

    `no`: what `drop` of the saver's `inbound` names it by. `by`: the user who sent it.
    """

    no: int
    thread: str
    by: str | None
    created_at: datetime
    messages: Sequence[BaseMessage]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided; made by `approve()`, `edit(...)`, `reject(...)`, `respond(...)` and their like."""

    type: DecisionType
    args: Mapping[str, Any] | None = None
    message: Any = None
    tool: str | None = None
    """The tool that an edit in LangChain's form names; it cannot be another one than was shown."""

    def to_json(self) -> dict[str, Any]:
        """Plain data: `{"type": ..., "args": ..., "message": ...}` without the keys that are not set."""
        pairs = {
            "type": self.type,
            "args": dict(self.args) if isinstance(self.args, Mapping) else self.args,
            "message": self.message,
        }
        return {key: value for key, value in pairs.items() if value is not None}


def approve() -> Decision:
    """Let the call run exactly as it was shown."""
    return Decision("approve")


def edit(args: Mapping[str, Any]) -> Decision:
    """Let the call run with these arguments, which are the whole new ones."""
    return Decision("edit", args=args)


def reject(message: str | None = None) -> Decision:
    """Refuse the call; `message` is the reason that the model reads."""
    return Decision("reject", message=message)


def respond(message: Any) -> Decision:
    """Answer the question, or answer in place of the tool."""
    return Decision("respond", message=message)


def happened(result: Any) -> Decision:
    """The effect of unknown outcome happened, with this result."""
    return Decision("happened", message=result)


def rerun() -> Decision:
    """The effect of unknown outcome did not happen: run it."""
    return Decision("rerun")


def stop() -> Decision:
    """Do not run the effect of unknown outcome, and stop."""
    return Decision("stop")


@dataclass(frozen=True, slots=True)
class Vote(_Value):
    """What one person said about an approval that several people have to agree on; `at` is UTC and aware."""

    by: str
    decision: Decision
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"by": self.by, "decision": self.decision.to_json(), "at": self.at.isoformat()}


@dataclass(frozen=True, slots=True, repr=False)
class Approval(_Value, Shown, drawn_as="approval"):
    """One thing to decide. Times are UTC and aware; `path` lists the filters that stood around the call, behind the
    names of the agents inside of the outermost one, where one of those asks.

    `deciders`, `not_requester`, `quorum` and `on_expire` are what the policy said at the pause.
    """

    id: str
    thread: str
    kind: ApprovalKind
    status: ApprovalStatus = "pending"
    owner: str | None = None
    tool: str | None = None
    call_id: str | None = None
    args: Mapping[str, Any] | None = None
    args_schema: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] | None = None
    allowed: tuple[DecisionType, ...] = ("respond",)
    description: str = ""
    path: tuple[str, ...] = ()
    requested_by: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    decision: Decision | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    deciders: tuple[str, ...] | None = None
    not_requester: bool = False
    quorum: int = 1
    votes: tuple[Vote, ...] = ()
    """What was said so far where several have to agree, the first first."""
    on_expire: str = "reject"
    escalated: str | None = None
    """Who may decide too since it expired for the first time."""
    overdue: bool = False
    """Whether it has expired, and can be decided all the same."""
    bound: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What has to be the same when it is resumed, besides what is shown; for the agent that resumes it."""

    def __repr__(self) -> str:
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.repr}
        usual = {one.name: one.default for one in fields(self) if one.default is not MISSING and one.name != "status"}
        return brief(self, **{name: value for name, value in told.items() if value != usual.get(name, MISSING)})

    def to_json(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 texts."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__ if name != "bound"}


@dataclass(frozen=True, slots=True)
class Effect(_Value):
    """One attempt at a tool call that is made at most once. Times are UTC and aware.

    `status`: "begun" while nobody knows what came of it, "done", "failed", "open" (it did not happen), "stopped".
    `key`: the idempotency key that the tool was given.
    """

    thread: str
    tool: str
    status: str
    key: str
    attempt: int
    begun_at: datetime
    ended_at: datetime | None = None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decision | Vote):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return dict(value) if isinstance(value, Mapping) else value
