"""What filters say about a message that has to wait for its turn: they judge it before it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage

from scallion.errors import Blocked
from scallion.filters.filter import Filter
from scallion.filters.journal import Frame, Wire, current_frame
from scallion.filters.masking import cleaner
from scallion.filters.onion import Run, nest
from scallion.filters.state import StateRules
from scallion.loop.aside import Lending
from scallion.loop.invocation import Invocation
from scallion.values import Completed, TurnRequest


@dataclass(slots=True)
class _Asker:
    """Who asks a model beside a turn that has not begun."""

    here: Invocation
    counts: Mapping[str, float] = field(default_factory=dict)


class Admission:
    """The turn hooks of the filters that judge what comes in, around nothing."""

    def __init__(self, filters: Sequence[Filter], rules: StateRules, lending: Lending) -> None:
        self._screens = [one for one in filters if one.screens_input]
        self._clean = cleaner(filters)
        self._rules = rules
        self._lending = lending

    def __call__(self, messages: list[BaseMessage], here: Invocation) -> list[BaseMessage] | Completed:
        """What may be kept of the messages, or the answer where they are not to wait; raises Blocked."""
        if not self._screens:
            return messages
        admitted: list[TurnRequest] = []

        def admit(request: TurnRequest, frame: Frame) -> Completed:
            frame.enter("")
            admitted.append(request)
            return Completed(AIMessage(""), request.messages)

        run = self._run(here)
        request = TurnRequest(messages, context=here.context({}, here.turn))
        root = Frame(run, None, request)
        token = current_frame.set(root)
        try:
            result = nest(self._screens, "turn", admit)(request, root)
        finally:
            current_frame.reset(token)
        return list(admitted[0].messages) if admitted else cast("Completed", result)

    def judge(self, messages: Sequence[BaseMessage], here: Invocation) -> None:
        """Raise Blocked where a filter stops the messages: before anything is ended for them, as a pause.

        What else the filters do with them, and tell of them, they do in the turn.
        """
        given = [one for one in messages if one.type != "remove"]
        told: list[Any] = []
        try:
            given = given if self._clean is None else self._clean(given, waits=True)
            self(given, replace(here, emit=told.append))
        except Blocked:
            if here.emit is not None:
                for event in told:
                    here.emit(event)
            raise

    def _run(self, here: Invocation) -> Run:
        wire = Wire("turn", lambda reply: reply, lambda reply: reply)
        emit: Any = here.emit
        means = self._lending.to(_Asker(here))
        return Run(
            wire, self._rules.fold, self._rules.start(), emit=emit, subject=here.subject, lasting=False, means=means
        )
