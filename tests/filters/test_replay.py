"""On resume the hooks run again from their top, and what their `next` had finished is not done again."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.types import interrupt
from modes import MODES, Drive, Driver, Mode
from scenes import Desk, asks, call, results

from scallion import (
    Agent,
    Completed,
    Filter,
    ModelError,
    PauseChanged,
    Paused,
    SQLCheckpointer,
    approve,
    around_chat,
    around_tool,
    around_turn,
    filters,
    pause,
    reject,
    respond,
)
from scallion.testing import ScriptedModel


class Count(TypedDict):
    n: Annotated[int, operator.add]


def passes(request: Any, state: Any, next: Any) -> Any:
    return next(request)


async def apasses(request: Any, state: Any, next: Any) -> Any:
    return await next(request)


def reviews(trace: list[str], colour: str = "def") -> Filter:
    """A chat filter that shows the draft to a person."""

    def show(draft: str) -> Any:
        trace.append(f"shows {draft}")
        return pause(f"is this right: {draft}", allowed=("approve", "respond"))

    def hook(request: Any, state: Any, next: Any) -> Any:
        out = next(request)
        said = show(out.message.text)
        return out if said.type == "approve" else out.replace(message=AIMessage(said.message))

    async def ahook(request: Any, state: Any, next: Any) -> Any:
        out = await next(request)
        said = show(out.message.text)
        return out if said.type == "approve" else out.replace(message=AIMessage(said.message))

    return Filter("review", around_chat=hook if colour == "def" else ahook)


def counted_drafts() -> ScriptedModel:
    """A model that never says the same twice."""
    said: list[int] = []

    def answer(messages: Any) -> str:
        said.append(1)
        return f"draft {len(said)}"

    return ScriptedModel(answer)


class TestAroundTheModel:
    """Pauses in the chat chain."""

    @pytest.mark.parametrize("colour", ["def", "async"])
    def test_the_draft_that_was_shown_is_the_answer(self, drive: Drive, memory: Any, colour: str) -> None:
        """The model is not asked again."""
        trace: list[str] = []
        model = counted_drafts()
        agent = Agent(model, filters=[reviews(trace, colour)], checkpointer=memory)
        driver = drive(agent)
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        assert paused.approvals[0].description == "is this right: draft 1"
        result, _ = driver.resume("t", approve())
        assert result.answer == "draft 1"
        assert len(model.calls) == 1
        assert trace == ["shows draft 1"] * 2
        kept = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert [one.text for one in kept] == ["go", "draft 1"]

    def test_the_draft_is_used_by_another_agent_object(self, drive: Drive, sql: SQLCheckpointer) -> None:
        first, second = counted_drafts(), ScriptedModel([])
        paused, _ = drive(Agent(first, filters=[reviews([])], checkpointer=sql)).start("go", thread="t")
        assert isinstance(paused, Paused)
        result, _ = drive(Agent(second, filters=[reviews([])], checkpointer=sql)).resume("t", approve())
        assert result.answer == "draft 1"
        assert second.calls == []

    def test_tool_calls_of_the_draft_run_after_the_review(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        model = ScriptedModel([asks(call("refund", order=7)), "end"])
        driver = drive(Agent(model, tools=desk.tools, filters=[reviews([])], checkpointer=sql))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        assert desk.ran == []
        second, _ = driver.resume("t", approve())
        assert isinstance(second, Paused)
        assert desk.ran == ["refund 7"]
        result, _ = driver.resume("t", approve())
        assert (result.answer, desk.ran, len(model.calls)) == ("end", ["refund 7"], 2)

    def test_several_pauses_in_one_hook_are_asked_in_order(self, drive: Drive, memory: Any) -> None:
        def thorough(request: Any, state: Any, next: Any) -> Any:
            first = pause("before?").message
            out = next(request)
            second = pause(f"after {out.message.text}?").message
            third = pause("sure?").message
            return out.replace(message=AIMessage(f"{first} {second} {third} {out.message.text}"))

        model = counted_drafts()
        driver = drive(Agent(model, filters=[Filter("f", around_chat=thorough)], checkpointer=memory))
        outcome, _ = driver.start("go", thread="t")
        asked = []
        for word in ("a", "b", "c"):
            assert isinstance(outcome, Paused)
            asked += [one.description for one in outcome.approvals]
            outcome, _ = driver.resume("t", respond(word))
        assert asked == ["before?", "after draft 1?", "sure?"]
        assert outcome.answer == "a b c draft 1"
        assert len(model.calls) == 1

    def test_pauses_of_nested_layers_keep_their_answers_apart(self, drive: Drive, memory: Any) -> None:
        """Outer before, inner before, inner after, outer after."""

        def asker(name: str) -> Filter:
            def hook(request: Any, state: Any, next: Any) -> Any:
                before = pause(f"{name} before?").message
                out = next(request)
                after = pause(f"{name} after?").message
                return out.replace(message=AIMessage(f"{before}({out.message.text}){after}"))

            return Filter(name, around_chat=hook)

        model = counted_drafts()
        stack = [asker("outer"), Filter("between", around_chat=apasses), asker("inner")]
        driver = drive(Agent(model, filters=stack, checkpointer=memory))
        outcome, _ = driver.start("go", thread="t")
        asked = []
        for word in "ABCD":
            assert isinstance(outcome, Paused)
            asked += [one.description for one in outcome.approvals]
            outcome, _ = driver.resume("t", respond(word))
        assert asked == ["outer before?", "inner before?", "inner after?", "outer after?"]
        assert outcome.answer == "A(B(draft 1)C)D"
        assert len(model.calls) == 1

    @pytest.mark.parametrize("colour", ["def", "async"])
    def test_a_retry_whose_second_attempt_paused_goes_on_as_the_second(
        self, drive: Drive, memory: Any, colour: str
    ) -> None:
        """The error of the first attempt is seen again as a ModelError with its kind; neither call is made again."""
        trace: list[str] = []

        def caught(error: ModelError) -> None:
            trace.append(f"caught {error.kind}")

        def retry(request: Any, state: Any, next: Any) -> Any:
            for attempt in range(3):
                try:
                    return next(request), {"attempts": attempt + 1}
                except ModelError as error:
                    caught(error)
            raise AssertionError

        async def aretry(request: Any, state: Any, next: Any) -> Any:
            for attempt in range(3):
                try:
                    return await next(request), {"attempts": attempt + 1}
                except ModelError as error:
                    caught(error)
            raise AssertionError

        def tells(request: Any, state: Any, next: Any) -> Any:
            state.update(n=1)
            return next(request)

        model = ScriptedModel([ConnectionError("reset"), "second"])
        stack = [
            Filter("retry", around_chat=retry if colour == "def" else aretry),
            reviews(trace, colour),
            Filter("counts", around_chat=tells, init={"n": 0}, state_schema=Count),
        ]
        driver = drive(Agent(model, filters=stack, checkpointer=memory))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        assert trace == ["caught transient", "shows second"]
        result, _ = driver.resume("t", approve())
        assert result.answer == "second"
        assert trace == ["caught transient", "shows second"] * 2
        assert len(model.calls) == 2
        assert result.filter_state["retry"] == {"attempts": 2}
        assert result.filter_state["counts"] == {"n": 2}
        assert result.usage["model_calls"] == 2

    def test_a_rejected_draft_is_made_anew_and_only_once(self, drive: Drive, memory: Any) -> None:
        """A finished `next`, a pause, a second `next` and a second pause."""

        def until_liked(request: Any, state: Any, next: Any) -> Any:
            for _ in range(5):
                out = next(request)
                if pause(f"ok: {out.message.text}", allowed=("approve", "reject")).type == "approve":
                    return out
            raise AssertionError

        model = counted_drafts()
        driver = drive(Agent(model, filters=[Filter("f", around_chat=until_liked)], checkpointer=memory))
        outcome, _ = driver.start("go", thread="t")
        asked = []
        for decision in (reject(), reject(), approve()):
            assert isinstance(outcome, Paused)
            asked.append(outcome.approvals[0].description)
            outcome, _ = driver.resume("t", decision)
        assert asked == ["ok: draft 1", "ok: draft 2", "ok: draft 3"]
        assert outcome.answer == "draft 3"
        assert len(model.calls) == 3


class TestAroundTheTurn:
    """A person releases the final answer."""

    @staticmethod
    def release(colour: str = "def") -> Filter:
        def judged(out: Any) -> bool:
            return pause(f"release {out.answer}?", kind="answer", allowed=("approve", "reject")).type == "approve"

        def again(request: Any, out: Any) -> Any:
            return request.replace(messages=[*out.messages, HumanMessage("do better")], load_history=False)

        def hook(request: Any, state: Any, next: Any) -> Any:
            out = next(request)
            while not judged(out):
                out = next(again(request, out))
            return out

        async def ahook(request: Any, state: Any, next: Any) -> Any:
            out = await next(request)
            while not judged(out):
                out = await next(again(request, out))
            return out

        return Filter("release", around_turn=hook if colour == "def" else ahook)

    @pytest.mark.parametrize("colour", ["def", "async"])
    def test_the_answer_that_was_shown_is_released(self, drive: Drive, memory: Any, colour: str) -> None:
        desk = Desk()
        model = ScriptedModel([asks(call("refund", order=1)), "done"])
        driver = drive(Agent(model, tools=desk.tools, filters=[self.release(colour)], checkpointer=memory))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        assert [(one.kind, one.description) for one in paused.approvals] == [("answer", "release done?")]
        assert desk.ran == ["refund 1"]
        result, _ = driver.resume("t", approve())
        assert result.answer == "done"
        assert (desk.ran, len(model.calls)) == (["refund 1"], 2)

    @pytest.mark.parametrize("colour", ["def", "async"])
    def test_twice(self, drive: Drive, memory: Any, colour: str) -> None:
        """Rejected, done better, released; the rejected answer is not in the thread."""
        model = counted_drafts()
        agent = Agent(model, filters=[self.release(colour)], checkpointer=memory)
        driver = drive(agent)
        first, _ = driver.start("go", thread="t")
        assert isinstance(first, Paused)
        second, _ = driver.resume("t", reject())
        assert isinstance(second, Paused)
        assert second.approvals[0].description == "release draft 2?"
        assert second.approvals[0].id != first.approvals[0].id
        result, _ = driver.resume("t", approve())
        assert (result.answer, result.attempts, len(model.calls)) == ("draft 2", 2, 2)
        kept = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert [one.text for one in kept] == ["go", "draft 2"]
        assert driver.start("next", thread="t")[0].approvals[0].description == "release draft 3?"

    def test_a_pause_of_the_loop_and_one_around_the_turn_in_one_turn(self, drive: Drive, memory: Any) -> None:
        desk = Desk()
        model = ScriptedModel([asks(call("refund", order=1)), "done"])
        stack = [self.release(), filters.approval({"refund": True})]
        driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
        first, _ = driver.start("go", thread="t")
        assert [one.kind for one in first.approvals] == ["tool_call"]
        second, _ = driver.resume("t", approve())
        assert [one.kind for one in second.approvals] == ["answer"]
        result, _ = driver.resume("t", approve())
        assert (result.answer, desk.ran) == ("done", ["refund 1"])

    def test_a_pause_before_next_around_the_turn(self, drive: Drive, memory: Any) -> None:
        def admits(request: Any, state: Any, next: Any) -> Any:
            pause("admit?", allowed=("approve",))
            return next(request)

        model = ScriptedModel(["hello"])
        driver = drive(Agent(model, filters=[Filter("door", around_turn=admits)], checkpointer=memory))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        assert model.calls == []
        result, _ = driver.resume("t", approve())
        assert result.answer == "hello"
        assert [one.text for one in result.messages] == ["go", "hello"]

    def test_the_hook_runs_again_with_the_same_messages_and_resume_set(self, drive: Drive, memory: Any) -> None:
        seen: list[Any] = []

        def notes(request: Any, state: Any, next: Any) -> Any:
            seen.append(([one.text for one in request.messages], bool(request.resume)))
            return next(request)

        desk = Desk()
        model = ScriptedModel([asks(call("refund", order=1)), "done"])
        stack = [Filter("notes", around_turn=notes), filters.approval(default=True)]
        driver = drive(Agent(model, tools=desk.tools, filters=stack, checkpointer=memory))
        driver.start("go", thread="t")
        driver.resume("t", approve())
        assert seen == [(["go"], False), (["go"], True)]


class TestInsideTools:
    """A tool asks a person in the middle of its work."""

    @staticmethod
    def consulting(ask: str, colour: str, done: list[str]) -> Any:
        def question(text: str) -> str:
            if ask == "pause":
                return str(pause(text).message)
            answer = interrupt(text)
            return str(answer["message"] if isinstance(answer, dict) else answer)

        def consult(questions: int) -> str:
            """Ask a person."""
            answers = [question(f"question {n}?") for n in range(questions)]
            done.append("ran")
            return " ".join(answers)

        async def aconsult(questions: int) -> str:
            """Ask a person."""
            return consult(questions)

        if colour == "def":
            return StructuredTool.from_function(consult)
        return StructuredTool.from_function(coroutine=aconsult, name="consult")

    @pytest.mark.parametrize("ask", ["pause", "interrupt"])
    @pytest.mark.parametrize("colour", ["def", "async"])
    @pytest.mark.parametrize("layers", [0, 2])
    @pytest.mark.parametrize("questions", [1, 2])
    def test_each_question_is_asked_once(
        self, drive: Drive, memory: Any, ask: str, colour: str, layers: int, questions: int
    ) -> None:
        done: list[str] = []
        model = ScriptedModel([asks(call("consult", questions=questions)), "end"])
        stack = [Filter("outer", around_tool=apasses), Filter("inner", around_tool=passes)][:layers]
        tool = self.consulting(ask, colour, done)
        driver = drive(Agent(model, tools=[tool], filters=stack, checkpointer=memory))
        outcome, _ = driver.start("go", thread="t")
        for n in range(questions):
            assert isinstance(outcome, Paused)
            assert [one.description for one in outcome.approvals] == [f"question {n}?"]
            assert done == []
            outcome, _ = driver.resume("t", respond(f"answer {n}"))
        assert isinstance(outcome, Completed)
        assert results(outcome.messages) == [" ".join(f"answer {n}" for n in range(questions))]
        assert done == ["ran"]

    @pytest.mark.parametrize("ask", ["pause", "interrupt"])
    @pytest.mark.parametrize("colour", ["def", "async"])
    def test_questions_behind_an_approval_of_the_same_call(
        self, drive: Drive, memory: Any, ask: str, colour: str
    ) -> None:
        """The approval's answer is not taken for the tool's, and the gate is not asked again."""
        done: list[str] = []
        model = ScriptedModel([asks(call("consult", questions=2)), "end"])
        tool = self.consulting(ask, colour, done)
        stack = [Filter("outer", around_tool=apasses), filters.approval(default=True)]
        driver = drive(Agent(model, tools=[tool], filters=stack, checkpointer=memory))
        outcome, _ = driver.start("go", thread="t")
        asked = []
        for decision in (approve(), respond("a"), respond("b")):
            assert isinstance(outcome, Paused)
            asked += [one.kind + " " + one.description[-2:] for one in outcome.approvals]
            outcome, _ = driver.resume("t", decision)
        assert asked == ["tool_call t.", "question 0?", "question 1?"]
        assert isinstance(outcome, Completed)
        assert results(outcome.messages) == ["a b"]
        assert done == ["ran"]

    def test_two_asking_tools_at_once(self, drive: Drive, memory: Any) -> None:
        """Each gets its own answer, whichever is given first."""
        done: list[str] = []
        model = ScriptedModel([asks(call("consult", "c1", questions=1), call("consult", "c2", questions=1)), "end"])
        tool = self.consulting("pause", "def", done)
        driver = drive(Agent(model, tools=[tool], checkpointer=memory))
        paused, _ = driver.start("go", thread="t")
        assert isinstance(paused, Paused)
        assert len({one.id for one in paused.approvals}) == 2
        second, _ = driver.resume("t", {paused.approvals[1].id: respond("two")})
        assert isinstance(second, Paused)
        result, _ = driver.resume("t", {second.approvals[0].id: respond("one")})
        assert isinstance(result, Completed)
        assert results(result.messages) == ["one", "two"]


@pytest.mark.parametrize("resumed_in", MODES)
def test_a_pause_of_any_mode_is_resumed_in_any_other(mode: Mode, resumed_in: Mode, sql: SQLCheckpointer) -> None:
    """Pauses of the tool chain, the chat chain and the turn chain, by another Agent object."""
    desk = Desk()

    def build(replies: Any) -> Agent:
        stack = [TestAroundTheTurn.release("async"), reviews([], "async"), filters.approval({"refund": True})]
        return Agent(ScriptedModel(replies), tools=desk.tools, filters=stack, checkpointer=sql)

    outcome, _ = Driver(build([asks(call("refund", order=1))]), mode).start("go", thread="t")
    outcome, _ = Driver(build([]), resumed_in).resume("t", approve())
    assert [one.tool for one in outcome.approvals] == ["refund"]
    outcome, _ = Driver(build(["end"]), mode).resume("t", approve())
    assert [one.description for one in outcome.approvals] == ["is this right: end"]
    outcome, _ = Driver(build([]), resumed_in).resume("t", approve())
    assert [one.description for one in outcome.approvals] == ["release end?"]
    outcome, _ = Driver(build([]), resumed_in).resume("t", approve())
    assert (outcome.answer, desk.ran) == ("end", ["refund 1"])


class TestAChangedStack:
    """What may change between the pause and the resume, and what may not."""

    def paused(self, desk: Desk, drive: Drive, sql: Any, *stack: Filter, tools: Any = None) -> Any:
        model = ScriptedModel([asks(call("refund", order=1)), "never"])
        paused, _ = drive(Agent(model, tools=tools or desk.tools, filters=stack, checkpointer=sql)).start(
            "go", thread="t"
        )
        assert isinstance(paused, Paused)
        return paused

    def other(self, desk: Desk, drive: Drive, sql: Any, *stack: Filter, tools: Any = None) -> Driver:
        return drive(Agent(ScriptedModel(["end"]), tools=tools or desk.tools, filters=stack, checkpointer=sql))

    @pytest.mark.parametrize("place", ["outermost", "innermost", "both", "around the turn", "around the model"])
    def test_added_filters_join_in(self, drive: Drive, sql: SQLCheckpointer, place: str) -> None:
        desk = Desk()
        trace: list[str] = []

        def adds(request: Any, state: Any, next: Any) -> Any:
            trace.append("added")
            return next(request)

        gate, first = filters.approval({"refund": True}), Filter("first", around_tool=passes)
        self.paused(desk, drive, sql, first, gate)
        new = [around_tool(adds, name="new"), around_tool(adds, name="newer")]
        stack = {
            "outermost": [new[0], first, gate],
            "innermost": [first, gate, new[0]],
            "both": [new[0], first, gate, new[1]],
            "around the turn": [around_turn(adds, name="new"), first, gate],
            "around the model": [around_chat(adds, name="new"), first, gate],
        }[place]
        result, _ = self.other(desk, drive, sql, *stack).resume("t", approve())
        assert (result.answer, desk.ran) == ("end", ["refund 1"])
        assert trace == ["added"] * (2 if place == "both" else 1)

    @pytest.mark.parametrize("change", ["gate gone", "filter gone", "another order", "all gone", "gate renamed"])
    def test_a_removed_or_moved_filter_is_a_changed_pause(
        self, drive: Drive, sql: SQLCheckpointer, change: str
    ) -> None:
        """Nothing runs, the approval stays pending, and the right stack can still resume."""
        desk = Desk()
        gate, first = filters.approval({"refund": True}), Filter("first", around_tool=passes)
        paused = self.paused(desk, drive, sql, first, gate)
        stack = {
            "gate gone": [first],
            "filter gone": [gate],
            "another order": [gate, first],
            "all gone": [],
            "gate renamed": [first, filters.approval({"refund": True}, name="other")],
        }[change]
        with pytest.raises(PauseChanged) as caught:
            self.other(desk, drive, sql, *stack).resume("t", approve())
        assert "filter" in caught.value.difference
        assert desk.ran == []
        assert sql.approvals.get(paused.approvals[0].id).status == "pending"
        result, _ = self.other(desk, drive, sql, first, gate).resume("t", approve())
        assert (result.answer, desk.ran) == ("end", ["refund 1"])

    @pytest.mark.parametrize("change", ["another type", "an argument more", "gone"])
    def test_a_changed_tool_is_a_changed_pause(self, drive: Drive, sql: SQLCheckpointer, change: str) -> None:
        desk = Desk()
        gate = filters.approval(default=True)
        paused = self.paused(desk, drive, sql, gate)

        def other_type(order: str) -> str:
            """Give the money back."""
            raise AssertionError

        def more(order: int, amount: int = 0) -> str:
            """Give the money back."""
            raise AssertionError

        tools = {
            "another type": [StructuredTool.from_function(other_type, name="refund")],
            "an argument more": [StructuredTool.from_function(more, name="refund")],
            "gone": [desk.look()],
        }[change]
        with pytest.raises(PauseChanged, match="refund"):
            self.other(desk, drive, sql, gate, tools=tools).resume("t", approve())
        assert sql.approvals.get(paused.approvals[0].id).status == "pending"
        result, _ = self.other(desk, drive, sql, gate).resume("t", approve())
        assert (result.answer, desk.ran) == ("end", ["refund 1"])

    @pytest.mark.parametrize("stack", ["gone", "moved"])
    def test_a_chat_filter_that_paused_is_gone(self, drive: Drive, sql: SQLCheckpointer, stack: str) -> None:
        first = Filter("first", around_chat=passes)
        driver = drive(Agent(counted_drafts(), filters=[first, reviews([])], checkpointer=sql))
        driver.start("go", thread="t")
        left = [first] if stack == "gone" else [reviews([]), first]
        with pytest.raises(PauseChanged):
            drive(Agent(ScriptedModel([]), filters=left, checkpointer=sql)).resume("t", approve())

    def test_a_turn_filter_that_paused_is_gone(self, drive: Drive, sql: SQLCheckpointer) -> None:
        drive(Agent(counted_drafts(), filters=[TestAroundTheTurn.release()], checkpointer=sql)).start("go", thread="t")
        with pytest.raises(PauseChanged):
            drive(Agent(ScriptedModel([]), filters=[], checkpointer=sql)).resume("t", approve())

    def test_a_tool_that_was_added_changes_nothing(self, drive: Drive, sql: SQLCheckpointer) -> None:
        desk = Desk()
        gate = filters.approval(default=True)
        self.paused(desk, drive, sql, gate, tools=[desk.refund()])
        result, _ = self.other(desk, drive, sql, gate).resume("t", approve())
        assert (result.answer, desk.ran) == ("end", ["refund 1"])
