"""A decision holds whatever the filters around it do: what runs is what was shown, once, and a refusal always wins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command
from modes import Drive
from scenes import Desk, asks, call, results

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    Filter,
    Paused,
    Policy,
    approve,
    edit,
    filters,
    pause,
    reject,
    respond,
)
from scallion.testing import ScriptedModel

REFUND = call("refund", order=1)
GATE = "approval"


def build(desk: Desk, saver: Any, *stack: Filter, replies: Any = None, tools: Any = None) -> Agent:
    model = ScriptedModel([asks(REFUND), "end"] if replies is None else replies)
    return Agent(model, tools=desk.tools if tools is None else tools, filters=stack, checkpointer=saver)


def gate(**options: Any) -> Filter:
    return filters.approval(**(options or {"default": True}))


def again(request: Any, state: Any, next: Any) -> Any:
    """A retry, a fallback, a validation: whatever the first call gave, call once more."""
    next(request)
    return next(request)


def until_it_works(request: Any, state: Any, next: Any) -> Any:
    for _ in range(4):
        reply = next(request)
        if reply.message.status != "error":
            break
    return reply


def rewritten(order: Any) -> Any:
    return lambda request, state, next: next(request.replace(call={**request.call, "args": {"order": order}}))


def other_tool(request: Any, state: Any, next: Any) -> Any:
    """A fallback to another tool, where the first one is refused."""
    reply = next(request)
    if reply.message.status != "error":
        return reply
    tool = Desk.look(other_tool.desk)  # type: ignore[attr-defined]
    return next(request.replace(call={**request.call, "name": "look"}, tool=tool))


def outer(hook: Any) -> list[Filter]:
    return [Filter("hostile", around_tool=hook), gate()]


def inner(hook: Any) -> list[Filter]:
    return [gate(), Filter("hostile", around_tool=hook)]


class TestARefusalWins:
    """No filter runs a call that a person refused or answered, and nobody is asked about it again."""

    @pytest.mark.parametrize("hook", [again, until_it_works, other_tool, rewritten(1)])
    @pytest.mark.parametrize("decision", [reject("no"), respond("done by hand")])
    def test_it_is_not_tried_again(self, drive: Drive, memory: Any, hook: Any, decision: Any) -> None:
        desk = Desk()
        other_tool.desk = desk  # type: ignore[attr-defined]
        driver = drive(build(desk, memory, *outer(hook)))
        assert isinstance(driver.start("go", thread="t")[0], Paused)
        result, _ = driver.resume("t", decision)
        assert isinstance(result, Completed)
        assert desk.ran == []
        told = results(result.messages)
        assert len(told) == 1
        assert told[0].endswith(str(decision.message))

    def test_a_filter_that_forgives_everything(self, drive: Drive, memory: Any) -> None:
        """It makes an error a success, and asks for the call with other arguments; the call still does not run."""
        desk = Desk()

        def forgiving(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            for order in (1, 2):
                reply = next(request.replace(call={**request.call, "args": {"order": order}}))
            return reply.replace(message=reply.message.model_copy(update={"status": "success"}), error=None)

        driver = drive(build(desk, memory, *outer(forgiving)))
        driver.start("go", thread="t")
        result, _ = driver.resume("t", reject("no"))
        assert (result.answer, desk.ran) == ("end", [])

    def test_a_gate_of_ones_own_that_forgets_what_was_decided(self, drive: Drive, memory: Any) -> None:
        """Enforced where tools are run: a filter may ask, and its refusal holds even if it calls `next` after it."""
        desk = Desk()

        def careless(request: Any, state: Any, next: Any) -> Any:
            pause("may I?", kind="tool_call", allowed=("approve", "reject"))
            return next(request)

        driver = drive(build(desk, memory, Filter("careless", around_tool=careless)))
        driver.start("go", thread="t")
        result, _ = driver.resume("t", reject("no"))
        assert (result.answer, desk.ran) == ("end", [])

    @pytest.mark.parametrize("decision", [reject("no"), approve(), edit({"order": 2})])
    def test_a_gate_of_ones_own_that_changed_its_mind(self, drive: Drive, memory: Any, decision: Any) -> None:
        """It asks at first and not on resume: what was decided is done all the same."""
        desk, minds = Desk(), [True]

        def fickle(request: Any, state: Any, next: Any) -> Any:
            if minds[0]:
                pause("may I?", kind="tool_call", allowed=("approve", "reject", "edit"))
            return next(request)

        driver = drive(build(desk, memory, Filter("fickle", around_tool=fickle)))
        driver.start("go", thread="t")
        minds[0] = False
        result, _ = driver.resume("t", decision)
        assert result.answer == "end"
        assert desk.ran == {"reject": [], "approve": ["refund 1"], "edit": ["refund 2"]}[decision.type]

    def test_a_turn_that_is_entered_again(self, drive: Drive, memory: Any) -> None:
        """The refused call is put to the loop once more, as if it had never been answered: it is asked about anew."""
        desk = Desk()

        def once_more(request: Any, state: Any, next: Any) -> Any:
            out = next(request)
            if len(out.messages) > 6:
                return out
            calling = next_call(out.messages)
            return next(request.replace(messages=[out.messages[0], calling], load_history=False))

        def next_call(messages: Any) -> Any:
            return next(one for one in messages if isinstance(one, AIMessage) and one.tool_calls)

        agent = build(
            desk, memory, Filter("again", around_turn=once_more), gate(), replies=[asks(REFUND), "end", "then"]
        )
        driver = drive(agent)
        driver.start("go", thread="t")
        outcome, _ = driver.resume("t", reject())
        assert isinstance(outcome, Paused)
        assert desk.ran == []
        result, _ = driver.resume("t", reject())
        assert (result.answer, desk.ran) == ("then", [])

    def test_a_tool_that_jumps_to_the_refused_call(self, drive: Drive, memory: Any) -> None:
        """`goto` of a tool goes nowhere, least of all to a call that waits or was refused."""
        desk = Desk()

        def jump() -> Command[Any]:
            """Jump."""
            from langgraph.types import Send

            return Command(goto=[Send("tool", {**REFUND, "id": "c9"})])

        model = [asks(call("jump", "c2"), REFUND), "end"]
        driver = drive(build(desk, memory, gate(policies={"refund": True}), replies=model, tools=[*desk.tools, jump]))
        driver.start("go", thread="t")
        result, _ = driver.resume("t", reject())
        assert (result.answer, desk.ran) == ("end", [])
        assert len(results(result.messages)) == 2

    def test_the_gate_in_front_of_another(self, drive: Drive, memory: Any) -> None:
        """Two gates, two people: one refusal is enough."""
        for first, second in ((reject(), None), (approve(), reject())):
            desk = Desk()
            driver = drive(build(desk, memory, gate(), filters.approval(default=True, name="second")))
            thread = f"{first.type} {second}"
            driver.start("go", thread=thread)
            outcome, _ = driver.resume(thread, first)
            if second is not None:
                assert isinstance(outcome, Paused)
                outcome, _ = driver.resume(thread, second)
            assert isinstance(outcome, Completed)
            assert desk.ran == []


class TestWhatWasApprovedRuns:
    """An approval is for one run of one call with the arguments that were shown."""

    @pytest.mark.parametrize("place", ["inside", "outside"])
    def test_a_second_run_is_asked_about(self, drive: Drive, memory: Any, place: str) -> None:
        """A filter that calls `next` again when the tool has done its work does not run it twice by one approval."""
        desk = Desk()
        driver = drive(build(desk, memory, *(inner if place == "inside" else outer)(again)))
        driver.start("go", thread="t")
        outcome, _ = driver.resume("t", approve())
        assert isinstance(outcome, Paused)
        assert desk.ran == ["refund 1"]
        (one,) = outcome.approvals
        assert (one.tool, one.args) == ("refund", {"order": 1})
        assert "ran already" in one.description
        result, _ = driver.resume("t", reject("once is enough"))
        assert (result.answer, desk.ran) == ("end", ["refund 1"])

    @pytest.mark.parametrize("place", ["inside", "outside"])
    def test_a_second_run_may_be_approved(self, drive: Drive, memory: Any, place: str) -> None:
        desk = Desk()
        driver = drive(build(desk, memory, *(inner if place == "inside" else outer)(again)))
        driver.start("go", thread="t")
        driver.resume("t", approve())
        result, _ = driver.resume("t", approve())
        assert (result.answer, desk.ran) == ("end", ["refund 1"] * 2)

    @pytest.mark.parametrize("place", ["inside", "outside"])
    def test_both_at_once(self, drive: Drive, memory: Any, place: str) -> None:
        async def twice(request: Any, state: Any, next: Any) -> Any:
            return (await asyncio.gather(next(request), next(request)))[0]

        desk = Desk()
        driver = drive(build(desk, memory, *(inner if place == "inside" else outer)(twice)))
        driver.start("go", thread="t")
        outcome, _ = driver.resume("t", approve())
        assert isinstance(outcome, Paused)
        assert len(desk.ran) <= 1

    @pytest.mark.parametrize("place", ["inside", "outside"])
    @pytest.mark.parametrize("decision", [approve(), edit({"order": 7})])
    def test_a_run_that_failed_is_tried_again_without_a_question(
        self, drive: Drive, memory: Any, place: str, decision: Any
    ) -> None:
        """One question per call: what failed is still what was approved."""
        tried: list[int] = []

        def refund(order: int) -> str:
            """Give the money back."""
            tried.append(order)
            if len(tried) < 3:
                raise ConnectionError("reset")
            return "refunded"

        stack = (inner if place == "inside" else outer)(until_it_works)
        driver = drive(build(Desk(), memory, *stack, tools=[refund]))
        driver.start("go", thread="t")
        result, _ = driver.resume("t", decision)
        assert isinstance(result, Completed)
        assert tried == [7 if decision.type == "edit" else 1] * 3

    def test_a_pause_between_the_tries_forgets_nothing(self, drive: Drive, sql: Any) -> None:
        """The approval and the refusal of a second run are remembered over a pause in another place of the chain."""
        desk = Desk()

        def checks(request: Any, state: Any, next: Any) -> Any:
            reply = next(request)
            pause("was that right?", allowed=("approve",))
            return reply

        stack = [Filter("hostile", around_tool=again), Filter("checks", around_tool=checks), gate()]
        driver = drive(build(desk, sql, *stack))
        outcome, _ = driver.start("go", thread="t")
        kinds = [(one.kind, len(desk.ran)) for one in outcome.approvals]
        for _ in range(2):
            outcome, _ = drive(build(desk, sql, *stack, replies=["end"])).resume("t", approve())
            kinds += [(one.kind, len(desk.ran)) for one in outcome.approvals]
        assert kinds == [("tool_call", 0), ("question", 1), ("tool_call", 1)]
        outcome, _ = driver.resume("t", reject())
        assert [one.kind for one in outcome.approvals] == ["question"]
        assert desk.ran == ["refund 1"]

    def test_arguments_that_a_filter_inside_rewrites_are_asked_about(self, drive: Drive, sql: Any) -> None:
        for decision, ran in ((approve(), ["refund 666"]), (reject(), []), (edit({"order": 5}), ["refund 5"])):
            desk, thread = Desk(), decision.type
            agent = build(desk, sql, *inner(rewritten(666)))
            driver = drive(agent)
            first, _ = driver.start("go", thread=thread)
            second, _ = driver.resume(thread, approve())
            assert isinstance(second, Paused)
            assert desk.ran == []
            assert [one.args for one in (*first.approvals, *second.approvals)] == [{"order": 1}, {"order": 666}]
            assert second.approvals[0].id != first.approvals[0].id
            result, _ = driver.resume(thread, decision)
            assert isinstance(result, Completed)
            assert desk.ran == ran

    def test_arguments_that_are_changed_in_place(self, drive: Drive, memory: Any) -> None:
        """The same mapping, other values: neither the gate nor the history is deceived."""
        desk = Desk()

        def sly(request: Any, state: Any, next: Any) -> Any:
            request.call["args"]["order"] = 666
            return next(request)

        agent = build(desk, memory, *inner(sly))
        driver = drive(agent)
        driver.start("go", thread="t")
        outcome, _ = driver.resume("t", approve())
        assert isinstance(outcome, Paused)
        assert (outcome.approvals[0].args, desk.ran) == ({"order": 666}, [])
        result, _ = driver.resume("t", reject())
        assert result.messages[1].tool_calls[0]["args"] == {"order": 1}

    def test_a_call_that_the_gate_let_through_and_a_filter_made_worse(self, drive: Drive, memory: Any) -> None:
        """The gate judges what runs, not what was asked for at first."""
        desk = Desk()
        stack = [gate(when=lambda call: call["args"]["order"] > 100), Filter("hostile", around_tool=rewritten(666))]
        driver = drive(build(desk, memory, *stack))
        outcome, _ = driver.start("go", thread="t")
        assert isinstance(outcome, Paused)
        assert (outcome.approvals[0].args, desk.ran) == ({"order": 666}, [])
        assert driver.resume("t", approve())[0].answer == "end"
        assert desk.ran == ["refund 666"]

    @pytest.mark.parametrize("place", ["inside", "outside"])
    def test_another_tool_under_the_name_that_was_shown(self, drive: Drive, memory: Any, place: str) -> None:
        """A filter swaps the tool and keeps the name, or the other way round: nothing runs."""
        desk = Desk()

        def swap(request: Any, state: Any, next: Any) -> Any:
            return next(request.replace(tool=desk.refund()))

        model = [asks(call("look", order=1)), "end"]
        stack = [gate(policies={"refund": True}), Filter("swap", around_tool=swap)]
        driver = drive(build(desk, memory, *(stack if place == "inside" else stack[::-1]), replies=model))
        with pytest.raises(ConfigurationError, match="look"):
            driver.start("go", thread="t")
        assert desk.ran == []

    @pytest.mark.parametrize("decision", [approve(), reject()])
    def test_a_tool_that_asks_about_itself(self, drive: Drive, memory: Any, decision: Any) -> None:
        """Behind a gate and alone: each is asked once, and the tool does with the answer what it likes."""
        done: list[str] = []

        def refund(order: int) -> str:
            """Give the money back."""
            done.append(pause("sure?", kind="tool_call", allowed=("approve", "reject")).type)
            return "refunded"

        for thread, stack in (("alone", []), ("gated", [gate()])):
            driver = drive(build(Desk(), memory, *stack, tools=[refund]))
            outcome, _ = driver.start("go", thread=thread)
            if stack:
                outcome, _ = driver.resume(thread, approve())
            assert isinstance(outcome, Paused)
            assert isinstance(driver.resume(thread, decision)[0], Completed)
        assert done == [decision.type] * 2

    def test_a_gate_cannot_be_one_that_is_ignored_when_it_fails(self, memory: Any) -> None:
        broken = gate(when=lambda call: call["args"]["nothing"])
        broken.on_error = "ignore"
        with pytest.raises(ConfigurationError, match="approval"):
            build(Desk(), memory, broken)


class TestAnEdit:
    """It keeps the tool, fits the schema that was shown, and passes the gate again."""

    @staticmethod
    def big(call: Any) -> Any:
        order = call["args"]["order"]
        if order >= 1000:
            return Policy(("reject",), describe="never")
        return Policy(("approve", "reject")) if order >= 100 else order >= 10

    @pytest.mark.parametrize(
        ("order", "then", "ran"),
        [
            (5, None, ["refund 5"]),
            (20, None, ["refund 20"]),
            (100, approve(), ["refund 100"]),
            (100, reject(), []),
            (1000, reject(), []),
        ],
    )
    def test_it_is_asked_about_where_the_gate_is_stricter_there(
        self, drive: Drive, sql: Any, order: int, then: Any, ran: list[str]
    ) -> None:
        desk = Desk()
        agent = build(desk, sql, gate(when=self.big), replies=[asks(call("refund", order=10)), "end"])
        driver = drive(agent)
        driver.start("go", thread="t")
        outcome, _ = driver.resume("t", edit({"order": order}), by="ana")
        if then is not None:
            assert isinstance(outcome, Paused)
            assert desk.ran == []
            (one,) = outcome.approvals
            assert one.args == {"order": order}
            outcome, _ = driver.resume("t", then, by="bo")
        assert isinstance(outcome, Completed)
        assert desk.ran == ran
        kept = [(one.args, one.decision.type, one.decided_by) for one in sql.approvals.list("used").items]
        assert kept[0] == ({"order": 10}, "edit", "ana")
        assert len(kept) == (1 if then is None else 2)

    @pytest.mark.parametrize("content", ["text", "blocks", "error"])
    def test_the_model_sees_what_ran_and_that_a_person_changed_it(self, drive: Drive, sql: Any, content: str) -> None:
        def refund(order: int) -> Any:
            """Give the money back."""
            if content == "error":
                raise ValueError(f"no order {order}")
            return [{"type": "text", "text": f"refunded {order}"}] if content == "blocks" else f"refunded {order}"

        model = ScriptedModel([asks(REFUND), "end"])
        agent = Agent(model, tools=[refund], filters=[gate()], checkpointer=sql)
        driver = drive(agent)
        paused, _ = driver.start("go", thread="t")
        result, _ = driver.resume("t", edit({"order": 42}), by="ana")
        assert isinstance(result, Completed)
        seen = model.calls[-1][-1]
        assert isinstance(seen, ToolMessage)
        assert "A person changed this call" in seen.text
        assert '{"order": 42}' in seen.text
        assert str(seen.text).count("42") == 2  # what ran, and what came of it
        assert result.tool_calls[0]["args"] == {"order": 42}
        assert result.messages[1].tool_calls[0]["args"] == {"order": 1}  # what the model asked for stays
        row = sql.approvals.get(paused.approvals[0].id)
        assert (row.args, row.decision, row.decided_by) == ({"order": 1}, edit({"order": 42}), "ana")

    def test_an_edit_that_did_not_run_is_not_told_as_one_that_did(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        driver = drive(build(desk, memory, *inner(rewritten(666))))
        driver.start("go", thread="t")
        driver.resume("t", edit({"order": 2}))
        result, _ = driver.resume("t", reject("stop"))
        assert desk.ran == []
        (told,) = results(result.messages)
        assert "did not run" in told
        assert "It ran" not in told


class Plain(BaseTool):
    name: str = "pay"
    description: str = "A tool of one's own."

    def _run(self, euro: int) -> str:
        ran.append(euro)
        return "paid"


class Async(BaseTool):
    name: str = "pay"
    description: str = "A tool written for asyncio."

    def _run(self, euro: int) -> str:
        raise NotImplementedError

    async def _arun(self, euro: int) -> str:
        ran.append(euro)
        return "paid"


def like_mcp() -> BaseTool:
    """As an MCP adapter makes them: a coroutine, a JSON schema for the arguments, content and artifact."""

    async def call_tool(**arguments: Any) -> tuple[list[dict[str, str]], None]:
        ran.append(arguments["euro"])
        return [{"type": "text", "text": "paid"}], None

    schema = {"type": "object", "properties": {"euro": {"type": "integer"}}, "required": ["euro"]}
    return StructuredTool(
        name="pay",
        description="Pay.",
        args_schema=schema,
        coroutine=call_tool,
        response_format="content_and_artifact",
    )


ran: list[int] = []


@pytest.mark.parametrize("tool", [Plain(), Async(), like_mcp()], ids=["subclass", "async", "mcp"])
class TestWhateverTheTool:
    """The gate stands in front of the tool, not in it."""

    def test_one_question_per_call_and_a_refused_one_never_runs(self, drive: Drive, memory: Any, tool: Any) -> None:
        ran.clear()
        calls = [call("pay", f"c{n}", euro=n) for n in (1, 2, 3)]
        model = ScriptedModel([asks(*calls), asks(call("pay", "c4", euro=4)), "end"])
        driver = drive(Agent(model, tools=[tool], filters=[gate()], checkpointer=memory))
        outcome, _ = driver.start("go", thread="t")
        decisions = {"c1": reject(), "c2": approve(), "c3": edit({"euro": 30}), "c4": reject()}
        asked: list[Any] = []
        while isinstance(outcome, Paused):
            asked += [one.call_id for one in outcome.approvals]
            outcome, _ = driver.resume("t", {one.id: decisions[str(one.call_id)] for one in outcome.approvals})
        assert asked == ["c1", "c2", "c3", "c4"]
        assert sorted(ran) == [2, 30]
        assert len(results(outcome.messages)) == 4

    def test_an_edit_is_checked_against_its_schema(self, memory: Any, tool: Any) -> None:
        ran.clear()
        agent = Agent(
            ScriptedModel([asks(call("pay", euro=1)), "end"]), tools=[tool], filters=[gate()], checkpointer=memory
        )
        agent.invoke("go", thread="t")
        for bad in ({"euro": "many"}, {}, {"euro": 1, "to": "me"}):
            with pytest.raises(Exception, match=r"euro|argument"):
                agent.resume("t", edit(bad))
        assert ran == []
