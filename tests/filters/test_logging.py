"""`filters.logging`: a pair of lines around each turn, model call and tool call; texts and arguments at debug only."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from modes import Drive
from scenes import Desk, asks, call

from scallion import Agent, ConfigurationError, Filter, ModelError, Paused, approve, filters, pause
from scallion.filters.approve_if import not_approved
from scallion.testing import ScriptedModel

SECRETS = ("order 1042", "1042", "the answer is private")


def script() -> ScriptedModel:
    return ScriptedModel([asks(call("refund", order=1042)), "the answer is private"])


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    """The lines of that level, without the times."""
    return [one.getMessage().split(" after ")[0] for one in caplog.records if one.levelno == level]


def test_each_chain_is_a_pair_in_the_order_of_the_onion(drive: Drive, caplog: Any) -> None:
    """Turn around model call, tool call, model call."""
    caplog.set_level(logging.INFO, "scallion.log")
    drive(Agent(script(), tools=Desk().tools, filters=[filters.logging()])).start("order 1042, please")
    turn = lines(caplog)[0].split(" began")[0]
    assert lines(caplog) == [
        f"{turn} began: 1 message",
        "model call began: 1 message",
        "model call ended",
        "tool refund (c1) began",
        "tool refund (c1) ended",
        "model call began: 3 messages",
        "model call ended",
        f"{turn} ended",
    ]
    ends = [one.getMessage().split(": ", 1)[1] for one in caplog.records if " ended after" in one.getMessage()]
    assert ends == [
        "no finish reason, 1 tool call",
        "success",
        "no finish reason, 0 tool calls",
        "1 tool call, 1 attempt",
    ]


def test_texts_and_arguments_are_in_debug_lines_only(drive: Drive, caplog: Any) -> None:
    """The same run at both levels: whatever is above debug holds nothing of the conversation."""
    caplog.set_level(logging.DEBUG, "scallion.log")
    drive(Agent(script(), tools=Desk().tools, filters=[filters.logging()])).start("order 1042, please")
    above = "\n".join(one.getMessage() for one in caplog.records if one.levelno > logging.DEBUG)
    debug = "\n".join(lines(caplog, logging.DEBUG))
    for secret in SECRETS:
        assert secret not in above
        assert secret in debug


def test_the_place_in_the_list_decides_what_is_seen(caplog: Any) -> None:
    """Behind a filter that changes the arguments, the changed ones are logged."""

    def change(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(call={**request.call, "args": {"order": 7}}))

    caplog.set_level(logging.DEBUG)
    outer, inner = (filters.logging(logging.getLogger(name), name=name) for name in ("outer", "inner"))
    stack = [outer, Filter("change", around_tool=change), inner]
    Agent(script(), tools=Desk().tools, filters=stack).invoke("go")
    arguments = {one.name: one.getMessage() for one in caplog.records if "has the arguments" in one.getMessage()}
    assert arguments["outer"].endswith("{'order': 1042}")
    assert arguments["inner"].endswith("{'order': 7}")


def test_a_logger_of_the_callers_own_may_be_an_adapter(caplog: Any) -> None:
    adapter = logging.LoggerAdapter(logging.getLogger("shop"), {"tenant": "eu"})
    caplog.set_level(logging.INFO, "shop")
    Agent(ScriptedModel(["hi"]), filters=[filters.logging(adapter)]).invoke("go")
    assert {one.tenant for one in caplog.records} == {"eu"}


def test_a_failure_closes_its_pair_without_the_message_of_the_error(drive: Drive, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "scallion.log")
    with pytest.raises(ModelError):
        drive(Agent(ScriptedModel([ValueError("key sk-1 is wrong")]), filters=[filters.logging()])).start("go")
    assert lines(caplog)[2] == "model call failed with ModelError"
    assert lines(caplog)[3].endswith("failed with ModelError")
    assert "sk-1" not in caplog.text


def test_a_pause_and_what_goes_on_after_it(drive: Drive, memory: Any, caplog: Any) -> None:
    """The pause passes, and is called one; the model is not called again for the log."""
    caplog.set_level(logging.INFO, "scallion.log")
    model = script()
    stack = [filters.logging(), filters.approval({"refund": True})]
    driver = drive(Agent(model, tools=Desk().tools, filters=stack, checkpointer=memory))
    result, _ = driver.start("go", thread="t")
    assert isinstance(result, Paused)
    assert [one.split(" (c1)")[-1] for one in lines(caplog)][-2] == " paused"
    assert lines(caplog)[-1].endswith(" paused")
    caplog.clear()
    driver.resume("t", approve())
    assert " went on: " in lines(caplog)[0]
    assert len(model.calls) == 2


def test_a_model_cannot_write_lines(drive: Drive, caplog: Any) -> None:
    """Names of tools that there are not and ids of calls are its text."""
    forged = "x\ntool refund (c1) ended after 0.1 s: success"
    model = ScriptedModel([asks(call(forged, "c1"), call("refund", "c2) ended\u2028\x1b", order=1)), "done"])
    caplog.set_level(logging.DEBUG, "scallion.log")
    drive(Agent(model, tools=Desk().tools, filters=[filters.logging()])).start("go")
    assert all(one.isprintable() for level in (logging.INFO, logging.DEBUG) for one in lines(caplog, level))
    assert "tool (unknown) (c1) began" in lines(caplog)
    assert r"tool refund ('c2) ended\u2028\x1b') began" in lines(caplog)
    assert not any("refund (c1)" in one for one in lines(caplog))
    assert f"by the name {forged!r}" in caplog.text


def test_a_call_that_did_not_run_is_not_called_a_success(drive: Drive, memory: Any, caplog: Any) -> None:
    """Whoever inside denied it; one that ran is one, also where a pause came behind it."""

    def hold(request: Any, state: Any, next: Any) -> Any:
        reply = next(request)
        pause("Keep the result?", allowed=("approve",))
        return reply

    caplog.set_level(logging.INFO, "scallion.log")
    deny = Filter("deny", around_tool=lambda request, state, next: not_approved(request))
    for inner, told in ((deny, "not run, a filter answered"), (Filter("hold", around_tool=hold), "success")):
        stack = [filters.logging(), inner]
        driver = drive(Agent(script(), tools=Desk().tools, filters=stack, checkpointer=memory))
        if isinstance(driver.start("go", thread=told)[0], Paused):
            driver.resume(told, approve())
        (end,) = [one.getMessage() for one in caplog.records if "refund (c1) ended" in one.getMessage()]
        assert end.endswith(f": {told}")
        caplog.clear()


@pytest.mark.parametrize("logger", ["scallion", 3, print])
def test_what_is_no_logger_is_refused(logger: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'audit'.*logging\.Logger"):
        filters.logging(logger, name="audit")
