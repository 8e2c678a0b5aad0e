"""The process is killed over a real client, and another one carries on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from processes import processes

from . import worker
from .clients import PROTOCOLS
from .history import assert_valid, results_of, users_of
from .replies import CALLS, TEXT, stream
from .server import FakeProvider
from .worker import Desk

over_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
pytestmark = pytest.mark.slow


@contextmanager
def started(step: Callable[..., None], *args: Any) -> Iterator[tuple[BaseProcess, Connection]]:
    """That step in a process of its own, forked from a warmed one."""
    here, there = processes.Pipe()
    process = processes.Process(target=step, args=(*args, there))
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()


def kill(process: BaseProcess) -> None:
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def told(step: Callable[..., None], *args: Any) -> Any:
    """What that step, in a process of its own, tells at its end."""
    with started(step, *args) as (process, pipe):
        answer = pipe.recv()
        process.join()
        assert process.exitcode == 0
    return answer


@over_every_protocol
def test_a_killed_pause_goes_on_in_another_process_without_asking_again(
    provider: FakeProvider, protocol: str, tmp_path: Path
) -> None:
    provider.play(stream(f"{protocol}-parallel"), stream(f"{protocol}-text"))
    desk = Desk(protocol, provider.url, tmp_path)
    with started(worker.ask_and_hang, desk, "Refund 1042, please.") as (process, pipe):
        [shown] = pipe.recv()
        assert (shown["tool"], shown["args"]) == CALLS[2]
        kill(process)
    assert sorted(desk.effects) == ["look_up 1042", "look_up 1043"]

    assert told(worker.resume, desk) == TEXT
    assert len(provider.requests) == 2
    assert sorted(desk.effects) == ["look_up 1042", "look_up 1043", 'refund 1042 30.0 broken "lamp" €']
    assert_valid(provider.bodies[1])
    assert len(results_of(provider.bodies[1])) == len(CALLS)


@over_every_protocol
def test_a_process_killed_in_the_middle_of_a_stream_leaves_a_thread_that_takes_a_message(
    provider: FakeProvider, protocol: str, tmp_path: Path
) -> None:
    provider.play(stream(f"{protocol}-text", cut=8, broken="stalled"), stream(f"{protocol}-text", turn=2))
    desk = Desk(protocol, provider.url, tmp_path)
    with started(worker.ask, desk, "Where is order 1042?") as (process, _):
        provider.wait_until_stalled()
        kill(process)

    assert told(worker.ask, desk, "Are you there?") == TEXT
    assert_valid(provider.bodies[1])
    assert "Are you there?" in str(users_of(provider.bodies[1])[-1])


@over_every_protocol
@pytest.mark.parametrize("then", ["resumed", "asked anew"])
def test_a_process_killed_after_its_tools_does_not_run_them_again(
    provider: FakeProvider, protocol: str, then: str, tmp_path: Path
) -> None:
    stalled = stream(f"{protocol}-text", cut=8, broken="stalled")
    provider.play(stream(f"{protocol}-call"), stalled, stream(f"{protocol}-text", turn=2))
    desk = Desk(protocol, provider.url, tmp_path)
    with started(worker.ask, desk, "Where is order 1042?") as (process, _):
        provider.wait_until_stalled()
        kill(process)

    answer = told(worker.go_on, desk) if then == "resumed" else told(worker.ask, desk, "Are you there?")
    assert answer == TEXT
    assert desk.effects == ["look_up 1042"]
    assert_valid(provider.bodies[-1])
    assert len(results_of(provider.bodies[-1])) == 1
