"""`compose`: a chain of filters without an agent, to test filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scallion.bridge import awaited, spawn
from scallion.errors import ConfigurationError
from scallion.filters.filter import CHAINS, Chain, Filter, check, layers
from scallion.filters.journal import Frame, Wire, current_frame
from scallion.filters.onion import Run, nest
from scallion.filters.state import StateRules, States


class Composed:
    """A composed chain that runs without an agent: call it with a request, or await `acall(request)`."""

    def __init__(
        self, filters: Sequence[Filter], chain: Chain, innermost: Callable[[Any], Any], answers: Sequence[Any]
    ):
        self._rules = StateRules(filters)
        self._answers = answers
        self._chain = chain
        self._path = tuple(one.name for one in layers(filters, chain))
        self._call = nest(filters, chain, lambda request, frame: awaited(innermost(request)))
        self.filter_state: States = self._rules.start()

    def __call__(self, request: Any) -> Any:
        """The reply to `request`; raises PauseSignal where a filter asks more than `answers` holds."""
        run = Run(
            Wire(self._chain, _same, _same), self._rules.fold, self._rules.start(), self._answers, path=self._path
        )
        run.free = 0
        root = Frame(run, None, request)
        token = current_frame.set(root)
        try:
            reply = self._call(request, root)
        finally:
            current_frame.reset(token)
            self.filter_state = run.states
        if run.pausing is not None:
            raise run.pausing
        return reply

    async def acall(self, request: Any) -> Any:
        """The same on the running event loop."""
        return await spawn(self, request)


def compose(
    filters: Iterable[Filter], chain: Chain, innermost: Callable[[Any], Any], *, answers: Sequence[Any] = ()
) -> Composed:
    """Nest `filters` around `innermost(request) -> reply` (`def` or `async def`), to test filters without an agent.

    `chain` is "turn", "chat" or "tool"; `answers` are the decisions that `pause` returns, in order. Raises
    ConfigurationError for filters that cannot work.
    """
    if chain not in CHAINS:
        raise ConfigurationError(f"chain is one of {', '.join(CHAINS)}, not {chain!r}")
    return Composed(check(filters), chain, innermost, answers)


def _same(value: Any) -> Any:
    return value
