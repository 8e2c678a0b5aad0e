"""What tools really did: each execution in this process, behind all filters, whatever the messages say."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scallion.testing.probes import TOOL, does_run, probed


@dataclass(frozen=True)
class Execution:
    """One execution that began: of which tool, with which arguments, for which call."""

    tool: str
    args: Mapping[str, Any]
    call_id: str | None


class Executions(list[Execution]):
    """Those of a block, in the order in which they began."""

    def of(self, tool: Any) -> list[Execution]:
        """Those of one tool: its name, its function or the tool itself."""
        return [one for one in self if one.tool == _name(tool)]


@contextmanager
def executions() -> Iterator[Executions]:
    """Within the block each execution of a tool of any agent in this process is written down.

    A call that a filter answers, that was rejected, or whose result is replayed after a pause is none. Calls of a tool
    that runs elsewhere are none.
    """
    ran, lock = Executions(), threading.Lock()

    def note(runner: Any, request: Any, *rest: Any) -> None:
        if does_run(runner, request):
            with lock:
                ran.append(Execution(request.tool.name, dict(request.call["args"]), request.call["id"]))

    with probed(*TOOL, before=note):
        yield ran


def assert_called_once(ran: Executions, tool: Any, **args: Any) -> None:
    """Raise AssertionError unless the tool ran exactly once; `args` are arguments that it had to have then."""
    found = ran.of(tool)
    if len(found) != 1:
        others = ", ".join(one.tool for one in ran) or "nothing"
        raise AssertionError(f"{_name(tool)} ran {len(found)} times, not once; what ran: {others}")
    had = found[0].args
    different = {name for name, value in args.items() if name not in had or had[name] != value}
    if different:
        told = ", ".join(f"{name}={had[name]!r}" if name in had else f"no {name}" for name in sorted(different))
        raise AssertionError(f"{_name(tool)} ran once, with {told}")


def _name(tool: Any) -> str:
    return tool if isinstance(tool, str) else str(getattr(tool, "name", None) or tool.__name__)
