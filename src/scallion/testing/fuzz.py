"""A fuzzer of token transforms: however a text is cut, what is delivered together is what the whole text gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from scallion.errors import ConfigurationError
from scallion.events import Token
from scallion.filters.filter import Filter
from scallion.filters.tokens import Pipeline, TokenTransform

LONGEST = 12
"""Pieces in a text, at most."""


def check_chunking(
    transforms: Filter | TokenTransform | Sequence[Filter | TokenTransform],
    whole: Callable[[str], str],
    pieces: Sequence[str],
    *,
    examples: int = 200,
    seed: int = 0,
) -> None:
    """Raise AssertionError unless `"".join(stream) == whole(text)` for random texts, however they are cut.

    `transforms`: filters with a token transform, or transforms; of several the first one sees the raw text. `pieces`:
    what the texts are made of, such as `["sk-123", "sk-", " ", "the end."]`: what is looked for, halves of it, what
    stands around it. Each text is also tried whole and character by character. With hypothesis installed a failure
    comes with the smallest text that shows it; without it, and within a test of hypothesis, the examples are those of
    `random.Random(seed)`.
    """
    chain = _chain(transforms)
    if not callable(whole):
        raise ConfigurationError(f"check_chunking: whole is a function of a text, not {type(whole).__name__}")
    if type(examples) is not int or examples < 1:
        raise ConfigurationError(f"check_chunking: examples is a number from 1, not {examples!r}")
    if (
        not isinstance(pieces, Sequence)
        or isinstance(pieces, str)
        or not pieces
        or not all(isinstance(one, str) and one for one in pieces)
    ):
        raise ConfigurationError("check_chunking: pieces are texts that are not empty, which the texts are made of")

    def check(text: str, places: Iterable[int]) -> None:
        expected = whole(text)
        for cut in (_cut(text, places), [text], list(text)):
            got = delivered_of(chain, cut)
            if got != expected:
                raise AssertionError(f"cut as {cut!r} it delivers {got!r}, the whole gives {expected!r}")

    (_by_hypothesis if _may_search() else _at_random)(check, pieces, examples, seed)


def delivered_of(chain: Sequence[tuple[str, TokenTransform]], chunks: Iterable[str]) -> str:
    """What the transforms deliver of a model stream of these chunks."""
    out: list[str] = []
    pipeline = Pipeline(chain, lambda token: out.append(token.text))
    for chunk in chunks:
        pipeline.push(Token(chunk, {}, "call"))
    pipeline.close()
    return "".join(out)


def _chain(transforms: Any) -> list[tuple[str, TokenTransform]]:
    several = [transforms] if isinstance(transforms, Filter | TokenTransform) else transforms
    if not isinstance(several, Sequence) or not several:
        raise ConfigurationError("check_chunking: transforms are one or more filters with a token transform")
    return [_named(one, at) for at, one in enumerate(several)]


def _named(one: Any, at: int) -> tuple[str, TokenTransform]:
    transform = one.token_transform if isinstance(one, Filter) else one
    if not isinstance(transform, TokenTransform):
        raise ConfigurationError(f"check_chunking: transforms[{at}] has no token transform")
    return getattr(one, "name", f"transform {at}"), transform


def _cut(text: str, places: Iterable[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


def _at_random(check: Callable[..., None], pieces: Sequence[str], examples: int, seed: int) -> None:
    source = random.Random(seed)
    for _ in range(examples):
        text = "".join(source.choices(pieces, k=source.randint(0, LONGEST)))
        check(text, [source.randrange(len(text) + 1) for _ in range(source.randint(0, 20))])


def _may_search() -> bool:
    """Whether hypothesis is there and not at work already: a search within a search takes the square of its time."""
    if not find_spec("hypothesis"):
        return False
    from hypothesis import currently_in_test_context

    return not currently_in_test_context()


def _by_hypothesis(check: Callable[..., None], pieces: Sequence[str], examples: int, seed: int) -> None:
    import hypothesis
    from hypothesis import strategies as st

    texts = st.lists(st.sampled_from(list(pieces)), max_size=LONGEST).map("".join)
    places = st.lists(st.integers(0, sum(map(len, pieces)) * LONGEST), max_size=20)
    run = hypothesis.given(text=texts, places=places)(lambda text, places: check(text, places))
    quiet = hypothesis.settings(max_examples=examples, deadline=None, database=None, print_blob=False)
    hypothesis.seed(seed)(quiet(run))()
