"""`run_parallel`: checks that read the conversation side by side."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from scallion.bridge import in_thread, wait
from scallion.filters.filter import is_async
from scallion.filters.filtering import Filtering, Means, checked, entered, resolved, running
from scallion.filters.journal import current_frame

CHANGES = "a check that runs in parallel may only read the conversation, and this one changed it"


def run_parallel(*checks: Any) -> Any:
    """Run checks side by side, each on a read-only view of the conversation; in an `async def` filter, await it.

    A check is a function of the conversation, `def` (it runs in a thread) or `async def`, or a message filter, by
    instance or class. The first in the order of the list that breaks or fails decides, and the others are cancelled; a
    `def` check that runs already comes to its end, and what it says is not used. One that changes the conversation
    fails with AttributeError, and none can pause. Raises ConfigurationError for what is no check.
    """
    filtering = running("run_parallel()")
    read: list[tuple[Any, Callable[[Any], Any]]] = [_reading(check) for check in checks]
    gathered = _gathered(read, filtering)
    return gathered if filtering.asynchronous else wait(gathered)


def _reading(check: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The function that is called, and how its argument is found in the view."""
    if not isinstance(check, type) and not hasattr(check, "filter") and callable(check):
        return check, lambda view: view
    return checked(resolved(check)).filter, lambda view: view._latest()


async def _gathered(checks: list[tuple[Any, Callable[[Any], Any]]], filtering: Filtering) -> None:
    """Wait for the checks in the order of the list, so that what one says does not depend on how fast another is."""
    views = [filtering.conversation.view() for _ in checks]
    runs = [_outcome(*check, view, filtering.means) for check, view in zip(checks, views, strict=True)]
    tasks = [asyncio.ensure_future(run) for run in runs]
    try:
        for task in tasks:
            error = await task
            if error is not None:
                raise error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _outcome(*check: Any) -> BaseException | None:
    """What a check failed with, as a value: an exit that a task raises would stop the loop, and nobody would wait."""
    try:
        await _read(*check)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error
    return None


async def _read(function: Any, given: Callable[[Any], Any], view: Any, means: Means | None) -> None:
    current_frame.set(None)  # type: ignore[arg-type]  # a question would be asked of whoever comes first
    with entered(Filtering(view, means, asynchronous=is_async(function))):
        argument = given(view)
        said = function(argument) if is_async(function) else await in_thread(lambda: function(argument))
        said = await said if inspect.isawaitable(said) else said
    if view.is_changed or (argument is not view and said != argument):
        raise AttributeError(CHANGES)
