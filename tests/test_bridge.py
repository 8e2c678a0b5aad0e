"""One colour: synchronous code that waits for asynchronous code, and the other way round, to any depth."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from modes import Drive, delivered
from scenes import asks, call, results

from scallion import Agent, Completed, Filter, SQLCheckpointer, ThreadError, Token
from scallion.bridge import call as call_half
from scallion.bridge import enter_sync, spawn, wait, waits_on_loop
from scallion.testing import ScriptedModel

here: ContextVar[str] = ContextVar("here", default="nowhere")


class Odd(BaseException):
    """Something that `except Exception` does not see."""


def down(depth: int) -> list[int]:
    """Synchronous, in which waits an asynchronous function, in which runs a synchronous one, and so on."""
    if depth == 0:
        return []

    async def inner() -> list[int]:
        await asyncio.sleep(0)
        return await spawn(down, depth - 1)

    return [depth, *wait(inner())]


def blocks_in_result(thread: int) -> bool:
    """Whether the thread waits for a future."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_name == "result":
            return True
        frame = frame.f_back
    return False


def run_alone(code: str, *, seconds: int = 25) -> str:
    """The output of a program of its own: what hangs or dies there does not take this one along."""
    root = Path(__file__).parent
    command = [sys.executable, "-c", textwrap.dedent(code)]
    env = {**os.environ, "PYTHONPATH": str(root), "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=env)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it hangs: no end after {seconds} seconds")
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


class TestNesting:
    """Async in sync in async, seven levels deep, from each kind of start."""

    def test_from_synchronous_code(self) -> None:
        assert down(7) == [7, 6, 5, 4, 3, 2, 1]

    async def test_from_a_coroutine(self) -> None:
        assert await spawn(down, 7) == [7, 6, 5, 4, 3, 2, 1]

    async def test_from_synchronous_code_on_a_running_loop(self) -> None:
        assert down(7) == [7, 6, 5, 4, 3, 2, 1]

    @pytest.mark.parametrize("start", ["down(5)", "asyncio.run(spawn(down, 5))", "asyncio.run(on_loop())"])
    def test_with_coroutines_that_block(self, start: str) -> None:
        """An async tool that calls a sync verb, whose async tool does the same, and so on."""
        said = run_alone(f"""
            import asyncio
            from scallion.bridge import spawn, wait

            def down(depth):
                if depth == 0:
                    return []
                async def inner():
                    await asyncio.sleep(0)
                    return down(depth - 1)
                return [depth, *wait(inner())]

            async def on_loop():
                return down(5)

            print({start})
        """, seconds=10)  # fmt: skip
        assert said == "[5, 4, 3, 2, 1]"


async def test_many_nested_runs_share_one_loop() -> None:
    """None of them blocks it: each step of each waits for a step of all others."""
    everybody = asyncio.Barrier(20)

    def climb(depth: int) -> int:
        wait(everybody.wait())
        return depth if depth == 3 else wait(spawn(climb, depth + 1))

    assert await asyncio.gather(*(spawn(climb, 0) for _ in range(20))) == [3] * 20


async def test_wait_takes_any_awaitable_of_the_running_loop() -> None:
    """A future and a task too, not only a coroutine."""
    future = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(asyncio.sleep(0, "task"))
    asyncio.get_running_loop().call_soon(future.set_result, "future")
    assert await spawn(lambda: (wait(future), wait(task))) == ("future", "task")


async def test_the_loop_is_free_while_synchronous_code_waits() -> None:
    """Another task runs in between, and both are on one thread."""
    done = asyncio.Event()
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")
        done.set()

    def waiting() -> int:
        turns.append("before")
        wait(done.wait())
        turns.append("after")
        return threading.get_ident()

    task = asyncio.ensure_future(spawn(waiting))
    beside = asyncio.ensure_future(other())
    assert await task == threading.get_ident()
    await beside
    assert turns == ["before", "other", "after"]


class TestExceptions:
    """What is raised on one side is raised, as the same object, on the other."""

    @pytest.mark.parametrize("kind", [ValueError, Odd, TimeoutError])
    def test_from_a_coroutine_to_synchronous_code(self, kind: type[BaseException]) -> None:
        error = kind("here")

        async def fails() -> None:
            raise error

        with pytest.raises(kind) as caught:
            wait(fails())
        assert caught.value is error

    @pytest.mark.parametrize("kind", [ValueError, Odd])
    async def test_the_same_object_through_four_borders(self, kind: type[BaseException]) -> None:
        error = kind("here")

        async def fails() -> None:
            raise error

        with pytest.raises(kind) as caught:
            await spawn(lambda: wait(spawn(lambda: wait(fails()))))
        assert caught.value is error

    async def test_synchronous_code_may_catch_what_it_waits_for(self) -> None:
        async def fails() -> None:
            raise ValueError("caught")

        def catches() -> str:
            try:
                wait(fails())
            except ValueError as error:
                return str(error)
            return "nothing"

        assert await spawn(catches) == "caught"

    @pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt"])
    def test_an_exit_inside_a_coroutine_does_not_take_the_background_loop_along(self, kind: str) -> None:
        """A tool that calls `sys.exit` must neither hang the caller nor the next turn."""
        said = run_alone(f"""
            from scallion.bridge import wait
            async def leaves(): raise {kind}("bye")
            async def stays(): return "still here"
            try:
                wait(leaves())
            except BaseException as error:
                print(type(error).__name__)
            print(wait(stays()))
        """, seconds=15)  # fmt: skip
        assert said.split("\n")[-1] == "still here"


class TestContextVariables:
    """A variable that was set around a call is seen inside, through every border."""

    def test_a_sync_run(self) -> None:
        async def read() -> str:
            return await spawn(here.get)

        token = here.set("caller")
        try:
            assert wait(read()) == "caller"
        finally:
            here.reset(token)

    async def test_an_async_run(self) -> None:
        here.set("caller")

        async def read() -> str:
            return await spawn(here.get)

        assert await spawn(lambda: wait(read())) == "caller"

    async def test_two_runs_at_once_do_not_see_each_other(self) -> None:
        everybody = asyncio.Barrier(5)

        def work(name: str) -> str:
            here.set(name)
            wait(everybody.wait())
            return here.get()

        tasks = [asyncio.ensure_future(spawn(work, str(n))) for n in range(5)]
        assert await asyncio.gather(*tasks) == ["0", "1", "2", "3", "4"]
        assert here.get() == "nowhere"

    @pytest.mark.parametrize("colour", ["def", "async"])
    def test_a_hook_sets_what_the_model_the_tool_and_inner_hooks_see(self, drive: Drive, colour: str) -> None:
        seen: list[str] = []

        def sets(request: Any, state: Any, next: Any) -> Any:
            token = here.set("outer")
            try:
                return next(request)
            finally:
                here.reset(token)

        async def asets(request: Any, state: Any, next: Any) -> Any:
            token = here.set("outer")
            try:
                return await next(request)
            finally:
                here.reset(token)

        async def reads(request: Any, state: Any, next: Any) -> Any:
            seen.append("hook " + here.get())
            return await next(request)

        def tool(order: int) -> str:
            """A tool."""
            seen.append("tool " + here.get())
            return "x"

        def answer(messages: Any) -> Any:
            seen.append("model " + here.get())
            return "end" if messages[-1].type == "tool" else asks(call("tool", order=1))

        hook = sets if colour == "def" else asets
        outer = Filter("outer", around_chat=hook, around_tool=hook)
        inner = Filter("inner", around_chat=reads, around_tool=reads)
        result, _ = drive(Agent(ScriptedModel(answer), tools=[tool], filters=[outer, inner])).start("go")
        assert result.answer == "end"
        assert seen == ["hook outer", "model outer", "hook outer", "tool outer", "hook outer", "model outer"]
        assert here.get() == "nowhere"


class TestCancellation:
    """A cancelled run stops where it waits, and what has to be cleaned up is."""

    async def test_a_cancelled_task_unwinds_synchronous_code(self) -> None:
        started, trace = asyncio.Event(), []

        async def forever() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                trace.append("coroutine")

        def work() -> None:
            try:
                wait(forever())
            finally:
                trace.append("function")

        task = asyncio.ensure_future(spawn(work))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert trace == ["coroutine", "function"]

    def test_control_c_cancels_what_a_sync_run_waits_for(self) -> None:
        gone = threading.Event()

        async def forever() -> None:
            main = threading.main_thread().ident or 0
            while not blocks_in_result(main):
                await asyncio.sleep(0)
            try:
                while True:  # CPython loses a signal that it handles within a finalizer
                    signal.pthread_kill(main, signal.SIGINT)
                    await asyncio.sleep(20)
            finally:
                gone.set()

        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
        try:
            with pytest.raises(KeyboardInterrupt):
                wait(forever())
        finally:
            signal.signal(signal.SIGINT, before)
        assert gone.wait(5)
        assert down(2) == [2, 1]

    async def test_a_cancelled_turn_leaves_a_thread_that_takes_a_message(self, sql: SQLCheckpointer) -> None:
        started, trace = asyncio.Event(), []

        async def slow(order: int) -> str:
            """Never ends."""
            started.set()
            await asyncio.Event().wait()
            return "never"

        async def hook(request: Any, state: Any, next: Any) -> Any:
            try:
                return await next(request)
            finally:
                trace.append("cleaned up")

        model = ScriptedModel([asks(call("slow", order=1)), "later"])
        tool = StructuredTool.from_function(coroutine=slow)
        agent = Agent(model, tools=[tool], filters=[Filter("f", around_tool=hook)], checkpointer=sql)
        task = asyncio.ensure_future(agent.ainvoke("go", thread="t"))
        await started.wait()
        task.cancel()
        with pytest.raises((asyncio.CancelledError, ThreadError)):
            await task
        assert trace == ["cleaned up"]
        result = await agent.ainvoke("again", thread="t")
        assert isinstance(result, Completed)
        assert result.answer == "later"


class TestColourOfTheEntry:
    """Graph and saver are called in the colour of the public verb, whoever asks in the middle."""

    @staticmethod
    async def _async_half() -> str:
        return "async"

    def half(self) -> str:
        return call_half(lambda: "sync", self._async_half)

    def test_a_sync_verb(self) -> None:
        with enter_sync():
            assert self.half() == "sync"

    def test_an_async_hook_of_a_sync_verb(self) -> None:
        async def hook() -> str:
            return await spawn(self.half)

        with enter_sync():
            assert wait(hook()) == "sync"

    async def test_an_async_verb(self) -> None:
        assert await spawn(self.half) == "async"

    async def test_a_sync_verb_on_a_running_loop(self) -> None:
        with enter_sync():
            assert self.half() == "sync"
        assert await spawn(waits_on_loop)
        assert not waits_on_loop()


def test_a_notebook_calls_invoke_inside_its_running_loop(sql: SQLCheckpointer) -> None:
    """With async hooks and an async-only tool."""

    async def hook(request: Any, state: Any, next: Any) -> Any:
        await asyncio.sleep(0)
        return await next(request)

    async def tool(order: int) -> str:
        """Async only."""
        return f"did {order}"

    async def cell() -> Any:
        model = ScriptedModel([asks(call("tool", order=1)), "end"])
        one = Filter("f", around_turn=hook, around_chat=hook, around_tool=hook)
        agent = Agent(model, tools=[StructuredTool.from_function(coroutine=tool)], filters=[one], checkpointer=sql)
        return agent.invoke("go", thread="t"), [e.text for e in agent.stream("x", thread="u") if isinstance(e, Token)]

    with pytest.raises(Exception, match="script has 2 replies"):
        asyncio.run(cell())  # the second turn has no reply: the first went through
    state = sql.get_tuple({"configurable": {"thread_id": "t"}})
    assert state is not None
    assert results(state.checkpoint["channel_values"]["messages"]) == ["did 1"]


class TestNestedAgents:
    """A tool that calls another agent, in each colour of the tool, in each mode."""

    @staticmethod
    def inner(**options: Any) -> Agent:
        async def hook(request: Any, state: Any, next: Any) -> Any:
            await asyncio.sleep(0)
            return await next(request)

        return Agent(
            ScriptedModel(lambda messages: f"inner heard {messages[-1].text}"),
            filters=[Filter("inner", around_turn=hook, around_chat=hook)],
            **options,
        )

    @pytest.mark.parametrize("way", ["def", "async", "def in a loop"])
    @pytest.mark.parametrize("saved", [False, True])
    def test_it_answers(self, drive: Drive, way: str, saved: bool, sql: SQLCheckpointer) -> None:
        inner = self.inner(checkpointer=sql) if saved else self.inner()
        thread = {"thread": "inner"} if saved else {}

        def ask(question: str) -> str:
            """Ask the other one."""
            if way == "def in a loop":
                return asyncio.run(aask(question))
            return inner.invoke(question, **thread).answer

        async def aask(question: str) -> str:
            """Ask the other one."""
            return (await inner.ainvoke(question, **thread)).answer

        if way.startswith("def"):
            tool = StructuredTool.from_function(ask, name="ask")
        else:
            tool = StructuredTool.from_function(coroutine=aask, name="ask")

        async def outer(request: Any, state: Any, next: Any) -> Any:
            return await next(request)

        model = ScriptedModel([asks(call("ask", question="why")), "outer end"])
        agent = Agent(
            model, tools=[tool], filters=[Filter("outer", around_chat=outer, around_tool=outer)], checkpointer=sql
        )
        driver = drive(agent)
        result, events = driver.start("go", thread="outer")
        assert results(result.messages) == ["inner heard why"]
        assert result.answer == "outer end"
        if driver.streams:
            assert delivered(events) == "outer end"
        if saved:
            kept = inner.graph.get_state({"configurable": {"thread_id": "inner"}}).values["messages"]
            assert [one.text for one in kept] == ["why", "inner heard why"]
        assert [one.text for one in agent.graph.get_state({"configurable": {"thread_id": "outer"}}).values["messages"]][
            ::3
        ] == ["go", "outer end"]

    @pytest.mark.parametrize("verb", ["invoke", "ainvoke", "stream", "astream"])
    def test_an_async_tool_may_block_on_a_sync_verb(self, verb: str) -> None:
        """It blocks the loop that it is on, and still the inner agent's async hooks find one."""
        said = run_alone(BUSY + f"""
        from modes import Driver
        async def ask(question: str) -> str:
            "Ask the other one."
            return Agent(SyncModel(), filters=[hooked("inner")]).invoke(question).answer
        tool = StructuredTool.from_function(coroutine=ask)
        model = ScriptedModel([asks(call("ask", question="why")), "outer end"])
        result, _ = Driver(Agent(model, tools=[tool], filters=[hooked("outer")]), "{verb}").start("go")
        print([one.text for one in result.messages])
        """, seconds=15)  # fmt: skip
        assert said == "['go', '', 'end', 'outer end']"


class TestManyAtOnce:
    """More turns than the default executor has threads: none waits for a thread that waits for it."""

    def test_threads_with_async_hooks_and_sync_models(self) -> None:
        said = run_alone(
            BUSY
            + """
        agent = Agent(SyncModel(), filters=[hooked("f")])
        def turn(n):
            answers[n] = agent.invoke("go").answer
        in_threads(turn, 60)
        """
        )
        assert said == "all answers"

    def test_threads_whose_tools_call_agents_with_async_hooks_and_sync_models(self) -> None:
        """The outer tools fill the executor; the models inside need a thread too."""
        said = run_alone(
            BUSY
            + """
        gate = threading.Barrier(FULL, timeout=3)
        inner = Agent(SyncModel(), filters=[hooked("inner")])
        def ask(question: str) -> str:
            "Ask the other one."
            try:
                gate.wait()  # as many at once as an executor has threads
            except threading.BrokenBarrierError:
                pass
            return inner.invoke(question).answer
        outer = Agent(ScriptedModel(asking), tools=[ask], filters=[hooked("outer")])
        def turn(n):
            answers[n] = outer.invoke("go").answer
        in_threads(turn, 4 * FULL)
        """
        )
        assert said == "all answers"

    def test_tasks_whose_sync_tools_call_agents(self) -> None:
        said = run_alone(
            BUSY
            + """
        inner = Agent(SyncModel(), filters=[hooked("inner")])
        def ask(question: str) -> str:
            "Ask the other one."
            return inner.invoke(question).answer
        outer = Agent(ScriptedModel(asking), tools=[ask], filters=[hooked("outer")])
        async def turn(n):
            answers[n] = (await outer.ainvoke("go")).answer
        async def main():
            await asyncio.gather(*(turn(n) for n in range(60)))
        asyncio.run(main())
        print("all" if len(answers) == 60 else len(answers), "answers")
        """
        )
        assert said == "all answers"

    def test_sync_turns_with_an_async_turn_hook_and_a_saver(self, tmp_path: Path) -> None:
        said = run_alone(
            BUSY
            + f"""
        from scallion import SQLCheckpointer
        saver = SQLCheckpointer("sqlite:///{tmp_path / "many.db"}")
        agent = Agent(SyncModel(), filters=[hooked("f")], checkpointer=saver)
        def turn(n):
            answers[n] = agent.invoke("go", thread=str(n)).answer
        in_threads(turn, 30)
        saver.close()
        """
        )
        assert said == "all answers"


BUSY = """
        import asyncio, os, sys, threading, time
        from langchain_core.language_models import BaseChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from langchain_core.tools import StructuredTool
        from scallion import Agent, Filter
        from scallion.testing import ScriptedModel
        from scenes import asks, call

        FULL = min(32, (os.cpu_count() or 1) + 4)
        answers = {}

        class SyncModel(BaseChatModel):
            @property
            def _llm_type(self):
                return "sync"
            def _generate(self, messages, stop=None, run_manager=None, **kwargs):
                return ChatResult(generations=[ChatGeneration(message=AIMessage("end"))])

        async def hook(request, state, next):
            await asyncio.sleep(0)
            return await next(request)

        def asking(messages):
            return "end" if messages[-1].type == "tool" else asks(call("ask", question="why"))

        def hooked(name):
            return Filter(name, around_turn=hook, around_chat=hook, around_tool=hook)

        def in_threads(turn, many):
            threads = [threading.Thread(target=turn, args=(n,), daemon=True) for n in range(many)]
            for one in threads:
                one.start()
            end = time.monotonic() + 12
            for one in threads:
                one.join(max(0, end - time.monotonic()))
            print("all" if len(answers) == many else len(answers), "answers")
            sys.stdout.flush()
            if len(answers) < many:
                os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_a_loop_of_its_own() -> None:
    """The parent's background thread does not exist in the child."""
    said = run_alone("""
        import asyncio, os, signal
        from scallion.bridge import wait
        async def who(): return os.getpid()
        assert wait(who()) == os.getpid()
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            os._exit(0 if wait(who()) == os.getpid() else 3)
        _, status = os.waitpid(child, 0)
        print("child", status, wait(who()) == os.getpid())
    """)
    assert said == "child 0 True"
