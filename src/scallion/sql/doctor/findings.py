"""What the doctor finds: a thing that is not as it should be, and what mends it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal[
    "running",
    "unread",
    "expired_lease",
    "half_written",
    "unknown_outcome",
    "dangling_call",
    "misplaced_result",
    "orphan_result",
    "approval_without_pause",
    "pause_without_approval",
    "wrong_count",
    "empty_thread",
    "unreadable_trace",
    "orphan_trace",
]
Way = Literal["repair", "give_up"]


@dataclass(frozen=True)
class Finding:
    """One thing that was found in a thread, in words: ids and names, no texts of a conversation and no arguments.

    `subject`: the id of the call, message, approval or turn that it is about. `by`: what of `Doctor.repair` mends it:
    all of it, or only `give_up=True`; None: it does not. "running" and "unread" are no damage. "unknown_outcome" is
    about a call; whoever resumes the thread is asked.
    """

    thread: str
    kind: Kind
    what: str
    remedy: str
    subject: str | None = None
    by: Way | None = "repair"

    @property
    def is_damage(self) -> bool:
        """Whether something is wrong."""
        return self.kind not in ("running", "unread")

    def is_mended(self, give_up: bool) -> bool:
        """Whether `Doctor.repair` mends it."""
        return self.by == "repair" or (give_up and self.by == "give_up")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)
