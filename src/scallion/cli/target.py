"""GRAPH on the command line: where an agent is, and loading it."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from scallion.errors import ConfigurationError
from scallion.inspect.escape import one_line

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

    from scallion.agent import Agent


def load(target: str, *, keeps: bool = False) -> Agent:
    """The agent at `path/to/file.py:agent` or `package.module:agent`; `keeps`: it must have a checkpointer.

    What the file prints goes to standard error. Raises BadParameter, or ConfigurationError where it cannot be loaded.
    """
    agent = _checked(*_found(target))
    _make_ready(agent, target, keeps)
    return agent


def load_graph(target: str) -> Agent | Pregel[Any, Any, Any, Any]:
    """As `load(target, keeps=True)`; a compiled LangGraph graph that belongs to no Agent is taken too."""
    found, *place = _found(target)
    loaded = found if _is_foreign(found) else _checked(found, *place)
    _make_ready(loaded, target, keeps=True)
    return loaded


def _found(target: str) -> tuple[Any, str, str]:
    place, name = _split(target)
    with redirect_stdout(sys.stderr):
        return getattr(_module(place), name, None), target, name


def _make_ready(loaded: Any, target: str, keeps: bool) -> None:
    if hasattr(loaded.checkpointer, "close"):
        click.get_current_context().call_on_close(loaded.checkpointer.close)
    if keeps and loaded.checkpointer is None:
        raise ConfigurationError(f"{target} keeps nothing: build it with checkpointer=...")
    _check_database(loaded, target)


def _is_foreign(found: Any) -> bool:
    from langgraph.pregel import Pregel

    from scallion.loop.node import Node

    nodes = getattr(getattr(found, "builder", None), "nodes", {}).values()
    return isinstance(found, Pregel) and not any(isinstance(one.runnable, Node) for one in nodes)


def _split(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        return target, "agent"
    return place, name


def _module(place: str) -> ModuleType:
    is_file = place.endswith(".py") or os.sep in place
    if is_file and not Path(place).is_file():
        raise click.BadParameter(f"there is no file {place}", param_hint="GRAPH")
    try:
        return _from_file(Path(place).resolve()) if is_file else _from_package(place)
    except ModuleNotFoundError as error:
        if not is_file and error.name and (place == error.name or place.startswith(f"{error.name}.")):
            raise click.BadParameter(f"there is no module {place}", param_hint="GRAPH") from error
        raise _unloadable(place, error) from error
    except Exception as error:
        raise _unloadable(place, error) from error


def _unloadable(place: str, error: Exception) -> ConfigurationError:
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    where = f" (line {lines[0]})" if lines else ""
    return ConfigurationError(one_line(f"{place} failed to load: {type(error).__name__}: {error}{where}"))


def _from_file(path: Path) -> ModuleType:
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # what lies beside the file; behind everything else, so that it hides nothing
    name = path.stem if path.stem not in sys.modules else f"scallion_graph_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"{path.name} is no Python file", param_hint="GRAPH")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _from_package(place: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return import_module(place)


def _checked(found: Any, target: str, name: str) -> Agent:
    from scallion.agent import Agent

    if isinstance(found, Agent):
        return found
    if found is None:
        raise click.BadParameter(f"{target} has no attribute {name!r}", param_hint="GRAPH")
    from langgraph.pregel import Pregel

    if isinstance(found, Pregel):
        told = f"{target} is a bare LangGraph graph; name the scallion Agent that it belongs to"
        raise click.BadParameter(told, param_hint="GRAPH")
    raise click.BadParameter(f"{target} is a {type(found).__name__}, not a scallion Agent", param_hint="GRAPH")


def _check_database(agent: Any, target: str) -> None:
    """Raise where `--db` was given and the agent keeps its threads elsewhere: silence would be a second database."""
    meta = click.get_current_context().meta
    from sqlalchemy import make_url

    database = getattr(agent.checkpointer, "database", None)
    tables = getattr(database, "tables", None)
    kept = {"db": getattr(database, "url", None), "schema": getattr(tables, "schema", None)}
    kept["prefix"] = getattr(tables, "prefix", None)
    for name, found in kept.items():
        wanted = meta.get(f"scallion.{name}")
        if wanted is not None and found != (make_url(wanted) if name == "db" else wanted):
            raise ConfigurationError(
                f"{target} does not keep its threads in --{name}: let it read the environment variable "
                f"SCALLION_{name.upper()}"
            )
