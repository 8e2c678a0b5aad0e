"""The doctor: damage of every kind is found, told and mended; what waits or runs is no damage; undo takes it back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from checkpoints.databases import one_of_each
from checkpoints.foreign_graphs import CONFIG, START_WITH
from checkpoints.foreign_graphs import Desk as Neighbour
from checkpoints.shapes_that_ask import NOTHING, SHAPES
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from sqlalchemy import delete, event, insert, select, update
from tests.hitl.harness import desk, elsewhere, until
from tests.hitl.killing import all_killed, die

from scallion import (
    Agent,
    Completed,
    Filter,
    NotSerializable,
    Paused,
    Policy,
    SQLCheckpointer,
    ThreadBusy,
    approve,
    filters,
    pause,
    rerun,
)
from scallion.errors import ThreadError
from scallion.sql.doctor import doctor as module
from scallion.sql.doctor import standing
from scallion.sql.doctor.conversation import INTERRUPTED, mended
from scallion.sql.doctor.findings import Finding
from scallion.testing import ScriptedModel


def asks(*ids: str) -> AIMessage:
    return AIMessage(
        "", id=f"ai-{'-'.join(ids)}", tool_calls=[{"name": "pay", "args": {"n": 1}, "id": id} for id in ids]
    )


def gives(id: str, by: str | None = None) -> ToolMessage:
    return ToolMessage("paid", tool_call_id=id, name="pay", id=by or f"result-{id}")


def says(text: str) -> HumanMessage:
    return HumanMessage(text, id=text)


STANDS_IN = ToolMessage(INTERRUPTED, tool_call_id="a", name="pay", id="stands in", status="error")
USER, MORE, DONE = says("pay"), says("more"), AIMessage("done", id="done")
DAMAGED: dict[str, tuple[list[Any], list[tuple[str, str]], list[str]]] = {
    "no result": ([USER, asks("a"), MORE, DONE], [("dangling_call", "a")], ["pay", "ai-a", "?", "more", "done"]),
    "one of two": (
        [USER, asks("a", "b"), gives("b"), MORE],
        [("dangling_call", "a")],
        ["pay", "ai-a-b", "result-b", "?", "more"],
    ),
    "no result at the end": ([USER, asks("a")], [("dangling_call", "a")], ["pay", "ai-a", "?"]),
    "a result of no call": ([USER, gives("x"), DONE], [("orphan_result", "x")], ["pay", "done"]),
    "a second result": (
        [USER, asks("a"), gives("a"), gives("a", "again"), DONE],
        [("orphan_result", "a")],
        ["pay", "ai-a", "result-a", "done"],
    ),
    "a result behind something else": (
        [USER, asks("a"), MORE, gives("a"), DONE],
        [("misplaced_result", "a")],
        ["pay", "ai-a", "result-a", "more", "done"],
    ),
    "a result before its call": (
        [USER, gives("a"), asks("a"), DONE],
        [("misplaced_result", "a")],
        ["pay", "ai-a", "result-a", "done"],
    ),
    "a result that comes after a repair": (
        [USER, asks("a"), STANDS_IN, gives("a"), DONE],
        [("misplaced_result", "a")],
        ["pay", "ai-a", "result-a", "done"],
    ),
    "a result that comes long after a repair": (
        [USER, asks("a"), STANDS_IN, MORE, gives("a"), gives("a", "again"), DONE],
        [("misplaced_result", "a"), ("orphan_result", "a")],
        ["pay", "ai-a", "result-a", "more", "done"],
    ),
    "a repair that came after a result": (
        [USER, asks("a"), gives("a"), STANDS_IN, STANDS_IN, DONE],
        [("orphan_result", "a"), ("orphan_result", "a")],
        ["pay", "ai-a", "result-a", "done"],
    ),
    "an id that comes again": (
        [USER, asks("a"), MORE, asks("a").model_copy(update={"id": "second"}), gives("a"), DONE],
        [("dangling_call", "a")],
        ["pay", "ai-a", "?", "more", "second", "result-a", "done"],
    ),
    "a broken call": (
        [
            USER,
            AIMessage("", id="ai", invalid_tool_calls=[{"name": "pay", "args": "{", "id": "a", "error": "cut off"}]),
            MORE,
        ],
        [("dangling_call", "a")],
        ["pay", "ai", "?", "more"],
    ),
    "all at once": (
        [gives("x"), USER, asks("a", "b"), gives("b"), MORE, gives("a"), gives("b", "again"), asks("c"), says("end")],
        [("orphan_result", "x"), ("misplaced_result", "a"), ("orphan_result", "b"), ("dangling_call", "c")],
        ["pay", "ai-a-b", "result-b", "result-a", "more", "ai-c", "?", "end"],
    ),
}


def ids(messages: Sequence[Any], known: Sequence[Any]) -> list[str]:
    """Their ids, "?" for those that are new."""
    before = {one.id for one in known}
    return [one.id if one.id in before else "?" for one in messages]


def is_valid(messages: Sequence[Any]) -> bool:
    """As a provider has it: results stand right behind their calls, one for each."""
    wanted: set[str] = set()
    for one in messages:
        if isinstance(one, ToolMessage):
            if one.tool_call_id not in wanted:
                return False
            wanted.discard(one.tool_call_id)
            continue
        if wanted:
            return False
        if isinstance(one, AIMessage):
            wanted = {str(call["id"]) for call in [*one.tool_calls, *one.invalid_tool_calls]}
    return not wanted


def kept(saver: Any, conversation: Sequence[Any], thread: str = "t", schema: Any = MessagesState) -> Any:
    """A graph of no words, on a thread that holds these messages."""
    builder = StateGraph(schema).add_node("nod", lambda state: None)
    graph = builder.add_edge(START, "nod").compile(checkpointer=saver)
    graph.invoke({"messages": list(conversation)}, place(thread))
    return graph


def place(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def messages(graph: Any, thread: str = "t") -> list[Any]:
    return list(graph.get_state(place(thread)).values["messages"])


def kinds(found: Sequence[Finding]) -> list[str]:
    return [one.kind for one in found]


def rows(saver: SQLCheckpointer, *columns: str) -> list[tuple[Any, ...]]:
    """All approvals."""
    a = saver.database.tables.approvals
    query = select(*(a.c[name] for name in columns)).order_by(a.c.id)
    return [tuple(row) for row in saver.database.run(lambda conn: conn.execute(query).all())]


def pending(saver: SQLCheckpointer, *columns: str) -> list[tuple[Any, ...]]:
    """Those that wait for a decision."""
    return [row for row in rows(saver, *columns) if row[columns.index("status")] == "pending"]


def harm(saver: SQLCheckpointer, statement: Any) -> None:
    """Change a table by hand."""
    saver.database.run(lambda conn: conn.execute(statement), write=True)


@contextmanager
def counting(saver: SQLCheckpointer) -> Iterator[list[str]]:
    """The statements of the block."""
    seen: list[str] = []

    def count(*args: Any) -> None:
        seen.append(args[2])

    event.listen(saver.database.engine, "before_cursor_execute", count)
    try:
        yield seen
    finally:
        event.remove(saver.database.engine, "before_cursor_execute", count)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that hold no lease have been silent for long."""
    monkeypatch.setattr(standing, "QUIET", -60_000_000)


class TestConversations:
    """Of any graph."""

    @pytest.mark.parametrize("case", DAMAGED)
    def test_what_is_wrong(self, case: str) -> None:
        conversation, flaws, after = DAMAGED[case]
        found = mended(conversation)
        assert [(one.kind, one.subject) for one in found.flaws] == flaws
        assert ids(found.messages, conversation) == after
        assert is_valid(found.messages)
        assert not mended(found.messages).flaws

    @pytest.mark.parametrize("case", [[], [USER, DONE], [USER, asks("a", "b"), gives("b"), gives("a"), DONE]])
    def test_what_is_not(self, case: list[Any]) -> None:
        assert not mended(case).flaws
        assert mended(case).messages is case

    def test_the_last_batch_may_be_open(self) -> None:
        assert not mended([USER, asks("a", "b"), gives("a")], is_open=True).flaws
        assert mended([USER, asks("a"), MORE], is_open=True).flaws

    @one_of_each
    def test_mended_by_a_checkpoint(self, saver: SQLCheckpointer) -> None:
        """Which is one more; nothing is found then, and undone everything is as before."""
        conversation, flaws, after = DAMAGED["all at once"]
        graph = kept(saver, conversation)
        history = len(list(graph.get_state_history(CONFIG)))
        found = saver.doctor.examine("t")
        assert [(one.kind, one.subject) for one in found] == flaws
        assert saver.doctor.list().items == found
        assert saver.doctor.repair("t") == found
        assert saver.doctor.examine("t") == saver.doctor.repair("t") == []
        assert ids(messages(graph), conversation) == after
        assert len(list(graph.get_state_history(CONFIG))) == history + 1
        session = saver.sessions.get("t")
        assert session is not None
        assert (session.status, session.message_count) == ("idle", len(after))
        answer = messages(graph)[6]
        assert (answer.status, answer.name, answer.tool_call_id) == ("error", "pay", "c")
        assert saver.doctor.undo("t") == ["dangling_call", "misplaced_result", "orphan_result"]
        assert messages(graph) == conversation
        assert saver.doctor.examine("t") == found
        assert len(list(graph.get_state_history(CONFIG))) == history

    @pytest.mark.parametrize(
        "first", [[USER, asks("a")], [USER, asks("b", "a"), gives("b")], [asks("x"), USER, asks("a")]]
    )
    def test_tools_that_the_client_runs(self, sql: SQLCheckpointer, first: list[Any]) -> None:
        """The graph ends with open calls, and the client sends the result: it is no damage that a repair mends."""
        graph = kept(sql, first)
        last = sql.doctor.examine("t")[-1]
        assert (last.kind, last.subject, last.by) == ("dangling_call", "a", "give_up")
        assert kinds(sql.doctor.repair("t")) == (["dangling_call"] if first[0] is not USER else [])
        graph.invoke({"messages": [gives("a"), DONE]}, CONFIG)
        assert is_valid(messages(graph))
        assert sql.doctor.examine("t") == []

    @one_of_each
    def test_a_client_that_comes_late(self, saver: SQLCheckpointer) -> None:
        """Its call was given up: the result that it sends takes the place of what was put there."""
        graph = kept(saver, [USER, asks("a")])
        assert kinds(saver.doctor.repair("t", give_up=True)) == ["dangling_call"]
        assert messages(graph)[-1].text == INTERRUPTED
        graph.invoke({"messages": [gives("a"), DONE]}, CONFIG)
        assert kinds(saver.doctor.repair("t")) == ["misplaced_result"]
        assert messages(graph) == [USER, asks("a"), gives("a"), DONE]
        assert saver.doctor.examine("t") == []
        assert saver.doctor.undo("t") == ["misplaced_result"]

    def test_an_agent_runs_its_tools_itself(self, sql: SQLCheckpointer) -> None:
        """So that a call at the end of its thread is damage."""
        graph = kept(sql, [USER])
        graph.invoke({"messages": [asks("a")]}, {**CONFIG, "metadata": {"agent": "desk"}})
        (found,) = sql.doctor.repair("t")
        assert (found.kind, found.subject, found.by) == ("dangling_call", "a", "repair")
        assert is_valid(messages(graph))

    @one_of_each
    def test_it_goes_on(self, saver: SQLCheckpointer) -> None:
        """And is not taken back then."""
        graph = kept(saver, DAMAGED["no result"][0])
        saver.doctor.repair("t")
        graph.invoke({"messages": [says("next")]}, CONFIG)
        assert is_valid(messages(graph))
        assert messages(graph)[-1] == says("next")
        with pytest.raises(ThreadError, match="no repair"):
            saver.doctor.undo("t")

    def test_delta_channels(self, sql: SQLCheckpointer) -> None:
        """Whose messages are in no checkpoint."""

        class Told(TypedDict):
            messages: Annotated[list[AnyMessage], DeltaChannel(lambda old, new: _folded(old, new))]

        conversation, flaws, after = DAMAGED["all at once"]
        graph = kept(sql, conversation[:3], schema=Told)
        graph.invoke({"messages": conversation[3:]}, CONFIG)
        assert [(one.kind, one.subject) for one in sql.doctor.examine("t")] == flaws
        sql.doctor.repair("t")
        assert ids(messages(graph), conversation) == after
        graph.invoke({"messages": [DONE]}, CONFIG)
        assert ids(messages(graph), [*conversation, DONE]) == [*after, "done"]
        assert sql.doctor.examine("t") == []

    def test_encrypted(self, tmp_path: Path) -> None:
        with SQLCheckpointer(f"sqlite:///{tmp_path / 'sealed.db'}", key=bytes(32)) as saver:
            graph = kept(saver, DAMAGED["no result"][0])
            assert kinds(saver.doctor.repair("t")) == ["dangling_call"]
            assert is_valid(messages(graph))

    def test_beside_a_pause(self, sql: SQLCheckpointer) -> None:
        """What is older than the pause is told, and mended when nothing waits any more."""
        neighbour = Neighbour()
        graph = neighbour.graph(sql)
        graph.invoke({"messages": [USER, asks("old"), MORE]}, CONFIG)
        (found,) = sql.doctor.examine("t")
        assert (found.kind, found.subject, found.by) == ("dangling_call", "old", None)
        assert sql.doctor.repair("t") == []
        sql.approvals.decide_all({one.id: approve() for one in sql.approvals.list().items}, "ana")
        graph.invoke(sql.command_for("t"), CONFIG)
        assert kinds(sql.doctor.repair("t")) == ["dangling_call"]
        assert is_valid(messages(graph))
        assert sorted(neighbour.done) == [("mail", "mira"), ("pay", 1)]

    def test_a_graph_that_goes_on_meanwhile(self, sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Holds no lease, and loses nothing."""
        graph = kept(sql, DAMAGED["no result"][0])
        make = module.heads.next_checkpoint

        def late(*args: Any) -> Any:
            graph.invoke({"messages": [says("next")]}, CONFIG)
            return make(*args)

        monkeypatch.setattr(module.heads, "next_checkpoint", late)
        with pytest.raises(ThreadBusy):
            sql.doctor.repair("t")
        assert messages(graph)[-1] == says("next")
        monkeypatch.setattr(module.heads, "next_checkpoint", make)
        assert kinds(sql.doctor.repair("t")) == ["dangling_call"]

    @one_of_each
    def test_several_doctors(self, saver: SQLCheckpointer) -> None:
        """One of them mends it, once."""
        graph = kept(saver, DAMAGED["all at once"][0])
        with ThreadPoolExecutor(6) as pool:
            outcomes = [one.result() for one in [pool.submit(_repaired, saver) for _ in range(6)]]
        assert sum(outcome == 4 for outcome in outcomes) == 1
        assert set(outcomes) <= {4, 0, "busy"}
        assert is_valid(messages(graph))
        assert len(messages(graph)) == len(DAMAGED["all at once"][2])

    def test_a_repair_that_is_killed(self, database: str, saver: SQLCheckpointer) -> None:
        """In the middle, between approvals and conversation: the next one does the rest."""
        desk(saver, gate=True).invoke("go", thread="other")
        graph = kept(saver, DAMAGED["no result"][0])
        copied = saver.database.tables.approvals
        session = select(saver.database.tables.sessions.c.no).where(saver.database.tables.sessions.c.thread == "t")
        harm(saver, update(copied).values(session=session.scalar_subquery()))
        assert kinds(saver.doctor.examine("t")) == ["approval_without_pause", "dangling_call"]
        all_killed(dies_in_its_repair, [(database, "t")])
        assert kinds(saver.doctor.examine("t")) == ["expired_lease", "dangling_call"]
        assert kinds(saver.doctor.repair("t")) == ["expired_lease", "dangling_call"]
        assert saver.doctor.examine("t") == []
        assert is_valid(messages(graph))

    def test_a_clock_that_is_ahead(self, sql: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
        """The checkpoint of the repair is the newest all the same."""
        graph = kept(sql, DAMAGED["no result"][0])
        monkeypatch.setattr("scallion.sql.doctor.heads.uuid6", lambda clock_seq: "00000000-0000-6000-0000-000000000000")
        sql.doctor.repair("t")
        assert is_valid(messages(graph))


def _repaired(saver: SQLCheckpointer) -> Any:
    try:
        return len(saver.doctor.repair("t"))
    except ThreadBusy:
        return "busy"


def dies_in_its_repair(url: str, thread: str) -> None:
    """A repair that is killed before the conversation is mended."""
    with SQLCheckpointer(url) as saver:
        module.heads.next_checkpoint = lambda *args: die()  # type: ignore[assignment]
        saver.doctor.repair(thread)


def _folded(old: Any, new: Any) -> Any:
    for one in new:
        old = add_messages(old, one)
    return old


def dies_in_its_tool(url: str, ours: bool) -> None:
    """A turn that is killed inside a tool, while the other call of its batch is done."""
    with SQLCheckpointer(url) as saver:
        agent_that_dies(saver, die, ours=ours).invoke(*_go(ours))


def _go(ours: bool) -> tuple[Any, ...]:
    return ("go",) if ours else ({"messages": [USER]}, CONFIG)


def agent_that_dies(saver: Any, end: Any, *, ours: bool) -> Any:
    """An agent, ours or LangChain's, with a tool that ends with `end`, and one that is done before."""

    def look() -> str:
        """Look."""
        return "seen"

    def work() -> str:
        """Work."""
        until(lambda: _has_result(saver))
        end()
        return "worked"

    def say(history: list[Any]) -> AIMessage:
        if isinstance(history[-1], ToolMessage) or history[-1].text == "more":
            return AIMessage("done")
        return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": name} for name in ("look", "work")])

    if ours:
        made = Agent(ScriptedModel(say), tools=[look, work], checkpointer=saver)
        made.invoke = lambda message, invoke=made.invoke: invoke(message, thread="t")  # type: ignore[method-assign]
        return made
    return create_agent(ScriptedModel(say), [look, work], checkpointer=saver)


def _has_result(saver: SQLCheckpointer) -> bool:
    found = saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})
    written = found.pending_writes if found is not None else []  # None: LangGraph stores beside what it does
    return any(isinstance(one, ToolMessage) for _, _, value in written or [] for one in _each(value))


def _each(value: Any) -> list[Any]:
    found = value.get("messages", []) if isinstance(value, dict) else value
    return found if isinstance(found, list) else [found]


class TestTurns:
    """That came to no end."""

    @one_of_each
    def test_a_graph_that_was_killed(self, database: str, saver: SQLCheckpointer, later: None) -> None:
        """It can go on, or is given up: what was done stays, what is not known is said; undone, it goes on."""
        all_killed(dies_in_its_tool, [(database, False)])
        graph = agent_that_dies(saver, lambda: None, ours=False)
        (found,) = saver.doctor.examine("t")
        assert (found.kind, found.by) == ("half_written", "give_up")
        assert saver.doctor.repair("t") == []
        assert saver.doctor.repair("t", give_up=True) == [found]
        assert saver.doctor.examine("t") == []
        assert [getattr(one, "status", None) for one in messages(graph)] == [None, None, "success", "error"]
        assert is_valid(messages(graph))
        assert graph.get_state(CONFIG).tasks == ()
        assert saver.doctor.undo("t") == ["half_written"]
        assert [one.name for one in graph.get_state(CONFIG).tasks] == ["tools", "tools"]
        graph.invoke({"messages": [MORE]}, CONFIG)  # LangGraph drops what was open
        assert not is_valid(messages(graph))
        assert kinds(saver.doctor.repair("t")) == ["dangling_call", "dangling_call"]
        assert is_valid(messages(graph))
        graph.invoke({"messages": [MORE.model_copy(update={"id": "once more"})]}, CONFIG)
        assert is_valid(messages(graph))
        assert messages(graph)[-1].text == "done"

    @one_of_each
    def test_an_agent_that_was_killed(self, database: str, saver: SQLCheckpointer) -> None:
        """Its lease is free; it goes on by `recover`, which the doctor does not."""
        all_killed(dies_in_its_tool, [(database, True)])
        lease, turn = saver.doctor.examine("t")
        assert (lease.kind, turn.kind, turn.by) == ("expired_lease", "half_written", None)
        assert "and did not release it" in lease.what
        assert saver.doctor.list().items == [lease, turn]
        assert saver.doctor.repair("t", give_up=True) == [lease]
        assert saver.doctor.examine("t") == [turn]
        session = saver.sessions.get("t")
        assert session is not None
        assert session.holder is None
        agent = agent_that_dies(saver, lambda: None, ours=True)
        assert agent.recover("t").answer == "done"
        assert saver.doctor.examine("t") == []

    def test_a_turn_that_runs_elsewhere(self, database: str, saver: SQLCheckpointer) -> None:
        """Is told to who asks for it, and left alone."""
        with elsewhere(database) as turn:
            (found,) = saver.doctor.examine("t")
            assert (found.kind, found.is_damage) == ("running", False)
            assert f":{turn.process.pid} runs a turn since" in found.what
            assert saver.doctor.list().items == []
            with pytest.raises(ThreadBusy):
                saver.doctor.repair("t")
            desk(saver).cancel("t")
            assert "was asked to stop at" in saver.doctor.examine("t")[0].what
            turn.end()

    def test_a_graph_that_may_be_running(self, sql: SQLCheckpointer) -> None:
        """Holds no lease: what it just wrote is not called damage."""

        def look(state: Any) -> None:
            seen.append(sql.doctor.examine("t"))

        seen: list[Any] = []
        builder = StateGraph(MessagesState).add_node("look", look)
        graph: Any = builder.add_edge(START, "look").compile(checkpointer=sql)
        graph.invoke({"messages": [USER, asks("a")]}, CONFIG, durability="sync")
        assert seen == [[]]

    def test_what_only_its_graph_can_end(self, sql: SQLCheckpointer, later: None) -> None:
        """As a step beside it has written what has to be folded in."""

        class Both(MessagesState):
            notes: list[str]

        def fails(state: Any) -> None:
            until(lambda: any("noted" in str(w[2]) for w in sql.get_tuple(CONFIG).pending_writes or []))
            raise KeyboardInterrupt

        builder = StateGraph(Both).add_node("fails", fails).add_node("notes_", lambda state: {"notes": ["noted"]})
        graph: Any = builder.add_edge(START, "fails").add_edge(START, "notes_").compile(checkpointer=sql)
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"messages": [USER]}, CONFIG, durability="sync")
        (found,) = sql.doctor.examine("t")
        assert (found.kind, found.by) == ("half_written", None)
        assert sql.doctor.repair("t", give_up=True) == []
        assert graph.get_state(CONFIG).tasks

    def test_a_turn_that_was_not_committed(self, sql: SQLCheckpointer) -> None:
        """Its loop has come to its end, and its process with it."""

        def dies_behind(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            if not freed:
                raise KeyboardInterrupt
            return reply

        freed: list[bool] = []
        agent = Agent(ScriptedModel(["done"]), filters=[Filter("last", around_turn=dies_behind)], checkpointer=sql)
        with pytest.raises(KeyboardInterrupt):
            agent.invoke("go", thread="t")
        (found,) = sql.doctor.list().items
        assert (found.kind, found.what) == ("half_written", "its turn came to its end and was not committed")
        freed.append(True)
        recovered = agent.recover("t")
        assert isinstance(recovered, Completed)
        assert recovered.answer == "done"
        assert sql.doctor.list().items == []

    @one_of_each
    @pytest.mark.parametrize("gate", [True, False])
    def test_an_effect_that_nobody_knows_of(self, saver: SQLCheckpointer, gate: bool) -> None:
        """Its turn was killed inside of a tool that runs at most once: it is told until a person is asked."""

        def pay(n: int) -> str:
            """Pay."""
            raise KeyboardInterrupt

        agent = Agent(
            ScriptedModel(lambda history: asks("a") if history[-1].type == "human" else "done"),
            tools=[pay],
            filters=[filters.approval({"pay": gate}), filters.once("pay")],
            checkpointer=saver,
        )
        with pytest.raises(KeyboardInterrupt):
            agent.resume("t", approve()) if isinstance(agent.invoke("go", thread="t"), Paused) else None
        found = saver.doctor.examine("t")
        assert kinds(found) == (["unknown_outcome"] if gate else ["unknown_outcome", "half_written"])
        assert (found[0].subject, found[0].by, found[0].is_damage) == ("a", None, True)
        assert saver.effects.list("t")[0].key in found[0].what
        assert saver.doctor.list().items == found
        assert saver.doctor.repair("t", give_up=True) == []
        for _ in range(2):
            asked = agent.resume("t")
            assert isinstance(asked, Paused)
            assert [one.kind for one in asked.approvals] == ["unknown_outcome"]
            assert saver.doctor.examine("t") == []
            with pytest.raises(KeyboardInterrupt):
                agent.resume("t", rerun())
            assert "unknown_outcome" in kinds(saver.doctor.examine("t"))
        agent.cancel("t")
        assert saver.doctor.examine("t") == []

    def test_a_turn_that_failed(self, sql: SQLCheckpointer) -> None:
        agent = Agent(ScriptedModel([ValueError("no")]), checkpointer=sql)
        with pytest.raises(Exception, match="ValueError"):
            agent.invoke("go", thread="t")
        (found,) = sql.doctor.examine("t")
        assert (found.kind, found.what) == ("half_written", "its turn failed")


class TestApprovals:
    """And the pauses that they are about."""

    @one_of_each
    def test_an_approval_without_a_pause(self, saver: SQLCheckpointer) -> None:
        """Is closed, and that is in the audit."""
        agent = desk(saver, gate=True)
        paused = agent.invoke("go", thread="t")
        assert isinstance(paused, Paused)
        harm(saver, delete(saver.database.tables.writes))
        stale, turn = saver.doctor.examine("t")
        assert (stale.kind, stale.subject, turn.kind) == (
            "approval_without_pause",
            paused.approvals[0].id,
            "half_written",
        )
        assert "about work is pending" in stale.what
        assert saver.doctor.repair("t") == [stale]
        assert saver.doctor.examine("t") == [turn]
        assert rows(saver, "status") == [("superseded",)]
        session = saver.sessions.get("t")
        assert session is not None
        assert (session.status, session.pending_count) == ("running", 0)
        audit = saver.database.tables.audit
        events = saver.database.run(lambda conn: conn.execute(select(audit.c.event, audit.c.subject)).all())
        assert ("superseded", stale.subject) in [tuple(event) for event in events]

    @one_of_each
    def test_a_pause_without_an_approval(self, saver: SQLCheckpointer) -> None:
        """Is recorded, decided and resumed; also where the row says that nothing waits."""
        agent = desk(saver, gate=True)
        paused = agent.invoke("go", thread="t")
        assert isinstance(paused, Paused)
        t = saver.database.tables
        harm(saver, delete(t.approvals))
        harm(saver, update(t.sessions).values(status="running", pending_count=0, open_count=0))
        (found,) = saver.doctor.examine("t")
        assert (found.kind, found.subject) == ("pause_without_approval", paused.approvals[0].id)
        assert saver.doctor.repair("t") == [found]
        assert saver.doctor.examine("t") == []
        again = saver.approvals.get(found.subject or "")
        assert again.replace(created_at=None) == paused.approvals[0].replace(created_at=None)
        saver.approvals.decide(again.id, approve(), by="ana")
        assert agent.resume("t").answer == "done"

    def test_a_pause_around_a_turn(self, sql: SQLCheckpointer) -> None:
        """Is no other: its approval comes back, and the answer is released."""

        def release(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            pause("Release it?", allowed=("approve", "reject"))
            return reply

        agent = Agent(ScriptedModel(["done"]), filters=[Filter("release", around_turn=release)], checkpointer=sql)
        paused = agent.invoke("go", thread="t")
        assert isinstance(paused, Paused)
        assert sql.doctor.list().items == []
        before = rows(sql, "id", "ns", "checkpoint", "root", "task", "status")
        harm(sql, delete(sql.database.tables.approvals))
        assert kinds(sql.doctor.repair("t")) == ["pause_without_approval"]
        assert rows(sql, "id", "ns", "checkpoint", "root", "task", "status") == before
        result = agent.resume("t", approve(), by="ana")
        assert isinstance(result, Completed)
        assert sql.doctor.list().items == []

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    def test_graphs_of_every_shape(self, sql: SQLCheckpointer, shape: str, durability: Any, later: None) -> None:
        """A pause is no damage, and approvals that are lost come back as they were: at each of its questions."""
        make, questions = SHAPES[shape]
        graph = make(sql)
        graph.invoke(NOTHING, CONFIG, durability=durability)
        columns = "id", "ns", "checkpoint", "root", "task", "status", "kind", "payload"
        asked = 0
        while waiting := graph.get_state(CONFIG).interrupts:
            asked += 1
            assert sql.doctor.examine("t") == []
            before = pending(sql, *columns)
            assert before
            harm(sql, delete(sql.database.tables.approvals))
            assert set(kinds(sql.doctor.repair("t"))) == {"pause_without_approval"}
            assert pending(sql, *columns) == before
            graph.invoke(Command(resume={waiting[0].id: "x"}), CONFIG, durability=durability)
        assert asked == questions
        assert sql.doctor.examine("t") == []

    @pytest.mark.parametrize("gate", ["batched", "per_call"])
    def test_an_agent_of_langchain(self, sql: SQLCheckpointer, gate: Any) -> None:
        """With its gate: some are lost, one is nothing any more."""
        neighbour = Neighbour(gate=gate)
        graph = neighbour.graph(sql)
        graph.invoke(START_WITH, CONFIG)
        a = sql.database.tables.approvals
        first, second = (row[0] for row in rows(sql, "id"))
        harm(sql, delete(a).where(a.c.id == first))
        made_up = "session", "ns", "checkpoint", "root", "task", "status", "kind", "payload", "created"
        copy = select(*(a.c[name] if name != "task" else a.c.task.label("task") for name in made_up))
        harm(sql, insert(a).from_select([*made_up, "id"], copy.add_columns(_literal("made-up"))))
        assert sorted(kinds(sql.doctor.repair("t"))) == ["approval_without_pause", "pause_without_approval"]
        assert sql.doctor.examine("t") == []
        sql.approvals.decide_all({first: approve(), second: approve()}, "ana")
        graph.invoke(sql.command_for("t"), CONFIG)
        assert sorted(neighbour.done) == [("mail", "mira"), ("pay", 1)]

    def test_a_pause_that_was_closed(self, sql: SQLCheckpointer) -> None:
        """In the inbox: its turn is still open, and nobody is to be asked again."""
        agent = desk(sql, gate=True)
        agent.invoke("go", thread="t")
        sql.approvals.close("t", "cancelled")
        (found,) = sql.doctor.examine("t")
        assert (found.kind, found.what) == ("half_written", "what it asked was closed, and its turn is still open")
        agent.cancel("t")
        assert sql.doctor.examine("t") == []

    def test_a_pause_that_has_expired(self, sql: SQLCheckpointer) -> None:
        """Waits for its program to go on: no damage, swept or not."""
        agent = Agent(
            ScriptedModel([AIMessage("", tool_calls=[{"name": "pay", "args": {}, "id": "a"}]), "done"]),
            tools=[_pay],
            filters=[filters.approval({"pay": Policy(expires_in=0.001)})],
            checkpointer=sql,
        )
        agent.invoke("go", thread="t")
        time.sleep(0.002)
        assert sql.approvals.list("expired").items
        assert sql.doctor.examine("t") == []
        harm(sql, update(sql.database.tables.approvals).values(status="expired"))
        assert sql.doctor.examine("t") == []

    def test_a_row_that_counts_wrong(self, sql: SQLCheckpointer) -> None:
        desk(sql).invoke("hello", thread="t")
        harm(sql, update(sql.database.tables.sessions).values(status="paused", open_count=1, pending_count=1))
        assert kinds(sql.doctor.repair("t")) == ["wrong_count"]
        assert sql.doctor.examine("t") == []
        assert sql.status("t") == "idle"


@tool("pay")
def _pay() -> str:
    """Pay."""
    return "paid"


def _literal(text: str) -> Any:
    from sqlalchemy import literal

    return literal(text).label("id")


class TestThreads:
    """All of a database, and those without anything."""

    @one_of_each
    def test_an_empty_thread(self, saver: SQLCheckpointer) -> None:
        """As a crash leaves it between the lease and the first checkpoint."""
        assert saver.leases is not None
        saver.leases.release(saver.leases.take("t", new=True), failed=False)
        assert kinds(saver.doctor.list().items) == ["empty_thread"]
        assert kinds(saver.doctor.repair("t")) == ["empty_thread"]
        assert saver.sessions.get("t") is None
        with pytest.raises(ThreadError, match="there is no thread"):
            saver.doctor.examine("t")

    def test_one_that_just_begins(self, sql: SQLCheckpointer) -> None:
        assert sql.leases is not None
        lease = sql.leases.take("t", new=True)
        assert kinds(sql.doctor.examine("t")) == ["running"]
        assert sql.doctor.list().items == []
        sql.leases.release(lease, failed=True)

    def test_a_first_message_that_fails(self, sql: SQLCheckpointer) -> None:
        """Leaves no thread behind."""
        with pytest.raises(NotSerializable):
            desk(sql).invoke(HumanMessage("hello", additional_kwargs={"what": object()}), thread="t")
        until(lambda: sql.sessions.get("t") is None)

    @one_of_each
    def test_many_at_once(self, saver: SQLCheckpointer) -> None:
        """A page tells what is told of each, and threads that are sound take no statement of their own."""
        for case, (conversation, _, _) in DAMAGED.items():
            kept(saver, conversation, case)
            kept(saver, [USER, *(says(f"{case} {n} " + 300 * "x") for n in range(3)), *conversation], f"long {case}")
        names = [one.thread for one in saver.sessions.list(limit=500).items]
        alone = {finding for name in names for finding in saver.doctor.examine(name)}
        assert set(saver.doctor.list().items) == alone
        assert {one.thread for one in alone} == set(names)
        for name in names:
            saver.doctor.repair(name, give_up=True)
        with counting(saver) as few:
            assert saver.doctor.list(limit=5).items == []
        with counting(saver) as many:
            assert saver.doctor.list(limit=20).items == []
        assert len(many) == len(few) < 12

    def test_page_by_page(self, sql: SQLCheckpointer) -> None:
        """What belongs to one owner only, for who is bound to them."""
        for number in range(5):
            kept(sql, DAMAGED["no result"][0], f"t{number}")
        desk(sql).invoke("hello", thread="hers", owner="ana")
        pages, after = [], None
        while not pages or after:
            page = sql.doctor.list(limit=2, after=after)
            pages.append([one.thread for one in page.items])
            after = page.next
        assert pages[:3] == [["t0", "t1"], ["t2", "t3"], ["t4"]]
        hers = sql.for_owner("ana").doctor
        assert hers.list().items == []
        with pytest.raises(ThreadError, match="there is no thread"):
            hers.repair("t0")

    @pytest.mark.parametrize("database", ["file", "asyncpg", "asyncmy"], indirect=True)
    def test_on_an_event_loop(self, saver: SQLCheckpointer) -> None:
        """All verbs."""
        graph = kept(saver, DAMAGED["all at once"][0])

        async def all_verbs() -> None:
            found = await saver.doctor.aexamine("t")
            assert found
            assert (await saver.doctor.alist()).items == found
            assert await saver.doctor.arepair("t") == found
            assert await saver.doctor.aexamine("t") == []
            assert await saver.doctor.aundo("t")
            await saver.aclose()

        before = messages(graph)
        asyncio.run(all_verbs())
        with SQLCheckpointer(saver.database.url) as again:
            assert messages(kept_on(again)) == before


def kept_on(saver: Any) -> Any:
    """The graph of no words, to look with."""
    builder = StateGraph(MessagesState).add_node("nod", lambda state: None)
    return builder.add_edge(START, "nod").compile(checkpointer=saver)
