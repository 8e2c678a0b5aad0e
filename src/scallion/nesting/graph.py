"""An agent as a graph that holds the turn too: one node, which is a turn, around the loop as its subgraph.

Nothing of an input is stored before the filters around the turn have seen it: LangGraph stores what it is given before
any node runs, so it is given no messages; the node finds them in its config.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

from langchain_core.messages import AnyMessage, BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateUpdate
from typing_extensions import TypedDict

from scallion.approvals.decisions import check_fit, read
from scallion.approvals.naming import check_owner, somebody
from scallion.approvals.payload import is_ours
from scallion.approvals.questions import Question
from scallion.assembly import as_messages, split_system
from scallion.bridge import call, enter_async, enter_sync
from scallion.errors import ConfigurationError, InvalidDecision, ThreadPaused
from scallion.filters.state import StateRules
from scallion.history import changes, with_ids
from scallion.loop.node import Node
from scallion.loop.platform import CHECKPOINTER, DURABILITY, GIVEN, is_in_task
from scallion.loop.state import state_schema
from scallion.nesting.inner import Beginning, Inner
from scallion.threads import Threads

ID = r"[0-9a-f]{32}"
"""What names an interrupt."""


KEPT = ("metadata", "tags", "run_name")
"""What a checkpointer or a tracer keeps of a config."""


class Messages(TypedDict):
    """What goes in, and what comes out."""

    messages: Annotated[list[AnyMessage], add_messages]


class Given:
    """The messages of an input; nothing that prints a config shows them."""

    def __init__(self, messages: Sequence[BaseMessage], leading: Sequence[SystemMessage]) -> None:
        self.messages = messages
        self.leading = leading
        """The system messages in front, which are for this turn only."""


class TurnGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose node is a turn."""

    def __init__(self, *, threads: Threads, clean: Callable[..., Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.threads = threads
        """Those of the agent, whose own turns are on the same ones."""
        self.clean = clean
        """Takes out of system prompts and metadata what no table may hold."""

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """LangGraph's, but that the messages of the input are not stored as they are."""
        self._check(input, config)
        with enter_sync():
            self._admit(input, config)
        if self._wants_address(input, config):
            input = _addressed(input, self.get_state(merge_configs(self.config, config)).interrupts)
        yield from super().stream(*self._taken(input, config), **options)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:
        """As `stream`."""
        self._check(input, config)
        await enter_async(self._admit, input, config)
        if self._wants_address(input, config):
            input = _addressed(input, (await self.aget_state(merge_configs(self.config, config))).interrupts)
        async for chunk in super().astream(*self._taken(input, config), **options):
            yield chunk

    def astream_events(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """As `stream`: LangChain shows the input of the outermost run."""
        self._check(input, config)
        return super().astream_events(*self._taken(input, config), **options)

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """LangGraph's, behind its `update_state` too, with the messages as the guards leave them."""
        return super().bulk_update_state(config, self._guarded(supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """As `bulk_update_state`."""
        return await super().abulk_update_state(config, self._guarded(supersteps))

    def _guarded(self, supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
        return [[self._cleaned(one) for one in updates] for updates in supersteps]

    def _cleaned(self, update: StateUpdate) -> StateUpdate:
        if self.clean is None or not (update.values and update.values.get("messages")):
            return update
        return update._replace(values={**update.values, "messages": self.clean(update.values["messages"])})

    def _check(self, input: Any, config: RunnableConfig | None) -> None:
        """Raise ConfigurationError for what LangGraph would store unseen, or where it has no thread to store it in."""
        if isinstance(input, Command) and (input.update or input.goto):
            raise ConfigurationError(
                "Command(update=...) and Command(goto=...) go past the filters: give messages as an input, "
                "and a Command with resume= alone"
            )
        whole = ensure_config(merge_configs(self.config, config))
        if self._keeps(whole) and whole["configurable"].get("thread_id") is None:
            raise ConfigurationError('this graph keeps threads: name one, config={"configurable": {"thread_id": ...}}')

    def _admit(self, input: Any, config: RunnableConfig | None) -> None:
        """Raise ThreadError where the thread is another owner's, ThreadPaused where the agent itself waits on it."""
        whole = ensure_config(merge_configs(self.config, config))
        sessions = getattr(self.checkpointer, "sessions", None)
        if sessions is None or not self._keeps(whole):
            return
        thread = str(whole["configurable"]["thread_id"])
        row = call(sessions.get, sessions.aget, thread)
        if row is None:
            return
        check_owner(thread, row.owner, somebody(whole["metadata"], "owner"))
        if row.status == "paused" and not isinstance(input, Command | None):
            self._admit_message(thread)

    def _admit_message(self, thread: str) -> None:
        own = {"thread_id": thread, "checkpoint_ns": "", CHECKPOINTER: self.checkpointer}
        head = self.threads.head({"configurable": own})
        if head.interrupts:
            raise ThreadPaused(
                thread, self.threads.approvals(head, thread), "resume it by the agent itself, which asks"
            )

    def _keeps(self, config: RunnableConfig) -> bool:
        """Whether its own checkpointer keeps the run."""
        return isinstance(self.checkpointer, BaseCheckpointSaver) and not is_in_task(config)

    def _wants_address(self, input: Any, config: RunnableConfig | None) -> bool:
        """Whether it answers without saying what: LangGraph keeps that, and would answer what the turn asks next."""
        if not isinstance(input, Command) or input.resume is None or not self.checkpointer:
            return False
        is_map = isinstance(input.resume, Mapping) and all(re.fullmatch(ID, str(key)) for key in input.resume)
        return not is_map and not is_in_task(config or {})

    def _taken(self, input: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig]:
        """The input without its messages, and the config with them; those that are to be removed stay."""
        told: Any = {**(config or {})}
        if self.clean is not None:
            told |= {name: self.clean(told[name]) for name in KEPT if told.get(name)}
        configurable = dict(told.get("configurable") or {})
        if self._keeps(ensure_config(config)):  # LangGraph's own default stores a step while the next one runs
            configurable.setdefault(DURABILITY, "sync")
        told["configurable"] = configurable
        if input is None or isinstance(input, Command) or isinstance(configurable.get(GIVEN), Given):
            return input, told
        if isinstance(input, Mapping) and "messages" in input:  # a graph around hands over all of its state
            input = input["messages"]
        elif isinstance(input, Mapping) and "content" not in input:
            raise ConfigurationError('the input of the graph is {"messages": [...]}')
        leading, messages = split_system(as_messages(input))
        leading = leading if self.clean is None else self.clean(leading)
        removals = [one for one in messages if one.type == "remove"]
        configurable[GIVEN] = Given(with_ids([one for one in messages if one.type != "remove"]), leading)
        return {"messages": removals}, told


def turn_graph(
    inner: Inner,
    rules: StateRules,
    loop: CompiledStateGraph[Any, Any, Any, Any],
    checkpointer: Any,
) -> TurnGraph:
    """The graph."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        _schema(rules), context_schema=loop.context_schema, input_schema=Messages, output_schema=Messages
    )
    graph.add_node("turn", Node("turn", lambda state, config: _turn(inner, state, config)))
    graph.add_edge(START, "turn")
    graph.add_edge("turn", END)
    compiled = graph.compile(checkpointer=checkpointer, store=loop.store, name=inner.name)
    compiled.nodes["turn"].subgraphs = [loop]
    return TurnGraph(**compiled.__dict__, threads=inner.threads, clean=inner.clean)


def _schema(rules: StateRules) -> type:
    channels = state_schema(rules).__annotations__
    return TypedDict("TurnState", {name: channels[name] for name in ("messages", "loop", "state")}, total=False)  # type: ignore[operator, no-any-return]


def _turn(inner: Inner, state: Mapping[str, Any], config: RunnableConfig) -> dict[str, Any]:
    before: list[BaseMessage] = state.get("messages") or []
    given = config["configurable"].get(GIVEN)
    nested = "|" in str(config["configurable"].get("checkpoint_ns"))
    ended = inner.run(lambda: _beginning(given, state), config, agents=(inner.name,) if nested else ())
    written: dict[str, Any] = {"messages": changes(before, ended.messages) or [], "loop": ended.account}
    return {**written, "state": dict(ended.state)} if ended.state else written


def _beginning(given: Given | None, state: Mapping[str, Any]) -> Beginning:
    history: list[BaseMessage] = state.get("messages") or []
    if given is None or not given.messages:
        raise ConfigurationError("the graph was given no messages, or died before they were stored: send them again")
    return Beginning(given.messages, history, state, given.leading)


def _addressed(command: Command[Any], interrupts: Sequence[Any]) -> Command[Any]:
    """The command with the ids of the questions that are open: the only one, or LangChain's list by position.

    Several have to be named else, as LangGraph says. Raises InvalidDecision for a list of another length, and for what
    does not fit what we ask, before it is stored.
    """
    given = command.resume
    if _is_list(given) and interrupts and all(is_ours(one.value) for one in interrupts):
        listed = cast("Mapping[str, Any]", given)["decisions"]
        if len(listed) != len(interrupts):
            raise InvalidDecision(f"{len(listed)} decisions for {len(interrupts)} open approvals")
        return replace(command, resume=dict(map(_answer, interrupts, listed)))
    return replace(command, resume=dict([_answer(interrupts[0], given)])) if len(interrupts) == 1 else command


def _answer(interrupt: Any, given: Any) -> tuple[str, Any]:
    """The id of a question, and the answer to it."""
    if not is_ours(interrupt.value):
        return interrupt.id, given
    decision = read(given)
    check_fit(Question(interrupt.id, interrupt.value).approval(""), decision)
    return interrupt.id, decision.to_json() if given is decision else given


def _is_list(given: Any) -> bool:
    return isinstance(given, Mapping) and set(given) == {"decisions"} and isinstance(given["decisions"], list)
