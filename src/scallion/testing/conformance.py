"""What every filter keeps to, whoever wrote it, as tests that a subclass inherits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from scallion.agent import Agent
from scallion.errors import ConfigurationError
from scallion.filters.filter import CHAINS, Chain, Filter, check, is_async
from scallion.testing.executions import executions
from scallion.testing.model import ScriptedModel
from scallion.testing.modes import MODES, Driver, Mode, delivered
from scallion.testing.onlookers import asking, beside, held, watched
from scallion.testing.replies import asks, call
from scallion.values import Approval, Completed, Decision, Paused, approve, reject, respond

AT_ONCE = 8
"""Turns at the same time."""


class FilterConformance:
    """Tests of a filter: `class TestMine(FilterConformance)` with a method `make` that gives a new one each time.

    The scene is an agent that calls the tool `look` once and answers "done". A filter that does its work in another one
    overrides `message`, `script`, `tools`; one that asks people, `decide`; one that needs a SQLCheckpointer, `saver`;
    one whose state holds times or random numbers, `seen`. Each failure is an AssertionError that says what differs.
    """

    message: Any = "go"
    repeats: bool = False
    """Whether it means to make a call of a tool or the model again that did not fail."""
    withholds: bool = False
    """Whether it means to leave away what a tool gave."""

    def make(self) -> Filter:
        """A new filter, made as a program makes it."""
        raise NotImplementedError("define make(self) -> Filter")

    def tools(self) -> Sequence[Any]:
        """New tools of the agent."""

        def look(order: int) -> str:
            """Look an order up."""
            return f"order {order} is here"

        return [look]

    def script(self, messages: list[BaseMessage]) -> Any:
        """What the model says to these messages: the same in each run, as it is asked again for as long as it takes."""
        return "done" if any(isinstance(one, ToolMessage) for one in messages) else asks(call("look", order=1))

    def saver(self) -> Any:
        """A new checkpointer."""
        return InMemorySaver()

    def decide(self, approval: Approval) -> Decision:
        """What a person says to the filter's own questions."""
        if "approve" in approval.allowed:
            return approve()
        return respond("yes") if "respond" in approval.allowed else reject()

    def seen(self, result: Completed, name: str) -> Any:
        """What has to be the same in each run: the answer, the messages, the final state of the filter."""
        return {
            "answer": result.answer,
            "messages": [_told(one) for one in result.messages],
            "state": dict(result.filter_state.get(name, {})),
        }

    def test_it_can_be_built(self) -> None:
        """Its parts fit, and two of it are alike and apart."""
        one, other = self.make(), self.make()
        check([one])
        _same("the name of two that are made", one.name, other.name)
        if one is other:
            raise AssertionError("make() has to give a new filter each time, as another process has one of its own")

    def test_each_mode_ends_the_same(self) -> None:
        """`invoke`, `ainvoke`, `stream` and `astream`; what a stream delivered is the answer, but for a transform.

        No asynchronous hook holds the loop by `time.sleep`.
        """
        expected = None
        for mode in MODES:
            one = self.make()
            with held() as sleeps:
                result, events = self._run(self._agent([one]), mode)
            if sleeps and mode.startswith("a") and _is_async(one):
                raise AssertionError(f"time.sleep holds all other turns in {mode}: await asyncio.sleep")
            seen = self.seen(result, one.name)
            expected = expected or seen
            _same(f"what {mode} ends with, beside {MODES[0]}", expected, seen)
            if events and one.token_transform is None:
                _same(f"what {mode} delivers, beside its answer", result.answer, delivered(events))

    def test_a_call_runs_once_and_its_result_is_kept(self) -> None:
        """A call that was executed ran once, and has one result in the conversation, which is not empty.

        Nor is the model asked again what it has answered.

        Unless the filter `repeats` calls, or `withholds` results.
        """
        model = ScriptedModel(self.script)
        with executions() as ran:
            result, _ = self._run(self._agent([self.make()], model=model), "invoke")
        asked = [([_told(one) for one in messages], model.settings[at]) for at, messages in enumerate(model.calls)]
        if any(one in asked[:at] for at, one in enumerate(asked)) and not self.repeats:
            raise AssertionError("the model was asked the same twice in a turn; if that is meant: repeats = True")
        ids = [one.call_id for one in ran]
        if again := [one.tool for one in ran if ids.count(one.call_id) > 1 and not self.repeats]:
            raise AssertionError(f"{again[0]} ran {len(again)} times for one call; if that is meant: repeats = True")
        kept = [one.tool_call_id for one in result.messages if isinstance(one, ToolMessage) and one.text.strip()]
        if lost := [one.tool for one in ran if kept.count(one.call_id or "") != 1 and not self.withholds]:
            raise AssertionError(f"the result of {lost[0]} is not in the messages; if that is meant: withholds = True")

    def test_a_pause_inside_passes_and_goes_on_elsewhere(self) -> None:
        """A filter inside of it asks a person: each hook lets that through, and a new filter goes on as after no pause.

        No model call or tool call is made again for it.
        """
        for chain in CHAINS:
            one = self.make()
            straight = self._counted(self._agent([one, asking(chain, pauses=False)]))
            for mode in MODES:
                _same(f"what a pause around the {chain} ends with, in {mode}", straight, self._paused(chain, mode))

    def test_its_state_is_its_own(self) -> None:
        """It is JSON data, is the same for each thread, and leaves the state of other filters alone.

        So is what a stream delivers.
        """
        one = self.make()
        agent = self._agent([beside("outer"), one, beside("inner")])
        (first, before), (second, behind) = (self._run(agent, "stream") for _ in range(2))
        _same("the state of a second thread, beside the first", self.seen(first, one.name), self.seen(second, one.name))
        _same("what a second thread delivers, beside the first", delivered(before), delivered(behind))
        for name in ("outer", "inner"):
            _same(f"the state of the filter {name!r}", {"untouched": True}, dict(second.filter_state[name]))
        state = dict(second.filter_state.get(one.name, {}))
        _same("its state, stored as JSON and read again,", state, json.loads(json.dumps(state)))

    def test_many_threads_at_once(self) -> None:
        """Turns of one agent that run at the same time do not meet in the filter."""
        one = self.make()
        alone = self.seen(self._run(self._agent([self.make()]), "invoke")[0], one.name)
        agent, begin = self._agent([one]), threading.Barrier(AT_ONCE)

        def turn(mode: Mode) -> Any:
            begin.wait(30)
            return self.seen(self._run(agent, mode)[0], one.name)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            for seen in threads.map(turn, (MODES * AT_ONCE)[:AT_ONCE]):
                _same("one of many turns at once, beside a turn alone,", alone, seen)

    def _agent(self, filters: Sequence[Filter], saver: Any = None, model: Any = None) -> Agent:
        saver, model = self.saver() if saver is None else saver, model or ScriptedModel(self.script)
        return Agent(model, tools=self.tools(), filters=filters, checkpointer=saver)

    def _run(self, agent: Agent, mode: Mode) -> tuple[Completed, list[Any]]:
        return Driver(agent, mode).finish(self.message, thread=f"test-{uuid4().hex}", decision=self.decide)

    def _counted(self, agent: Agent) -> Any:
        with executions() as ran:
            result, _ = self._run(agent, "invoke")
        return self._work(result, [agent], [one.tool for one in ran])

    def _work(self, result: Completed, agents: Sequence[Agent], ran: Sequence[str]) -> Any:
        """What was seen, and how much work was done for it."""
        name = agents[0].filters[0].name
        return {**self.seen(result, name), "model calls": result.usage["model_calls"], "tools": sorted(ran)}

    def _paused(self, chain: Chain, mode: Mode) -> Any:
        """Pause inside of the filter, go on in agents of their own; what that came to."""
        saver, thread = self.saver(), f"test-{uuid4().hex}"
        asked: list[str] = []
        lost: list[str] = []
        agents: list[Agent] = []

        def driver() -> Driver:
            agents.append(self._agent([watched(self.make(), lost), asking(chain, asked=asked)], saver))
            return Driver(agents[-1], mode)

        with executions() as ran:
            result, _ = driver().start(self.message, thread=thread)
            shown = 0
            for _ in range(20):
                if isinstance(result, Completed):
                    break
                shown += sum(one.description == asking.__name__ for one in result.approvals)
                result, _ = driver().resume(thread, {one.id: self._answer(one) for one in result.approvals})
        if lost:
            raise AssertionError(f"{lost[0]} lost a pause: let what is a BaseException pass, in {mode}")
        if asked and not shown:
            raise AssertionError(f"a pause inside of the filter around the {chain} did not end the turn in {mode}")
        if isinstance(result, Paused):
            raise AssertionError(f"a turn that pauses around the {chain} has no end in {mode}")
        return self._work(result, agents, [one.tool for one in ran])

    def _answer(self, approval: Approval) -> Decision:
        return respond("go on") if approval.description == asking.__name__ else self.decide(approval)


def check_filter(make: Callable[[], Filter]) -> None:
    """Run all tests of `FilterConformance` on the filters that `make` gives; raises the first AssertionError."""
    if not callable(make):
        raise ConfigurationError(f"check_filter takes a function that gives a new filter, not {type(make).__name__}")
    kit = type("Conformance", (FilterConformance,), {"make": lambda self: make()})()
    for name in [name for name in dir(kit) if name.startswith("test_")]:
        getattr(kit, name)()


def _is_async(one: Filter) -> bool:
    return any(is_async(hook) for chain in CHAINS if (hook := one.hook(chain)) is not None)


def _told(message: BaseMessage) -> Any:
    calls = [(one["name"], one["args"]) for one in message.tool_calls] if isinstance(message, AIMessage) else []
    return message.type, str(message.text), calls, getattr(message, "status", None)


def _same(what: str, expected: Any, got: Any) -> None:
    if expected != got:
        raise AssertionError(f"{what} differs: {got!r} and not {expected!r}")
