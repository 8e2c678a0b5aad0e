"""The fixtures, as a project that uses Scallion has them: in a run of pytest of its own."""

from __future__ import annotations

from typing import Any

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
pytest_plugins = ["scallion.testing.fixtures"]
"""
DESK = """
import pytest
from scallion import Agent, approve, filters
from scallion.testing import ScriptedModel, approve_with, asks, assert_called_once, call

def refund(order: int) -> str:
    '''Refund an order.'''
    return f"refunded {order}"

def agent(model, saver):
    gate = filters.approval({"refund": filters.Policy(allowed=("approve",), expires_in=3600)})
    return Agent(model, tools=[refund], filters=[gate], checkpointer=saver)
"""


TESTS = """
def test_it_pays_once(drive, scripted_model, sqlite_saver, executions, clock):
    desk = agent(scripted_model([asks(call("refund", order=1042)), "done"]), sqlite_saver)
    paused, _ = drive(desk).start("Refund 1042", thread="t")
    clock.forward(minutes=59)
    result, _ = drive(desk).resume("t", approve())
    assert result.answer == "done"
    assert_called_once(executions, refund, order=1042)

def test_too_late(scripted_model, sqlite_saver, executions, clock):
    desk = agent(scripted_model([asks(call("refund", order=1042)), "too late"]), sqlite_saver)
    desk.invoke("Refund 1042", thread="t")
    clock.forward(minutes=61)
    assert desk.resume("t").answer == "too late"
    assert executions == []

@pytest.mark.parametrize("order", [1, 2])
def test_refund(cassette, order):
    model = cassette(lambda: ScriptedModel([asks(call("refund", order=order)), f"refunded {order}"]))
    answer = approve_with(agent(model, "sqlite://"), f"Refund {order}", approve()).answer
    assert answer == f"refunded {order}"
"""
OWN = """
class TestOne:
    def test_same(self, cassette):
        assert cassette(lambda: ScriptedModel(["one"])).invoke("which?").text == "one"

class TestTwo:
    def test_same(self, cassette):
        assert cassette(lambda: ScriptedModel(["two"])).invoke("which?").text == "two"

    class TestThree:
        def test_same(self, cassette):
            assert cassette(lambda: ScriptedModel(["three"])).invoke("which?").text == "three"

@pytest.mark.parametrize("sign", ["a/b", "a b", "a_b", "a" * 300, "a" * 299 + "b"])
def test_sign(cassette, sign):
    assert cassette(lambda: ScriptedModel([sign])).invoke("which?").text == sign

def test_sign_a_b(cassette):
    assert cassette(lambda: ScriptedModel(["itself"])).invoke("which?").text == "itself"

@pytest.mark.parametrize("many", [1, 2])
def test_several(cassette, many):
    for name in ("first", "second", "first_"):
        assert cassette(lambda: ScriptedModel([f"{name} {many}"]), name=name).invoke("which?").text == f"{name} {many}"
"""
FAILING = """
def test_asks_too_little(scripted_model):
    scripted_model(["hello", "unused"]).invoke("hi")

def test_calls_what_is_not_there(scripted_model):
    agent(scripted_model([asks(call("refnd")), "done"]), "sqlite://").invoke("hi")

def test_fails_by_itself(scripted_model):
    scripted_model(["unused"])
    assert False

def test_not_recorded(cassette):
    cassette(None)

def test_replays_too_little(cassette):
    cassette(None, name="first").invoke("Refund 3")
"""
RECORDED = """
def test_replays_too_little(cassette):
    cassette(lambda: ScriptedModel(["hello"]), name="first").invoke("Refund 2")
"""


@pytest.mark.slow
def test_the_fixtures_in_a_project(pytester: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded when asked for and replayed otherwise; what is left fails a test, but for one that failed already."""

    def run(tests: str) -> Any:
        module = pytester.makepyfile(test_desk=DESK + tests)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:asyncio", module)

    pytester.makeconftest(CONFTEST)
    monkeypatch.setenv("SCALLION_RECORD", "1")
    run(TESTS + RECORDED).assert_outcomes(passed=8)
    files = [one.name for one in pytester.path.glob("cassettes/test_desk/*.json")]
    assert len(files) == 3
    assert "test_replays_too_little.first.json" in files
    monkeypatch.delenv("SCALLION_RECORD")
    ran = run(TESTS.replace("lambda: Scripted", "lambda: never") + FAILING)
    ran.assert_outcomes(passed=8, failed=4, errors=1)
    ran.stdout.fnmatch_lines_random(
        [
            "*reply 2 was not asked for: 'unused'*",
            "*ScriptMismatch*calls 'refnd'*refund*",
            "*run the test once with SCALLION_RECORD=1 to record it*",
            "*CassetteMiss*",
        ]
    )


@pytest.mark.slow
def test_each_test_has_a_cassette_of_its_own(pytester: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is alike in the names of two: what one has recorded no other is given."""
    pytester.makeconftest(CONFTEST)
    module = pytester.makepyfile(test_own=DESK + OWN)
    for recording in ("1", "0"):
        monkeypatch.setenv("SCALLION_RECORD", recording)
        ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:asyncio", module)
        ran.assert_outcomes(passed=11)
    assert len([*pytester.path.glob("cassettes/test_own/*.json")]) == 15
