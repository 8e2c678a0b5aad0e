"""Every error of Scallion.

    ScallionError
    ├── ConfigurationError      how an agent, a filter or a saver was put together
    ├── FilterError             a filter raised
    ├── ModelError              the model raised
    ├── LimitExceeded           a budget of the turn is used up
    ├── ValidationFailed        strict validation ran out of retries
    ├── Blocked                 a guard stopped the turn
    ├── ThreadError
    │   ├── ThreadBusy          another turn runs on the thread
    │   ├── ThreadPaused        a message came while a pause is open
    │   ├── NotPaused           nothing to resume
    │   └── LeaseLost           the right to run the thread went to somebody else
    ├── DecisionError
    │   ├── UnknownApproval
    │   ├── InvalidDecision     kind not allowed, arguments that do not fit, wrong decider
    │   ├── AlreadyDecided
    │   ├── ApprovalExpired
    │   └── PauseChanged        what was shown is no longer what would run
    └── StorageError
        ├── SchemaError         database older or newer than the program
        ├── NotSerializable
        ├── TypeBlocked
        ├── WrongKey
        └── Closed

No message holds tool arguments, texts of a conversation or secrets: those are attributes at most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scallion.values import Approval, Completed, Decision


class ScallionError(Exception):
    """The root of all errors that Scallion raises on purpose. They can be pickled, with their attributes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[ScallionError], args: tuple[Any, ...], attributes: dict[str, Any]) -> ScallionError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class ConfigurationError(ScallionError):
    """An agent, a filter or a saver was put together wrongly; raised where it was built."""


class FilterError(ScallionError):
    """A hook of a filter raised; `__cause__` is what it raised."""

    def __init__(self, filter: str, hook: str, reason: str = "") -> None:
        self.filter = filter
        self.hook = hook
        super().__init__(f"filter {filter!r} failed in {hook}" + (f": {reason}" if reason else ""))


class ModelError(ScallionError):
    """The model failed; `kind` is transient, environment or semantic.

    `__cause__` is the provider's exception while it is fresh; a replayed one has none. `retry_after`: seconds.
    """

    def __init__(self, kind: str, message: str, retry_after: float | None = None) -> None:
        self.kind = kind
        self.message = message
        self.retry_after = retry_after
        super().__init__(message)


class LimitExceeded(ScallionError):
    """A budget is used up: `limit` names it (`tool_calls:NAME` is one tool's), `used` is how much was used.

    `per`: what it is the budget of, the turn or the thread.
    """

    def __init__(self, limit: str, used: float, allowed: float, per: str = "turn") -> None:
        self.limit = limit
        self.used = used
        self.allowed = allowed
        self.per = per
        name, _, tool = limit.partition(":")
        what = name.replace("_", " ") + (f" of {tool}" if tool else "")
        super().__init__(f"the {per} reached its limit of {allowed:g} {what}")


class ValidationFailed(ScallionError):
    """Strict validation of the answer ran out of retries; `errors` say what is wrong, the message only where."""

    def __init__(self, errors: Sequence[str], result: Completed | None = None) -> None:
        self.errors = list(errors)
        self.result = result
        count = len(self.errors)
        told = f"the answer failed validation with {count} error{'' if count == 1 else 's'}"
        super().__init__(told + (f" at {places}" if (places := _places(self.errors)) else ""))


def _places(errors: Sequence[str]) -> str:
    """Where the errors are that begin with a JSON pointer; a key that may be a text of somebody is a `*`."""
    pointers = [found[1] for one in errors if (found := _POINTER.match(one))]
    parts = [
        re.sub(r"(?<=/)(?![A-Za-z_]\w{0,39}(?:/|$)|\d{1,4}(?:/|$))[^/]+", "*", one, flags=re.ASCII) for one in pointers
    ]
    places = list(dict.fromkeys(parts))
    return ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")


_POINTER = re.compile(r"(#|(?:/[^/]*)+?): ")
"""How the errors of a schema begin."""


class Blocked(ScallionError):
    """A guard stopped the turn; `findings` holds types and counts, never text.

    `told`: what a tool call that was stopped is answered with in the thread.
    """

    def __init__(self, guard: str, findings: Mapping[str, int] | None = None, told: str | None = None) -> None:
        self.guard = guard
        self.findings = dict(findings or {})
        self.told = told
        super().__init__(f"guard {guard!r} stopped the turn")


class ThreadError(ScallionError):
    """The thread is not in a state that allows the call."""

    def __init__(self, thread: str, message: str) -> None:
        self.thread = thread
        super().__init__(message)


class ThreadBusy(ThreadError):
    """Another turn runs on the thread."""

    def __init__(self, thread: str, holder: str | None = None, since: datetime | None = None) -> None:
        self.holder = holder
        self.since = since
        super().__init__(thread, f"thread {thread!r} is busy: wait for its turn to end, or cancel it")


class ThreadPaused(ThreadError):
    """A new message came while approvals are open."""

    def __init__(
        self,
        thread: str,
        approvals: Sequence[Approval] = (),
        way: str = 'resume it, or build the Agent with on_message_while_paused="supersede"',
    ) -> None:
        self.approvals = list(approvals)
        waiting = sum(one.status != "decided" for one in self.approvals)
        is_decided = bool(self.approvals) and not waiting
        state = "is decided, and has not gone on since" if is_decided else f"waits for {waiting} decision(s)"
        super().__init__(thread, f"thread {thread!r} {state}: {way}")


class NotPaused(ThreadError):
    """There is nothing to resume on the thread."""

    def __init__(self, thread: str, message: str = "") -> None:
        super().__init__(thread, message or f"thread {thread!r} has nothing to resume")


class LeaseLost(ThreadError):
    """The right to run the thread went to another process."""

    def __init__(self, thread: str) -> None:
        super().__init__(thread, f"the lease on thread {thread!r} was lost; nothing more was written")


class DecisionError(ScallionError):
    """A decision was refused; nothing was stored."""


class UnknownApproval(DecisionError):
    """No approval has this id."""

    def __init__(self, approval_id: str, message: str = "") -> None:
        self.approval_id = approval_id
        super().__init__(message or f"no approval has the id {approval_id!r}")


class InvalidDecision(DecisionError):
    """The decision does not fit the approval, which stays open."""

    def __init__(self, reason: str, approval: Approval | None = None) -> None:
        self.reason = reason
        self.approval = approval
        super().__init__(reason)


class AlreadyDecided(DecisionError):
    """Somebody decided first: `by`, `at` and `decision` say who, when and what."""

    def __init__(
        self,
        approval_id: str,
        *,
        by: str | None = None,
        at: datetime | None = None,
        decision: Decision | None = None,
        status: str = "decided",
    ) -> None:
        self.approval_id = approval_id
        self.by = by
        self.at = at
        self.decision = decision
        self.status = status
        told: list[str] = [decision.type] if decision else []
        told += [f"by {by}"] if by else []
        super().__init__(f"approval {approval_id!r} is already {status}" + (f": {' '.join(told)}" if told else ""))


class ApprovalExpired(DecisionError):
    """The approval was open for too long."""

    def __init__(self, approval_id: str, at: datetime | None = None) -> None:
        self.approval_id = approval_id
        self.at = at
        super().__init__(f"approval {approval_id!r} expired")


class PauseChanged(DecisionError):
    """The tool, its schema, its gate or the layers changed since the pause: `difference` says how."""

    def __init__(self, approval_id: str, difference: str) -> None:
        self.approval_id = approval_id
        self.difference = difference
        super().__init__(f"what approval {approval_id!r} showed has changed since: {difference}")


class StorageError(ScallionError):
    """The database refused, or holds what cannot be read."""


class SchemaError(StorageError):
    """The database is older or newer than this program."""


class NotSerializable(StorageError):
    """A value cannot be stored so that it comes back equal and of the same type."""

    def __init__(self, channel: str, type: str, reason: str = "") -> None:
        self.channel = channel
        self.type = type
        super().__init__(
            f"channel {channel!r} holds a {type} that cannot be stored" + (f": {reason}" if reason else "")
        )


class TypeBlocked(StorageError):
    """A stored value is of a type that is not on the allow-list, is gone, or does not take what it held."""


class WrongKey(StorageError):
    """Stored values are encrypted with another key, or not at all."""


class Closed(StorageError):
    """The saver or inbox was used after it was closed."""
