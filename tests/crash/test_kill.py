"""Kill -9 at every point of a turn: the thread opens, its history is valid, nothing that finished is repeated."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import processes
from tests.crash import worker
from tests.crash.worker import Desk
from tests.loop.scripts import assert_valid, history, results, told

from scallion import Completed, NotPaused, Paused, approve

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    """The desk in each colour."""
    return Desk(tmp_path, request.param)


def killed(step: Callable[..., None], *args: Any) -> None:
    """Run that step in a process of its own, which must kill itself."""
    process = processes.Process(target=step, args=args)
    process.start()
    process.join(60)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    assert code == -signal.SIGKILL, f"the process was to be killed, and ended with {code}"


def dies(desk: Desk, point: str, message: str = "mail", *, gate: bool = False, turn_filter: str = "") -> None:
    """A turn of the desk is killed at that point."""
    killed(worker.dying_turn, desk, point, message, gate, turn_filter)


def count(desk: Desk, line: str) -> int:
    """How often that happened, over all processes."""
    return desk.effects.count(line)


def takes_a_message(desk: Desk, **parts: Any) -> Completed:
    """A new message on the thread of the crash comes to its answer, over a valid history."""
    agent = desk.agent(**parts)
    done = desk.run(agent, "invoke", "look", thread="t")
    assert isinstance(done, Completed)
    assert done.answer == "all done"
    assert_valid(history(agent, "t"))
    return done


def recovered(desk: Desk, **parts: Any) -> Completed:
    """The crashed turn is carried to its answer, over a valid history."""
    agent = desk.agent(**parts)
    done = desk.run(agent, "recover", "t")
    assert isinstance(done, Completed)
    assert done.answer == "all done"
    assert_valid(history(agent, "t"))
    assert desk.run(agent, "recover", "t") is None
    return done


def test_killed_before_the_first_write_leaves_a_thread_that_was_never_there(desk: Desk) -> None:
    dies(desk, "before the first write")
    assert count(desk, "mail") == 0
    agent = desk.agent()
    assert desk.run(agent, "recover", "t") is None
    takes_a_message(desk)
    assert len(history(agent, "t")) == 4


def test_killed_before_its_effect_a_tool_runs_on_recovery(desk: Desk) -> None:
    dies(desk, "inside the tool, before its effect")
    recovered(desk)
    assert count(desk, "mail") == 1
    assert count(desk, "model 1") == 1


def test_killed_after_its_effect_a_tool_is_run_again_by_recover_as_nobody_knows_its_outcome(desk: Desk) -> None:
    """What happens today: `recover` is at-least-once for the one effect of unknown outcome."""
    dies(desk, "inside the tool, after its effect")
    assert count(desk, "mail") == 1
    recovered(desk)
    assert count(desk, "mail") == 2


def test_killed_after_its_effect_a_tool_is_not_run_again_by_a_new_message_and_the_model_is_told(desk: Desk) -> None:
    """What happens today: a new message is at-most-once; the call is answered "not known"."""
    dies(desk, "inside the tool, after its effect")
    done = takes_a_message(desk)
    assert count(desk, "mail") == 1
    assert "not known" in next(iter(results(done.messages).values()))


def test_killed_in_one_tool_of_a_batch_the_sibling_that_finished_is_not_repeated_on_recovery(desk: Desk) -> None:
    dies(desk, "inside the tool, before its effect", "look mail")
    assert count(desk, "look") == 1
    done = recovered(desk)
    assert (count(desk, "look"), count(desk, "mail")) == (1, 1)
    assert list(results(done.messages).values()) == ["looked", "mailed"]


def test_killed_in_one_tool_of_a_batch_the_sibling_keeps_its_result_under_a_new_message(desk: Desk) -> None:
    dies(desk, "inside the tool, before its effect", "look mail")
    done = takes_a_message(desk)
    first, second, _ = results(done.messages).values()
    assert first == "looked"
    assert "not known" in second
    assert (count(desk, "look"), count(desk, "mail")) == (2, 0)


def test_killed_between_a_tool_and_its_result_the_thread_recovers(desk: Desk) -> None:
    """What happens today: the result was not stored, so `recover` runs the tool a second time."""
    dies(desk, "before the result is stored")
    assert count(desk, "mail") == 1
    recovered(desk)
    assert count(desk, "mail") == 2
    assert count(desk, "model 1") == 1


def test_killed_between_a_tool_and_its_result_a_new_message_does_not_run_it_again(desk: Desk) -> None:
    dies(desk, "before the result is stored")
    takes_a_message(desk)
    assert count(desk, "mail") == 1


def test_killed_between_the_result_and_the_next_model_call_the_tool_is_not_repeated(desk: Desk) -> None:
    dies(desk, "before the next model call")
    recovered(desk)
    assert desk.effects == ["model 1", "mail", "model 3"]


def test_killed_between_the_result_and_the_next_model_call_a_new_message_finds_the_result(desk: Desk) -> None:
    dies(desk, "before the next model call")
    done = takes_a_message(desk)
    assert count(desk, "mail") == 1
    assert list(results(done.messages).values()) == ["mailed", "looked"]


def test_killed_before_the_commit_of_a_turn_recover_finishes_it_without_model_or_tool(desk: Desk) -> None:
    dies(desk, "before the commit of the turn", turn_filter="plain")
    before = desk.effects
    recovered(desk, turn_filter="plain")
    assert desk.effects == before == ["model 1", "mail", "model 3"]


def test_killed_before_the_commit_of_a_turn_a_new_message_finishes_it_first(desk: Desk) -> None:
    dies(desk, "before the commit of the turn", turn_filter="plain")
    done = takes_a_message(desk, turn_filter="plain")
    assert count(desk, "mail") == 1
    assert [one.text for one in done.messages if one.type == "ai" and one.text] == ["all done", "all done"]


def test_killed_inside_a_tool_under_a_turn_filter_recovers(desk: Desk) -> None:
    dies(desk, "inside the tool, before its effect", "look mail", turn_filter="plain")
    recovered(desk, turn_filter="plain")
    assert (count(desk, "look"), count(desk, "mail"), count(desk, "model 1")) == (1, 1, 1)


def test_killed_inside_a_tool_under_a_turn_filter_takes_a_new_message(desk: Desk) -> None:
    dies(desk, "inside the tool, before its effect", "look mail", turn_filter="plain")
    takes_a_message(desk, turn_filter="plain")
    assert (count(desk, "look"), count(desk, "mail")) == (2, 0)


def test_killed_in_the_second_attempt_recover_goes_on_there_and_keeps_one_history(desk: Desk) -> None:
    dies(desk, "inside the second attempt", turn_filter="again")
    done = recovered(desk, turn_filter="again")
    assert (count(desk, "mail"), done.attempts) == (1, 2)
    assert told(history(desk.agent(), "t")) == ["user: mail", "model: mail", "tool: mailed", "model: all done"]


def test_killed_in_the_second_attempt_a_new_message_finds_neither_the_rejected_answer_nor_the_feedback(
    desk: Desk,
) -> None:
    dies(desk, "inside the second attempt", turn_filter="again")
    takes_a_message(desk, turn_filter="plain")
    assert count(desk, "mail") == 1
    assert told(history(desk.agent(), "t"))[:4] == ["user: mail", "model: mail", "tool: mailed", "user: look"]


def test_killed_while_paused_the_thread_resumes_with_what_was_shown(desk: Desk) -> None:
    killed(worker.pausing_turn, desk, "look mail")
    assert desk.effects == ["model 1", "look"]
    agent = desk.agent(gate=True)
    done = desk.run(agent, "resume", "t", approve())
    assert isinstance(done, Completed)
    assert desk.effects == ["model 1", "look", "mail", "model 4"]
    assert_valid(history(agent, "t"))


def test_killed_while_paused_recover_shows_the_pause_and_runs_nothing(desk: Desk) -> None:
    killed(worker.pausing_turn, desk, "look mail")
    before = desk.effects
    shown = desk.run(desk.agent(gate=True), "recover", "t")
    assert isinstance(shown, Paused)
    assert [one.tool for one in shown.approvals] == ["mail"]
    assert desk.effects == before


def test_killed_before_the_decision_is_recorded_the_approval_stays_open(desk: Desk) -> None:
    dies(desk, "before the decision is recorded", gate=True)
    agent = desk.agent(gate=True)
    shown = desk.run(agent, "resume", "t")
    assert isinstance(shown, Paused)
    assert [one.status for one in shown.approvals] == ["pending"]
    assert count(desk, "mail") == 0
    assert isinstance(desk.run(agent, "resume", "t", approve()), Completed)
    assert count(desk, "mail") == 1


def test_killed_right_after_the_decision_the_thread_resumes_by_its_name_alone(desk: Desk) -> None:
    dies(desk, "after the decision is recorded", gate=True)
    assert count(desk, "mail") == 0
    agent = desk.agent(gate=True)
    assert isinstance(desk.run(agent, "resume", "t"), Completed)
    assert desk.effects == ["model 1", "mail", "model 3"]
    assert_valid(history(agent, "t"))
    with pytest.raises(NotPaused):
        desk.run(agent, "resume", "t")


def test_killed_after_an_inbox_recorded_the_decision_the_thread_resumes_by_its_name_alone(desk: Desk) -> None:
    killed(worker.pausing_turn, desk, "mail")
    killed(worker.deciding, desk)
    agent = desk.agent(gate=True)
    assert isinstance(desk.run(agent, "resume", "t"), Completed)
    assert desk.effects == ["model 1", "mail", "model 3"]
    [used] = agent.checkpointer.approvals.list(None, thread="t").items
    assert (used.status, used.decided_by) == ("used", "ana")


def test_killed_inside_an_approved_tool_the_decision_is_not_asked_for_again(desk: Desk) -> None:
    """What happens today: the approved call whose outcome is unknown runs again on recovery, without a new question."""
    dies(desk, "inside the tool, after its effect", gate=True)
    agent = desk.agent(gate=True)
    done = desk.run(agent, "recover", "t")
    assert isinstance(done, Completed)
    assert count(desk, "mail") == 2
    assert_valid(history(agent, "t"))


def test_killed_between_an_approved_tool_and_the_next_model_call_it_is_not_repeated(desk: Desk) -> None:
    dies(desk, "before the next model call", gate=True)
    recovered(desk, gate=True)
    assert desk.effects == ["model 1", "mail", "model 3"]
