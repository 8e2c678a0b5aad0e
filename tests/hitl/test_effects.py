"""The ledger of effects: what is replayed, what counts as unknown, and where the ledger goes with its thread."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from click.testing import CliRunner
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from modes import Drive
from scenes import asks, call, results
from sqlalchemy import select, update

from scallion import (
    Agent,
    Blocked,
    Completed,
    ConfigurationError,
    Filter,
    LeaseLost,
    Paused,
    SQLCheckpointer,
    ToolReply,
    approve,
    around_tool,
    edit,
    filters,
    happened,
    pause,
    rerun,
    respond,
    stop,
)
from scallion.approvals.effects import call_digest
from scallion.cli.verbs import scallion
from scallion.sql.effects import Effects
from scallion.testing import ScriptedModel
from scallion.tools import idempotency_key


class Bank:
    """A tool that does what it is told to: gives a value, or raises; it keeps the key of each execution."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.keys: list[str] = []

    def tool(self) -> BaseTool:
        """The tool, which has both colours."""

        def pay(euros: int) -> Any:
            """Pay."""
            self.keys.append(idempotency_key())
            outcome = self.outcomes.pop(0) if self.outcomes else f"paid {euros}"
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome() if callable(outcome) else outcome

        async def apay(euros: int) -> Any:
            await asyncio.sleep(0)
            return pay(euros)

        return StructuredTool.from_function(pay, coroutine=apay)


def build(saver: Any, bank: Bank, *around: Any, calls: Any = (), guard: Any = None, **options: Any) -> Agent:
    """An agent that pays, and repeats what it is told."""
    calls = calls or [call("pay", "c1", euros=5)]

    def say(messages: list[Any]) -> AIMessage:
        answers = results(messages)
        return AIMessage(" / ".join(answers)) if answers else asks(*calls)

    stack = [*around, guard or filters.once("pay", **options)]
    return Agent(ScriptedModel(say), tools=[bank.tool()], filters=stack, checkpointer=saver)


def statuses(saver: SQLCheckpointer, thread: str = "t") -> list[str]:
    return [one.status for one in saver.effects.list(thread)]


@around_tool(init={"n": 0})
def again(request: Any, state: Any, next: Any) -> ToolReply:
    """Try three times."""
    reply = next(request)
    for _ in range(2):
        if reply.error is None:
            break
        reply = next(request)
    return reply


class Dies(BaseException):
    """What a killed process looks like from inside of one that goes on."""


def dying_after_the_record(patch: pytest.MonkeyPatch) -> None:
    """The turn is broken off right after an outcome was recorded."""
    end, aend = Effects.end, Effects.aend

    def dies(*args: Any) -> None:
        end(*args)
        raise Dies

    async def adies(*args: Any) -> None:
        await aend(*args)
        raise Dies

    patch.setattr(Effects, "end", dies)
    patch.setattr(Effects, "aend", adies)


@pytest.mark.parametrize("database", ["file"], indirect=True)
class TestReplay:
    """What is recorded is given again, equal and of the same type."""

    @pytest.mark.parametrize(
        "outcome",
        [
            "paid",
            {"deep": [1, {"two": None}]},
            [{"type": "text", "text": "paid"}, {"type": "image", "base64": "AA==", "mime_type": "image/png"}],
            ToolMessage("paid", tool_call_id="c1", artifact={"receipt": (1, b"x")}, additional_kwargs={"a": 1}),
            Command(update={"paid": {5}, "messages": [ToolMessage("paid", tool_call_id="c1")]}),
            ValueError("no such account"),
        ],
        ids=["text", "dict", "blocks", "artifact", "writes", "failure"],
    )
    def test_the_same_message_artifact_and_writes(
        self, drive: Drive, saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch, outcome: Any
    ) -> None:
        bank, twin = Bank(outcome), Bank(outcome)
        expected, _ = drive(build(saver, twin)).start("pay", thread="twin")
        with monkeypatch.context() as patch:
            dying_after_the_record(patch)
            with pytest.raises(Dies):
                drive(build(saver, bank)).start("pay", thread="t")
        assert len(bank.keys) == 1
        agent = build(saver, bank)
        found, _ = drive(agent).resume("t")
        assert isinstance(found, Completed)
        assert len(bank.keys) == 1
        [mine], [other] = (
            [one for one in result.messages if isinstance(one, ToolMessage)] for result in (found, expected)
        )
        assert mine.model_dump(exclude={"id"}) == other.model_dump(exclude={"id"})
        assert type(mine.artifact) is type(other.artifact)
        assert [one["args"] for one in found.tool_calls] == [{"euros": 5}]
        states = [
            agent.graph.get_state({"configurable": {"thread_id": one}}).values.get("state") for one in ("t", "twin")
        ]
        assert states[0] == states[1]

    def test_a_result_that_cannot_be_stored_is_refused_loudly_and_asked_about(
        self, drive: Drive, saver: SQLCheckpointer
    ) -> None:
        bank = Bank(ToolMessage("paid", tool_call_id="c1", artifact=object()))
        with pytest.raises(Exception, match="cannot be stored"):
            drive(build(saver, bank)).start("pay", thread="t")
        result, _ = drive(build(saver, bank)).resume("t")
        assert isinstance(result, Paused)
        assert len(bank.keys) == 1

    def test_a_fork_of_the_thread_replays(self, saver: SQLCheckpointer) -> None:
        bank = Bank()
        agent = build(saver, bank)
        agent.invoke("pay", thread="t")
        config: Any = {"configurable": {"thread_id": "t"}}
        before = next(one for one in agent.graph.get_state_history(config) if one.next == ("tool",))
        values = agent.graph.invoke(None, before.config)
        assert values["messages"][-1].text == "paid 5"
        assert len(bank.keys) == 1

    def test_two_turns_with_the_same_call_id_and_arguments_are_two_effects(self, saver: SQLCheckpointer) -> None:
        """Local models number their calls anew in each turn."""
        bank = Bank()
        agent = Agent(
            ScriptedModel([asks(call("pay", "c1", euros=5)), "end"] * 2),
            tools=[bank.tool()],
            filters=[filters.once()],
            checkpointer=saver,
        )
        agent.invoke("pay", thread="t")
        agent.invoke("pay again", thread="t")
        assert len(set(bank.keys)) == 2


@pytest.mark.parametrize("database", ["file"], indirect=True)
class TestFailures:
    """A failure that the tool came to is an outcome; one that cut it off is none."""

    def test_what_failed_is_not_run_again_by_a_retry_around_the_guard(
        self, drive: Drive, saver: SQLCheckpointer
    ) -> None:
        bank = Bank(ValueError("no such account"), "paid")
        result, _ = drive(build(saver, bank, again)).start("pay", thread="t")
        assert isinstance(result, Completed)
        assert "no such account" in result.answer
        assert (len(bank.keys), statuses(saver)) == (1, ["failed"])

    @pytest.mark.parametrize("error", [TimeoutError("late"), ConnectionError("gone")])
    def test_what_was_cut_off_is_unknown(self, drive: Drive, saver: SQLCheckpointer, error: Exception) -> None:
        bank = Bank(error)
        result, _ = drive(build(saver, bank, again)).start("pay", thread="t")
        assert isinstance(result, Paused)
        assert result.approvals[0].kind == "unknown_outcome"
        assert len(bank.keys) == 1
        done, _ = drive(build(saver, bank, again)).resume("t", rerun())
        assert isinstance(done, Completed)
        assert (done.answer, len(set(bank.keys)), statuses(saver)) == ("paid 5", 1, ["open", "done"])

    def test_cut_off_three_times_it_asks_three_times(self, drive: Drive, saver: SQLCheckpointer) -> None:
        bank = Bank(*[TimeoutError("late")] * 3)
        result, _ = drive(build(saver, bank)).start("pay", thread="t")
        for n in range(3):
            assert isinstance(result, Paused)
            assert len(bank.keys) == n + 1
            result, _ = drive(build(saver, bank)).resume("t", rerun())
        assert isinstance(result, Completed)
        assert len(bank.keys) == 4

    def test_what_verify_knows_not_to_have_happened_a_retry_may_run_again(
        self, drive: Drive, saver: SQLCheckpointer
    ) -> None:
        bank = Bank(TimeoutError("late"), TimeoutError("late"))
        result, _ = drive(build(saver, bank, again, verify=lambda key: False)).start("pay", thread="t")
        assert isinstance(result, Completed)
        assert (result.answer, len(bank.keys)) == ("paid 5", 3)

    def test_without_a_retry_the_model_reads_the_error(self, drive: Drive, saver: SQLCheckpointer) -> None:
        bank = Bank(TimeoutError("late"))
        result, _ = drive(build(saver, bank, on_unknown="rerun")).start("pay", thread="t")
        assert isinstance(result, Completed)
        assert "late" in result.answer
        assert len(bank.keys) == 1

    @pytest.mark.parametrize(
        ("known", "answer"),
        [
            (happened("it did"), "it did"),
            ({"id": 7}, '{"id": 7}'),
            (True, "done"),
            (ToolMessage("as it was", tool_call_id="other"), "as it was"),
        ],
    )
    def test_what_verify_gives(self, saver: SQLCheckpointer, known: Any, answer: str) -> None:
        bank = Bank(TimeoutError("late"))
        result = build(saver, bank, verify=lambda key: known).invoke("pay", thread="t")
        assert isinstance(result, Completed)
        assert (result.answer, len(bank.keys), statuses(saver)) == (answer, 1, ["done"])

    def test_a_verify_that_fails_does_not_know(self, saver: SQLCheckpointer) -> None:
        def verify(key: str) -> Any:
            raise ConnectionError("the bank is closed")

        bank = Bank(TimeoutError("late"))
        result = build(saver, bank, verify=verify).invoke("pay", thread="t")
        assert isinstance(result, Paused)

    @pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
    def test_interrupted_in_the_tool_the_outcome_is_unknown(self, saver: SQLCheckpointer, raised: Any) -> None:
        bank = Bank(raised())
        with pytest.raises(raised):
            build(saver, bank).invoke("pay", thread="t")
        assert statuses(saver) == ["begun"]
        result = build(saver, bank).recover("t")
        assert isinstance(result, Paused)
        assert len(bank.keys) == 1

    async def test_a_cancelled_turn_asks(self, saver: SQLCheckpointer) -> None:
        started = asyncio.Event()

        async def pay(euros: int) -> str:
            """Pay."""
            started.set()
            await asyncio.sleep(30)
            return "paid"

        def agent() -> Agent:
            model = ScriptedModel([asks(call("pay", "c1", euros=5)), "end"])
            return Agent(model, tools=[pay], filters=[filters.once("pay")], checkpointer=saver)

        turn = asyncio.ensure_future(agent().ainvoke("pay", thread="t"))
        await started.wait()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        result = await agent().arecover("t")
        assert isinstance(result, Paused)
        assert result.approvals[0].kind == "unknown_outcome"


@pytest.mark.parametrize("database", ["file"], indirect=True)
class TestDecisions:
    """What a person says about an unknown outcome."""

    def test_stop_ends_the_turn_and_the_thread_stays_usable(self, drive: Drive, saver: SQLCheckpointer) -> None:
        bank = Bank(TimeoutError("late"))
        drive(build(saver, bank)).start("pay", thread="t")
        agent = build(saver, bank)
        with pytest.raises(Blocked) as blocked:
            drive(agent).resume("t", stop(), by="ana")
        assert blocked.value.guard == "once"
        assert (len(bank.keys), statuses(saver)) == (1, ["stopped"])
        result, _ = drive(agent).start("what now?", thread="t")
        assert isinstance(result, Completed)
        assert "not known" in result.answer
        assert len(bank.keys) == 1

    def test_other_decisions_are_refused_and_nothing_is_stored(self, saver: SQLCheckpointer) -> None:
        bank = Bank(TimeoutError("late"))
        build(saver, bank).invoke("pay", thread="t")
        for wrong in (approve(), edit({"euros": 1}), respond("no")):
            with pytest.raises(Exception, match="not allowed here"):
                build(saver, bank).resume("t", wrong)
        assert len(saver.approvals.list(thread="t").items) == 1

    @pytest.mark.parametrize(("given", "text"), [("sent", "sent"), ({"n": 1}, '{"n": 1}'), (None, "null")])
    def test_what_happened_is_the_result(self, saver: SQLCheckpointer, given: Any, text: str) -> None:
        bank = Bank(TimeoutError("late"))
        build(saver, bank).invoke("pay", thread="t")
        done = build(saver, bank).resume("t", happened(given))
        assert isinstance(done, Completed)
        assert done.answer == text

    @pytest.mark.parametrize(
        ("verb", "rest", "ran", "answer"),
        [
            ("happened", ["sent"], 1, "sent"),
            ("happened", [], 1, "done"),
            ("rerun", [], 2, "paid 5"),
            ("stop", [], 1, ""),
        ],
    )
    def test_it_is_decided_from_the_command_line(
        self, database: str, saver: SQLCheckpointer, verb: str, rest: list[str], ran: int, answer: str
    ) -> None:
        bank = Bank(TimeoutError("late"))
        paused = build(saver, bank).invoke("pay", thread="t")
        assert isinstance(paused, Paused)
        id = paused.approvals[0].id
        decided = CliRunner().invoke(scallion, ["--db", database, verb, id, *rest, "--by", "ana", "--json"])
        assert decided.exit_code == 0, decided.output
        assert saver.approvals.get(id).decided_by == "ana"
        if verb == "stop":
            with pytest.raises(Blocked):
                build(saver, bank).resume("t")
        else:
            done = build(saver, bank).resume("t")
            assert isinstance(done, Completed)
            assert done.answer == answer
        assert len(bank.keys) == ran

    def test_a_superseded_question_leaves_the_model_with_what_is_not_known(self, saver: SQLCheckpointer) -> None:
        bank = Bank(TimeoutError("late"))
        build(saver, bank).invoke("pay", thread="t")
        assert build(saver, bank).cancel("t")
        done = build(saver, bank).invoke("and?", thread="t")
        assert isinstance(done, Completed)
        assert "not known" in done.answer


@pytest.mark.parametrize("database", ["file"], indirect=True)
class TestStack:
    """Where the guard stands, and what stands around it."""

    def test_it_is_innermost_wherever_it_is_listed(self, drive: Drive, saver: SQLCheckpointer) -> None:
        bank = Bank()
        guard, gate = filters.once("pay"), filters.approval({"pay": True})
        agent = build(saver, bank, guard, guard=gate)
        assert agent.layers["tool"] == ["approval", "once"]
        drive(agent).start("pay", thread="t")
        assert statuses(saver) == []
        done, _ = drive(agent).resume("t", edit({"euros": 3}))
        assert isinstance(done, Completed)
        assert "paid 3" in done.answer
        assert (len(bank.keys), statuses(saver)) == (1, ["done"])

    def test_arguments_that_a_filter_makes_anew_each_time_do_not_make_another_effect(
        self, saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        count = iter(range(100))

        @around_tool
        def changes(request: Any, state: Any, next: Any) -> Any:
            return next(request.replace(call={**request.call, "args": {"euros": next_number()}}))

        def next_number() -> int:
            return next(count)

        bank = Bank()
        with monkeypatch.context() as patch:
            dying_after_the_record(patch)
            with pytest.raises(Dies):
                build(saver, bank, changes).invoke("pay", thread="t")
        result = build(saver, bank, changes).resume("t")
        assert isinstance(result, Paused)
        assert "with other arguments" in result.approvals[0].description
        assert len(bank.keys) == 1
        assert build(saver, bank, changes).cancel("t")
        assert statuses(saver) == ["done"]

    def test_a_tool_that_pauses_goes_on_with_its_answer(self, drive: Drive, saver: SQLCheckpointer) -> None:
        bank = Bank(*[lambda: pause("really?").message] * 2)
        result, _ = drive(build(saver, bank)).start("pay", thread="t")
        assert isinstance(result, Paused)
        assert [one.kind for one in result.approvals] == ["question"]
        done, _ = drive(build(saver, bank)).resume("t", respond("yes"))
        assert isinstance(done, Completed)
        assert (done.answer, statuses(saver)) == ("yes", ["open", "done"])

    def test_of_two_guards_the_outer_one_counts(self, saver: SQLCheckpointer) -> None:
        bank = Bank(TimeoutError("late"))
        guards = [filters.once("pay", verify=lambda key: "it did"), filters.once(name="all")]
        done = build(saver, bank, guards[0], guard=guards[1]).invoke("pay", thread="t")
        assert isinstance(done, Completed)
        assert (done.answer, statuses(saver)) == ("it did", ["done"])

    def test_parallel_calls_are_one_effect_each(self, drive: Drive, saver: SQLCheckpointer) -> None:
        bank = Bank()
        calls = [call("pay", f"c{n}", euros=5) for n in range(3)]
        done, _ = drive(build(saver, bank, calls=calls)).start("pay", thread="t")
        assert isinstance(done, Completed)
        assert len(set(bank.keys)) == 3

    def test_the_bare_graph_keeps_it(self, saver: SQLCheckpointer) -> None:
        bank = Bank()
        config: Any = {"configurable": {"thread_id": "t"}}
        values = build(saver, bank).graph.invoke({"messages": [("user", "pay")]}, config)
        assert values["messages"][-1].text == "paid 5"
        assert statuses(saver) == ["done"]

    def test_an_agent_inside_of_the_tool_has_effects_of_its_own(self, saver: SQLCheckpointer) -> None:
        bank = Bank()
        inner = build(saver, bank)
        outer = Bank(lambda: inner.invoke("pay", thread="inner").answer)
        done = build(saver, outer).invoke("pay", thread="t")
        assert isinstance(done, Completed)
        assert (done.answer, statuses(saver), statuses(saver, "inner")) == ("paid 5", ["done"], ["done"])
        assert bank.keys != outer.keys

    def test_durability_that_would_lose_the_call_is_refused(self, saver: SQLCheckpointer) -> None:
        bank = Bank()
        with pytest.raises(ConfigurationError, match="durability"):
            build(saver, bank).invoke("pay", thread="t", durability="exit")
        assert bank.keys == []
        done = build(saver, bank).invoke("pay", thread="u", durability="async")
        assert isinstance(done, Completed)

    def test_a_tool_that_is_not_there_is_refused(self, saver: SQLCheckpointer) -> None:
        with pytest.raises(ConfigurationError, match="'refnd'"):
            build(saver, Bank(), guard=filters.once("refnd"))


class TestConstruction:
    """What cannot be built, and what cannot be asked."""

    @pytest.mark.parametrize("checkpointer", [None, "memory"])
    def test_without_a_ledger_the_agent_is_not_built(self, checkpointer: Any) -> None:
        guard: Filter = filters.once("pay")
        with pytest.raises(ConfigurationError, match="once"):
            build(InMemorySaver() if checkpointer else None, Bank(), guard=guard)

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (lambda: filters.once("pay", on_unknown="hope"), "hope"),
            (lambda: filters.once("pay", verify="yes"), "verify"),
            (lambda: filters.once(["pay"]), "list"),
        ],
    )
    def test_what_it_is_made_of_is_checked(self, make: Any, told: str) -> None:
        with pytest.raises(ConfigurationError, match=told):
            make()

    def test_the_key_is_for_guarded_tools(self) -> None:
        with pytest.raises(ConfigurationError, match=r"filters\.once"):
            idempotency_key()


def _unknown(saver: SQLCheckpointer, thread: str = "t") -> Bank:
    """A thread that asks about a payment, with another one recorded."""
    bank = Bank("first", TimeoutError("late"))
    calls = [call("pay", "c1", euros=1), call("pay", "c2", euros=2)]
    result = build(saver, bank, calls=calls).invoke("pay", thread=thread)
    assert isinstance(result, Paused)
    return bank


class TestWithItsThread:
    """The ledger is copied, exported, encrypted and deleted with its thread."""

    @one_of_each
    def test_a_copy_knows_what_was_begun_and_does_not_run_it_silently(self, saver: SQLCheckpointer) -> None:
        bank = Bank(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            build(saver, bank).invoke("pay", thread="t")
        saver.copy_thread("t", "copy")
        result = build(saver, bank).recover("copy")
        assert isinstance(result, Paused)
        assert len(bank.keys) == 1
        done = build(saver, bank).resume("copy", rerun())
        assert isinstance(done, Completed)
        assert len(set(bank.keys)) == 1  # the service sees that it is the same payment

    @one_of_each
    def test_an_exported_thread_takes_its_effects_along(self, saver: SQLCheckpointer) -> None:
        _unknown(saver)
        lines = list(saver.sessions.export("t"))
        with SQLCheckpointer("sqlite://") as other:
            other.sessions.load(lines)
            assert sorted(statuses(other)) == sorted(statuses(saver)) == ["begun", "done"]
            bank = Bank()
            done = build(other, bank).resume("t", happened("second"))
            assert isinstance(done, Completed)
            assert sorted(done.answer.split(" / ")) == ["first", "second"]
            assert bank.keys == []

    @pytest.mark.parametrize("database", ["file"], indirect=True)
    def test_results_are_sealed_and_survive_a_change_of_keys(self, database: str) -> None:
        bank = Bank("SECRET-RESULT")
        key = b"k" * 32
        with SQLCheckpointer(database, key=key) as saver:
            build(saver, bank).invoke("pay", thread="t")
            with open(database.removeprefix("sqlite:///"), "rb") as file:
                assert b"SECRET-RESULT" not in file.read()
            saver.copy_thread("t", "copy")
            assert saver.rekey(b"n" * 32) == 2
        with SQLCheckpointer(database, key=b"n" * 32) as saver:
            for thread in ("t", "copy"):
                message = next(one for one in _messages(saver, thread) if isinstance(one, AIMessage))
                [attempt] = saver.effects.known(thread, [call_digest(str(message.id), "c1")]).values()
                assert attempt.result is not None
                assert attempt.result["message"].text == "SECRET-RESULT"

    @one_of_each
    def test_it_is_deleted_with_its_thread_and_kept_by_prune(self, saver: SQLCheckpointer) -> None:
        build(saver, Bank()).invoke("pay", thread="t")
        saver.prune(["t"])
        assert statuses(saver) == ["done"]
        saver.delete_thread("t")
        assert statuses(saver) == []

    @one_of_each
    def test_it_is_in_the_audit_without_arguments_or_results(self, saver: SQLCheckpointer) -> None:
        _unknown(saver)
        a = saver.database.tables.audit.c
        rows = saver.database.run(lambda conn: conn.execute(select(a.event, a.subject, a.thread, a.detail)).all())
        mine = [row for row in rows if row.event.startswith("effect_")]
        assert sorted(row.event for row in mine) == ["effect_begun", "effect_begun", "effect_done"]
        assert {row.subject for row in mine} == {one.key for one in saver.effects.list("t")}
        assert {row.detail for row in mine} == {'{"attempt":1,"tool":"pay"}'}

    @one_of_each
    def test_who_lost_the_lease_begins_and_ends_no_effect(self, saver: SQLCheckpointer) -> None:
        """A frozen process that wakes up behind the expiry finds that its right to run the thread is gone."""
        bank = Bank()

        def loses() -> str:
            s = saver.database.tables.sessions
            saver.database.run(lambda conn: conn.execute(update(s).values(fence=s.c.fence + 1)), write=True)
            return "paid"

        bank.outcomes = [loses]
        with pytest.raises(LeaseLost):
            build(saver, bank).invoke("pay", thread="t")
        assert statuses(saver) == ["begun"]

    @pytest.mark.parametrize("database", ["file"], indirect=True)
    def test_another_owner_sees_nothing(self, saver: SQLCheckpointer) -> None:
        build(saver, Bank()).invoke("pay", thread="t", owner="ana")
        assert len(saver.for_owner("ana").effects.list("t")) == 1
        assert list(saver.for_owner("bo").effects.list("t")) == []


def _messages(saver: SQLCheckpointer, thread: str) -> list[Any]:
    found = saver.get_tuple({"configurable": {"thread_id": thread}})
    assert found is not None
    return list(found.checkpoint["channel_values"]["messages"])
