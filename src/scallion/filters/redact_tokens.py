"""`redact_tokens`: what a pattern matches is replaced in the stream of the answer, wherever the pieces are cut."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from scallion.errors import ConfigurationError
from scallion.events import Token
from scallion.filters.filter import Filter, check_takes
from scallion.filters.redaction import RedactedStream, Redactor
from scallion.filters.tokens import TokenTransform
from scallion.growing import Undecidable

Replacement = str | Callable[[re.Match[str]], str | None]
NESTED = "pattern has groups that are nested too deeply: take those away that nothing refers to"


def redactor(pattern: str | re.Pattern[str], replacement: Replacement) -> Redactor:
    """The redactor of a pattern, a text or a compiled one; raises ValueError that says what is wrong with it."""
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError, OverflowError) as error:
        raise ValueError(f"pattern is no regular expression of the module re: {error}") from None
    except RecursionError:
        raise ValueError(NESTED) from None
    if not isinstance(compiled.pattern, str):
        raise ValueError("pattern is for bytes: give one for texts")
    try:
        return Redactor(compiled, _replacing(compiled, replacement))
    except Undecidable as error:
        raise ValueError(f"pattern cannot be held back exactly: {error}") from None
    except RecursionError:
        raise ValueError(NESTED) from None


def _replacing(pattern: re.Pattern[str], replacement: Any) -> Callable[[re.Match[str]], str | None]:
    if callable(replacement):
        return cast("Callable[[re.Match[str]], str | None]", replacement)
    if not isinstance(replacement, str):
        raise ValueError(f"replacement is a text, or a function of a match, not {type(replacement).__name__}")
    try:
        pattern.sub(replacement, "")
    except (re.error, IndexError) as error:
        raise ValueError(f"replacement does not fit the pattern: {error}") from None
    return lambda match: match.expand(replacement)


def transform(one: Redactor, max_hold: int | None) -> TokenTransform:
    """The redactor as a token transform; a candidate of more than `max_hold` characters is a ValueError."""

    def step(token: Token, stream: RedactedStream | None) -> tuple[list[str], RedactedStream]:
        stream = stream or one.stream()
        text = stream.push(token.text)
        if max_hold is not None and stream.held > max_hold:
            raise ValueError("more is held back than max_hold")
        return [text] if text else [], stream

    return TokenTransform(step, flush=lambda stream: [stream.finish()] if stream is not None else [])


def redact_tokens(
    pattern: str | re.Pattern[str],
    replacement: Replacement,
    *,
    max_hold: int | None = None,
    name: str = "redact_tokens",
) -> Filter:
    """Replace what `pattern` matches in what a stream delivers: together it is `re.sub(pattern, replacement, answer)`.

    `pattern`: of the standard library's `re`, a text or compiled with flags. `replacement`: as in `re.sub`, a text
    (`\\1` is a group) or a function of the match, whose places count from somewhere in the text, as what was let go is
    not kept. Of the text only that is held back which later pieces can still make
    a match of, or a longer one: `sk-\\w+` holds a key until the first character behind it. A pattern that goes on to
    the end of the text (`(?s)BEGIN.*`) holds back all from there. `max_hold`: characters; where more would be held
    back, the turn fails with FilterError and nothing of it leaves. None: up to the length of the answer.

    Raises ConfigurationError for a pattern that cannot be held back exactly: one that can match an empty text, refers
    to a group (`\\1`, `(?(1)...)`), has an assertion inside of a look-behind, counted repeats of thousands (write
    `{40,}` for `{40,5000}`), or hundreds of groups in each other; and for a replacement that does not fit.
    """
    if max_hold is not None and (type(max_hold) is not int or max_hold < 1):
        raise ConfigurationError(f"filter {name!r}: max_hold is a number of characters above 0, not {max_hold!r}")
    if callable(replacement):
        check_takes(name, "replacement", replacement, "match")
    try:
        one = redactor(pattern, replacement)
    except ValueError as error:
        raise ConfigurationError(f"filter {name!r}: {error}") from None
    return Filter(name, token_transform=transform(one, max_hold))
