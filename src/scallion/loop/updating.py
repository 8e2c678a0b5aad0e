"""Writing to a thread from outside of its nodes, in one checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from scallion.bridge import call
from scallion.loop.platform import as_root
from scallion.loop.routes import OUTSIDE


def update(graph: Any, config: Mapping[str, Any], values: Any, *, as_node: str = "chat") -> None:
    """Add a checkpoint with these values, as if the node had written them.

    LangGraph stores what is written first, by itself and as the work of a task that waits, where there is one: a crash
    there would leave a question that is answered. Of a task that is not there nobody takes it up.
    """
    config = {**config, "configurable": {**config["configurable"], OUTSIDE: True}}
    call(graph.update_state, graph.aupdate_state, config, values, as_node=as_node, task_id=str(uuid.uuid4()))


def enter(graph: Any, config: Mapping[str, Any]) -> None:
    """Have the input, which the newest checkpoint is, written to the channels; nothing else is run."""
    own = {name: config[name] for name in ("configurable", "metadata") if name in config}
    with as_root():
        call(graph.invoke, graph.ainvoke, None, own, interrupt_before="*", durability="sync")
