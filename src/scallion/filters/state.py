"""The private state of filters: how updates are folded, and the handle that a hook sees."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scallion.filters.filter import Filter, reducers

if TYPE_CHECKING:
    from scallion.filters.onion import Run

States = dict[str, dict[str, Any]]
Update = tuple[str, Mapping[str, Any]]


class StateRules:
    """What each filter's state starts from, and how each of its keys is combined."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._init = {one.name: dict(one.init or {}) for one in filters}
        self._reducers = {one.name: found for one in filters if (found := reducers(one.state_schema))}
        self._lasting = frozenset(one.name for one in filters if one.scope == "thread")

    def start(self, states: Mapping[str, Any] | None = None) -> States:
        """The states of a new turn: fresh ones, but for filters whose scope is the thread.

        What filters keep that are not here now, as for a turn of another program, is there for them when they are back.
        """
        kept = {name for name in states or {} if name in self._lasting or name not in self._init}
        return self._whole({name: dict(state) for name, state in (states or {}).items() if name in kept})

    def shown(self, states: States) -> States:
        """Those of the filters that are here."""
        return {name: state for name, state in states.items() if name in self._init}

    def fold(self, states: States, updates: Iterable[Update]) -> States:
        """`states`, made whole, with the updates applied in order; the argument is not changed."""
        folded = self._whole(states)
        for name, update in updates:
            combine = self._reducers.get(name)
            state = dict(folded.get(name) or {})
            for key, value in update.items():
                state[key] = combine[key](state[key], value) if combine and key in combine and key in state else value
            folded = {**folded, name: state}
        return folded

    def _whole(self, states: States) -> States:
        """`states` with what is missing of filters, or of keys of theirs, that were added since they were stored."""
        missing = {
            name: {**copy.deepcopy(init), **states.get(name, {})}
            for name, init in self._init.items()
            if name not in states or not init.keys() <= states[name].keys()
        }
        return {**states, **missing} if missing else states


class State(Mapping[str, Any]):
    """A filter's private state: reads see the latest values, `update(...)` applies at once and is kept over a pause."""

    __slots__ = ("_name", "_run")

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        self._name = name

    def _values(self) -> Mapping[str, Any]:
        return self._run.states.get(self._name) or {}

    def __getitem__(self, key: str) -> Any:
        return self._values()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __repr__(self) -> str:
        return f"State({self._name!r}, keys={sorted(self._values())})"

    def update(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Fold these values into the state: replaced, or by the key's reducer."""
        self._run.update(self._name, {**(values or {}), **named})


Fold = Callable[[States, Iterable[Update]], States]
