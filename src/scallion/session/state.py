"""What a thread held at one of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from scallion.session.comparing import Compared
from scallion.session.turns import Step, Turn, answer_of
from scallion.shown import Shown, brief


@dataclass(frozen=True, slots=True, repr=False)
class State(Shown, drawn_as="state"):
    """A thread at one of its steps: the conversation, the shared state, and the private state by filter name."""

    step: Step
    messages: Sequence[BaseMessage]
    state: Mapping[str, Any] = field(default_factory=dict)
    filter_state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def answer(self) -> str | None:
        """The text of the last message, if that is an answer."""
        return answer_of(self.messages)

    def __repr__(self) -> str:
        return brief(self, step=self.step.step, id=self.step.id, answer=self.answer, messages=len(self.messages))


def state_at(step: Step, values: Mapping[str, Any]) -> State:
    """The state that the channels of an agent's graph hold."""
    return State(step, values.get("messages") or [], **_states(values))


def compared(one: Turn | State, values: Mapping[str, Any] | None = None) -> Compared:
    """A turn, with what the channels held at its end where that is known, or a state, as one side of a comparison."""
    if isinstance(one, State):
        return Compared(one.messages, one.answer, one.state, one.filter_state)
    return Compared(one.messages, one.answer, **(_states(values) if values is not None else {}))


def _states(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"state": values.get("state") or {}, "filter_state": (values.get("loop") or {}).get("filters") or {}}
