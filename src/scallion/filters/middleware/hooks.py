"""The hooks of a middleware, called in the colour at hand, and what stands around a call of `next` inside of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langgraph.config import get_config
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime, get_runtime

from scallion.bridge import wait, waits_on_loop
from scallion.errors import ScallionError
from scallion.filters.async_next import as_async
from scallion.filters.journal import Frame, current_frame
from scallion.filters.middleware.package import own_hook


class Hook:
    """One hook of a middleware in the colours that it has: a missing one is served by the other."""

    def __init__(self, middleware: Any, name: str) -> None:
        self.name = name
        self._sync = own_hook(middleware, name)
        self._async = own_hook(middleware, f"a{name}")

    def __bool__(self) -> bool:
        return self._sync is not None or self._async is not None

    @property
    def jumps(self) -> list[str]:
        """Where it says that it may jump to."""
        found = (getattr(one, "__can_jump_to__", None) for one in (self._sync, self._async))
        return list(next(filter(None, found), ()))

    def node(self, state: Mapping[str, Any], context: Any) -> Any:
        """What a hook that stands beside the chain returns."""
        return self._called(state, runtime_here(context))

    def around(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """What a hook that stands around a call gives; what must not be swallowed in it is raised after it."""
        passing: list[ScallionError] = []
        guarded = partial(_guarded, handler, passing)
        try:
            out = self._called(request, guarded, as_async(current_frame.get(), guarded))
        except Passing as signal:
            raise signal.error from signal.error.__cause__
        if passing:
            raise passing[0] from passing[0].__cause__
        return out

    def _called(self, given: Any, second: Any, second_async: Any = None) -> Any:
        if self._async is not None and (waits_on_loop() or self._sync is None):
            return wait(self._async(given, second if second_async is None else second_async))
        return self._sync(given, second)


class Passing(BaseException):
    """An error that no `except Exception` of a middleware may take for one of the model or tool: a guard, a limit."""

    def __init__(self, error: ScallionError) -> None:
        super().__init__("an error passes")
        self.error = error


def _guarded(handler: Callable[[Any], Any], passing: list[ScallionError], request: Any) -> Any:
    try:
        return handler(request)
    except ScallionError as error:
        passing.append(error)
        raise Passing(error) from error


def once(frame: Frame, about: str, run: Callable[[], Any]) -> Any:
    """What `run` gives, plain data; where the chain paused after it had, what it gave then: it does not run again."""
    kept = frame.noted(about)
    if kept is not None:
        frame.nexts = kept["nexts"]
        return kept["value"]
    since = len(frame.updates)
    value = run()
    frame.note({"value": value, "nexts": frame.nexts}, since, about)
    return value


def runtime_here(env: Any) -> Runtime[Any]:
    """LangGraph's runtime of the running node; around the turn no node runs, and it has the context only."""
    try:
        found: Runtime[Any] = get_runtime()
    except (RuntimeError, KeyError):
        found = Runtime()
    return found if found.context is not None else found.override(context=env)


def tool_runtime(state: Mapping[str, Any], request: Any) -> ToolRuntime[Any, Any]:
    """What a middleware is given beside a tool call."""
    around = runtime_here(request.context.env)
    return ToolRuntime(
        state=dict(state),
        context=around.context,
        config=current_frame.get().run.config or config_here(),
        stream_writer=around.stream_writer,
        tool_call_id=request.call["id"],
        store=around.store,
        tools=[] if request.tool is None else [request.tool],
        execution_info=around.execution_info,
        server_info=around.server_info,
    )


def config_here() -> Any:
    """LangGraph's config of the running node; empty where none runs."""
    try:
        return get_config()
    except RuntimeError:
        return {}
