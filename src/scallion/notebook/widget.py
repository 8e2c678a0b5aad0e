"""The half of a panel that lives in the browser: an anywidget whose script and style come with the package."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from scallion.notebook.extra import needed


def view(token: str, heard: Callable[[Any], None]) -> Any:
    """A widget that draws what its traits hold; `heard` is given what somebody does in it.

    `parts`: cards and trails of turns, in order. `trail`: the turn that runs. `state`: what the panel says below them.
    `answers`: counts what was answered, also where nothing has changed by it, which a trait does not send.
    `token`: the id of what stands in for it where no kernel runs, and is hidden meanwhile.
    """
    made = _widget_class()(token=token)
    made.on_msg(lambda _widget, content, _buffers: heard(content))
    return made


@cache
def _widget_class() -> Any:
    """The class, of packages that are imported for the first panel only."""
    anywidget, traitlets = needed("anywidget"), needed("traitlets")
    here = files("scallion.notebook")
    members = {
        "_esm": here.joinpath("panel.js").read_text(encoding="utf-8"),
        "_css": here.joinpath("panel.css").read_text(encoding="utf-8"),
        "parts": traitlets.List().tag(sync=True),
        "trail": traitlets.List().tag(sync=True),
        "state": traitlets.Dict().tag(sync=True),
        "answers": traitlets.Int().tag(sync=True),
        "token": traitlets.Unicode().tag(sync=True),
    }
    return type("PanelView", (anywidget.AnyWidget,), {**members, "__module__": __name__})
