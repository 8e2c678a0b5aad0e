"""Standing rules: which calls they let through or deny, how often, and that nothing uses one twice or too late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import counted, one_of_each
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from modes import MODES, Drive
from scenes import Desk, asks, call, results
from sqlalchemy import select, update
from tests.hitl.killing import all_killed, dying
from tests.modes import Driver, Mode

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    FilterActed,
    LeaseLost,
    Paused,
    Policy,
    SQLCheckpointer,
    UnknownApproval,
    WrongKey,
    approve,
    around_tool,
    filters,
    pause,
    reject,
)
from scallion.approvals.rules import Asked, Ruling
from scallion.errors import DecisionError
from scallion.sql.standing import Rules
from scallion.testing import ScriptedModel

SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
UP_TO_9 = {"properties": {"order": {"maximum": 9}}, "required": ["order"]}


def build(
    saver: Any, *calls: Any, desk: Desk | None = None, inside: Any = (), outside: Any = (), **options: Any
) -> Agent:
    """An agent that makes these calls, all of them behind a gate, and then ends."""
    gate = filters.approval(default=options.pop("policy", True))
    says = [asks(*(calls or [call("refund", order=1)])), *["end"] * options.pop("ends", 1)]
    model = ScriptedModel(options.pop("script", says))
    tools = options.pop("tools", (desk or Desk()).tools)
    return Agent(model, tools=tools, filters=[*outside, gate, *inside], checkpointer=saver, **options)


def refunds(messages: Any) -> Any:
    """A model that makes one call after each message."""
    return "end" if messages[-1].type == "tool" else asks(call("refund", order=1))


def asked(n: int = 0, *, tool: str = "refund", thread: str = "t", **args: Any) -> Asked:
    """The call number n of a thread."""
    return Asked(thread, f"call {n}", f"c{n}", ("", "1"), tool, args or {"order": 1}, SCHEMA)


def events(saver: SQLCheckpointer, *kinds: str) -> list[tuple[str, str | None]]:
    return [(one.event, one.by) for one in reversed(saver.audit.list().items) if one.event in kinds]


class TestWhatARuleSays:
    """In every mode, and on every database."""

    @one_of_each
    def test_allowed_calls_run_and_denied_ones_do_not_and_the_rest_is_asked_about(
        self, saver: SQLCheckpointer, drive: Drive
    ) -> None:
        desk = Desk()
        calls = [call("refund", "c1", order=1), call("mail", "c2", to="eva"), call("look", "c3", order=1)]
        first = saver.rules.add("refund", by="ana").id
        second = saver.rules.add("mail", "deny", by="bo").id
        driver = drive(build(saver, *calls, desk=desk))
        result, seen = driver.start("go", thread="t")
        assert [one.tool for one in result.approvals] == ["look"]
        assert desk.ran == ["refund 1"]
        result, _ = driver.resume("t", approve())
        assert results(result.messages) == [
            "refunded 1",
            "A standing rule denied this call; it did not run.",
            "order 1 is here",
        ]
        assert [one.status for one in result.messages if one.type == "tool"] == ["success", "error", "success"]
        acted = {one.action for one in seen if isinstance(one, FilterActed)}
        denied = [one.tool for one in seen if isinstance(one, FilterActed) and one.action == "deny_by_rule"]
        assert denied == (["mail"] if driver.streams else [])
        assert acted == ({"allow_by_rule", "deny_by_rule", "short_circuit"} if driver.streams else set())
        assert sorted(events(saver, "allowed", "denied")) == [
            ("allowed", f"rule {first}"),
            ("denied", f"rule {second}"),
        ]
        assert [one.used for one in saver.rules.list().items] == [1, 1]
        assert saver.audit.verify().is_whole

    @pytest.mark.parametrize(
        ("rule", "args", "runs"),
        [
            ({"args": {"order": 1}}, {"order": 1}, True),
            ({"args": {"order": 1}}, {"order": 2}, False),
            ({"args": {"order": 1}}, {"order": True}, False),
            ({"args": {"order": 1}}, {"order": 1.0}, False),
            ({"args": {"order": 1}}, {"order": 1, "more": None}, False),
            ({"pattern": UP_TO_9}, {"order": 9}, True),
            ({"pattern": UP_TO_9}, {"order": 10}, False),
            ({"pattern": UP_TO_9}, {"order": "10"}, False),  # which the tool would take for a number
            ({"pattern": UP_TO_9}, {}, False),
            ({"pattern": {"properties": {"none": {"type": "null"}}, "required": ["none"]}}, {"order": 1}, False),
            ({}, {"order": 4711}, True),
        ],
    )
    def test_exact_arguments_and_patterns(self, sql: SQLCheckpointer, rule: Any, args: Any, runs: bool) -> None:
        sql.rules.add("refund", by="ana", **rule)
        result = build(sql, call("refund", **args)).invoke("go", thread="t")
        assert isinstance(result, Completed) is runs

    def test_a_denial_beats_whatever_allows_and_denies_what_its_pattern_cannot_judge(
        self, sql: SQLCheckpointer
    ) -> None:
        sql.rules.add("refund", by="ana", args={"order": 1})
        sql.rules.add("refund", "deny", by="ana", pattern={"$ref": "#/nowhere"})
        sql.rules.add("refund", by="ana")
        desk = Desk()
        build(sql, desk=desk).invoke("go", thread="t")
        assert not desk.ran
        assert [one.used for one in sql.rules.list().items] == [0, 1, 0]

    def test_a_rule_is_about_its_tool_its_thread_and_its_owner(self, sql: SQLCheckpointer) -> None:
        sql.rules.add("look", by="ana")
        sql.rules.add("refund", by="ana", thread="t1")
        sql.rules.add("refund", by="ana", owner="eva")
        outcomes = {
            (thread, owner): type(build(sql).invoke("go", thread=thread, owner=owner))
            for thread, owner in (("t1", None), ("t2", None), ("t3", "eva"), ("t4", "tom"))
        }
        assert list(outcomes.values()) == [Completed, Paused, Completed, Paused]

    def test_where_the_policy_says_who_decides_a_rule_does_not_allow_but_denies(self, sql: SQLCheckpointer) -> None:
        people: list[dict[str, Any]] = [{"deciders": ["ana"]}, {"not_requester": True}, {"quorum": 2}]
        policies = [Policy(allowed=("edit", "reject")), *(Policy(**one) for one in people)]
        sql.rules.add("refund", by="ana")
        for n, policy in enumerate(policies):
            paused = build(sql, policy=policy).invoke("go", thread=f"t{n}", user="bo")
            with pytest.raises(DecisionError, match="makes no rule"):
                sql.rules.add_from(paused.approvals[0].id, by="ana")
        assert [one.used for one in sql.rules.list().items] == [0]
        sql.rules.add_from(paused.approvals[0].id, "always", verdict="deny", by="ana")
        desk = Desk()
        for n, policy in enumerate(policies):
            assert isinstance(build(sql, policy=policy, desk=desk).invoke("go", thread=f"u{n}", user="bo"), Completed)
        assert not desk.ran

    def test_other_savers_have_no_rules(self, drive: Drive) -> None:
        assert isinstance(drive(build(InMemorySaver())).start("go", thread="t")[0], Paused)


class TestOnce:
    """A rule is used once for a call, and what it said of a call holds."""

    def test_a_pause_behind_the_gate_uses_it_once_and_a_revocation_comes_too_late(
        self, sql: SQLCheckpointer, drive: Drive
    ) -> None:
        @around_tool
        def second_look(request: Any, state: Any, next: Any) -> Any:
            pause("sure?", allowed=("respond",))
            pause("really?", allowed=("respond",))
            return next(request)

        desk = Desk()
        rule = sql.rules.add("refund", by="ana", uses=1)
        driver = drive(build(sql, desk=desk, inside=[second_look]))
        driver.start("go", thread="t")
        sql.rules.revoke(rule.id, by="bo")
        sql.rules.add("refund", "deny", by="bo")
        for _ in range(2):
            result, _ = driver.resume("t", {"type": "respond", "message": "yes"})
        assert (type(result), desk.ran) == (Completed, ["refund 1"])
        assert [one.used for one in sql.rules.list(ended=True).items] == [1, 0]
        assert events(sql, "allowed", "denied") == [("allowed", "rule 1")]

    def test_a_turn_that_broke_off_and_is_recovered_uses_it_once(self, sql: SQLCheckpointer, drive: Drive) -> None:
        broken = []

        @around_tool
        def breaks(request: Any, state: Any, next: Any) -> Any:
            if not broken:
                broken.append(True)
                raise SystemExit("killed")
            return next(request)

        desk = Desk()
        sql.rules.add("refund", by="ana", uses=1)
        driver = drive(build(sql, desk=desk, inside=[breaks]))
        with pytest.raises(SystemExit):
            driver.start("go", thread="t")
        result, _ = driver.resume("t")
        assert (type(result), desk.ran) == (Completed, ["refund 1"])
        assert [one.used for one in sql.rules.list(ended=True).items] == [1]

    def test_a_failed_run_is_tried_again_without_another_use_and_a_second_run_is_asked_about(
        self, sql: SQLCheckpointer, drive: Drive
    ) -> None:
        ran = []

        def refund(order: int) -> str:
            """Refund."""
            ran.append(order)
            if len(ran) == 1:
                raise TimeoutError("lost")
            return "refunded"

        @around_tool
        def thrice(request: Any, state: Any, next: Any) -> Any:
            replies = [next(request) for _ in range(3)]
            return replies[-1]

        sql.rules.add("refund", by="ana")
        tools = [StructuredTool.from_function(refund)]
        driver = drive(build(sql, tools=tools, outside=[thrice]))
        result, _ = driver.start("go", thread="t")
        assert (type(result), len(ran)) == (Paused, 2)
        assert [one.used for one in sql.rules.list().items] == [1]
        result, _ = driver.resume("t", reject())
        assert (type(result), len(ran)) == (Completed, 2)

    @pytest.mark.parametrize("where", ["inside", "outside"])
    def test_a_filter_that_runs_the_call_twice_at_once_gets_one_run(
        self, sql: SQLCheckpointer, drive: Drive, where: str
    ) -> None:
        ran = []

        async def refund(order: int) -> str:
            """Refund."""
            ran.append(order)
            await asyncio.sleep(0.05)
            return "refunded"

        @around_tool
        async def both(request: Any, state: Any, next: Any) -> Any:
            replies = await asyncio.gather(next(request), next(request))
            return replies[0]

        sql.rules.add("refund", by="ana")
        tools = [StructuredTool.from_function(coroutine=refund)]
        driver = drive(build(sql, tools=tools, **{where: [both]}))
        result, _ = driver.start("go", thread="t")
        assert (type(result), ran) == (Paused, [1])
        result, _ = driver.resume("t", reject())
        assert (type(result), ran, sql.rules.list().items[0].used) == (Completed, [1], 1)

    def test_arguments_that_a_filter_changes_behind_the_gate_have_to_fit_too(
        self, sql: SQLCheckpointer, drive: Drive
    ) -> None:
        @around_tool
        def raises(request: Any, state: Any, next: Any) -> Any:
            return next(request.replace(call={**request.call, "args": {"order": request.call["args"]["order"] + 8}}))

        desk = Desk()
        sql.rules.add("refund", by="ana", pattern=UP_TO_9)
        assert isinstance(drive(build(sql, desk=desk, inside=[raises])).start("go", thread="t1")[0], Completed)
        two = call("refund", order=2)
        result, _ = drive(build(sql, two, desk=desk, inside=[raises])).start("go", thread="t2")
        assert (result.approvals[0].args, desk.ran) == ({"order": 10}, ["refund 9"])

    def test_what_waits_for_a_person_goes_on_waiting(self, sql: SQLCheckpointer, drive: Drive) -> None:
        desk = Desk()
        driver = drive(build(sql, call("refund", "c1", order=1), call("look", "c2", order=1), desk=desk))
        paused, _ = driver.start("go", thread="t")
        sql.rules.add("refund", "deny", by="ana")
        sql.rules.add("look", by="ana")
        answers = {one.id: approve() for one in paused.approvals if one.tool == "refund"}
        result, _ = driver.resume("t", answers)
        assert ([one.tool for one in result.approvals], desk.ran) == (["look"], ["refund 1"])
        assert [one.used for one in sql.rules.list().items] == [0, 0]

    def test_a_pause_that_is_asked_again_after_a_deploy_uses_no_rule_again(
        self, sql: SQLCheckpointer, drive: Drive
    ) -> None:
        """A person is asked at both gates, and the rule is not used again."""
        desk = Desk()

        def second(name: str) -> Any:
            return filters.approval({"refund": Policy(allowed=("approve", "reject"), quorum=2)}, name=name)

        sql.rules.add("refund", by="ana")
        drive(build(sql, desk=desk, inside=[second("accounting")])).start("go", thread="t")
        driver = drive(build(sql, desk=desk, inside=[second("bookkeeping")], on_changed="ask", script=refunds))
        result, _ = driver.resume("t", approve(), by="ana")
        assert ([one.description[:11] for one in result.approvals], desk.ran) == (["Asked again"], [])
        for by in ("ana", "ana", "bo"):
            result, _ = driver.resume("t", approve(), by=by)
        assert (type(result), desk.ran) == (Completed, ["refund 1"])
        assert [one.used for one in sql.rules.list().items] == [1]

    def test_who_goes_back_in_the_thread_needs_the_rule_again(self, sql: SQLCheckpointer) -> None:
        """What was allowed then was one run of the call."""
        desk = Desk()
        rule = sql.rules.add("refund", by="ana", uses=2)
        agent = build(sql, desk=desk, ends=2)
        agent.invoke("go", thread="t")
        config: Any = {"configurable": {"thread_id": "t"}}
        back = next(one.config for one in agent.graph.get_state_history(config) if "tool" in one.next)
        agent.graph.invoke(None, back)
        assert (desk.ran, sql.rules.list(ended=True).items[0].used) == (["refund 1"] * 2, 2)
        sql.rules.revoke(rule.id, by="bo")
        assert agent.graph.invoke(None, back)["__interrupt__"]
        assert len(desk.ran) == 2

    def test_who_lost_the_thread_uses_none(self, sql: SQLCheckpointer) -> None:
        sql.rules.add("refund", by="ana")
        assert sql.leases is not None
        lease = sql.leases.take("t", new=True, owner=None, bound=None)
        s = sql.database.tables.sessions
        sql.database.run(lambda conn: conn.execute(update(s).values(fence=s.c.fence + 1)), write=True)
        with pytest.raises(LeaseLost):
            sql.rules.under(lease).use(asked())
        assert sql.rules.list().items[0].used == 0


@one_of_each
def test_fifty_at_once_use_no_more_than_there_are(saver: SQLCheckpointer) -> None:
    saver.rules.add("refund", by="ana", uses=7)
    saver.rules.add("refund", by="ana", uses=13)
    with ThreadPoolExecutor(50) as threads:
        found = list(threads.map(lambda n: saver.rules.use(asked(n)), range(50)))
    assert sum(one is not None for one in found) == 20
    assert [(one.used, one.uses_left) for one in saver.rules.list(ended=True).items] == [(7, 0), (13, 0)]
    assert len(saver.audit.list(event="allowed", limit=100).items) == 20
    assert saver.audit.verify().is_whole
    assert {saver.rules.use(asked(n)) for n, one in enumerate(found) if one} == {one for one in found if one}
    assert saver.rules.use(asked(99)) is None
    assert not saver.rules.list().items


@one_of_each
def test_turns_at_once_use_no_more_than_there_are(saver: SQLCheckpointer) -> None:
    """The others are asked about."""
    desk = Desk()
    agent = build(saver, desk=desk, script=refunds)
    saver.rules.add("refund", by="ana", uses=5)
    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(lambda n: type(agent.invoke("go", thread=f"t{n}")), range(12)))
    assert (found.count(Completed), found.count(Paused), len(desk.ran)) == (5, 7, 5)
    assert len(saver.approvals.list().items) == 7


def rules_and_dies(url: str, mode: Mode, after: bool) -> None:
    """A turn whose process is killed when a rule is asked, or right after it was used."""
    with dying(Rules, "use", after=after):
        Driver(build(SQLCheckpointer(url), script=refunds), mode).start("go", thread=f"{mode} {after}")


@one_of_each
def test_a_process_that_is_killed_behind_a_use_does_not_use_it_twice(saver: SQLCheckpointer, database: str) -> None:
    """And what was allowed stays so, though the rule was revoked before the thread goes on."""
    saver.setup()
    modes = MODES if saver.database.is_sqlite else MODES[-1:]  # a process of its own takes long
    jobs = [(database, mode, True) for mode in modes] + [(database, "invoke", False)]
    rule = saver.rules.add("refund", by="ana", uses=len(jobs))
    all_killed(rules_and_dies, jobs)
    assert saver.rules.revoke(rule.id, by="bo").used == len(modes)
    desk = Desk()
    for _, mode, after in jobs:
        result, _ = Driver(build(saver, desk=desk, script=refunds), mode).resume(f"{mode} {after}")
        assert isinstance(result, Completed if after else Paused)
    assert desk.ran == ["refund 1"] * len(modes)
    assert [(one.used, one.uses_left) for one in saver.rules.list(ended=True).items] == [(len(modes), 1)]
    assert len(saver.audit.list(event="allowed").items) == len(modes)


@one_of_each
def test_a_rule_is_made_listed_and_revoked_in_both_colours(saver: SQLCheckpointer) -> None:
    rule = saver.rules.add("refund", by="ana", thread="t", uses=2, args={"order": 4711}, expires_in=60)
    assert (rule.id, rule.verdict, rule.created_by, rule.uses_left, rule.used) == (rule.id, "allow", "ana", 2, 0)
    assert rule.expires_at == rule.created_at + timedelta(seconds=60)
    other = asyncio.run(saver.rules.aadd("look", "deny", by="bo", pattern=UP_TO_9))
    assert saver.rules.list(limit=1).next == str(rule.id)
    assert asyncio.run(saver.rules.alist(after=str(rule.id))).items == [other]
    assert saver.rules.list(tool="refund").items == saver.rules.list(thread="t").items == [rule]
    assert asyncio.run(saver.rules.ause(asked(tool="look"))) == Ruling(other.id, "deny")
    gone = asyncio.run(saver.rules.arevoke(other.id, by="eva"))
    assert (gone.revoked_by, saver.rules.revoke(other.id, by="tom").revoked_by) == ("eva", "eva")
    assert saver.rules.use(asked(1, tool="look")) is None
    assert saver.rules.list().items == [rule]
    assert [one.id for one in saver.rules.list(ended=True).items] == [rule.id, other.id]
    assert events(saver, "rule_added", "rule_revoked") == [
        ("rule_added", "ana"),
        ("rule_added", "bo"),
        ("rule_revoked", "eva"),
    ]
    assert "4711" not in str([dict(one.detail) for one in saver.audit.list().items])
    with pytest.raises(DecisionError, match="no rule 99"):
        saver.rules.revoke(99, by="ana")


def test_a_rule_expires_by_the_clock(tmp_path: Path) -> None:
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    with SQLCheckpointer(f"sqlite:///{tmp_path / 'agent.db'}", clock=lambda: now[0]) as saver:
        saver.rules.add("refund", by="ana", expires_in=timedelta(hours=1))
        now[0] += timedelta(minutes=59)
        assert saver.rules.use(asked(1)) is not None
        now[0] += timedelta(minutes=1)
        assert saver.rules.use(asked(2)) is None
        assert saver.rules.use(asked(1)) is not None  # that call was allowed
        assert not saver.rules.list().items


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"verdict": "maybe"}, "allow"),
        ({"by": ""}, "name of who makes"),
        ({"tool": ""}, "names a tool"),
        ({"uses": 0}, "uses="),
        ({"uses": True}, "uses="),
        ({"expires_in": 0}, "expires_in="),
        ({"expires_in": float("nan")}, "expires_in="),
        ({"args": {"a": 1}, "pattern": {}}, "not both"),
        ({"args": [1]}, "mapping of JSON"),
        ({"args": {"a": {1, 2}}}, "mapping of JSON"),
        ({"pattern": {"type": "secret"}}, "look at type"),
        ({"pattern": {"properties": {"a": {"pattern": "("}}, "required": ["a"]}}, "look at properties/a/pattern"),
        ({"pattern": {"$ref": "https://example.com/x"}}, "nothing is fetched"),
        ({"pattern": {"properties": {"order": {"maximum": 9}}}}, "add 'order' to required"),
    ],
)
def test_what_makes_no_rule_is_refused(sql: SQLCheckpointer, options: dict[str, Any], told: str) -> None:
    given = {"tool": "refund", "by": "ana", **options}
    with pytest.raises(ConfigurationError, match=told) as error:
        sql.rules.add(given.pop("tool"), given.pop("verdict", "allow"), **given)
    assert "secret" not in str(error.value)
    assert counted(sql)["rules"] == counted(sql)["audit"] == 0


class TestFromAnApproval:
    """A rule of what was shown."""

    @pytest.mark.parametrize(
        ("options", "again", "another", "elsewhere"),
        [
            ({}, Completed, Paused, Paused),
            ({"exact": False}, Completed, Completed, Paused),
            ({"scope": "always"}, Completed, Paused, Completed),
            ({"scope": "always", "exact": False}, Completed, Completed, Completed),
        ],
    )
    def test_in_its_thread_or_always_for_its_arguments_or_any(
        self, sql: SQLCheckpointer, options: Any, again: Any, another: Any, elsewhere: Any
    ) -> None:
        paused = build(sql).invoke("go", thread="t", owner="eva")
        rule = sql.rules.add_from(paused.approvals[0].id, by="ana", **options)
        assert (rule.owner, rule.verdict, sql.approvals.get(paused.approvals[0].id).status) == (
            "eva",
            "allow",
            "pending",
        )
        build(sql).resume("t", approve())
        assert isinstance(build(sql).invoke("go", thread="t", owner="eva"), again)
        assert isinstance(build(sql, call("refund", order=2)).invoke("go", thread="t", owner="eva"), another)
        assert isinstance(build(sql).invoke("go", thread="u", owner="eva"), elsewhere)
        assert isinstance(build(sql).invoke("go", thread="v", owner="tom"), Paused)

    def test_only_of_what_a_gate_asked(self, sql: SQLCheckpointer) -> None:
        @around_tool
        def asks_itself(request: Any, state: Any, next: Any) -> Any:
            pause("sure?")
            return next(request)

        agent = Agent(
            ScriptedModel([asks(call("look", order=1))]), tools=Desk().tools, filters=[asks_itself], checkpointer=sql
        )
        question = agent.invoke("go", thread="t").approvals[0]
        with pytest.raises(DecisionError, match="makes no rule"):
            sql.rules.add_from(question.id, by="ana")
        with pytest.raises(UnknownApproval):
            asyncio.run(sql.rules.aadd_from("none", by="ana"))
        with pytest.raises(ConfigurationError, match="scope="):
            sql.rules.add_from(question.id, "ever", by="ana")  # type: ignore[arg-type]
        assert counted(sql)["rules"] == 0


def test_an_owner_sees_makes_and_revokes_their_own(sql: SQLCheckpointer) -> None:
    everybodys = sql.rules.add("refund", "deny", by="root", args={"order": 7})
    his = sql.rules.add("refund", by="root", owner="tom")
    scoped = sql.for_owner("eva")
    hers = scoped.rules.add("refund", by="eva")
    assert hers.owner == "eva"
    assert scoped.rules.list(ended=True).items == [hers]
    for one in (everybodys, his):
        with pytest.raises(DecisionError, match="no rule"):
            scoped.rules.revoke(one.id, by="eva")
    with pytest.raises(ConfigurationError, match="another one"):
        scoped.rules.add("refund", by="eva", owner="tom")
    assert isinstance(build(scoped).invoke("go", thread="t1"), Completed)
    desk = Desk()
    build(scoped, call("refund", order=7), desk=desk).invoke("go", thread="t2")  # what denies everybody denies her
    assert not desk.ran
    assert isinstance(build(sql).invoke("go", thread="t3"), Paused)


def test_the_rules_of_a_thread_go_with_it(sql: SQLCheckpointer) -> None:
    build(sql).invoke("go", thread="t")
    sql.rules.add("refund", by="ana", thread="t")
    kept = sql.rules.add("look", by="ana")
    sql.sessions.delete("t")
    assert sql.rules.list(ended=True).items == [kept]
    assert events(sql, "rule_deleted") == [("rule_deleted", None)]
    assert isinstance(build(sql).invoke("go", thread="t"), Paused)


ONE, TWO = b"1" * 32, b"2" * 32


@pytest.fixture
def sealed(database: str) -> Iterator[SQLCheckpointer]:
    """A saver with a key."""
    with SQLCheckpointer(database, key=ONE, auto_upgrade=True) as saver:
        yield saver


@one_of_each
def test_what_a_rule_says_is_sealed_with_the_key_of_the_database(sealed: SQLCheckpointer, database: str) -> None:
    r = sealed.database.tables.rules
    sealed.rules.add("refund", by="ana", pattern={"const": {"order": 4711}})
    rule = sealed.rules.add("look", "deny", by="ana", args={"order": 4711})
    for key in (ONE, TWO):
        with SQLCheckpointer(database, key=key) as saver:
            said = saver.database.run(lambda conn: conn.execute(select(r.c.pattern)).scalars().all())
            assert all(one.startswith("sealed:") and "4711" not in one for one in said)
            assert saver.rules.list(tool="look").items == [rule]
            if key == ONE:
                saver.rekey(TWO)
    with SQLCheckpointer(database, key=TWO) as saver:
        assert saver.rules.use(asked(tool="look", order=4711)) is not None
        change = update(r).where(r.c.no == rule.id).values(verdict="allow")
        saver.database.run(lambda conn: conn.execute(change), write=True)
        with pytest.raises(WrongKey, match="changed or moved"):
            saver.rules.use(asked(2, tool="look"))
        change = update(r).where(r.c.no == rule.id).values(verdict="deny")
        saver.database.run(lambda conn: conn.execute(change), write=True)
        saver.rekey(None)
        said = saver.database.run(lambda conn: conn.execute(select(r.c.pattern)).scalars().all())
        assert '"const"' in said[0]
