"""What guards tell of what they found: types, counts and places, never the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from scallion.events import GuardActed
from scallion.filters.journal import current_frame
from scallion.tracing.difference import cut

FLAGGED = "flagged"
"""What is told in the place of types that a model has made up."""
Place = Literal["input", "output", "tool_args", "tool_results"]


def tell(
    guard: str, place: Place, actions: Collection[str], found: Mapping[str, int], *, made_up: bool = False
) -> None:
    """Tell the reader of the stream, who watches, and the trace, what a guard found and did; nothing of nothing.

    Types that a model has `made_up` are told to the reader only: who watches and the trace are told how many there are.
    """
    run = current_frame.get().run
    if not found:
        return
    done = sorted(set(actions))
    event = GuardActed(guard, place, ",".join(done), dict(Counter(found)))
    kept = replace(event, found={FLAGGED: sum(found.values())}) if made_up else event
    for listener, told_of in ((run.emit, event), (run.watch, kept)):
        if listener is not None:
            listener(told_of)
    if run.trace is not None:
        told = [f"{place}: {cut(kind)} {number}" for kind, number in sorted(kept.found.items())]
        run.trace.note(current_frame.get(), guard, ",".join(done), told)
