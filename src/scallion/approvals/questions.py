"""The questions of a graph's interrupts, each an approval of its own, and the values that its interrupts resume with.

An interrupt asks one question and gives it its id; LangChain's batched request with several calls asks one for each of
them, `INTERRUPT:0`, `INTERRUPT:1`, ..., which are answered together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scallion.approvals import deciders, hitl, payload
from scallion.values import Approval, Decision


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to decide: its id, its value, and the schema of the answer where the graph gave one."""

    id: str
    value: Any
    response_schema: Mapping[str, Any] | None = None
    part: int = 0
    parts: int = 1
    """Which question of its interrupt it is, of how many."""
    number: int = 0
    """How many questions the task had asked before, and got answers to."""
    taken: bool = False
    """Whether the task has its answer, though it came to no end with it."""
    begun: bool = False
    """Whether a call that runs at most once was begun on its answer, so that it may have taken effect."""

    @property
    def interrupt(self) -> str:
        """The id of the interrupt."""
        return self.id if self.parts == 1 else self.id.rpartition(":")[0]

    def approval(self, thread: str) -> Approval:
        """The pending approval that it asks for."""
        try:
            return payload.approval(self.id, self.value, thread, self.response_schema)
        except (KeyError, TypeError, ValueError):
            # It carries our mark without being ours: never a reason to lose a checkpoint.
            return payload.approval(self.id, repr(self.value), thread, self.response_schema)


FLAGS: dict[str, Any] = {"part": 0, "parts": 1, "number": 0, "taken": False, "begun": False}


def questions(values: Iterable[Any], number: int = 0) -> list[Question]:
    """The questions among what a task wrote as its interrupts, after `number` others."""
    found = [one for value in values for one in (value if isinstance(value, list | tuple) else [value])]
    return [
        question
        for one in found
        if isinstance(getattr(one, "id", None), str) and hasattr(one, "value")
        for question in _asked(one.id, one.value, getattr(one, "response_schema", None), number)
    ]


def _asked(interrupt: str, value: Any, schema: Any, number: int) -> list[Question]:
    schema = schema if isinstance(schema, dict) else None
    parts = hitl.split(value)
    if len(parts) == 1:
        return [Question(interrupt, value, schema, number=number)]
    return [Question(f"{interrupt}:{n}", part, schema, n, len(parts), number) for n, part in enumerate(parts)]


def stored(question: Question) -> str:
    """The question as JSON, what has its default left out."""
    written: dict[str, Any] = {"value": question.value, "schema": question.response_schema}
    written |= {name: given for name, unset in FLAGS.items() if (given := getattr(question, name)) != unset}
    try:
        return json.dumps(written, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that JSON does not have, or a value within itself
        return json.dumps(written | {"value": repr(question.value), "schema": None})


def read(id: str, text: str) -> Question:
    """The question that `stored` wrote."""
    written = json.loads(text)
    flags = {name: type(unset)(written[name]) for name, unset in FLAGS.items() if name in written}
    return Question(id, written["value"], written["schema"], **flags)


def answers(
    decided: Iterable[tuple[Question, Approval]], *, plain: Callable[[Decision], Any] | None = None
) -> dict[str, Any]:
    """What each interrupt resumes with, by its id; one that waits for another decision is left out.

    The approvals are those of the questions, and decided.

    `plain`: what a question that is neither ours nor LangChain's resumes with, by default the bare answer.
    """
    together: dict[str, list[tuple[Question, Approval]]] = {}
    for question, approval in decided:
        together.setdefault(question.interrupt, []).append((question, approval))
    whole = {id: pairs for id, pairs in together.items() if len(pairs) == pairs[0][0].parts}
    return {id: _answer(pairs, plain or _bare) for id, pairs in whole.items()}


def _answer(pairs: list[tuple[Question, Approval]], plain: Callable[[Decision], Any]) -> Any:
    question, approval = pairs[0]
    decision = _decision(approval)
    if payload.is_ours(question.value):
        names = deciders.behind(approval)
        return decision.to_json() | ({"by": names} if names else {})
    if hitl.is_batched(question.value):
        in_order = sorted(pairs, key=lambda pair: pair[0].part)
        given = [hitl.decision(_decision(one), asked.value["action_requests"][0]) for asked, one in in_order]
        return {"decisions": given}
    if hitl.is_per_call(question.value):
        return hitl.decision(decision, question.value)
    return plain(decision)


def _decision(approval: Approval) -> Decision:
    assert approval.decision is not None
    return approval.decision


def _bare(decision: Decision) -> Any:
    return decision.message if decision.type == "respond" else decision.type == "approve"
