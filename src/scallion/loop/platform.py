"""The few parts of LangGraph that have no public name, in one place and each with a test.

LangGraph's own ToolNode uses the same ones.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Token
from functools import partial
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphInterrupt
from langgraph.pregel import _runner
from langgraph.types import interrupt

SCRATCHPAD = "__pregel_scratchpad"
READ_STATE = "__pregel_read_state"
RUNTIME = "__pregel_runtime"
CHECKPOINTER = "__pregel_checkpointer"
DURABILITY = "__pregel_durability"
SEND = "__pregel_send"
CALL = "__pregel_call"
RESUMING = "__pregel_resuming"
RESUME = "__resume__"
INTERRUPT = "__interrupt__"
RESUME_MAP = "__pregel_resume_map"
TASK = "__pregel_task_id"
REPLAY = "__pregel_replay_state"
GIVEN = "__pregel_scallion_given"
"""The input of a graph that is not to be stored: LangGraph shows keys that begin like its own in no stream."""
CALLED = "__pregel_scallion_call"
"""The id of the tool call for which an agent runs."""
PLACE = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")


def read_state(config: RunnableConfig) -> dict[str, Any]:
    """The state of the graph as the running task sees it; a `Send` carries the call only."""
    return cast("dict[str, Any]", config["configurable"][READ_STATE]())


def runtime(config: Mapping[str, Any]) -> Any:
    """LangGraph's runtime of the running task: context, store, stream writer."""
    return config["configurable"].get(RUNTIME)


def with_writer(config: Any, wrap: Callable[[Any], Any]) -> RunnableConfig:
    """The config with another writer of the `custom` stream, made of the one that is there."""
    around = runtime(config)
    if around is None:
        return cast("RunnableConfig", config)
    around = around.override(stream_writer=wrap(around.stream_writer))
    return cast("RunnableConfig", {**config, "configurable": {**config["configurable"], RUNTIME: around}})


def asking(interrupt: Any, value: Any) -> Any:
    """The interrupt with another question, under the same id."""
    changed = copy.copy(interrupt)
    changed.value = value
    return changed


@contextmanager
def as_current(config: RunnableConfig) -> Iterator[None]:
    """Within the block this is the config of the running task."""
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def current_config() -> RunnableConfig:
    """The config of the running task, with whatever was patched around the caller."""
    return cast("RunnableConfig", var_child_runnable_config.get())


def with_new_input(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run whose input is new.

    LangGraph takes one with the `run_id` of the run before for its continuation, and leaves the input out; a turn may
    run the graph several times.
    """
    return {**config, "configurable": {**config.get("configurable", {}), RESUMING: False}}


def outside_of_run(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without the place in a run that a node or tool was given it in: callbacks and tags stay."""
    given = dict(config)
    configurable = dict(given.get("configurable") or {})
    if any(key.startswith("__pregel_") for key in configurable):
        own = ("__pregel_", "__scallion_")
        kept = {key: configurable[key] for key in configurable if not key.startswith(own) and key not in PLACE}
        given |= {"configurable": kept, "metadata": {}}
    return given


@contextmanager
def as_root() -> Iterator[None]:
    """Within the block a graph is no subgraph of one whose tool calls it: it has its own thread and checkpointer.

    The callbacks stay, so that a trace shows the one inside the other.
    """
    outer = var_child_runnable_config.get()
    if outer is None:
        yield
        return
    token = var_child_runnable_config.set({"callbacks": outer.get("callbacks")})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def has_checkpointer(config: Mapping[str, Any]) -> bool:
    """Whether the running graph, or the one around it, has a checkpointer."""
    return bool(config["configurable"].get(CHECKPOINTER))


def given_answers(config: RunnableConfig) -> list[Any]:
    """The answers that the running task was given, in the order of its questions.

    An answer without an address (`Command(resume=value)`) is taken by asking: an `interrupt()` that is caught is not
    recorded. It stays on the checkpoint after it was taken, so it does not count in a run that brings addressed ones.
    """
    pad = config["configurable"].get(SCRATCHPAD)
    if pad is None or not has_checkpointer(config):
        return []
    if not config["configurable"].get(RESUME_MAP) and pad.get_null_resume(False) is not None:
        with suppress(GraphInterrupt):
            for _ in range(len(pad.resume) + 1):
                interrupt(None)
    return list(pad.resume)


def asked_before(config: RunnableConfig) -> set[str]:
    """The ids of the questions with which the running task stopped in an earlier run."""
    if not is_resumed(config):
        return set()
    call = config["configurable"].get(CALL)
    loop = getattr(getattr(call, "keywords", {}).get("schedule_task"), "__self__", None)
    writes, task = getattr(loop, "checkpoint_pending_writes", ()), config["configurable"].get(TASK)
    return {one.id for id, channel, asked in writes if id == task and channel == INTERRUPT for one in asked}


def restate_answers(config: RunnableConfig, answers: list[Any]) -> None:
    """Have all answers stored with the pause that comes: an early `interrupt()` stores those up to its own."""
    if answers:
        config["configurable"][SEND]([(RESUME, list(answers))])


def counting_interrupts(config: RunnableConfig, ordinal: Callable[[], int]) -> tuple[RunnableConfig, Token[Any] | None]:
    """From now on an `interrupt()` of LangGraph takes its place among the answers from `ordinal`.

    Returns the config to use, and what `restored` takes back. Nothing is done where nothing can pause.
    """
    configurable = config["configurable"]
    pad = configurable.get(SCRATCHPAD)
    if pad is None or not configurable.get(CHECKPOINTER):
        return config, None
    pad = dataclasses.replace(pad, interrupt_counter=ordinal, get_null_resume=lambda consume=False: None)
    patched = cast("RunnableConfig", {**config, "configurable": {**configurable, SCRATCHPAD: pad}})
    return patched, var_child_runnable_config.set(patched)


@contextmanager
def tasks_at_once() -> Iterator[None]:
    """Within the block a `@task` is done at once: not in LangGraph's few threads, nor behind `max_concurrency` tasks.

    A batch of calls that all wait for such a task would otherwise hold every place where it could be done, for ever.
    """
    config = current_config()
    call = config["configurable"].get(CALL)
    ways = WAYS.get(getattr(call, "func", None))
    if call is None or ways is None:
        yield
        return
    patched = {**config, "configurable": {**config["configurable"], CALL: partial(call, **ways(call))}}
    token = var_child_runnable_config.set(cast("RunnableConfig", patched))
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _done(function: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
    """The future of what is done now."""
    future: Future[Any] = Future()
    try:
        future.set_result(function(*args, **_own(options)))
    except BaseException as error:
        future.set_exception(error)
    return future


def _scheduled(function: Callable[..., Any], *args: Any, **options: Any) -> asyncio.Future[Any]:
    """As `_done`, on the event loop that calls it."""
    future: asyncio.Future[Any] = asyncio.ensure_future(function(*args, **_own(options)))
    return future


def _own(options: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that say when, which are LangGraph's own."""
    return {key: value for key, value in options.items() if key[:2] != "__"}


class _Committed:
    """Stands for the futures that a runner waits for. What is done already is committed, and not put among them.

    The dict of those is changed and gone through by several threads, which fails now and then.
    """

    def __init__(self, futures: Any) -> None:
        self._futures = futures

    def items(self) -> Sequence[Any]:
        return ()

    def __setitem__(self, future: Future[Any], task: Any) -> None:
        if (commit := self._futures.callback()) is not None:
            commit(task, future.exception())


def _at_once(call: Any) -> dict[str, Any]:
    futures = call.keywords["futures"]
    return {"submit": lambda: _done, "futures": lambda: _Committed(futures())}


WAYS: Mapping[Any, Callable[[Any], dict[str, Any]]] = {
    _runner._call: _at_once,
    _runner._acall: lambda call: {"submit": lambda: _scheduled},
}
"""How a task is done at once, by what LangGraph calls it with in each colour."""


def restored(token: Token[Any] | None) -> None:
    """Undo `counting_interrupts`."""
    if token is not None:
        var_child_runnable_config.reset(token)


def is_in_task(config: Mapping[str, Any]) -> bool:
    """Whether the config is that of a task of a running graph."""
    return TASK in (config.get("configurable") or {})


def is_resumed(config: Mapping[str, Any]) -> bool:
    """Whether the task may have run before: it goes on, and is not replayed from the past."""
    configurable = config["configurable"]
    return bool(configurable.get(RESUMING)) and not configurable.get(REPLAY) and has_checkpointer(config)


def place_in(config: Mapping[str, Any], number: str | None = None) -> dict[str, Any]:
    """The config for a graph that the running task runs, as often as it wants, at one place below its own.

    A task has several such places: they are counted, or each has a `number` of its own, where several are begun at
    once.
    """
    configurable = {**config["configurable"]}
    pad = configurable.get(SCRATCHPAD)
    if pad is not None:
        number = number or str(pad.subgraph_counter() or "")
        configurable[SCRATCHPAD] = dataclasses.replace(pad, subgraph_counter=lambda: 0)
    if number:
        configurable["checkpoint_ns"] = f"{configurable['checkpoint_ns']}|{number}"
    for name in (REPLAY, GIVEN, CALLED):
        configurable.pop(name, None)
    if has_checkpointer(config):  # it is entered again, and what finished in it is not done again
        configurable[DURABILITY] = "sync"
    return {**config, "configurable": configurable}


def alone(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config for a graph that runs outside of any other, and is not kept."""
    return {**outside_of_run(config), "configurable": {CHECKPOINTER: None}}
