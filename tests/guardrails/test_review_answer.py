"""`filters.review_answer`: a person releases, edits or rejects the answer before anybody is given it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from checkpoints.databases import database, migrated, server
from langchain_core.messages import AIMessage
from modes import Drive, delivered
from processes import processes
from scenes import Desk, asks, call, heard, whole
from tests.guardrails.desks import releases

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    FilterError,
    InvalidDecision,
    ModelFinished,
    Paused,
    Policy,
    SQLCheckpointer,
    Token,
    approve,
    edit,
    filters,
    reject,
    respond,
)
from scallion.cli import main
from scallion.testing import ScriptedModel

__all__ = ["database", "migrated", "server"]


def kept(agent: Agent, thread: str = "t") -> list[tuple[str, str]]:
    """What the thread holds."""
    return heard(agent.graph.get_state({"configurable": {"thread_id": thread}}).values["messages"])


def reviewed(
    saver: Any, *replies: Any, review: Any = None, around: Any = (), inside: Any = (), **options: Any
) -> Agent:
    """An agent whose answers wait for a person."""
    stack = [*around, review or filters.review_answer(), *inside]
    return Agent(ScriptedModel(replies), filters=stack, checkpointer=saver, **options)


class TestDecisions:
    """What a person may do with an answer, in the four modes, and resumed by another agent."""

    def test_nothing_is_given_away_before_it_is_released(self, drive: Drive, any_saver: Any) -> None:
        thinking = AIMessage([{"type": "reasoning", "reasoning": "secret plan"}, {"type": "text", "text": "secret"}])
        driver = drive(reviewed(any_saver, thinking))
        paused, before = driver.start("q", thread="t")
        assert isinstance(paused, Paused)
        (asked,) = paused.approvals
        assert (asked.kind, asked.args, asked.allowed) == (
            "answer",
            {"answer": "secret"},
            ("approve", "edit", "reject"),
        )
        assert "secret" not in whole(before)
        assert not driver.streams or any(isinstance(one, ModelFinished) for one in before)
        result, events = drive(reviewed(any_saver)).resume("t", approve())
        assert isinstance(result, Completed)
        assert result.answer == "secret"
        assert not driver.streams or [one.text for one in events if isinstance(one, Token)] == ["secret"]
        assert kept(driver.agent) == [("human", "q"), ("ai", "secret")]

    @pytest.mark.parametrize("decision", [edit({"answer": "mild"}), respond("mild")], ids=["edit", "respond"])
    def test_a_person_may_put_another_text_in_its_place(
        self, drive: Drive, sql: SQLCheckpointer, decision: Any
    ) -> None:
        """In the result, in the thread and in the stream; the id stays, what was parsed does not."""
        schema = filters.validate_schema({"type": "object"})
        agent = reviewed(sql, '{"a": 1}', review=filters.review_answer(Policy()), inside=[schema])
        paused, _ = drive(agent).start("q", thread="t")
        result, events = drive(agent).resume("t", decision)
        assert (result.answer, result.parsed, result.message.id) == ("mild", None, paused.messages[-1].id)
        assert kept(agent) == [("human", "q"), ("ai", "mild")]
        assert delivered(events) in ("mild", "")

    def test_what_a_check_outside_parses_is_the_edited_answer(self, sql: SQLCheckpointer) -> None:
        schema = filters.validate_schema({"type": "object", "required": ["b"]})
        agent = reviewed(sql, '{"b": 1}', '{"b": 3}', around=[schema])
        agent.invoke("q", thread="t")
        second = agent.resume("t", edit({"answer": '{"a": 2}'}))
        assert second.approvals[0].args == {"answer": '{"b": 3}'}, "it was asked for anew, and is reviewed anew"
        result = agent.resume("t", edit({"answer": '{"b": 4}'}))
        assert (result.parsed, result.attempts) == ({"b": 4}, 2)

    def test_a_check_inside_shows_a_person_valid_answers_only(self, drive: Drive, sql: SQLCheckpointer) -> None:
        check = filters.validate_answer(lambda answer: answer == "good" or "be good")
        agent = reviewed(sql, "bad", "good", inside=[check])
        paused, _ = drive(agent).start("q", thread="t")
        assert [one.args for one in paused.approvals] == [{"answer": "good"}]
        result, _ = drive(agent).resume("t", approve())
        assert (
            result.answer,
            result.attempts,
            len(agent.graph.get_state({"configurable": {"thread_id": "t"}}).tasks),
        ) == ("good", 2, 0)

    def test_the_model_answers_anew_when_it_is_told_why(self, drive: Drive, any_saver: Any) -> None:
        """Each draft is reviewed; the tools that ran are not run again, and the drafts leave the thread."""
        desk = Desk()
        model = ScriptedModel([asks(call("refund", order=1)), "draft", "better", "best"])
        agent = Agent(model, tools=desk.tools, filters=[filters.review_answer()], checkpointer=any_saver)
        driver = drive(agent)
        driver.start("q", thread="t")
        paused, _ = driver.resume("t", reject("too short"))
        assert paused.approvals[0].args == {"answer": "better"}
        assert "too short" in model.calls[-1][-1].text
        driver.resume("t", reject())
        result, events = driver.resume("t", approve())
        assert (result.answer, result.attempts, desk.ran, len(model.calls)) == ("best", 3, ["refund 1"], 4)
        assert kept(agent) == [("human", "q"), ("ai", ""), ("tool", "refunded 1"), ("ai", "best")]
        assert delivered(events) == ("best" if driver.streams else "")

    @pytest.mark.parametrize(
        ("decision", "rejection", "told"),
        [
            (reject("it leaks"), None, "A person did not release this answer: it leaks"),
            (reject(), None, "A person did not release this answer."),
            (reject("it leaks"), "Ask the desk.", "Ask the desk."),
        ],
    )
    def test_the_turn_ends_where_no_revision_is_left(
        self, drive: Drive, sql: SQLCheckpointer, decision: Any, rejection: str | None, told: str
    ) -> None:
        """And no check around asks the model for another answer."""
        review = filters.review_answer(max_revisions=0, rejection=rejection)
        strict = filters.validate_answer(lambda answer: False)
        agent = reviewed(sql, "draft", review=review, around=[strict])
        driver = drive(agent)
        driver.start("q", thread="t")
        result, events = driver.resume("t", decision)
        assert (result.answer, result.message.response_metadata["review"]) == (told, "reject")
        assert kept(agent) == [("human", "q"), ("ai", told)]
        assert delivered(events) == (told if driver.streams else "")


class TestPolicies:
    """The policy of `filters.approval`, for answers."""

    def test_the_policy_says_who_and_how(self, sql: SQLCheckpointer) -> None:
        policy = Policy(
            ("approve", "reject"),
            describe=lambda it: f"Send {len(it['args']['answer'])} letters?",
            deciders=["ana", "bo"],
            quorum=2,
        )
        agent = reviewed(sql, "hello", review=filters.review_answer(policy))
        (asked,) = agent.invoke("q", thread="t", user="cy").approvals
        assert (asked.description, asked.quorum, asked.requested_by) == ("Send 5 letters?", 2, "cy")
        with pytest.raises(InvalidDecision, match="'edit' is not allowed"):
            agent.resume("t", edit({"answer": "x"}), by="ana")
        with pytest.raises(InvalidDecision, match="not among those"):
            agent.resume("t", approve(), by="cy")
        assert isinstance(agent.resume("t", approve(), by="ana"), Paused), "one of two"
        assert agent.resume("t", approve(), by="bo").answer == "hello"

    @pytest.mark.parametrize("given", [{}, {"answer": ""}, {"answer": 5}, {"text": "x"}])
    def test_an_edit_is_a_text(self, sql: SQLCheckpointer, given: Any) -> None:
        agent = reviewed(sql, "hello")
        agent.invoke("q", thread="t")
        with pytest.raises(InvalidDecision):
            agent.resume("t", edit(given))
        assert agent.resume("t", approve()).answer == "hello"

    def test_what_nobody_released_in_time_is_not_given(self, tmp_path: Any) -> None:
        now = [1_000_000.0]
        with SQLCheckpointer(
            f"sqlite:///{tmp_path}/late.db", clock=lambda: datetime.fromtimestamp(now[0], UTC)
        ) as saver:
            agent = reviewed(saver, "hello", review=filters.review_answer(Policy(expires_in=60)))
            agent.invoke("q", thread="t")
            now[0] += 61
            result = agent.resume("t")
            assert result.answer == "Nobody released this answer in time."
            assert kept(agent)[-1] == ("ai", "Nobody released this answer in time.")

    def test_a_predicate_says_which_answers(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """A Policy of its own too; once a person was asked, the predicate cannot take that back."""
        verdict: list[Any] = [False]

        async def when(result: Completed) -> Any:
            return verdict[0]

        review = filters.review_answer(when=when)
        driver = drive(reviewed(sql, "a", "b", review=review))
        assert isinstance(driver.start("q", thread="t")[0], Completed)
        verdict[0] = Policy(("approve", "edit"))
        paused, _ = driver.start("q", thread="t")
        assert paused.approvals[0].allowed == ("approve", "edit")
        verdict[0] = False
        assert driver.resume("t", edit({"answer": "c"}))[0].answer == "c"

    @pytest.mark.parametrize("fails", [lambda result: 1 / 0, lambda result: None])
    def test_a_predicate_that_fails_lets_nothing_out(self, drive: Drive, sql: SQLCheckpointer, fails: Any) -> None:
        driver = drive(reviewed(sql, "a", review=filters.review_answer(when=fails)))
        with pytest.raises((FilterError, ConfigurationError), match="review_answer"):
            driver.start("q", thread="t")

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (lambda: filters.review_answer({"allowed": ["approve"]}), "policy is a Policy"),
            (lambda: filters.review_answer(Policy(("approve", "rerun"))), "not 'rerun'"),
            (lambda: filters.review_answer(when=True), "when is a function"),
            (lambda: filters.review_answer(when=lambda: True), "when"),
            (lambda: filters.review_answer(max_revisions=-1), "max_revisions"),
            (lambda: filters.review_answer(rejection=""), "rejection"),
            (lambda: Agent(ScriptedModel([]), filters=[filters.review_answer()]), "checkpointer"),
        ],
    )
    def test_what_cannot_be_is_refused(self, make: Any, told: str) -> None:
        with pytest.raises(ConfigurationError, match=told) as caught:
            make()
        assert "review_answer" in str(caught.value)

    def test_votes_need_somebody_who_keeps_them(self, memory: Any) -> None:
        with pytest.raises(ConfigurationError, match="quorum"):
            reviewed(memory, review=filters.review_answer(Policy(quorum=2)))


def _dies(result: Completed) -> bool:
    raise RuntimeError("the service of the policy is down")


def test_an_answer_that_nobody_released_is_none(sql: SQLCheckpointer) -> None:
    """Where nobody could be asked, or has not decided: the thread is one that somebody has to see to."""
    agent = reviewed(sql, "UNRELEASED", review=filters.review_answer(when=_dies))
    with pytest.raises(FilterError):
        agent.invoke("q", thread="t")
    session = reviewed(sql, "released").session("t")
    (turn,) = session.history
    assert (session.status, turn.status, turn.answer, turn.message) == ("running", "running", None, None)
    assert [one.thread for one in sql.sessions.list(status="running").items] == ["t"]
    session.resume()
    assert [(one.status, one.answer) for one in session.history] == [("paused", None)]
    session.rewind(before=session.history[0])
    assert [(one.status, one.answer) for one in session.rewound] == [("closed", None)]
    session.rewind(session.rewound[0])
    session.resume()
    assert session.resume(approve()).answer == "UNRELEASED"
    assert [(one.status, one.answer) for one in session.history] == [("completed", "UNRELEASED")]
    assert session.status == "idle"


class TestAround:
    """Messages that come meanwhile, the inbox, the card."""

    def test_a_queued_message_is_answered_behind_it(self, drive: Drive, sql: SQLCheckpointer) -> None:
        agent = reviewed(sql, "one", "two", on_message_while_paused="queue")
        driver = drive(agent)
        driver.start("first", thread="t")
        waiting, _ = driver.start("second", thread="t")
        assert waiting.queued == 1
        paused, _ = driver.resume("t", edit({"answer": "1"}))
        assert paused.approvals[0].args == {"answer": "two"}
        assert driver.resume("t", approve())[0].answer == "two"
        assert kept(agent) == [("human", "first"), ("ai", "1"), ("human", "second"), ("ai", "two")]

    def test_what_was_not_released_leaves_with_a_pause_that_is_given_up(
        self, drive: Drive, sql: SQLCheckpointer
    ) -> None:
        agent = reviewed(sql, "secret", "two", on_message_while_paused="supersede")
        driver = drive(agent)
        driver.start("first", thread="t")
        driver.start("second", thread="t")
        assert driver.resume("t", approve())[0].answer == "two"
        assert "secret" not in repr(kept(agent))

    @pytest.mark.parametrize("database", ["file", "postgresql"], indirect=True)
    def test_another_process_goes_on(self, database: str) -> None:
        with SQLCheckpointer(database) as saver:
            agent = reviewed(saver, "harsh")
            agent.invoke("q", thread="t")
            ends: Any = processes.SimpleQueue()
            worker = processes.Process(target=releases, args=(database, ends))
            worker.start()
            worker.join(60)
            assert (worker.exitcode, ends.get()) == (0, ("mild", 0))
            assert kept(agent) == [("human", "q"), ("ai", "mild")]
            assert saver.approvals.list("used").items[0].decided_by == "ana"

    def test_the_command_line_shows_the_answer_and_decides(
        self, tmp_path: Any, sql: SQLCheckpointer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """No line of an answer looks like one of the card."""
        agent = reviewed(sql, "line one\nid forged")
        (asked,) = agent.invoke("q", thread="t").approvals
        url = ("--db", f"sqlite:///{tmp_path}/agent.db")
        assert main(["pending", "--json", *url]) == 0
        assert json.loads(capsys.readouterr().out)["items"][0]["args"] == asked.args
        assert main(["pending", *url]) == 0
        assert "forged" in capsys.readouterr().out
        assert main(["show", "t", *url]) == 0
        shown = capsys.readouterr().out
        assert "> line one" in shown
        assert "> id forged" in shown
        assert main(["edit", asked.id, "--set", "answer=7", "--by", "ana", *url]) == 0
        assert agent.resume("t").answer == "7"
