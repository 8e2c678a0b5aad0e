"""The garbage collector rests while many objects are made, and works again behind it whatever happens."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from scallion.sql.garbage import MANY, collector_at_rest


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    assert gc.get_threshold() == before
    assert gc.isenabled()


def test_it_rests_and_works_again(thresholds: tuple[int, int, int]) -> None:
    with collector_at_rest():
        assert gc.get_threshold() == (MANY, *thresholds[1:])
        with collector_at_rest():
            pass
        assert gc.get_threshold()[0] == MANY
    assert gc.get_threshold() == thresholds


def test_an_error_ends_its_rest() -> None:
    with pytest.raises(ValueError, match="mine"), collector_at_rest():
        raise ValueError("mine")


def test_it_works_once_nobody_wants_it_to_rest(thresholds: tuple[int, int, int]) -> None:
    """Threads come and go in any order."""
    together = Barrier(8)

    def rest(times: int) -> None:
        together.wait(10)
        for _ in range(times):
            with collector_at_rest():
                assert gc.get_threshold()[0] == MANY

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(rest, [200] * 8))
    assert gc.get_threshold() == thresholds


def test_it_collects_what_never_ends() -> None:
    """Memory stays bounded where a server takes for ever."""
    before = gc.get_stats()[0]["collections"]
    with collector_at_rest():
        for _ in range(2 * MANY):
            cycle: list[object] = []
            cycle.append(cycle)
    assert gc.get_stats()[0]["collections"] > before


def test_who_has_turned_it_off_keeps_it_off(thresholds: tuple[int, int, int]) -> None:
    gc.set_threshold(0, *thresholds[1:])
    with collector_at_rest():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0
    gc.set_threshold(*thresholds)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_has_it_work(thresholds: tuple[int, int, int]) -> None:
    with collector_at_rest():
        if (child := os.fork()) == 0:
            os._exit(0 if gc.get_threshold() == thresholds else 1)
        assert os.waitpid(child, 0)[1] == 0
