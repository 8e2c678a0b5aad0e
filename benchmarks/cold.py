"""Cold process to resumed turn, with 400 turns of history: our agent on SQLite against create_agent on SqliteSaver."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def _gated(model: Any) -> Any:
    from parts import look

    from scallion import Agent, filters

    return lambda url: Agent(model, tools=[look], filters=[filters.approval({"look": True})], checkpointer=url)


def ours(folder: str, step: str, turns: int) -> None:
    """Fill the thread and pause, or resume it."""
    from parts import Model

    agent = _gated(Model())(f"sqlite:///{folder}/ours.db")
    if step == "resume":
        assert agent.resume("t", {"type": "approve"}).answer
        return
    _fill(agent.graph, turns)
    agent.invoke("q", thread="t")


def theirs(folder: str, step: str, turns: int) -> None:
    """The same with the neighbours' agent, middleware and saver."""
    import sqlite3

    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.types import Command
    from parts import Model, look, question

    saver = SqliteSaver(sqlite3.connect(f"{folder}/theirs.db", check_same_thread=False))
    agent = create_agent(Model(), [look], middleware=[HumanInTheLoopMiddleware({"look": True})], checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    if step == "resume":
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
        return
    _fill(agent, turns)
    agent.invoke(question(), config)


def _fill(graph: Any, turns: int) -> None:
    from langchain_core.messages import AIMessage, HumanMessage
    from parts import TEXT

    history = [kind(TEXT, id=f"{kind.__name__}{n}") for n in range(turns) for kind in (HumanMessage, AIMessage)]
    node = "chat" if "chat" in graph.nodes else "model"
    graph.update_state({"configurable": {"thread_id": "t"}}, {"messages": history}, as_node=node)


def measure(who: str, runs: int, turns: int) -> float:
    """Seconds of a whole process that resumes one turn, the median of several."""
    taken = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(HERE / "cold.py"), "--who", who, "--folder", folder, "--turns", str(turns)]
            subprocess.run([*command, "--step", "pause"], check=True)
            begun = time.perf_counter()
            subprocess.run([*command, "--step", "resume"], check=True)
            taken.append(time.perf_counter() - begun)
    return round(statistics.median(taken), 3)


def main() -> None:
    """Measure, or be one of the measured processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--who", choices=["ours", "theirs"])
    parser.add_argument("--step", choices=["pause", "resume"])
    parser.add_argument("--folder")
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.step:
        {"ours": ours, "theirs": theirs}[options.who](options.folder, options.step, options.turns)
        return
    print(json.dumps({who: measure(who, options.runs, options.turns) for who in ("ours", "theirs")}))


if __name__ == "__main__":
    main()
