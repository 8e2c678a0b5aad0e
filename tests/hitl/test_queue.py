"""`on_message_while_paused="queue"`: messages wait until the pause is over, and are answered in their order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from checkpoints.databases import counted, one_of_each
from checkpoints.test_portable import made_up
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from loop.scripts import assert_valid
from modes import MODES, Drive, Mode, delivered
from scenes import Desk, heard
from tests.hitl.killing import all_killed
from tests.hitl.paused import ONION, TURN, Crash, crashing, desk_of, history, resumes_and_dies

from scallion import (
    Agent,
    Blocked,
    Completed,
    ConfigurationError,
    Filter,
    FilterError,
    LimitExceeded,
    Limits,
    ModelError,
    NotPaused,
    Paused,
    SQLCheckpointer,
    StorageError,
    ThreadError,
    TurnStarted,
    approve,
)
from scallion.testing import ScriptedModel


def said(messages: Any) -> list[str]:
    """What people said."""
    return [one.text for one in messages if one.type == "human"]


@one_of_each
def test_each_is_a_turn_behind_the_pause(saver: SQLCheckpointer, drive: Drive) -> None:
    desk = Desk()
    agent = desk_of(saver, "queue", TURN, desk=desk)
    driver = drive(agent)
    paused, _ = driver.start("go", thread="t")
    assert paused.queued == 0
    for number, text in enumerate(("one", "two"), 1):
        waits, events = driver.start(text, thread="t", user="bo")
        assert isinstance(waits, Paused)
        assert (waits.queued, waits.turn, events) == (number, paused.turn, [])
        assert [one.id for one in waits.approvals] == [one.id for one in paused.approvals]
    assert [(one.by, said(one.messages)) for one in saver.inbound.list("t")] == [("bo", ["one"]), ("bo", ["two"])]
    assert said(history(agent, "t")) == ["go"]
    result, events = driver.resume("t", approve())
    assert isinstance(result, Completed)
    assert (result.answer, result.usage["model_calls"]) == ("heard two", 1)
    assert heard(history(agent, "t"))[-6:] == [
        ("tool", "order 2 is here"),
        ("ai", "heard order 2 is here"),
        ("human", "one"),
        ("ai", "heard one"),
        ("human", "two"),
        ("ai", "heard two"),
    ]
    assert_valid(history(agent, "t"))
    assert desk.ran == ["look 2", "refund 1"]
    assert saver.inbound.count("t") == 0
    if driver.streams:
        assert len({one.turn for one in events if isinstance(one, TurnStarted)}) == 3
        assert delivered(events) == "heard order 2 is hereheard oneheard two"


def test_a_pause_stops_it(drive: Drive, sql: SQLCheckpointer) -> None:
    driver = drive(desk_of(sql, "queue"))
    driver.start("go", thread="t")
    for text in ("one", "go again", "two"):
        driver.start(text, thread="t")
    paused, _ = driver.resume("t", approve())
    assert isinstance(paused, Paused)
    assert (paused.queued, said(paused.messages)) == (1, ["go", "one", "go again"])
    result, _ = driver.resume("t", approve())
    assert said(result.messages) == ["go", "one", "go again", "two"]


def test_a_resume_that_still_waits_says_how_many_do(drive: Drive, sql: SQLCheckpointer) -> None:
    driver = drive(desk_of(sql, "queue"))
    driver.start("go", thread="t")
    driver.start("one", thread="t")
    again, _ = driver.resume("t")
    assert (type(again), again.queued) == (Paused, 1)


def test_a_crash_loses_none_and_repeats_none(drive: Drive, sql: SQLCheckpointer, mode: Mode) -> None:
    """Before each checkpoint of the resume and of the turns behind it; the next process goes on from there."""
    desk = Desk()
    agent = desk_of(sql, "queue", *ONION[mode], desk=desk)
    driver = drive(agent)
    crashes, at = 0, 0
    while crashes == at:
        thread = f"t-{at}"
        driver.start("go", thread=thread)
        for text in ("one", "two"):
            driver.start(text, thread=thread)
        with crashing(sql, at):
            driver.resume(thread, approve())
            at += 1  # so many checkpoints there were
            break
        crashes, at = crashes + 1, at + 1
        while agent.recover(thread) is not None:
            pass
        assert said(history(agent, thread)) == ["go", "one", "two"]
        assert_valid(history(agent, thread))
        assert sql.inbound.count(thread) == 0
    assert crashes >= 6
    assert all(desk.ran.count(one) == crashes + 1 for one in ("look 2", "refund 1"))


@one_of_each
def test_killed_anywhere_on_each_database(saver: SQLCheckpointer, database: str) -> None:
    agent = desk_of(saver, "queue", TURN)
    killed = [(database, f"t-{at}", MODES[at % 4], at) for at in range(6)]
    for _, thread, *_ in killed:
        agent.invoke("go", thread=thread)
        agent.invoke("one", thread=thread)
    all_killed(resumes_and_dies, killed)
    for _, thread, *_ in killed:
        while agent.recover(thread) is not None:
            pass
        assert said(history(agent, thread)) == ["go", "one"]
        assert_valid(history(agent, thread))
        assert saver.inbound.count(thread) == 0


@pytest.mark.parametrize("durability", ["exit", "async"])
def test_however_durable_a_turn_is(drive: Drive, sql: SQLCheckpointer, durability: Any) -> None:
    """A turn that stores nothing before its end leaves its message where it is until then."""
    agent = desk_of(sql, "queue")
    driver = drive(agent)
    driver.start("go", thread="t")
    driver.start("one", thread="t")
    with crashing(sql, 1):
        driver.resume("t", approve(), durability=durability)
    while agent.recover("t", durability=durability) is not None:
        pass
    assert said(history(agent, "t")) == ["go", "one"]
    assert sql.inbound.count("t") == 0


def test_without_leases(drive: Drive, sql: SQLCheckpointer) -> None:
    with SQLCheckpointer(sql.database.url, lease_seconds=None) as saver:
        driver = drive(desk_of(saver, "queue"))
        driver.start("go", thread="t")
        assert driver.start("one", thread="t")[0].queued == 1
        assert driver.resume("t", approve())[0].answer == "heard one"


@one_of_each
def test_what_comes_as_the_pause_ends_is_not_stranded(saver: SQLCheckpointer) -> None:
    """Each message finds the thread paused, busy or free: it is in the thread at the end, once."""
    agent = desk_of(saver, "queue", TURN)
    agent.invoke("go", thread="t")
    texts = [f"m{number}" for number in range(8)]
    begin = threading.Barrier(len(texts) + 1)

    def send(text: str) -> None:
        begin.wait()
        agent.invoke(text, thread="t", wait=30)

    def resume() -> None:
        begin.wait()
        agent.resume("t", approve(), wait=30)

    with ThreadPoolExecutor(len(texts) + 1) as pool:
        for done in [*(pool.submit(send, text) for text in texts), pool.submit(resume)]:
            done.result()
    assert saver.inbound.count("t") == 0
    assert sorted(said(history(agent, "t"))) == ["go", *texts]
    assert_valid(history(agent, "t"))


def test_it_is_put_nowhere_where_the_thread_went_on(sql: SQLCheckpointer) -> None:
    """Without leases another process may end the pause between a look and the write: the message is not lost."""
    agent = desk_of(sql, "queue")
    agent.invoke("go", thread="t")
    at = sql.get_tuple({"configurable": {"thread_id": "t"}})
    assert at is not None
    agent.resume("t", approve())
    with pytest.raises(ThreadError, match="busy"):
        sql.inbound.put("t", [HumanMessage("late")], by=None, at=at.checkpoint["id"])
    assert sql.inbound.list("t") == []


class TestWhereAQueueIsLeft:
    """The pause ended without the agent: what waits is answered by whoever comes next, before anything newer."""

    @pytest.fixture
    def agent(self, sql: SQLCheckpointer) -> Agent:
        agent = desk_of(sql, "queue")
        agent.invoke("go", thread="t")
        agent.invoke("one", thread="t")
        agent.cancel("t")
        assert sql.inbound.count("t") == 1
        return agent

    def test_by_the_next_message(self, agent: Agent, drive: Drive) -> None:
        result, _ = drive(agent).start("two", thread="t")
        assert result.answer == "heard two"
        assert said(history(agent, "t")) == ["go", "one", "two"]
        assert_valid(history(agent, "t"))

    def test_by_a_resume(self, agent: Agent, drive: Drive) -> None:
        assert drive(agent).resume("t")[0].answer == "heard one"
        with pytest.raises(NotPaused):
            drive(agent).resume("t")

    def test_a_resume_with_a_decision_is_refused(self, agent: Agent, drive: Drive) -> None:
        with pytest.raises(NotPaused):
            drive(agent).resume("t", approve())

    def test_a_message_behind_one_that_pauses_waits_too(self, agent: Agent, drive: Drive, sql: SQLCheckpointer) -> None:
        driver = drive(agent)
        [one] = sql.inbound.list("t")
        assert sql.inbound.drop("t", one.no)
        assert not sql.inbound.drop("t", one.no)
        driver.start("go again", thread="t")
        driver.start("go once more", thread="t")
        agent.cancel("t")
        waits, _ = driver.start("two", thread="t")
        assert isinstance(waits, Paused)
        assert (waits.queued, said(waits.messages)) == (1, ["go", "go again", "go once more"])
        assert driver.resume("t", approve())[0].answer == "heard two"


class TestFailures:
    """A turn of the queue fails."""

    def queued(self, driver: Any) -> None:
        driver.start("go", thread="t")
        for text in ("one", "two"):
            driver.start(text, thread="t")

    def test_in_the_model_its_turn_goes_on_and_then_the_rest(self, drive: Drive, sql: SQLCheckpointer) -> None:
        failing = ["one"]

        def says(messages: list[Any]) -> Any:
            if messages[-1].text in failing:
                failing.clear()
                raise ConnectionError("away")
            return AIMessage(f"heard {messages[-1].text}")

        agent = desk_of(sql, "queue")
        self.queued(drive(agent))
        weak = drive(desk_of(sql, "queue", model=ScriptedModel(says)))
        with pytest.raises(ModelError):
            weak.resume("t", approve())
        assert sql.inbound.count("t") == 1
        assert weak.resume("t")[0].answer == "heard two"
        assert said(history(agent, "t")) == ["go", "one", "two"]

    @pytest.mark.parametrize("kind", ["crash", "guard"])
    def test_before_it_began(self, drive: Drive, sql: SQLCheckpointer, kind: str) -> None:
        """What a filter fails on waits on; what a guard stops does not, as it would stop whatever comes after it."""
        fails = [True]

        def stops(request: Any, state: Any, next: Any) -> Any:
            if request.messages and request.messages[-1].text == "one" and fails:
                raise Blocked("stops") if kind == "guard" else Crash
            return next(request)

        agent = desk_of(sql, "queue", Filter("stops", around_turn=stops))
        self.queued(drive(agent))
        with pytest.raises(Blocked if kind == "guard" else FilterError):
            drive(agent).resume("t", approve())
        assert sql.inbound.count("t") == (1 if kind == "guard" else 2)
        fails.clear()
        assert drive(agent).resume("t")[0].answer == "heard two"
        assert said(history(agent, "t")) == (["go", "two"] if kind == "guard" else ["go", "one", "two"])

    def test_each_turn_has_its_own_limits(self, drive: Drive, sql: SQLCheckpointer) -> None:
        driver = drive(desk_of(sql, "queue", limits=Limits(model_calls=2)))
        self.queued(driver)
        assert driver.resume("t", approve())[0].answer == "heard two"
        tight = drive(desk_of(sql, "queue", limits=Limits(model_calls=1)))
        self.queued(tight)
        with pytest.raises(LimitExceeded):
            tight.resume("t", approve())
        assert sql.inbound.count("t") == 2


def test_who_sent_it_and_its_own_prompt_are_those_of_its_turn(drive: Drive, sql: SQLCheckpointer) -> None:
    seen: list[Any] = []

    def notes(request: Any, state: Any, next: Any) -> Any:
        seen.append((request.context.user, request.messages[-1].text))
        return next(request)

    def says(messages: list[Any]) -> Any:
        prompts.append([one.text for one in messages if one.type == "system"])
        return "well"

    prompts: list[Any] = []
    drive(desk_of(sql, "queue")).start("go", thread="t", user="ana")
    agent = desk_of(sql, "queue", Filter("notes", around_chat=notes), model=ScriptedModel(says))
    drive(agent).start("one", thread="t", user="bo", system_prompt="be short")
    drive(agent).start([{"role": "system", "content": "be kind"}, {"role": "user", "content": "two"}], thread="t")
    drive(agent).resume("t", approve(), system_prompt="be quick")
    assert seen == [("ana", "order 2 is here"), ("bo", "one"), (None, "two")]
    assert prompts == [["be quick"], ["be short"], ["be kind"]]


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["none", "memory"])
def test_it_needs_a_place_to_keep_them(saver: Any) -> None:
    with pytest.raises(ConfigurationError, match="SQLCheckpointer"):
        Agent(ScriptedModel([]), checkpointer=saver, on_message_while_paused="queue")


def test_what_removes_messages_cannot_wait(drive: Drive, sql: SQLCheckpointer) -> None:
    agent = desk_of(sql, "queue")
    drive(agent).start("go", thread="t")
    first = history(agent, "t")[0].id
    with pytest.raises(ConfigurationError, match="removes"):
        drive(agent).start([RemoveMessage(first), HumanMessage("hi")], thread="t")
    assert sql.inbound.count("t") == 0


class TestStored:
    """What waits belongs to its thread, and is stored as all else."""

    @one_of_each
    @pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "sealed"])
    def test_it_is_carried_with_the_thread(self, database: str, key: Any) -> None:
        with SQLCheckpointer(database, auto_upgrade=True, key=key) as saver:
            agent = desk_of(saver, "queue")
            agent.invoke("go", thread="t")
            for number in range(4):
                agent.invoke(f"secret {number}", thread="t", user="bo")
            before = [(one.by, said(one.messages)) for one in saver.inbound.list("t")]
            saver.copy_thread("t", "copy")
            saver.sessions.load(list(saver.sessions.export("t")), "loaded")
            saver.rekey(b"n" * 32)
            for thread in ("t", "copy", "loaded"):
                assert [(one.by, said(one.messages)) for one in saver.inbound.list(thread)] == before
            saver.sessions.delete("copy")
            assert counted(saver)["inbound"] == 8
            agent.resume("loaded", approve())
            assert said(history(agent, "loaded")) == ["go", *(f"secret {number}" for number in range(4))]

    def test_it_is_sealed(self, sql: SQLCheckpointer, tmp_path: Any) -> None:
        sql.setup()
        sql.rekey(b"k" * 32)
        agent = desk_of(sql, "queue")
        agent.invoke("go", thread="t")
        agent.invoke("a very secret text", thread="t")
        sql.close()
        assert not any(b"very secret" in one.read_bytes() for one in tmp_path.iterdir() if one.is_file())

    def test_another_owner_sees_and_drops_nothing(self, sql: SQLCheckpointer) -> None:
        agent = desk_of(sql.for_owner("ana"), "queue")
        agent.invoke("go", thread="t")
        agent.invoke("one", thread="t")
        assert sql.for_owner("ana").inbound.count("t") == 1
        other = sql.for_owner("bo").inbound
        [one] = sql.inbound.list("t")
        assert (other.list("t"), other.count("t"), other.first("t"), other.drop("t", one.no)) == ([], 0, None, False)
        with pytest.raises(ThreadError):
            desk_of(sql, "queue").invoke("two", thread="t", owner="bo")

    def test_a_made_up_file_is_refused(self, sql: SQLCheckpointer) -> None:
        agent = desk_of(sql, "queue")
        agent.invoke("go", thread="t")
        agent.invoke("one", thread="t")
        lines = list(sql.sessions.export("t"))
        for made in ({"message": "?"}, {"message": "YQ=="}, {"message": 5}, {"by": 5}, {"inbound": None}):
            with pytest.raises(StorageError):
                sql.sessions.load(made_up(lines, "inbound", **made), "u")
            assert sql.sessions.get("u") is None
