"""What LangChain's `create_agent` with HumanInTheLoopMiddleware on LangGraph's savers does where we promise something.

`python -m tests.hitl.neighbours` runs it and prints the third column of the table in `docs/guarantees.md`; a test
compares. Each function tries one promise, named by words of its row, and says what it saw.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from scallion.testing import ScriptedModel

Tried = Callable[[], str]
TRIED: dict[str, Tried] = {}
"""By words of the promise: what tries it, and says what it saw."""
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def promise(words: str) -> Callable[[Tried], Tried]:
    """What the function tries."""
    return lambda function: TRIED.setdefault(words, function)


class Till:
    """Counts what the tools did."""

    def __init__(self) -> None:
        self.paid: list[Any] = []
        self.fails = 0

        @tool
        def pay(order: int) -> str:
            """Pay an order."""
            self.paid.append(order)
            if self.fails:
                self.fails -= 1
                raise ConnectionError("the till is closed")
            return f"paid {order}"

        @tool
        def wipe(order: int) -> str:
            """Wipe an order."""
            self.paid.append(f"wiped {order}")
            return "wiped"

        self.pay, self.wipe = pay, wipe


def say(messages: Sequence[BaseMessage]) -> AIMessage:
    """One call, then "done"."""
    if isinstance(messages[-1], ToolMessage):
        return AIMessage("done")
    return AIMessage("", tool_calls=[{"name": "pay", "args": {"order": 7}, "id": f"c{len(messages)}"}])


def agent(till: Any, *inner: Any, saver: Any = None, tools: Any = None, gated: Any = True, seen: Any = None) -> Any:
    """An agent whose tool `pay` is gated; `seen` gets what the model is shown."""

    def model(messages: Sequence[BaseMessage]) -> AIMessage:
        if seen is not None:
            seen[:] = messages
        return say(messages)

    gates = [HumanInTheLoopMiddleware({"pay": gated})]
    kept = InMemorySaver() if saver is None else saver
    return create_agent(
        ScriptedModel(model), tools or [till.pay, till.wipe], middleware=[*gates, *inner], checkpointer=kept
    )


def begin(graph: Any) -> Any:
    return graph.invoke({"messages": [HumanMessage("pay")]}, CONFIG)


def decide(graph: Any, **decision: Any) -> Any:
    return graph.invoke(Command(resume={"decisions": [decision]}), CONFIG)


@promise("A rejected or answered call never runs")
def rejected() -> str:
    """Under a hook that calls the tool whatever it is told."""
    till = Till()

    @wrap_tool_call
    def careless(request: Any, handler: Any) -> Any:
        handler(request)
        return handler(request)

    graph = agent(till, careless)
    begin(graph)
    decide(graph, type="reject", message="no")
    if till.paid:
        return "LangChain: a rejected call runs"
    return "LangChain: the same; the call is answered before its tool hooks run"


@promise("What was approved runs with the arguments that were shown")
def other_arguments() -> str:
    """A hook that changes them."""
    till = Till()

    @wrap_tool_call
    def careless(request: Any, handler: Any) -> Any:
        return handler(request.override(tool_call={**request.tool_call, "args": {"order": 700}}))

    graph = agent(till, careless)
    begin(graph)
    result = decide(graph, type="approve")
    if till.paid == [700] and "__interrupt__" not in result:
        return "LangChain: a `wrap_tool_call` runs other arguments, nobody is asked"
    return "LangChain: the same"


@promise("One approval is for one run")
def twice() -> str:
    """A hook that runs the tool twice."""
    till = Till()

    @wrap_tool_call
    def careless(request: Any, handler: Any) -> Any:
        handler(request)
        return handler(request)

    graph = agent(till, careless)
    begin(graph)
    decide(graph, type="approve")
    if till.paid == [7, 7]:
        return "LangChain: a `wrap_tool_call` that calls twice runs the tool twice"
    return "LangChain: the same"


@promise("An edit keeps the tool")
def edited() -> str:
    """An edit to another tool, which the gate would stop."""
    till, seen = Till(), list[Any]()
    gate = {"allowed_decisions": ["approve", "edit", "reject"]}
    graph = agent(till, seen=seen, gated=gate)
    begin(graph)
    result = decide(graph, type="edit", edited_action={"name": "wipe", "args": {"order": 8}})
    asked_again = "__interrupt__" in result
    told = any("8" in one.text and "wipe" in one.text for one in seen if one.type != "human")
    other = till.paid == ["wiped 8"]
    if other and not asked_again:
        ends = "an edit may name another tool, and is not judged again"
    else:
        ends = "an edit keeps the tool"
    return f"LangChain: {'the model is told too' if told else 'the model is not told'}; {ends}"


@contextmanager
def on_sqlite() -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder, SqliteSaver.from_conn_string(f"{folder}/t.db") as saver:
        yield saver


@promise("One turn at a time runs on a thread")
def two_messages() -> str:
    """Two turns on one thread, each begun before the other ended."""
    both = threading.Barrier(2)

    def model(messages: Sequence[BaseMessage]) -> AIMessage:
        both.wait(10)
        return AIMessage(f"to {messages[-1].text}")

    with on_sqlite() as saver:
        graph = create_agent(ScriptedModel(model), [], checkpointer=saver)
        turns = [
            threading.Thread(target=graph.invoke, args=({"messages": [HumanMessage(word)]}, CONFIG))
            for word in ("one", "two")
        ]
        for turn in turns:
            turn.start()
        for turn in turns:
            turn.join()
        kept = [message.text for message in graph.get_state(CONFIG).values["messages"]]
    if len(kept) == 2:
        return "LangGraph: both run, and one of the two whole turns is lost"
    return f"LangGraph: both run, and {len(kept)} of four messages are kept"


@promise("What a crash or another program left wrong in a thread")
def dangling() -> str:
    """A call without a result: does a model's provider get it as it is?"""
    shown: list[Any] = []
    with on_sqlite() as saver:
        graph = agent(Till(), saver=saver, seen=shown)
        call = AIMessage("", tool_calls=[{"name": "pay", "args": {"order": 7}, "id": "lost"}])
        graph.update_state(CONFIG, {"messages": [HumanMessage("pay"), call, HumanMessage("well?")]}, as_node="model")
        graph.invoke({"messages": [HumanMessage("hello?")]}, CONFIG)
    answered = {one.tool_call_id for one in shown if isinstance(one, ToolMessage)}
    return "LangGraph: the same" if "lost" in answered else "LangGraph: the next model call fails"


@promise("A pause whose tool, schema, gate or filters changed")
def changed() -> str:
    """A deploy in between: another tool under the name, then no gate at all."""
    paid: list[Any] = []

    @tool
    def pay(order: int, euros: int = 1000) -> str:
        """Pay an order."""
        paid.append((order, euros))
        return "paid"

    saver = InMemorySaver()
    begin(agent(Till(), saver=saver))
    decide(agent(None, saver=saver, tools=[pay]), type="approve")
    is_other = paid == [(7, 1000)]
    till, saver = Till(), InMemorySaver()
    begin(agent(till, saver=saver))
    decide(agent(till, saver=saver, gated=False), type="reject", message="no")
    first = "an approval serves whatever the tool's arguments are now" if is_other else "another tool is refused"
    second = "where the gate lets the call pass now, a rejected call runs"
    return f"LangChain: {first}; {second if till.paid else 'a rejected call never runs'}"


@promise("A message to a paused thread is refused")
def message() -> str:
    """A message while a call waits: what the model is shown then."""
    shown: list[Any] = []
    till = Till()
    graph = agent(till, seen=shown)
    begin(graph)
    graph.invoke({"messages": [HumanMessage("never mind")]}, CONFIG)
    calls = {call["id"] for one in shown if isinstance(one, AIMessage) for call in one.tool_calls}
    answered = {one.tool_call_id for one in shown if isinstance(one, ToolMessage)}
    if shown[-1].text == "never mind" and calls - answered:
        return "LangGraph: the message begins a turn, and the calls that waited stay without a result"
    return "LangGraph: the calls that waited are answered"


@promise("A pause is decided and resumed a year later")
def longer() -> str:
    """By a program that has one more tool hook and one more tool; the time itself leaves no trace there."""
    till, saver = Till(), InMemorySaver()

    @wrap_tool_call
    def added(request: Any, handler: Any) -> Any:
        return handler(request)

    begin(agent(till, saver=saver, tools=[till.pay]))
    decide(agent(till, added, saver=saver), type="approve")
    return "LangGraph: the same" if till.paid == [7] else "LangGraph: the pause is lost"


def pay_and_die(folder: str) -> None:
    """Pay, and be killed before the tool returns; a second time, only pay."""

    @tool
    def pay(order: int) -> str:
        """Pay an order."""
        with Path(folder, "paid").open("a") as log:
            log.write("7\n")
        if Path(folder, "paid").read_text() == "7\n":
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    with SqliteSaver.from_conn_string(f"{folder}/t.db") as saver:
        graph = agent(None, saver=saver, tools=[pay])
        if Path(folder, "paid").exists():
            graph.invoke(None, CONFIG)
            return
        begin(graph)
        decide(graph, type="approve")


@promise("A tool that `filters.once` guards runs at most once")
def killed() -> str:
    """kill -9 inside of the tool, and the run is continued."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            process = multiprocessing.get_context("spawn").Process(target=pay_and_die, args=(folder,))
            process.start()
            process.join(60)
        times = len(Path(folder, "paid").read_text().split())
    return "LangChain: the tool runs again" if times == 2 else f"LangChain: the tool ran {times} time(s)"


def main() -> None:
    """Print what each does."""
    for words, tried in TRIED.items():
        print(f"{words} ...\n    {tried()}")


if __name__ == "__main__":
    main()
