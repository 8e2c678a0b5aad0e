"""Arguments that the graph gives to a tool, not the model: state, store, runtime.

`InjectedToolCallId` is filled in by langchain-core itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime

from scallion.errors import ConfigurationError
from scallion.loop.platform import runtime


@dataclass(frozen=True, slots=True)
class Injection:
    """Which arguments of one tool are filled in from where."""

    state: tuple[tuple[str, str | None], ...] = ()
    store: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    """All arguments that the model may not give."""

    def __bool__(self) -> bool:
        return bool(self.hidden)


def injection(tool: BaseTool) -> Injection:
    """What is injected into `tool`, read from its annotations."""
    found: dict[str, list[Any]] = {"state": [], "store": [], "runtime": []}
    hidden = set()
    for name, hint in _hints(tool).items():
        marks = [hint, *get_args(hint)]
        if state := next((mark for mark in marks if _is(mark, InjectedState)), None):
            found["state"].append((name, getattr(state, "field", None)))
        elif any(_is(mark, InjectedStore) for mark in marks):
            found["store"].append(name)
        elif any(_is(mark, ToolRuntime) for mark in marks):
            found["runtime"].append(name)
        injected = any(_is(mark, InjectedToolArg) or _is(mark, ToolRuntime) for mark in marks)
        if injected and not any(_is(mark, InjectedToolCallId) for mark in marks):
            hidden.add(name)
    return Injection(tuple(found["state"]), tuple(found["store"]), tuple(found["runtime"]), frozenset(hidden))


def _hints(tool: BaseTool) -> dict[str, Any]:
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    hints = get_type_hints(function, include_extras=True) if function else {}
    schema = tool.get_input_schema()
    if isinstance(schema, type):
        hints |= get_type_hints(schema, include_extras=True)
    return hints


def _is(mark: Any, kind: type) -> bool:
    origin = get_origin(mark) or mark
    return isinstance(mark, kind) or (isinstance(origin, type) and issubclass(origin, kind))


def with_injected(
    call: Mapping[str, Any], wanted: Injection, state: Mapping[str, Any], config: RunnableConfig, env: Any
) -> dict[str, Any]:
    """The call with the injected arguments filled in; what the model gave for them is dropped."""
    args = {name: value for name, value in call["args"].items() if name not in wanted.hidden}
    visible = {**(state.get("state") or {}), **state}
    for name, field in wanted.state:
        if field is not None and field not in visible:
            raise ConfigurationError(f"tool {call['name']!r} wants the state slot {field!r}, which nothing has written")
        args[name] = visible if field is None else visible[field]
    around = runtime(config)
    if wanted.store and around.store is None:
        raise ConfigurationError(f"tool {call['name']!r} wants a store: build the Agent with store=...")
    args.update(dict.fromkeys(wanted.store, around.store if around else None))
    for name in wanted.runtime:
        args[name] = _tool_runtime(call, visible, config, around, env)
    return {**call, "args": args}


def _tool_runtime(
    call: Mapping[str, Any], state: Mapping[str, Any], config: RunnableConfig, around: Any, env: Any
) -> Any:
    return ToolRuntime(
        state=state,
        context=around.context if around.context is not None else env,
        config=config,
        stream_writer=around.stream_writer,
        tool_call_id=call["id"],
        store=around.store,
        execution_info=around.execution_info,
        server_info=around.server_info,
    )
