"""A value of Scallion drawn: what a notebook, a file or a terminal is given."""

from __future__ import annotations

from typing import Any

from scallion.inspect.html.document import document, fragment
from scallion.inspect.reading import talk
from scallion.inspect.text import plain


def to_html(value: Any) -> str:
    """The value as HTML with its style: one element, without scripts, links or ids. Raises TypeError, as `to_text`."""
    kind, read = _read(value)
    return document(fragment(kind, read))


def to_text(value: Any) -> str:
    """The value as plain text, a few dozen lines at most. Raises TypeError for what has no picture."""
    kind, read = _read(value)
    return plain(kind, read)


def mimebundle(value: Any) -> dict[str, str]:
    """Both, from one look at the value, by their types."""
    kind, read = _read(value)
    return {"text/plain": plain(kind, read), "text/html": document(fragment(kind, read))}


def _read(value: Any) -> tuple[str, Any]:
    """How it is drawn, and what is drawn: the rows of a listing or a session are looked up here, once."""
    kind = getattr(value, "_drawn_as", None)
    if kind is None:
        raise TypeError(f"{type(value).__name__} has no picture")
    if kind == "session":
        return kind, talk(value)
    if kind == "listing":
        return "page", value.list()
    return kind, value
