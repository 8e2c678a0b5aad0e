"""HTML that is built, never pasted together: whatever is put inside is text, unless it was built here itself."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from scallion.inspect.escape import printable

PREFIX = "sca-"
"""In front of every class name."""
ATTRIBUTES = frozenset(
    "aria-label class colspan d datetime dir dominant-baseline fill fill-opacity font-size height open points role rx "
    "scope stroke stroke-dasharray stroke-width style tabindex text-anchor title viewBox width x xmlns y".split()
)
"""All that an element may have: none of these loads, links, runs or names anything."""


class Markup(str):
    """HTML that may be put into HTML as it is."""

    __slots__ = ()


def text(value: Any) -> Markup:
    """The value as text: no markup, and no character that is active or hides."""
    return value if isinstance(value, Markup) else Markup(escape(printable(str(value)), quote=True))


def join(*inside: Any) -> Markup:
    """What is inside, one behind the other: markup, texts, iterables of them; None is nothing."""
    return Markup("".join(_flat(inside)))


def tag(name: str, *inside: Any, cls: str = "", **attributes: Any) -> Markup:
    """An element. `cls`: class names without their prefix. An attribute that is None or False is left out.

    `aria_label` is `aria-label`. Raises ValueError for an attribute that no element here has.
    """
    given = {"class": " ".join(f"{PREFIX}{one}" for one in cls.split()) or None, **attributes}
    written = "".join(_attribute(key.replace("_", "-"), value) for key, value in given.items())
    return Markup(f"<{name}{written}>{join(*inside)}</{name}>")


def _attribute(name: str, value: Any) -> str:
    if name not in ATTRIBUTES:
        raise ValueError(f"no element has an attribute {name!r}")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{text(value)}"'


def _flat(inside: Iterable[Any]) -> Iterable[str]:
    for one in inside:
        if isinstance(one, str):
            yield text(one)
        elif isinstance(one, Iterable):
            yield from _flat(one)
        elif one is not None:
            yield text(one)
