"""Pictures of `scallion.inspect`: a thread without its agent, a graph, and cards without buttons."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from scallion.agent import Agent
from scallion.inspect import graph_svg
from scallion.inspect.html.document import document, fragment
from scallion.inspect.reading import Talk
from scallion.inspect.text import plain
from scallion.tracing import Trace
from scallion.values import Approval


class Picture:
    """Something to look at, in a notebook or as text."""

    def __init__(self, text: str, html: str) -> None:
        self._text = text
        self._html = html

    def __repr__(self) -> str:
        return self._text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self._text, "text/html": self._html}


def talk_picture(
    thread: str, row: Any, pending: Sequence[Approval], messages: Sequence[Any], trace: Trace | None
) -> Picture:
    """A conversation of which the messages are known, and what happened in its last turn."""
    talk = Talk(thread, row, turns=None, messages=messages, pending=pending)
    parts: dict[str, Any] = {"session": talk} | ({"trace": trace} if trace is not None else {})
    text = "\n\n".join(plain(kind, one) for kind, one in parts.items())
    return Picture(text, document(*(fragment(kind, one) for kind, one in parts.items())))


def graph_picture(agent: Agent) -> Picture:
    """The graph of an agent."""
    return Picture(repr(agent), graph_svg(agent))


NOTE = "The buttons went with the kernel that made them: run the cell again to decide."


def left_picture(approvals: Sequence[Approval], token: str) -> Picture:
    """What stands in a saved notebook where the buttons are gone; `token`: the id of it, by which they hide it."""
    text = "\n\n".join(plain("approval", one) for one in approvals) or "nothing waits for a decision"
    drawn = document(*(fragment("approval", one) for one in approvals)) if approvals else escape(text)
    return Picture(text, f'<div id="{token}">{drawn}<p><small>{NOTE}</small></p></div>')
