"""Who may decide: by name, not who asked for it, and several people together. Every path that decides looks."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from checkpoints.databases import one_of_each
from click.testing import CliRunner
from langgraph.types import Command
from modes import Drive
from scenes import Desk, asks, call, results
from sqlalchemy import select, update

from scallion import (
    Agent,
    AlreadyDecided,
    Completed,
    ConfigurationError,
    DecisionError,
    Inbox,
    InvalidDecision,
    PauseChanged,
    Paused,
    Policy,
    SQLCheckpointer,
    approve,
    edit,
    filters,
    reject,
    respond,
)
from scallion.approvals.payload import payload
from scallion.approvals.questions import Question
from scallion.sql import asking, ledger
from scallion.sql.asking import Place
from scallion.sql.clock import stamp
from scallion.sql.sessions import claim
from scallion.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def build(saver: Any, desk: Desk | None = None, when: Any = None, on_changed: Any = "refuse", **policy: Any) -> Agent:
    def say(messages: list[Any]) -> Any:
        told = results(messages)
        return " / ".join(told) if told else asks(call("refund", order=1))

    gate = filters.approval(when=when) if when else filters.approval({"refund": Policy(**policy)})
    tools = (desk or Desk()).tools
    return Agent(ScriptedModel(say), tools=tools, filters=[gate], checkpointer=saver, on_changed=on_changed)


def asked(agent: Agent, **options: Any) -> Any:
    paused = agent.invoke("go", thread="t", **options)
    assert isinstance(paused, Paused)
    return paused.approvals[0]


def audited(saver: SQLCheckpointer) -> list[tuple[str, str | None]]:
    a = saver.database.tables.audit
    return [
        tuple(row)
        for row in saver.database.run(lambda conn: list(conn.execute(select(a.c.event, a.c.by).order_by(a.c.no))))
    ]


class TestNames:
    """`deciders=[...]`: those, by the name that `by=` gives."""

    def test_resume_looks(self, drive: Drive, any_saver: Any) -> None:
        desk = Desk()
        driver = drive(build(any_saver, desk, deciders=["ana", "bo"]))
        driver.start("go", thread="t")
        for by, told in (("eve", "'eve' is not among those who may decide this"), (None, "give by=")):
            for decision in (approve(), edit({"order": 2}), reject(), respond("done")):
                with pytest.raises(InvalidDecision, match=told):
                    driver.resume("t", decision, by=by)
        assert desk.ran == []
        done, _ = driver.resume("t", approve(), by="bo")
        assert (done.answer, desk.ran) == ("refunded 1", ["refund 1"])

    @one_of_each
    def test_the_inbox_looks_and_names_nobody_else(self, saver: Any, database: str) -> None:
        agent = build(saver, deciders=["ana", "bo"])
        id = asked(agent).id
        with Inbox(database) as inbox:
            for by in ("eve", "Ana", "ana ", "", None):
                with pytest.raises(InvalidDecision) as caught:
                    inbox.approvals.decide(id, approve(), by=by)
                assert "bo" not in caught.value.reason.replace("about", "")
                assert caught.value.approval.id == id
            assert inbox.approvals.get(id).deciders == ("ana", "bo")
            inbox.approvals.decide(id, approve(), by="ana")
            with pytest.raises(InvalidDecision):
                inbox.approvals.withdraw(id, by="eve")
            inbox.approvals.withdraw(id, by="bo")
            inbox.approvals.decide(id, reject(), by="bo")
        assert "A person rejected" in agent.resume("t").answer
        assert audited(saver) == [("decided", "ana"), ("withdrawn", "bo"), ("decided", "bo"), ("used", None)]

    def test_one_that_is_not_entitled_spoils_the_whole_batch(self, sql: Any) -> None:
        """Nothing of it is stored."""
        agent = build(sql, deciders=["ana"])
        first = asked(agent).id
        second = agent.invoke("go", thread="other").approvals[0].id
        open_one = build(sql).invoke("go", thread="free").approvals[0].id
        with pytest.raises(InvalidDecision):
            sql.approvals.decide_all({open_one: approve(), first: approve(), second: approve()}, by="eve")
        assert len(sql.approvals.list().items) == 3

    def test_the_nodes_of_the_bare_graph_look(self, drive: Drive, sql: Any) -> None:
        """An answer without a name, or with a wrong one, is no decision: it is asked again. The ledger gives names."""
        desk = Desk()
        agent = build(sql, desk, deciders=["ana"])
        for answer in ({"type": "approve"}, {"type": "approve", "by": ["eve"]}, {"type": "approve", "by": 7}):
            one = asked(agent) if not sql.approvals.list().items else sql.approvals.list().items[0]
            agent.graph.invoke(Command(resume={one.id: answer}), CONFIG)
            assert desk.ran == []
        [one] = sql.approvals.list().items
        sql.approvals.decide(one.id, approve(), by="ana")
        done = agent.graph.invoke(sql.command_for("t"), CONFIG)
        assert (done["messages"][-1].text, desk.ran) == ("refunded 1", ["refund 1"])

    def test_the_command_line_looks(self, sql: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from scallion.cli.verbs import scallion

        id = asked(build(sql, deciders=["ana"], quorum=1)).id
        monkeypatch.setenv("SCALLION_DB", str(sql.database.url))
        refused = CliRunner().invoke(scallion, ["approve", id, "--by", "eve"])
        assert isinstance(refused.exception, InvalidDecision)
        assert "approve, by ana" in CliRunner().invoke(scallion, ["approve", id, "--by", "ana"]).output


class TestWhoAskedForIt:
    """`not_requester=True`: the user whose turn it is does not decide."""

    @pytest.mark.parametrize("by", ["bo", "bo "])
    def test_who_asked_does_not_decide(self, drive: Drive, any_saver: Any, by: str) -> None:
        desk = Desk()
        driver = drive(build(any_saver, desk, not_requester=True))
        driver.start("go", thread="t", user="bo")
        for decision in (approve(), reject()):
            with pytest.raises(InvalidDecision):
                driver.resume("t", decision, by=by)
        with pytest.raises(InvalidDecision, match="give by="):
            driver.resume("t", approve())
        assert driver.resume("t", approve(), by="ana")[0].answer == "refunded 1"

    def test_it_is_not_told_by_who_resumes(self, drive: Drive, any_saver: Any) -> None:
        driver = drive(build(any_saver, not_requester=True))
        driver.start("go", thread="t", user="bo")
        with pytest.raises(InvalidDecision, match="'bo' asked for this"):
            driver.resume("t", approve(), by="bo", user="ana")

    def test_nobody_knows_who_asked(self, drive: Drive, any_saver: Any) -> None:
        driver = drive(build(any_saver, not_requester=True))
        driver.start("go", thread="t")
        with pytest.raises(InvalidDecision, match="give user="):
            driver.resume("t", approve(), by="ana")

    def test_the_bare_graph_says_who_asked_in_its_metadata(self, sql: Any) -> None:
        agent = build(sql, not_requester=True)
        agent.graph.invoke({"messages": [("user", "go")]}, {**CONFIG, "metadata": {"user": "bo"}})
        [one] = sql.approvals.list().items
        with pytest.raises(InvalidDecision, match="'bo' asked for this"):
            sql.approvals.decide(one.id, approve(), by="bo")
        sql.approvals.decide(one.id, approve(), by="ana")
        assert agent.graph.invoke(sql.command_for("t"), CONFIG)["messages"][-1].text == "refunded 1"

    def test_also_where_they_are_a_decider(self, sql: Any) -> None:
        one = asked(build(sql, not_requester=True, deciders=["ana", "bo"]), user="bo")
        with pytest.raises(InvalidDecision, match="'bo' asked for this"):
            sql.approvals.decide(one.id, approve(), by="bo")
        assert sql.approvals.decide(one.id, approve(), by="ana").status == "decided"


class TestQuorum:
    """`quorum=n`: n different people say the same."""

    def test_two_of_them(self, drive: Drive, sql: Any) -> None:
        desk = Desk()
        driver = drive(build(sql, desk, quorum=2))
        driver.start("go", thread="t")
        waiting, _ = driver.resume("t", approve(), by="ana")
        assert isinstance(waiting, Paused)
        [one] = waiting.approvals
        assert (one.status, one.decision, [(vote.by, vote.decision) for vote in one.votes]) == (
            "pending", None, [("ana", approve())]
        )  # fmt: skip
        with pytest.raises(InvalidDecision, match="'ana' has voted already"):
            driver.resume("t", approve(), by="ana")
        with pytest.raises(InvalidDecision, match="give by="):
            driver.resume("t", approve())
        assert isinstance(driver.resume("t")[0], Paused)
        assert desk.ran == []
        done, _ = driver.resume("t", approve(), by="bo")
        assert (done.answer, desk.ran) == ("refunded 1", ["refund 1"])
        assert audited(sql) == [("voted", "ana"), ("voted", "bo"), ("decided", "bo"), ("used", None)]
        assert sql.approvals.get(one.id).decided_by == "bo"

    @one_of_each
    def test_what_counts_as_the_same(self, saver: Any) -> None:
        """An edit with equal arguments; a truth value is no number."""
        desk = Desk()
        agent = build(saver, desk, quorum=2)
        id = asked(agent).id
        said = [("ana", approve()), ("bo", edit({"order": 2})), ("cy", edit({"order": 3})), ("di", respond("done"))]
        for by, decision in said:
            assert saver.approvals.decide(id, decision, by=by).status == "pending"
        assert [(one.by, one.decision) for one in saver.approvals.get(id).votes] == said
        assert saver.approvals.decide(id, {"type": "edit", "args": {"order": 3}}, by="ed").status == "decided"
        with pytest.raises(AlreadyDecided) as caught:
            saver.approvals.decide(id, approve(), by="flo")
        assert caught.value.by == "ed"
        done = agent.resume("t")
        assert isinstance(done, Completed)
        assert desk.ran == ["refund 3"]

    @one_of_each
    def test_numbers_are_equal_where_their_values_are(self, saver: Any) -> None:
        id = asked(build(saver, quorum=2)).id
        said: list[Any] = [7, True, 1, {"order": [7, True]}, {"order": [7.0, 1]}, "7"]
        for n, order in enumerate(said):
            assert saver.approvals.decide(id, respond({"order": order}), by=f"p{n}").status == "pending"
        assert saver.approvals.decide(id, respond({"order": 7.0}), by="ed").status == "decided"

    @one_of_each
    def test_a_rejection_by_one_is_enough(self, saver: Any) -> None:
        desk = Desk()
        agent = build(saver, desk, quorum=3, deciders=["ana", "bo", "cy"])
        id = asked(agent).id
        saver.approvals.decide(id, approve(), by="ana")
        saver.approvals.decide(id, approve(), by="bo")
        with pytest.raises(InvalidDecision):
            saver.approvals.decide(id, reject(), by="eve")
        decided = saver.approvals.decide(id, reject("no"), by="ana")  # she has thought again
        assert (decided.status, decided.decided_by) == ("decided", "ana")
        with pytest.raises(AlreadyDecided):
            saver.approvals.decide(id, approve(), by="cy")
        assert "A person rejected this call" in agent.resume("t").answer
        assert desk.ran == []

    @one_of_each
    def test_a_vote_is_taken_back(self, saver: Any) -> None:
        agent = build(saver, quorum=2)
        id = asked(agent).id
        saver.approvals.decide(id, approve(), by="ana")
        with pytest.raises(DecisionError, match="no decision to take back"):
            saver.approvals.withdraw(id, by="bo")
        assert saver.approvals.withdraw(id, by="ana").votes == ()
        with pytest.raises(DecisionError, match="no decision to take back"):
            saver.approvals.withdraw(id, by="ana")
        saver.approvals.decide(id, edit({"order": 2}), by="ana")
        saver.approvals.decide(id, edit({"order": 2}), by="bo")
        with pytest.raises(DecisionError, match="'cy' is not among those who decided"):
            saver.approvals.withdraw(id, by="cy")
        back = saver.approvals.withdraw(id, by="ana")
        assert (back.status, [vote.by for vote in back.votes]) == ("pending", ["bo"])
        assert isinstance(agent.resume("t"), Paused)
        assert saver.approvals.decide(id, edit({"order": 2}), by="cy").status == "decided"
        assert audited(saver).count(("withdrawn", "ana")) == 2

    @one_of_each
    def test_of_many_at_once_two_are_counted(self, saver: Any) -> None:
        """Fifty threads: two votes are stored, it is decided once, and all others hear that it is."""
        id = asked(build(saver, quorum=2)).id

        def vote(n: int) -> str:
            try:
                return saver.approvals.decide(id, approve(), by=f"p{n}").status
            except AlreadyDecided as error:
                return f"after {error.by}"

        with ThreadPoolExecutor(50) as threads:
            outcomes = Counter(threads.map(vote, range(50)))
        found = saver.approvals.get(id)
        assert outcomes == {"pending": 1, "decided": 1, f"after {found.decided_by}": 48}
        assert len(found.votes) == 2
        assert Counter(event for event, _ in audited(saver)) == {"voted": 2, "decided": 1}

    @one_of_each
    def test_of_one_person_many_times_at_once_one_is_counted(self, saver: Any) -> None:
        id = asked(build(saver, quorum=2)).id

        def vote(_: int) -> str:
            try:
                return saver.approvals.decide(id, approve(), by="ana").status
            except InvalidDecision as error:
                return error.reason.partition(":")[0]

        with ThreadPoolExecutor(16) as threads:
            outcomes = Counter(threads.map(vote, range(16)))
        assert outcomes == {"pending": 1, "'ana' has voted already": 15}

    @one_of_each
    def test_votes_go_where_the_thread_goes(self, saver: Any) -> None:
        agent = build(saver, quorum=2)
        id = asked(agent).id
        saver.approvals.decide(id, edit({"order": 2}), by="ana")
        saver.copy_thread("t", "copy")
        saver.sessions.load(list(saver.sessions.export("t")), "moved")
        votes = saver.approvals.get(id, thread="t").votes
        for thread in ("copy", "moved"):
            assert saver.approvals.get(id, thread=thread).votes == votes
            assert saver.approvals.decide(id, edit({"order": 2}), by="bo", thread=thread).status == "decided"
            assert agent.resume(thread).answer.endswith("refunded 2")
            saver.sessions.delete(thread)
        assert saver.approvals.get(id).votes == votes
        v = saver.database.tables.votes
        assert len(saver.database.run(lambda conn: conn.execute(select(v)).all())) == 1

    def test_the_bare_graph_counts(self, sql: Any) -> None:
        desk = Desk()
        agent = build(sql, desk, quorum=2)
        one = asked(agent)
        agent.graph.invoke(Command(resume={one.id: {"type": "approve", "by": ["ana"]}}), CONFIG)
        assert desk.ran == []
        [one] = sql.approvals.list().items
        for by in ("ana", "bo"):
            sql.approvals.decide(one.id, approve(), by=by)
        assert agent.graph.invoke(sql.command_for("t"), CONFIG)["messages"][-1].text == "refunded 1"

    def test_the_votes_are_sealed(self, database: str) -> None:
        key = "cGFzc3dvcmRwYXNzd29yZHBhc3N3b3JkcGFzc3dvcmQ="
        with SQLCheckpointer(database, key=key) as saver:
            id = asked(build(saver, quorum=2)).id
            saver.approvals.decide(id, respond("a secret"), by="ana")
            v = saver.database.tables.votes
            [row] = saver.database.run(lambda conn: conn.execute(select(v)).all())
            assert "secret" not in row.decision
            assert saver.approvals.get(id).votes[0].decision == respond("a secret")

    def test_it_needs_a_ledger(self, memory: Any) -> None:
        with pytest.raises(ConfigurationError, match="SQLCheckpointer"):
            build(memory, quorum=2)
        agent = build(memory, when=lambda call: Policy(quorum=2))  # nobody knows before it is asked
        asked(agent)
        with pytest.raises(InvalidDecision, match="keeps no votes"):
            agent.resume("t", approve(), by="ana")
        assert "rejected" in agent.resume("t", reject(), by="ana").answer

    def test_cards_and_lists_show_it(self, sql: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from scallion.cli.verbs import scallion

        id = asked(build(sql, quorum=2, deciders=["ana", "bo"], not_requester=True), user="cy").id
        monkeypatch.setenv("SCALLION_DB", str(sql.database.url))
        monkeypatch.setenv("COLUMNS", "150")
        runs = CliRunner()
        voted = runs.invoke(scallion, ["edit", id, "--set", "order=2", "--by", "ana"]).output
        assert "edit, a vote of ana; 2 people have to decide the same" in voted
        assert "pending, 1 of 2 votes" in runs.invoke(scallion, ["pending"]).output
        runs.invoke(scallion, ["approve", id, "--by", "bo"])
        assert "pending, 1 of 2 votes" in runs.invoke(scallion, ["pending"]).output, "they said two different things"
        runs.invoke(scallion, ["withdraw", id, "--by", "bo"])
        card = runs.invoke(scallion, ["show", "t"]).output
        for line in (
            "by ana or bo",
            "not by who asked for it",
            "1 voted so far, 1 of them the same",
            "vote: edit by ana",
            '"order": 2',
        ):
            assert line in card
        shown = json.loads(runs.invoke(scallion, ["pending", "--json"]).output)["items"][0]
        assert [(one["by"], one["decision"]["args"]) for one in shown["votes"]] == [("ana", {"order": 2})]
        assert "without the vote of ana" in runs.invoke(scallion, ["withdraw", id, "--by", "ana"]).output


class TestWhatIsFrozen:
    """What the policy said at the pause holds; later it may only be stricter."""

    STRICTER = ({"deciders": ["ana"]}, {"not_requester": True}, {"quorum": 2})

    @pytest.mark.parametrize("policy", STRICTER)
    def test_a_looser_policy_later_changes_nothing(self, sql: Any, policy: Any) -> None:
        asked(build(sql, **policy), user="bo")
        with pytest.raises(InvalidDecision):
            build(sql).resume("t", approve())

    @pytest.mark.parametrize("policy", STRICTER)
    def test_a_stricter_one_is_a_change(self, drive: Drive, sql: Any, policy: Any) -> None:
        drive(build(sql)).start("go", thread="t", user="bo")
        with pytest.raises(PauseChanged, match="stricter now about who may decide"):
            drive(build(sql, **policy)).resume("t", approve(), by="ana")
        lenient = drive(build(sql, on_changed="ask", **policy))
        again, _ = lenient.resume("t", approve(), by="eve")
        assert isinstance(again, Paused)
        [one] = sql.approvals.list().items
        assert (one.deciders, one.not_requester, one.quorum) == (
            tuple(policy["deciders"]) if "deciders" in policy else None,
            policy.get("not_requester", False),
            policy.get("quorum", 1),
        )

    def test_an_edit_that_needs_more_people_is_asked_again(self, drive: Drive, sql: Any) -> None:
        desk = Desk()

        def dear(given: Any) -> Policy:
            return Policy(quorum=2) if given["args"]["order"] > 5 else Policy()

        driver = drive(build(sql, desk, when=dear))
        driver.start("go", thread="t")
        waiting, _ = driver.resume("t", edit({"order": 9}), by="ana")
        assert isinstance(waiting, Paused)
        assert (waiting.approvals[0].quorum, waiting.approvals[0].args) == (2, {"order": 9})
        assert isinstance(driver.resume("t", approve(), by="ana")[0], Paused)
        assert desk.ran == []
        assert isinstance(driver.resume("t", approve(), by="bo")[0], Completed)
        assert desk.ran == ["refund 9"]

    @one_of_each
    @pytest.mark.parametrize("root", ["c1", "c2"], ids=["other words", "the thread went on"])
    def test_something_else_under_the_same_id_has_no_votes(self, saver: Any, root: str) -> None:
        """An old voice says nothing about it, nor does who it was escalated to."""
        t = saver.database.tables

        def ask(place: str, order: int) -> None:
            terms = Policy(quorum=2, expires_in=60, on_expire="escalate:boss").terms
            wanted = payload("tool_call", "?", ("approve",), call=call("refund", order=order), expires_in=60, **terms)

            def write(conn: Any) -> None:
                session = claim(conn, t, "t", 0).no
                conn.execute(update(t.sessions).values(head=place))
                if place != "c1":
                    ledger.close(conn, t, "t", "superseded")
                asking.ask(
                    conn, t, session, Place("", place, place, "task"), [Question("q", wanted)], stamp(conn, None)
                )

            saver.database.run(write, write=True)

        ask("c1", 1)
        saver.approvals.decide("q", approve(), by="ana")
        ask("c1", 1)
        assert len(saver.approvals.get("q").votes) == 1
        ask(root, 2)
        found = saver.approvals.get("q")
        assert (found.status, found.votes, found.escalated) == ("pending", (), None)
        assert saver.approvals.decide("q", approve(), by="bo").status == "pending"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"deciders": "ana"}, "list of names"),
        ({"deciders": []}, "list of names"),
        ({"deciders": ["ana "]}, "without spaces around"),
        ({"deciders": [7]}, "list of names"),
        ({"deciders": ["ana"], "quorum": 2}, "more than the 1 deciders"),
        ({"deciders": ["ana", "ana"], "quorum": 2}, "more than the 1 deciders"),
        ({"quorum": 0}, "at least 1"),
        ({"quorum": True}, "at least 1"),
        ({"quorum": 1.5}, "at least 1"),
        ({"not_requester": "yes"}, "True or False"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Policy(**wrong)


def test_where_anybody_may_decide_nobody_has_to_be_named(drive: Drive, any_saver: Any) -> None:
    driver = drive(build(any_saver))
    driver.start("go", thread="t")
    assert driver.resume("t", approve())[0].answer == "refunded 1"
