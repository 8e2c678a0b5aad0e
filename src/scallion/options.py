"""What every verb of an agent takes by keyword, and LangGraph's config made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

from scallion.approvals.naming import as_text, somebody, user_of
from scallion.errors import ConfigurationError
from scallion.loop.invocation import Invocation
from scallion.loop.model import as_system
from scallion.loop.platform import outside_of_run

TAKEN = "scallion_taken"
"""The metadata that names a message which waited, and which the checkpoint takes up."""
OURS = ("answered", TAKEN)
"""Metadata by which a turn tells the saver what a checkpoint does; nobody else does."""


class CallOptions(TypedDict, total=False):
    """What every verb takes by keyword.

    `owner` and `user`: whose thread it is, and who asks; texts, which ints and UUIDs become. `env`: anything, handed to
    filters and tools, not stored. `system_prompt`: put behind the agent's for this call. `config`: LangGraph's.
    `durability`: LangGraph's too, "sync" by default: what a step did is stored before the next one runs. `wait`:
    seconds to wait for a thread that is busy.
    """

    owner: str | None
    user: str | None
    env: Any
    system_prompt: Any
    filters_env: Any
    config: Mapping[str, Any] | None
    durability: Literal["sync", "async", "exit"] | None
    wait: float


class SessionOptions(CallOptions, total=False):
    """What a session adds to them. `only_own`: a thread that belongs to nobody does not become the owner's."""

    only_own: bool


def checked(options: CallOptions) -> CallOptions:
    """The options; raises TypeError for one that is not there, ConfigurationError for a value that cannot be."""
    if unknown := sorted(set(options) - SessionOptions.__annotations__.keys()):
        raise TypeError(f"there is no option {unknown[0]!r}; there are {', '.join(CallOptions.__annotations__)}")
    if options.get("durability") not in (None, "sync", "async", "exit"):
        raise ConfigurationError(f'durability is "sync", "async" or "exit", not {options.get("durability")!r}')
    wait = options.get("wait") or 0
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0:
        raise ConfigurationError(f"wait is a number of seconds, not {wait!r}")
    if not isinstance(options.get("config") or {}, Mapping):
        raise ConfigurationError(f"config is a mapping, not {type(options.get('config')).__name__}")
    return options


def callers_config(options: CallOptions) -> dict[str, Any]:
    """The config of the caller. One that a surrounding graph handed on brings callbacks and tags, not its place."""
    return outside_of_run(options.get("config") or {})


def named_thread(thread: str | None, options: CallOptions) -> str | None:
    """The thread that `thread=` or the config names; raises ConfigurationError where they differ."""
    configurable = callers_config(options).get("configurable") or {}
    for key in ("checkpoint_id", "checkpoint_ns"):
        if configurable.get(key):
            raise ConfigurationError(f"config names a {key}: an Agent goes on from the newest checkpoint of its thread")
    configured = configurable.get("thread_id")
    if thread is None and configured is None:
        return None
    if thread is not None and configured is not None and thread != str(configured):
        raise ConfigurationError("thread= and config name two different threads: give one of them")
    name = thread if thread is not None else str(configured)
    if not isinstance(name, str) or not name:
        raise ConfigurationError("a thread is named by a text that is not empty")
    return name


def this_thread(thread: object, options: CallOptions) -> str:
    """The thread that a verb is about, where it cannot be a new one. Raises ConfigurationError where none is named."""
    name = named_thread(None if thread is None else as_text("thread", thread), options)
    if name is None:
        raise ConfigurationError("name the thread: None is no name")
    return name


def new_invocation(
    turn: str, thread: str, options: CallOptions, bound: Any = None, clean: Callable[..., Any] | None = None
) -> Invocation:
    """What the call brings along; `bound` is the owner whose threads alone the checkpointer knows.

    `clean` takes out of metadata and of waiting messages what no table may hold. Raises ConfigurationError for an owner
    or a user that is no name.
    """
    given: dict[str, Any] = {name: options.get(name) for name in ("owner", "user", "env", "filters_env")}
    metadata = callers_config(options).get("metadata") or {}
    for name in ("owner", "user"):  # a config may say it too: the saver reads it there
        given[name] = somebody(metadata, name) if given[name] is None else as_text(name, given[name])
    if given["user"] is not None:  # else the first task that writes something is who refuses it
        given["user"] = user_of(given["user"])
    if isinstance(bound, str):
        if given["owner"] not in (None, bound):
            raise ConfigurationError("owner= names another owner than the one that the checkpointer is for")
        given["owner"] = bound
    given["only_own"] = options.get("only_own", False)
    return Invocation(turn=turn, thread=thread, prompts=as_system(options.get("system_prompt")), clean=clean, **given)


def taking_up(here: Invocation, config: dict[str, Any]) -> dict[str, Any]:
    """The config of a turn's own checkpoints, which hold its message: not of those that end the turn before it."""
    return config if here.waited is None else {**config, "metadata": {**config["metadata"], TAKEN: here.waited}}


def graph_config(here: Invocation, options: CallOptions, agent: str) -> dict[str, Any]:
    """LangGraph's config: the caller's, with the thread and who it belongs to."""
    given = callers_config(options)
    if here.clean is not None:  # the saver keeps these
        given |= {name: here.clean(given[name]) for name in ("metadata", "tags", "run_name") if given.get(name)}
    if here.anonymous:
        return given  # LangGraph copies all of this into every step: nothing to keep, nothing to copy
    who = {"owner": here.owner, "user": here.user, "agent": agent}
    metadata = {name: value for name, value in who.items() if value is not None}
    return {
        **given,
        "configurable": {**(given.get("configurable") or {}), "thread_id": here.thread},
        "metadata": {**{k: v for k, v in (given.get("metadata") or {}).items() if k not in OURS}, **metadata},
    }
