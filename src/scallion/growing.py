"""Which starts of a match a regular expression cannot decide yet, while the text that it reads still grows.

The pattern becomes an automaton whose threads stand in the order in which `re` would try them, as Pike's matcher has
them (R. Cox, "Regular Expression Matching: the Virtual Machine Approach"). A start is open as long as a thread that
began there is alive: only then can what follows change whether, and how far, the pattern matches there. Where a thread
has come to the end of the pattern, those behind it are dropped, as `re` would not try them any more.

What depends on more than the characters read so far (assertions, look-ahead, atomic groups, loops that may be empty) is
followed as if it held, and a match that came by such a way drops nothing. So a start may be kept open longer than
needed, and is never closed too early.

A counted repeat has a place for each count: where a match may start everywhere (`[a-z]{40,1000}!`), threads of each
count would be alive at once. Where the pattern is large by such repeats, and a match has a greatest length, they are
followed as if they had no count, which makes the threads alike, and a start is closed by that length instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

MOST_NODES = 20_000
"""A pattern that needs more, by counted repeats inside of each other, is refused."""
TOO_LARGE = "its counted repeats are too large: leave their greatest count away, as in {40,} for {40,5000}"
MOST_OPEN_ENDED = 2_000
"""The same for a pattern whose matches have no greatest length: each count may be a thread that is alive."""
MOST_COUNTED = 200
"""A pattern of more nodes whose matches have a greatest length is followed without its counts."""
MOST_STEPS = 50_000
"""How many steps are remembered; beyond that all are forgotten and found again."""
END, PROBE, NOWHERE = 0, 1, 2
"""The nodes that each automaton has: the end of the pattern, a look at what comes next, and a way that ends."""
ONE_CHARACTER = {_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN}
REPEATS = {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}
LOOKING = {_constants.AT, _constants.ASSERT, _constants.ASSERT_NOT}
NEWLINE = (_constants.LITERAL, ord("\n"))
FORWARD = {_constants.AT_BOUNDARY, _constants.AT_NON_BOUNDARY, _constants.AT_END, _constants.AT_END_STRING}


class Undecidable(ValueError):
    """The pattern has a part that no automaton can follow."""


class Threads:
    """The threads that are alive after the same text, in order, and where each next character leads them."""

    __slots__ = ("alive", "steps")

    def __init__(self, alive: tuple[int, ...]) -> None:
        self.alive = alive
        self.steps: dict[str, Threads] = {}


class Automaton:
    """The automaton of one pattern. `context`: how many characters before a start the pattern may look at; `reach`: how
    many from there on, None for any number.

    Raises Undecidable for a pattern that it cannot follow. It remembers steps, and may be shared by threads.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.context = 1
        self._known: dict[tuple[int, ...], Threads] = {}
        self._remembered = 0
        parsed = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
        if parsed.getwidth()[0] == 0:
            raise Undecidable("it can match an empty text")
        self.reach = _reach(parsed)
        self._counts = True
        entry = self._built(parsed)
        if self._nodes > MOST_COUNTED and self.reach is not None:
            self._counts = False
            entry = self._built(parsed)
        elif self._nodes > MOST_OPEN_ENDED:
            raise Undecidable(TOO_LARGE)
        alive: list[int] = []
        self._follow(entry, False, alive, set())
        self.start = self.threads(tuple(alive))

    def _built(self, parsed: Any) -> int:
        self._characters: dict[int, tuple[Callable[[str], Any], int]] = {}
        self._forks: dict[int, tuple[Sequence[int], bool]] = {NOWHERE: ((), False)}
        self._nodes = NOWHERE + 1
        return self._sequence(parsed, parsed.state.flags & ~re.DEBUG, END)

    def threads(self, alive: tuple[int, ...]) -> Threads:
        """The one object for these threads."""
        return self._known.setdefault(alive, Threads(alive))

    def step(self, threads: Threads, character: str) -> Threads:
        """The threads that are alive after one more character."""
        found = threads.steps.get(character)
        if found is None:
            found = threads.steps[character] = self.threads(self._stepped(threads.alive, character))
            self._remembered += 1
            if self._remembered > MOST_STEPS:
                self._forget()
        return found

    def _forget(self) -> None:
        known, self._known, self._remembered = self._known, {self.start.alive: self.start}, 0
        for one in known.values():
            one.steps = {}

    def _stepped(self, threads: Iterable[int], character: str) -> tuple[int, ...]:
        alive: list[int] = []
        seen: set[int] = set()
        for thread in threads:
            node, doubt = divmod(thread, 2)
            matches, following = self._characters.get(node, (_nothing, END))
            if matches(character) and self._follow(following, bool(doubt), alive, seen):
                break
        return tuple(alive)

    def _follow(self, node: int, doubt: bool, alive: list[int], seen: set[int]) -> bool:
        """Add the threads that stand before a character; True where the pattern surely ends: no way behind counts."""
        ways = [(node, doubt)]
        while ways:
            node, doubt = ways.pop()
            thread = 2 * node + doubt
            if thread in seen:
                continue
            seen.add(thread)
            if node == END:
                if not doubt:
                    return True
            elif node in self._forks:
                targets, doubts = self._forks[node]
                ways += [(target, doubt or doubts) for target in reversed(targets)]
            else:
                alive.append(thread)
        return False

    def _sequence(self, parts: Any, flags: int, following: int) -> int:
        for operator, argument in reversed(list(parts)):
            following = self._part(operator, argument, flags, following)
        return following

    def _part(self, operator: Any, argument: Any, flags: int, following: int) -> int:
        if operator in ONE_CHARACTER:
            return self._character((operator, argument), flags, following)
        if operator in REPEATS:
            return self._repeat(operator, argument, flags, following)
        if operator is _constants.BRANCH:
            return self._fork([self._sequence(one, flags, following) for one in argument[1]])
        if operator is _constants.SUBPATTERN:
            _, added, removed, inner = argument
            return self._sequence(inner, _combined(flags, added, removed), following)
        if operator is _constants.ATOMIC_GROUP:
            return self._doubted(self._sequence(argument, flags, following))
        if operator in LOOKING:
            return self._look(operator, argument, flags, following)
        if operator is _constants.FAILURE:
            return NOWHERE
        raise Undecidable("it refers to a group")

    def _character(self, part: Any, flags: int, following: int) -> int:
        node = self._new()
        self._characters[node] = (_one_character(part, flags), following)
        return node

    def _repeat(self, operator: Any, argument: Any, flags: int, following: int) -> int:
        low, high, inner = argument
        is_lazy = operator is _constants.MIN_REPEAT
        is_plain = operator is not _constants.POSSESSIVE_REPEAT and inner.getwidth()[0] > 0
        if high > 1 and not self._counts:
            low, high, is_plain = min(low, 1), _constants.MAXREPEAT, False
        entry = following
        if high is _constants.MAXREPEAT:
            entry = self._fork([])
            again = self._sequence(inner, flags, entry)
            self._forks[entry] = (_tried(again, following, is_lazy), False)
        else:
            for _ in range(high - low):
                entry = self._fork(_tried(self._sequence(inner, flags, entry), following, is_lazy))
        for _ in range(low):
            entry = self._sequence(inner, flags, entry)
        return entry if is_plain else self._doubted(entry)

    def _look(self, operator: Any, argument: Any, flags: int, following: int) -> int:
        """An assertion, taken as if it held, and what it may look at."""
        if operator is _constants.AT:
            ahead = [PROBE] if argument in FORWARD else []
            if argument is _constants.AT_END:  # before a line break at the very end, too
                ahead.append(self._character(NEWLINE, flags, PROBE))
            return self._fork([following, *ahead], doubts=True)
        direction, inner = argument
        if direction > 0:
            return self._fork([following, self._sequence(inner, flags, NOWHERE)], doubts=True)
        if any(operator in LOOKING for operator, _ in _parts(inner)):
            raise Undecidable("it has an assertion inside of a look-behind")
        self.context = max(self.context, inner.getwidth()[1] + 1)
        return self._doubted(following)

    def _doubted(self, following: int) -> int:
        return self._fork([following], doubts=True)

    def _fork(self, targets: Sequence[int], doubts: bool = False) -> int:
        node = self._new()
        self._forks[node] = (targets, doubts)
        return node

    def _new(self) -> int:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise Undecidable(TOO_LARGE)
        return self._nodes - 1


class OpenStarts:
    """The starts of a match that are open in one text, and the threads that keep each of them so, first start first.

    Where threads of two starts stand in the same place, what comes decides both alike: the first start keeps it, with
    the last start that it stands for. Behind `reach`, only later ones than the first are left of it.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._open: list[tuple[int, int, Threads]] = []

    @property
    def first(self) -> int | None:
        """The first open start; None where every match is decided."""
        return self._open[0][0] if self._open else None

    def read(self, text: str, place: int) -> None:
        """Go on with characters of which the first has this place."""
        step, start, reach = self._automaton.step, self._automaton.start, self._automaton.reach
        for at, character in enumerate(text, place):
            begun = start.steps.get(character) or step(start, character)
            if self._open:
                self._go_on(character, (at, at, begun))
                if reach is not None:
                    self._close(at + 2 - reach)
            elif begun.alive:
                self._open = [(at, at, begun)]

    def _go_on(self, character: str, begun: tuple[int, int, Threads]) -> None:
        step = self._automaton.step
        went_on = [
            (since, last, threads.steps.get(character) or step(threads, character))
            for since, last, threads in self._open
        ]
        went_on.append(begun)
        self._open = [one for one in went_on if one[2].alive]
        if len(self._open) == 2 and self._open[0][2] is begun[2]:  # as in most words
            self._open = [(self._open[0][0], begun[1], begun[2])]
        elif len(self._open) > 1:
            self._open = self._apart()

    def _apart(self) -> list[tuple[int, int, Threads]]:
        holders: dict[int, int] = {}
        apart: list[tuple[int, int, Threads]] = []
        for since, last, threads in self._open:
            alive = []
            for one in threads.alive:
                holder = holders.setdefault(one, len(apart))
                if holder == len(apart):
                    alive.append(one)
                else:
                    first, latest, kept = apart[holder]
                    apart[holder] = (first, max(latest, last), kept)
            if len(alive) == len(threads.alive):
                apart.append((since, last, threads))
            elif alive:
                apart.append((since, last, self._automaton.threads(tuple(alive))))
        return apart

    def _close(self, before: int) -> None:
        """Close the starts before this place: a match of theirs would have come to its end."""
        if self._open and self._open[0][0] < before:
            self._open = [(max(since, before), last, threads) for since, last, threads in self._open if last >= before]

    def clear(self) -> None:
        """Nothing is open any more."""
        self._open = []

    def move(self, by: int) -> None:
        """The text was cut in front: places are smaller now."""
        self._open = [(since - by, last - by, threads) for since, last, threads in self._open]


def _nothing(character: str) -> bool:
    return False


def _tried(again: int, on: int, is_lazy: bool) -> Sequence[int]:
    """The ways of a repeat in the order in which they are tried."""
    return (on, again) if is_lazy else (again, on)


def _combined(flags: int, added: int, removed: int) -> int:
    """The flags inside of `(?i-m:...)`, as `re` combines them."""
    if added & _parser.TYPE_FLAGS:
        flags &= ~_parser.TYPE_FLAGS
    return (flags | added) & ~removed


def _one_character(part: Any, flags: int) -> Callable[[str], Any]:
    """Whether a character fits a part of the pattern that takes one, as `re` itself says."""
    state = _parser.State()
    state.flags = flags
    compiled: re.Pattern[str] = _compiler.compile(_parser.SubPattern(state, [part]))
    return compiled.fullmatch


def _parts(parsed: Any) -> Iterable[tuple[Any, Any]]:
    """All parts of a parsed pattern, with those inside of others."""
    if isinstance(parsed, _parser.SubPattern):
        for operator, argument in parsed:
            yield operator, argument
            yield from _parts(argument)
    elif isinstance(parsed, list | tuple):
        for one in parsed:
            yield from _parts(one)


def _reach(parsed: Any) -> int | None:
    """How many characters decide whether, and how far, the pattern matches at a start; None for any number."""
    reach: int = parsed.getwidth()[1]
    for operator, argument in _parts(parsed):
        if operator is _constants.AT:
            reach += 2
        elif operator in LOOKING and argument[0] > 0:
            reach += argument[1].getwidth()[1]
    return reach if reach < _constants.MAXREPEAT else None
