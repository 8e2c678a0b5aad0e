"""Which calls a person is asked about, and what becomes of each kind of decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from modes import Drive
from scenes import Desk, asks, call, results

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    Paused,
    Policy,
    approve,
    edit,
    filters,
    reject,
    respond,
)
from scallion.testing import ScriptedModel


def build(desk: Desk, saver: Any, gate: Any, *calls: Any, **options: Any) -> Agent:
    model = ScriptedModel([asks(*(calls or [call("refund", order=1)])), "end"])
    return Agent(model, tools=desk.tools, filters=[gate], checkpointer=saver, **options)


class TestWhichCalls:
    """By policy, predicate, default or mark."""

    BOTH = (call("refund", "c1", order=1), call("look", "c2", order=2))

    @pytest.mark.parametrize(
        ("gate", "asked"),
        [
            ({"policies": {"refund": True}}, ["refund"]),
            ({"policies": {"refund": True, "look": False}}, ["refund"]),
            ({"policies": {"refund": Policy(), "look": True}}, ["refund", "look"]),
            ({"policies": {"refund": False}}, []),
            ({"policies": {"refund": False}, "default": True}, ["look"]),
            ({"default": True}, ["refund", "look"]),
            ({"default": Policy(("approve",))}, ["refund", "look"]),
            ({"when": lambda call: call["args"]["order"] > 1}, ["look"]),
            ({"when": lambda call: None, "default": True}, ["refund", "look"]),
            ({"when": lambda call: False, "default": True}, []),
            ({"policies": {"refund": False}, "when": lambda call: True}, ["look"]),
            ({}, []),
        ],
    )
    def test_the_gate_asks_about_these(self, drive: Drive, memory: Any, gate: Any, asked: list[str]) -> None:
        desk = Desk()
        outcome, _ = drive(build(desk, memory, filters.approval(**gate), *self.BOTH)).start("go", thread="t")
        assert [one.tool for one in (outcome.approvals if isinstance(outcome, Paused) else [])] == asked
        assert sorted(one.split()[0] for one in desk.ran) == sorted({"refund", "look"} - set(asked))

    def test_tools_marked_sensitive_are_asked_about_by_default(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        tools = desk.tools
        tools[0].metadata = {"sensitive": True}
        model = ScriptedModel([asks(*self.BOTH), "end"])
        agent = Agent(model, tools=tools, filters=[filters.approval()], checkpointer=memory)
        paused, _ = drive(agent).start("go", thread="t")
        assert [one.tool for one in paused.approvals] == ["refund"]
        assert desk.ran == ["look 2"]

    def test_a_typing_mistake_in_a_policy_fails_where_the_agent_is_built(self, memory: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"'approval'.*'refnd'.*look, mail, refund"):
            build(Desk(), memory, filters.approval({"refnd": True}))

    def test_a_predicate_that_crashes_keeps_the_gate_closed(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        gate = filters.approval(when=lambda call: call["args"]["amount"] > 1)
        with pytest.raises(Exception, match="approval"):
            drive(build(desk, memory, gate)).start("go", thread="t")
        assert desk.ran == []

    def test_a_predicate_that_gives_no_verdict_keeps_the_gate_closed(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        with pytest.raises(Exception, match="True, False or a Policy"):
            drive(build(desk, memory, filters.approval(when=lambda call: "yes"))).start("go", thread="t")
        assert desk.ran == []

    def test_the_approval_shows_what_the_person_needs(self, drive: Drive, sql: Any) -> None:
        policy = Policy(("approve", "reject"), describe=lambda call: f"order {call['args']['order']}", expires_in=60)
        agent = build(Desk(), sql, filters.approval({"refund": policy}))
        paused, _ = drive(agent).start("go", thread="t", owner="shop", user="ana")
        (one,) = paused.approvals
        assert (one.kind, one.tool, one.call_id, one.args) == ("tool_call", "refund", "c1", {"order": 1})
        assert (one.allowed, one.description, one.path) == (("approve", "reject"), "order 1", ("approval",))
        assert (one.owner, one.requested_by, one.thread, one.status) == ("shop", "ana", "t", "pending")
        assert one.args_schema is not None
        assert set(one.args_schema["properties"]) == {"order"}
        assert one.expires_at is not None
        assert one.created_at is not None
        assert 59 < (one.expires_at - one.created_at).total_seconds() < 61
        listed = sql.approvals.get(one.id)
        assert listed.replace(created_at=one.created_at) == one


class TestWhatIsDecided:
    """approve, edit, reject and respond, in each mode."""

    def decided(self, drive: Drive, saver: Any, decision: Any, desk: Desk, *calls: Any) -> Completed:
        driver = drive(build(desk, saver, filters.approval(default=True), *calls))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        assert desk.ran == []
        result, _ = driver.resume("t", decision, by="ana")
        assert isinstance(result, Completed)
        return result

    def test_approve(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        result = self.decided(drive, memory, approve(), desk)
        assert (results(result.messages), desk.ran) == (["refunded 1"], ["refund 1"])

    def test_edit_runs_the_new_arguments_and_the_model_is_told(self, drive: Drive, memory: Any) -> None:
        """What ran is in the result; the call that the model made stays in the history as it was."""
        desk = Desk()
        result = self.decided(drive, memory, edit({"order": 42}), desk)
        assert desk.ran == ["refund 42"]
        (told,) = results(result.messages)
        assert "A person changed this call" in told
        assert '{"order": 42}' in told
        assert told.endswith("refunded 42")
        assert result.messages[1].tool_calls[0]["args"] == {"order": 1}

    @pytest.mark.parametrize("reason", [None, "too much"])
    def test_reject(self, drive: Drive, memory: Any, reason: str | None) -> None:
        desk = Desk()
        result = self.decided(drive, memory, reject(reason), desk)
        message = next(one for one in result.messages if isinstance(one, ToolMessage))
        assert desk.ran == []
        assert message.status == "error"
        assert "rejected" in message.text
        assert (reason or "did not run") in message.text

    @pytest.mark.parametrize("answer", ["it is done", {"ok": True}, ""])
    def test_respond(self, drive: Drive, memory: Any, answer: Any) -> None:
        desk = Desk()
        result = self.decided(drive, memory, respond(answer), desk)
        assert desk.ran == []
        assert results(result.messages) == ['{"ok": true}' if isinstance(answer, dict) else answer]

    @pytest.mark.parametrize("kind", ["subclass", "async subclass", "async function", "function"])
    def test_a_rejected_call_never_runs_whatever_the_tool_is(self, drive: Drive, memory: Any, kind: str) -> None:
        ran: list[str] = []

        class Own(BaseTool):
            name: str = "tool"
            description: str = "A tool of one's own."

            def _run(self, order: int) -> str:
                ran.append("x")
                return "x"

        class AsyncOwn(BaseTool):
            name: str = "tool"
            description: str = "A tool of one's own."

            def _run(self, order: int) -> str:
                raise NotImplementedError

            async def _arun(self, order: int) -> str:
                ran.append("x")
                return "x"

        def function(order: int) -> str:
            """A tool."""
            ran.append("x")
            return "x"

        async def afunction(order: int) -> str:
            """A tool."""
            ran.append("x")
            return "x"

        tool = {
            "subclass": Own(),
            "async subclass": AsyncOwn(),
            "function": StructuredTool.from_function(function, name="tool"),
            "async function": StructuredTool.from_function(coroutine=afunction, name="tool"),
        }[kind]
        model = ScriptedModel([asks(call("tool", "c1", order=1), call("tool", "c2", order=2)), "end"])
        driver = drive(Agent(model, tools=[tool], filters=[filters.approval(default=True)], checkpointer=memory))
        paused, _ = driver.start("go", thread="t")
        decisions = {paused.approvals[0].id: reject(), paused.approvals[1].id: approve()}
        assert driver.resume("t", decisions)[0].answer == "end"
        assert ran == ["x"]

    def test_one_question_per_call(self, drive: Drive, memory: Any) -> None:
        """An approved call is not asked about again, nor is its result."""
        desk = Desk()
        gate = filters.approval(default=True)
        model = ScriptedModel([asks(call("refund", "c1", order=1)), asks(call("refund", "c2", order=1)), "end"])
        driver = drive(Agent(model, tools=desk.tools, filters=[gate], checkpointer=memory))
        outcome, _ = driver.start("go", thread="t")
        ids = []
        while isinstance(outcome, Paused):
            ids += [(one.id, one.call_id) for one in outcome.approvals]
            outcome, _ = driver.resume("t", approve())
        assert [one for _, one in ids] == ["c1", "c2"]
        assert len({one for one, _ in ids}) == 2
        assert desk.ran == ["refund 1"] * 2

    def test_an_unknown_tool_may_be_gated_too(self, drive: Drive, memory: Any) -> None:
        driver = drive(build(Desk(), memory, filters.approval(default=True), call("nothing", x=1)))
        paused, _ = driver.start("go", thread="t")
        assert [one.tool for one in paused.approvals] == ["nothing"]
        result, _ = driver.resume("t", approve())
        assert "no tool named 'nothing'" in results(result.messages)[0]


class TestPartialDecisions:
    """Parallel calls are decided one by one, in any order."""

    CALLS = (call("refund", "c1", order=1), call("look", "c2", order=2), call("mail", "c3", to="bo"))

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
    def test_each_runs_when_it_is_decided_and_once(self, drive: Drive, memory: Any, order: Any) -> None:
        desk = Desk()
        driver = drive(build(desk, memory, filters.approval(default=True), *self.CALLS))
        outcome, _ = driver.start("go", thread="t")
        by_call = {one.call_id: one.id for one in outcome.approvals}
        ran = ["refund 1", "look 2", "mail bo"]
        for done, n in enumerate(order):
            assert [one.call_id for one in outcome.approvals] == [
                f"c{m + 1}" for m in range(3) if m not in order[:done]
            ]
            assert {one.id for one in outcome.approvals} <= set(by_call.values())
            outcome, _ = driver.resume("t", {by_call[f"c{n + 1}"]: approve()})
            assert desk.ran == [ran[m] for m in order[: done + 1]]
        assert isinstance(outcome, Completed)
        assert results(outcome.messages) == ["refunded 1", "order 2 is here", "sent hello to bo"]

    def test_each_with_a_decision_of_its_own(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        driver = drive(build(desk, memory, filters.approval(default=True), *self.CALLS))
        paused, _ = driver.start("go", thread="t")
        ids = [one.id for one in paused.approvals]
        result, _ = driver.resume("t", {ids[2]: reject("no"), ids[0]: edit({"order": 9}), ids[1]: respond("seen")})
        assert desk.ran == ["refund 9"]
        first, second, third = results(result.messages)
        assert first.endswith("refunded 9")
        assert second == "seen"
        assert "no" in third

    def test_a_finished_sibling_is_not_run_again(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        gate = filters.approval({"refund": True})
        driver = drive(build(desk, memory, gate, *self.CALLS))
        paused, _ = driver.start("go", thread="t")
        assert [one.tool for one in paused.approvals] == ["refund"]
        assert sorted(desk.ran) == ["look 2", "mail bo"]
        driver.resume("t", approve())
        assert sorted(desk.ran) == ["look 2", "mail bo", "refund 1"]


FORMS: dict[str, tuple[Any, list[str]]] = {
    "json": ({"type": "approve"}, ["refund 1"]),
    "json edit": ({"type": "edit", "args": {"order": 5}}, ["refund 5"]),
    "json reject": ({"type": "reject", "message": "no"}, []),
    "langchain approve": ({"decisions": [{"type": "approve"}]}, ["refund 1"]),
    "langchain reject": ({"decisions": [{"type": "reject", "message": "no"}]}, []),
    "langchain edit": (
        {"decisions": [{"type": "edit", "edited_action": {"name": "refund", "args": {"order": 5}}}]},
        ["refund 5"],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_decisions_may_be_plain_json_and_langchains(drive: Drive, memory: Any, form: str) -> None:
    """For all that pend, or by approval id."""
    given, ran = FORMS[form]
    for by_id in (False, True):
        if by_id and "decisions" in given:
            given = given["decisions"][0]
        desk = Desk()
        driver = drive(build(desk, memory, filters.approval(default=True)))
        paused, _ = driver.start("go", thread=f"t{by_id}")
        result, _ = driver.resume(f"t{by_id}", {paused.approvals[0].id: given} if by_id else given)
        assert (result.answer, desk.ran) == ("end", ran)


def test_langchains_list_goes_by_the_order_of_the_calls(drive: Drive, memory: Any) -> None:
    """One decision too few or too many is refused."""
    desk = Desk()
    calls = [call("refund", "c1", order=1), call("refund", "c2", order=2)]
    driver = drive(build(desk, memory, filters.approval(default=True), *calls))
    driver.start("go", thread="t")
    for wrong in ([{"type": "approve"}], [{"type": "approve"}] * 3, []):
        with pytest.raises(Exception, match="2 open approvals"):
            driver.resume("t", {"decisions": wrong})
    driver.resume("t", {"decisions": [{"type": "reject"}, {"type": "approve"}]})
    assert desk.ran == ["refund 2"]


def test_the_payload_can_be_read_by_a_langchain_client(drive: Drive, sql: Any) -> None:
    """Field names of `ToolApprovalRequest`, in the interrupt of the graph itself."""
    agent = build(Desk(), sql, filters.approval(default=True))
    drive(agent).start("go", thread="t")
    (one,) = agent.graph.get_state({"configurable": {"thread_id": "t"}}).interrupts
    value: Mapping[str, Any] = one.value
    assert (value["type"], value["tool_call_id"], value["name"]) == ("tool_approval", "c1", "refund")
    assert (value["args"], value["description"]) == ({"order": 1}, "The agent wants to call refund.")


@pytest.mark.timeout(60, method="thread")
@pytest.mark.parametrize(
    ("any_saver", "at_once"), [("memory", None), ("sqlite", None), ("sqlite", 1), ("sqlite", 3)], indirect=["any_saver"]
)
def test_more_calls_than_run_at_once_pause(drive: Drive, any_saver: Any, at_once: int | None) -> None:
    """LangGraph has four threads more than processors; each of these calls has to keep something as it pauses."""
    desk, calls = Desk(), [call("look", f"c{n}", order=n) for n in range(40)]
    gate = filters.approval({"look": True})
    driver = drive(build(desk, any_saver, gate, *calls, tool_concurrency=at_once))
    result, _ = driver.start("look", thread="t")
    assert isinstance(result, Paused)
    assert len(result.approvals) == 40
    result, _ = driver.resume("t", {result.approvals[0].id: approve()})
    assert isinstance(result, Paused)
    assert len(result.approvals) == 39
    result, _ = driver.resume("t", approve())
    assert isinstance(result, Completed)
    assert len(results(result.messages)) == 40
