"""Going on from the step that holds the input of a turn and nothing more."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints.databases import one_of_each
from modes import Mode
from sessions.talks import Counter, Spoken, said, talker

from scallion import Agent, SQLCheckpointer, approve, around_turn, filters
from scallion.session import Step


@around_turn
def shouts(request: Any, state: Any, next: Any) -> Any:
    """Reads what was sent, as filters around a turn do."""
    result = next(request)
    last = f"({request.messages[-1].text}) {result.message.text}"
    return result.replace(message=result.message.model_copy(update={"content": last}))


AROUND: Any = {"inside": [], "around": [shouts]}


def told(number: int, where: str) -> list[str]:
    """What a turn comes to."""
    shouted = f"(look {number}) " if where == "around" else ""
    answer = f"ai: {shouted}{4 * number - 1}: seen look {number}"
    return [f"human: look {number}", "ai: ", f"tool: seen look {number}", answer]


def inputs(session: Any) -> list[Step]:
    """The steps that hold the input of a turn."""
    return [one for one in session.see("checkpoints") if one.source == "input"]


def two_turns(agent: Agent, mode: Mode) -> Spoken:
    spoken = Spoken(agent.session("t"), mode)
    spoken.send("look 1")
    spoken.send("look 2")
    return spoken


@one_of_each
@pytest.mark.parametrize("begun", AROUND)
@pytest.mark.parametrize("resumed", AROUND)
def test_a_turn_goes_on_from_its_input(saver: SQLCheckpointer, begun: str, resumed: str) -> None:
    """Whoever began it, the filters around it see what was sent, and nothing of it is left open."""
    session = two_turns(talker(saver, around=AROUND[begun]), "invoke")
    again = talker(saver, around=AROUND[resumed])
    for at, expected in enumerate([told(1, resumed), [*told(1, begun), *told(2, resumed)]]):
        forked, rewound = (
            again.session(session.session.fork(at=place).thread) for place in (inputs(session)[at], None)
        )
        rewound.rewind(inputs(Spoken(rewound, "invoke"))[at])
        for gone_on in (forked, rewound):
            gone_on.resume()
            assert said(gone_on.messages) == expected
            assert [one.status for one in gone_on.history] == ["completed"] * (at + 1)
            assert not saver.doctor.examine(gone_on.thread)


@pytest.mark.parametrize("around", AROUND)
def test_each_verb_knows_the_input(mode: Mode, sql: SQLCheckpointer, around: str) -> None:
    """The next message stands behind it, a cancelled turn keeps it, in each mode it is gone on with."""
    agent = talker(sql, around=AROUND[around])
    spoken = two_turns(agent, mode)
    second = inputs(spoken)[1]
    expected = said(spoken.see("messages"))
    resumed, sent, cancelled = (spoken.fork(second) for _ in range(3))
    resumed.resume()
    assert said(resumed.see("messages")) == expected
    sent.send("hello")
    assert said(sent.see("messages"))[4:6] == ["human: look 2", "human: hello"]
    assert cancelled.do("cancel")
    assert said(cancelled.see("messages"))[4:] == ["human: look 2"]
    for one in (resumed, sent, cancelled):
        assert not sql.doctor.examine(one.session.thread)


def test_a_filter_that_came_while_it_paused_sees_what_was_sent(sql: SQLCheckpointer) -> None:
    """Nothing stood around the turn before, so that there is no marker which holds it; a retry begins behind it."""
    counter = Counter()
    talker(sql, counter=counter).invoke("pay 1", thread="t")
    seen: list[Any] = []
    answers = filters.validate_answer(lambda answer: len(seen) == 1 or "once more", max_retries=1)

    @around_turn
    def sees(request: Any, state: Any, next: Any) -> Any:
        seen.append(said(request.messages))
        return next(request)

    agent = talker(sql, around=[answers, sees], counter=counter)
    agent.resume("t", approve())
    assert seen[0] == ["human: pay 1"]
    assert said(agent.session("t").messages)[:3] == ["human: pay 1", "ai: ", "tool: paid pay 1"]
    assert counter.ran == ["pay 1"]
    assert not sql.doctor.examine("t")
