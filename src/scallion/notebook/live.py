"""A turn that is seen while it streams, in the output of the cell that runs it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from html import escape
from typing import Any, Unpack

from scallion.agent import Agent
from scallion.errors import ConfigurationError
from scallion.notebook.extra import needed
from scallion.notebook.progress import Entry, Progress, Throttled
from scallion.options import CallOptions
from scallion.values import Completed, Paused

Result = Completed | Paused


def run(agent: Agent, input: Any, *, thread: str | None = None, **options: Unpack[CallOptions]) -> Result:
    """`agent.invoke`, shown while it streams: the text as it comes, tools, and what the layers did.

    Raises what `invoke` raises, and ConfigurationError where the extra `notebook` is missing. Stopped by the kernel's
    interrupt, as any cell; the thread can be gone on with.
    """
    needed("IPython")
    return watch(agent.stream(input, thread=thread, **options))


async def arun(agent: Agent, input: Any, *, thread: str | None = None, **options: Unpack[CallOptions]) -> Result:
    """As `run`, on the notebook's event loop."""
    needed("IPython")
    return await awatch(agent.astream(input, thread=thread, **options))


def watch(stream: Iterator[Any]) -> Result:
    """Show what `agent.stream`, `stream_resume` or a session's streams give, and return the result.

    Raises what the stream raises, and ConfigurationError for what is no such stream.
    """
    _check(stream, "__next__", "close")
    screen = _Screen()
    with screen, closing(stream) as events:  # type: ignore[type-var]
        for event in events:
            screen.show(event)
    return screen.result


async def awatch(stream: AsyncIterator[Any]) -> Result:
    """As `watch`, for `agent.astream` and its like."""
    _check(stream, "__anext__", "aclose")
    screen = _Screen()
    with screen:
        async with aclosing(stream) as events:  # type: ignore[type-var]
            async for event in events:
                screen.show(event)
    return screen.result


def _check(stream: Any, *verbs: str) -> None:
    if not all(hasattr(stream, verb) for verb in verbs):
        told = f"watch shows what agent.stream gives, awatch what agent.astream gives, not {type(stream).__name__}"
        raise ConfigurationError(told)


class _Screen:
    """One output of a cell, drawn again and again; what it shows last is what the saved notebook has."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._publish = needed("IPython.display").publish_display_data
        self._id = uuid.uuid4().hex
        self._is_there = False
        shell = needed("IPython").get_ipython()
        self._has_shell = shell is not None
        # A terminal cannot draw over what it has written: there only the end is shown.
        self._is_live = getattr(shell, "kernel", None) is not None
        self._has_begun = False
        self._drawn = Throttled(lambda: self._draw("running"), self._progress)

    def __enter__(self) -> None:
        self._drawn(at_once=True)

    def show(self, event: Any) -> None:
        self._has_begun = True
        self._drawn(self._progress.take(event))

    @property
    def result(self) -> Result:
        assert self._progress.result is not None
        return self._progress.result

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._is_live = True
        result = self._progress.result
        ended = "stopped" if self._has_begun else "not begun"
        self._draw(ended if kind else "paused" if isinstance(result, Paused) else "done")

    def _draw(self, phase: str) -> None:
        if not self._is_live:
            return
        text = _text(self._progress, phase)
        if not self._has_shell:  # publishing would make one
            print(text)
            return
        bundle = {"text/plain": text, "text/html": _html(self._progress, phase)}
        self._publish(bundle, transient={"display_id": self._id}, update=self._is_there)
        self._is_there = True


def _text(progress: Progress, phase: str) -> str:
    return "\n".join([*progress.lines(), f"[{phase}]"])


STYLE = {
    "text": "white-space: pre-wrap; margin: .3em 0",
    "thought": "white-space: pre-wrap; margin: .3em 0; opacity: .65; font-style: italic",
    "tool": "font-family: monospace",
    "note": "font-family: monospace; opacity: .65",
}


def _html(progress: Progress, phase: str) -> str:
    """No style sheet and no script: it is the same in every notebook, and in a saved one."""
    rows = "".join(_row(one) for one in progress.entries if one.text)
    return f'<div class="scallion-live">{rows}<div style="opacity: .65"><small>{phase}</small></div></div>'


def _row(one: Entry) -> str:
    return f'<div style="{STYLE[one.kind]}">{escape(one.line())}</div>'
