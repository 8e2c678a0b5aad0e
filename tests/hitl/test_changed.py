"""A new deploy meets pauses of the old one: refused with what differs, or asked again; nothing loosens."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from modes import Drive, Driver
from scenes import Desk, asks, call, results

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    Filter,
    InvalidDecision,
    PauseChanged,
    Paused,
    Policy,
    SQLCheckpointer,
    approve,
    edit,
    filters,
    happened,
    pause,
    reject,
    respond,
)
from scallion.testing import ScriptedModel

REFUND = call("refund", order=1)


def passes(request: Any, state: Any, next: Any) -> Any:
    return next(request)


def gate(*args: Any, **options: Any) -> Filter:
    return filters.approval(*args, **(options or ({} if args else {"default": True})))


FIRST, GATE = Filter("first", around_tool=passes), gate()
TURN = Filter("turn", around_turn=passes)


def refund_with(**changes: Any) -> BaseTool:
    """The tool with other arguments."""
    types: dict[str, Any] = {"order": int, **changes}

    def refund(**given: Any) -> str:
        raise AssertionError("not the tool that was shown")

    properties = {name: {"type": {int: "integer", str: "string"}[kind]} for name, kind in types.items() if kind}
    required = [name for name in properties if name != "note"]
    schema = {"type": "object", "properties": properties, "required": required}
    return StructuredTool(name="refund", description="Other.", args_schema=schema, func=refund)


class Deploy:
    """The old program and the new one, on one database."""

    def __init__(self, saver: SQLCheckpointer, drive: Drive) -> None:
        self.saver, self.drive, self.desk = saver, drive, Desk()
        self.models: list[ScriptedModel] = []

    def agent(self, stack: Any, tools: Any = None, replies: Any = ("end",), **options: Any) -> Driver:
        self.models.append(ScriptedModel(list(replies)))
        return self.drive(
            Agent(
                self.models[-1],
                tools=self.desk.tools if tools is None else tools,
                filters=stack,
                checkpointer=self.saver,
                **options,
            )
        )

    def pauses(self, *stack: Filter, replies: Any = None, **options: Any) -> Paused:
        """Begin a turn with the old program, that pauses."""
        old = self.agent(stack, replies=[asks(REFUND), "old"] if replies is None else replies, **options)
        paused, _ = old.start("go", thread="t")
        assert isinstance(paused, Paused)
        return paused


@pytest.fixture
def deploy(sql: SQLCheckpointer, drive: Drive) -> Deploy:
    return Deploy(sql, drive)


def look_only(desk: Desk) -> list[BaseTool]:
    return [desk.look()]


CHANGES: dict[str, tuple[Any, Any, str]] = {
    "a filter is gone": ([GATE], None, "filter 'first' is gone"),
    "the gate is gone": ([FIRST], None, "filter 'approval' is gone"),
    "another order": ([GATE, FIRST, TURN], None, "first > approval"),
    "no tool calls any more": ([Filter("first", around_chat=passes), GATE], None, "'first' is not around tool calls"),
    "the turn's filter is gone": ([FIRST, GATE], None, "filter 'turn' is gone"),
    "another type": ([FIRST, GATE, TURN], [refund_with(order=str)], "'order' is string now, was integer"),
    "one more": ([FIRST, GATE, TURN], [refund_with(amount=int)], "'amount' is new"),
    "one less": ([FIRST, GATE, TURN], [refund_with(order=None)], "'order' is gone"),
}


class TestRefuse:
    """The default: the decision is refused before anything is stored, and says what differs."""

    @pytest.mark.parametrize("change", CHANGES)
    def test_the_difference_can_be_read(self, deploy: Deploy, change: str) -> None:
        stack, tools, told = CHANGES[change]
        paused = deploy.pauses(FIRST, GATE, TURN)
        new = deploy.agent(stack, tools)
        with pytest.raises(PauseChanged) as caught:
            new.resume("t", approve(), by="ana")
        assert told in caught.value.difference
        assert deploy.desk.ran == []
        assert deploy.saver.approvals.get(paused.approvals[0].id).status == "pending"
        assert deploy.agent([FIRST, GATE, TURN]).resume("t", approve())[0].answer == "end"
        assert deploy.desk.ran == ["refund 1"]

    def test_a_recorded_decision_is_kept(self, deploy: Deploy) -> None:
        paused = deploy.pauses(FIRST, GATE)
        deploy.saver.approvals.decide(paused.approvals[0].id, approve(), by="ana")
        with pytest.raises(PauseChanged):
            deploy.agent([GATE]).resume("t")
        row = deploy.saver.approvals.get(paused.approvals[0].id)
        assert (row.status, row.decided_by) == ("decided", "ana")
        assert deploy.agent([FIRST, GATE]).resume("t")[0].answer == "end"

    @pytest.mark.parametrize(("decision", "fits"), [(approve(), False), (edit({"order": 2}), False), (reject(), True)])
    def test_a_gate_that_allows_less(self, deploy: Deploy, decision: Any, fits: bool) -> None:
        """What it still allows may be decided."""
        deploy.pauses(GATE)
        new = deploy.agent([gate(default=Policy(("reject", "respond")))])
        if not fits:
            with pytest.raises(PauseChanged, match="'approval' allows only reject, respond"):
                new.resume("t", decision)
            decision = reject()
        assert new.resume("t", decision)[0].answer == "end"
        assert deploy.desk.ran == []

    @pytest.mark.parametrize("verdict", [False, True, Policy()])
    def test_a_gate_that_allows_more_does_not_loosen_what_was_shown(self, deploy: Deploy, verdict: Any) -> None:
        deploy.pauses(gate(default=Policy(("approve", "reject"))))
        new = deploy.agent([gate(default=verdict)])
        with pytest.raises(InvalidDecision):
            new.resume("t", edit({"order": 2}))
        assert new.resume("t", reject())[0].answer == "end"
        assert deploy.desk.ran == []

    def test_a_gate_that_fails_on_the_call(self, deploy: Deploy) -> None:
        deploy.pauses(GATE)
        with pytest.raises(PauseChanged, match="'approval' fails on this call: KeyError"):
            deploy.agent([gate(when=lambda call: call["args"]["amount"])]).resume("t", approve())
        assert deploy.desk.ran == []

    def test_a_tool_that_ran_elsewhere_and_runs_here_now(self, deploy: Deploy) -> None:
        """Its result was given by a person: the tool does not run beside that."""

        @tool
        def refund(order: int) -> str:
            """Give the money back."""
            raise AssertionError("it was done elsewhere")

        outside = refund.model_copy(update={"metadata": {"external": True}})
        deploy.pauses(tools=[outside])
        with pytest.raises(PauseChanged, match="'refund' runs here now"):
            deploy.agent([], [refund]).resume("t", respond("done"))

    def test_what_is_only_told_differently_is_no_change(self, deploy: Deploy) -> None:
        """The description of a tool and of its arguments."""
        deploy.pauses(GATE)

        def refund(order: int) -> str:
            """Give all of the money back, please."""
            return deploy.desk.ran.append("new") or "refunded"

        new = deploy.agent([GATE], [StructuredTool.from_function(refund)])
        assert new.resume("t", approve())[0].answer == "end"
        assert deploy.desk.ran == ["new"]

    def test_the_bare_graph_asks_again(self, deploy: Deploy) -> None:
        """It has nobody who refuses: an approval of other arguments is not used."""
        from langgraph.types import Command

        deploy.pauses(GATE)
        graph = deploy.agent([GATE], [refund_with(amount=int)]).agent.graph
        out = graph.invoke(Command(resume={"type": "approve"}), {"configurable": {"thread_id": "t"}})
        assert "'amount' is new" in out["__interrupt__"][0].value["problem"]


class TestAsk:
    """`on_changed="ask"`: the old approval is superseded, and the same call is asked about as it would run now."""

    def new(self, deploy: Deploy, stack: Any, tools: Any = None, **options: Any) -> Driver:
        return deploy.agent(stack, tools, on_changed="ask", **options)

    @pytest.mark.parametrize(
        ("change", "decided"),
        [*((change, "now") for change in CHANGES), ("another type", "before"), ("a filter is gone", "never")],
    )
    def test_the_same_call_is_asked_about_again(self, deploy: Deploy, change: str, decided: str) -> None:
        stack, tools, told = CHANGES[change]
        first = deploy.pauses(FIRST, GATE, TURN).approvals[0]
        if decided == "before":
            deploy.saver.approvals.decide(first.id, approve(), by="ana")
        new = self.new(deploy, stack, tools)
        again, _ = new.resume("t", approve() if decided == "now" else None)
        assert isinstance(again, Paused)
        assert deploy.desk.ran == []
        (one,) = again.approvals
        assert one.id != first.id
        assert (one.kind, one.call_id, one.tool, one.args) == ("tool_call", "c1", "refund", {"order": 1})
        assert (one.status, one.decision) == ("pending", None)
        assert one.description.startswith("Asked again: ")
        assert told in one.description
        assert set((one.args_schema or {})["properties"]) == (
            set(tools[0].args) if tools else {"order"}
        )  # as it would run now
        old = deploy.saver.approvals.get(first.id)
        assert (old.status, old.decided_by) == ("superseded", "ana" if decided == "before" else None)
        assert [one.id for one in deploy.saver.approvals.list().items] == [one.id]
        result, _ = new.resume("t", reject("no"))
        assert (result.answer, deploy.desk.ran) == ("end", [])
        assert [len(model.calls) for model in deploy.models] == [1, 1]  # the reply that asked for the call is the same
        assert deploy.saver.approvals.get(one.id).status == "used"

    @pytest.mark.parametrize("change", [one for one in CHANGES if CHANGES[one][1] is None])
    def test_the_new_approval_counts(self, deploy: Deploy, change: str) -> None:
        deploy.pauses(FIRST, GATE, TURN)
        new = self.new(deploy, CHANGES[change][0])
        new.resume("t", approve())
        result, _ = new.resume("t", approve())
        assert (result.answer, deploy.desk.ran) == ("end", ["refund 1"])

    def test_a_gate_that_lets_it_pass_now_does_not_open(self, deploy: Deploy) -> None:
        """The filters changed, and the gate would not ask any more: what waited for a person goes on waiting."""
        deploy.pauses(FIRST, GATE)
        new = self.new(deploy, [gate(default=False)])
        again, _ = new.resume("t", approve())
        assert isinstance(again, Paused)
        assert deploy.desk.ran == []
        assert new.resume("t", edit({"order": 3}))[0].answer == "end"
        assert deploy.desk.ran == ["refund 3"]

    def test_a_gate_that_allows_less(self, deploy: Deploy) -> None:
        deploy.pauses(GATE)
        new = self.new(deploy, [gate(default=Policy(("reject",)))])
        again, _ = new.resume("t", approve())
        assert isinstance(again, Paused)
        assert again.approvals[0].allowed == ("reject",)
        assert new.resume("t", reject())[0].answer == "end"
        assert deploy.desk.ran == []

    @pytest.mark.parametrize("stack", [[GATE], [gate({"look": True})]], ids=["gates all", "gates others"])
    def test_a_call_whose_tool_is_gone_is_answered(self, deploy: Deploy, stack: Any) -> None:
        first = deploy.pauses(GATE).approvals[0]
        result, _ = self.new(deploy, stack, look_only(deploy.desk)).resume("t", approve())
        assert isinstance(result, Completed)
        assert results(result.messages) == ["not run: there is no tool named 'refund' any more"]
        assert deploy.saver.approvals.get(first.id).status == "superseded"
        assert deploy.saver.approvals.list().items == []

    def test_only_what_changed_is_asked_again(self, deploy: Deploy) -> None:
        """A sibling that did not change is decided as it was, and one that ran is not run again."""
        calls = [REFUND, call("mail", "c2", to="ana"), call("look", "c3", order=3)]
        first = deploy.pauses(gate({"refund": True, "mail": True}), replies=[asks(*calls)])
        tools = [refund_with(amount=int), deploy.desk.mail(), deploy.desk.look()]
        new = self.new(deploy, [gate({"refund": True, "mail": True})], tools)
        again, _ = new.resume("t", {one.id: approve() for one in first.approvals})
        assert isinstance(again, Paused)
        assert [one.tool for one in again.approvals] == ["refund"]
        assert sorted(deploy.desk.ran) == ["look 3", "mail ana"]
        result, _ = new.resume("t", reject())
        assert (result.answer, sorted(deploy.desk.ran)) == ("end", ["look 3", "mail ana"])

    def test_it_may_change_once_more(self, deploy: Deploy) -> None:
        ids = [deploy.pauses(FIRST, GATE).approvals[0].id]
        for stack in ([GATE], [gate(name="other")], [FIRST, GATE]):
            again, _ = self.new(deploy, stack).resume("t", approve())
            assert isinstance(again, Paused)
            ids.append(again.approvals[0].id)
        assert len(set(ids)) == 4
        assert {deploy.saver.approvals.get(one).status for one in ids[:3]} == {"superseded"}
        result, _ = self.new(deploy, [FIRST, GATE]).resume("t", approve())
        assert (result.answer, deploy.desk.ran) == ("end", ["refund 1"])

    def test_what_ran_already_is_not_run_again(self, deploy: Deploy) -> None:
        """The tool had done its work when a filter asked about the result: there is no way to begin anew."""

        def checks(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            pause("was that right?", kind="tool_call", allowed=("approve",))
            return reply

        check = Filter("checks", around_tool=checks)
        first = deploy.pauses(FIRST, check).approvals[0]
        assert deploy.desk.ran == ["refund 1"]
        with pytest.raises(PauseChanged, match="ran before"):
            self.new(deploy, [check]).resume("t", approve())
        assert deploy.desk.ran == ["refund 1"]
        assert deploy.saver.approvals.get(first.id).status == "pending"
        assert self.new(deploy, [FIRST, check]).resume("t", approve())[0].answer == "end"
        assert deploy.desk.ran == ["refund 1"]

    @pytest.mark.parametrize("gone", ["filter", "tool"])
    def test_what_may_have_run_is_not_run_again(self, deploy: Deploy, gone: str) -> None:
        """A person says that it happened: nothing that is left would heed it."""
        paid: list[int] = []

        def refund(order: int) -> str:
            """Refund."""
            paid.append(order)
            raise TimeoutError

        tool, once = StructuredTool.from_function(refund), filters.once("refund")
        first = deploy.agent([once], [tool], [asks(REFUND)]).start("go", thread="t")[0].approvals[0]
        assert first.kind == "unknown_outcome"
        left: Any = ([], [tool]) if gone == "filter" else ([filters.once()], look_only(deploy.desk))
        new = self.new(deploy, *left)
        with pytest.raises(PauseChanged, match="ran before"):
            new.resume("t", happened("it is paid"))
        assert deploy.saver.approvals.get(first.id).status == "pending"
        result, _ = self.new(deploy, [FIRST, once], [tool]).resume("t", happened("it is paid"))
        assert (result.answer, paid) == ("end", [1])

    def test_what_a_tool_asks_is_asked_again_whatever_is_decided(self, deploy: Deploy) -> None:
        def asking(**given: Any) -> str:
            return f"said {pause('sure?', allowed=('approve', 'reject')).type}"

        def made(*properties: str) -> BaseTool:
            schema = {"type": "object", "properties": {name: {"type": "integer"} for name in properties}}
            return StructuredTool(name="refund", description="Asks.", args_schema=schema, func=asking)

        paused, _ = deploy.agent([], [made("order")], [asks(REFUND)]).start("go", thread="t")
        assert paused.approvals
        new = self.new(deploy, [], [made("order", "amount")])
        again, _ = new.resume("t", reject("no"))
        assert again.approvals[0].description.startswith("Asked again: ")
        assert new.resume("t", reject("no"))[0].messages[-2].text == "said reject"

    def test_what_a_person_rejects_that_nobody_would_ask_again(self, deploy: Deploy) -> None:
        first = deploy.pauses(filters.review_answer(), replies=["draft"]).approvals[0]
        with pytest.raises(PauseChanged, match="nobody would ask, and it was rejected"):
            self.new(deploy, []).resume("t", reject("nobody may read this"))
        assert deploy.saver.approvals.get(first.id).status == "pending"
        again, _ = self.new(deploy, [filters.review_answer()]).resume("t", reject("nobody may read this"))
        assert again.approvals[0].args == {"answer": "end"}

    @pytest.mark.parametrize("left", ["moved", "gone"])
    def test_a_review_of_the_model(self, deploy: Deploy, left: str) -> None:
        """The model is asked again; where nobody reviews any more, its answer stands."""

        def review(request: Any, state: Any, next: Any) -> Any:
            draft = next(request)
            said = pause(f"is {draft.message.text} right?", allowed=("approve", "respond"))
            return draft if said.type == "approve" else draft.replace(message=AIMessage(said.message))

        plain, reviews = Filter("plain", around_chat=passes), Filter("reviews", around_chat=review)
        first = deploy.pauses(plain, reviews, replies=["draft 1"]).approvals[0]
        new = self.new(deploy, [reviews, plain] if left == "moved" else [plain], replies=["draft 2"])
        result, _ = new.resume("t", respond("no"))
        assert deploy.saver.approvals.get(first.id).status == "superseded"
        if left == "moved":
            assert isinstance(result, Paused)
            assert "is draft 2 right?" in result.approvals[0].description
            result, _ = new.resume("t", approve())
        assert result.answer == "draft 2"
        assert result.usage["model_calls"] == 2

    @pytest.mark.parametrize("place", ["before", "after"])
    @pytest.mark.parametrize("left", ["moved", "gone"])
    def test_a_pause_around_the_turn(self, deploy: Deploy, place: Literal["before", "after"], left: str) -> None:
        """What the loop came to is not done again."""

        def release(request: Any, state: Any, next: Any) -> Any:
            if place == "before":
                pause("admit?", allowed=("approve",))
            out = next(request)
            if place == "after":
                pause(f"release {out.answer}?", kind="answer", allowed=("approve",))
            return out

        releases = Filter("releases", around_turn=release)
        first = deploy.pauses(TURN, releases, replies=[asks(REFUND), "end"]).approvals[0]
        assert deploy.desk.ran == ([] if place == "before" else ["refund 1"])
        replies = [] if place == "after" else [asks(REFUND), "end"]
        new = self.new(deploy, [releases, TURN] if left == "moved" else [TURN], replies=replies)
        result, _ = new.resume("t", approve())
        assert deploy.saver.approvals.get(first.id).status == "superseded"
        if left == "moved":
            assert isinstance(result, Paused)
            assert result.approvals[0].id != first.id
            assert result.approvals[0].description.startswith("Asked again: ")
            result, _ = new.resume("t", approve())
        assert (result.answer, deploy.desk.ran) == ("end", ["refund 1"])
        kept = new.agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert [one.type for one in kept] == ["human", "ai", "tool", "ai"]

    def test_without_a_ledger(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        options: dict[str, Any] = {"tools": desk.tools, "checkpointer": memory}
        drive(Agent(ScriptedModel([asks(REFUND)]), filters=[FIRST, GATE], **options)).start("go", thread="t")
        new = drive(Agent(ScriptedModel(["end"]), filters=[GATE], on_changed="ask", **options))
        again, _ = new.resume("t", approve())
        assert isinstance(again, Paused)
        assert (new.resume("t", approve())[0].answer, desk.ran) == ("end", ["refund 1"])

    def test_a_pause_that_did_not_change_is_as_ever(self, deploy: Deploy) -> None:
        deploy.pauses(GATE)
        result, _ = self.new(deploy, [GATE]).resume("t", approve())
        assert (result.answer, deploy.desk.ran) == ("end", ["refund 1"])

    def test_a_word_that_it_does_not_know(self) -> None:
        with pytest.raises(ConfigurationError, match="on_changed"):
            Agent(ScriptedModel([]), on_changed="run")  # type: ignore[arg-type]


class TestCompatible:
    """Filters and tools may be added."""

    def test_a_tool_that_became_sensitive_is_asked_about_too(self, deploy: Deploy) -> None:
        """The pause was the tool's own; the gate asks before the tool goes on."""

        @tool
        def refund(order: int) -> str:
            """Give the money back."""
            deploy.desk.ran.append(str(pause("which account?").message))
            return "refunded"

        deploy.pauses(gate({}), tools=[refund])
        marked = refund.model_copy(update={"metadata": {"sensitive": True}})
        new = deploy.agent([filters.approval()], [marked])
        again, _ = new.resume("t", respond("savings"))
        assert isinstance(again, Paused)
        assert [one.kind for one in again.approvals] == ["tool_call"]
        assert deploy.desk.ran == []
        result, _ = new.resume("t", approve())
        assert (result.answer, deploy.desk.ran) == ("end", ["savings"])

    @pytest.mark.parametrize("on_changed", ["refuse", "ask"])
    def test_filters_and_tools_were_added(self, deploy: Deploy, on_changed: Any) -> None:
        deploy.pauses(FIRST, GATE, TURN)
        more = [Filter(f"new{n}", around_turn=passes, around_chat=passes, around_tool=passes) for n in range(4)]
        stack = [more[0], FIRST, more[1], GATE, more[2], TURN, more[3]]

        @tool
        def later() -> str:
            """A new tool."""
            return ""

        new = deploy.agent(stack, [later, *deploy.desk.tools], on_changed=on_changed)
        result, _ = new.resume("t", approve())
        assert (result.answer, deploy.desk.ran) == ("end", ["refund 1"])
