"""The timeline of a trace: as text, for a terminal, as HTML."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from tests.inspect.scenery import BEGAN, asked, decided, refund_trace
from tests.inspect.wellformed import read

from scallion import reject
from scallion.inspect import timeline, to_html, to_text
from scallion.tracing import Part, Span, Trace

TEXT = """\
Turn turn-1 of thread t-1
completed · 680 ms · 4 model calls · 2 tool calls · tokens 1,662 in, 43 out · cost 0.0023 · 1 pause
▸ part 1  2026-11-30 12:00:00 UTC · paused      ━━━━━━━━━━━━━━━━━━━━━━━━    430 ms
  ↻ attempt 1  paused                           ━━━━━━━━━━━━━━━━━━━━━━━━    430 ms
    ○ pii  redact · messages[2]                 ━━━━━━━━━━━━━━━━━━━━━━━     410 ms
      ○ retry_model  retry ×2                   ━━━━━━━━━━━━━━━━━━━━━━      400 ms
        ◆ gpt-5  error · ConnectionError        ━━━━━━                      100 ms
        ◆ gpt-5  error · ConnectionError                ━━━━━━              100 ms
        ◆ gpt-5  812 in, 31 out · cost 0.0012                 ━━━━━━━━      150 ms
    ○ approval  paused                                                 ━     10 ms
      ● refund  paused                                                 ━      0 ms
  ? refund  edit by ana · amount: 189.0 → 20.0                           after 2 min
▸ part 2  2026-11-30 12:02:05 UTC · completed   ━━━━━━━━━━━━━━━━━━━━━━━━    250 ms
  ↻ attempt 1                                   ━━━━━━━━━━━━━━━━━━━━━━━━    250 ms
    ○ approval  edit · args                     ━━━                          30 ms
      ● refund                                  ━━                           20 ms
    ◆ gpt-5  850 in, 12 out · cost 0.0011          ━━━━━━━━━━━━━━━━━━━      200 ms
  … 3 spans not recorded"""


def printed(trace: Trace, width: int = 100) -> list[str]:
    """What rich prints in a terminal of that width."""
    screen = Console(width=width, file=io.StringIO(), force_terminal=False)
    screen.print(timeline(trace))
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_as_text() -> None:
    """Every part, attempt, layer and call with its bar, the pause with what was decided, and the totals."""
    assert to_text(refund_trace()) == TEXT


def test_in_a_terminal() -> None:
    """The same lines in columns; a narrow terminal folds names, and keeps bars and durations."""
    wide = printed(refund_trace())
    assert [" ".join(line.split()) for line in wide] == [" ".join(line.split()) for line in TEXT.splitlines()]
    narrow = printed(refund_trace(), 60)
    assert max(map(len, narrow)) <= 60
    assert [line for line in narrow if "100 ms" in line and "━━━━━━" in line]


def test_as_html() -> None:
    """Nested as it happened; bars are placed by the time of their part."""
    page = read(to_html(refund_trace()))
    assert page.text.startswith("Turn turn-1 completed 680 ms 4 model calls 2 tool calls tokens 1,662 in, 43 out")
    for told in ("○ pii redact messages[2]", "retry ×2", "error ConnectionError", "edit by ana amount: 189.0 → 20.0"):
        assert told in page.text
    bars = [attributes["style"] for _, attributes in page.elements if attributes.get("class") == "sca-span"]
    assert bars[4] == "margin-left:2.33%;width:23.26%"
    depths = [attributes["style"] for _, attributes in page.elements if attributes.get("class") == "sca-label"]
    assert depths[:5] == [f"--sca-depth:{depth}" for depth in (0, 1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("approval", "told"),
    [
        (asked(), "refund  waits for a decision"),
        (asked(status="superseded"), "refund  superseded"),
        (decided(decision=reject("too much")), "refund  reject by ana"),
        (decided(decision=reject(), decided_by=None), "refund  reject by somebody"),
        (None, "approval a1  not kept any more"),
    ],
)
def test_what_became_of_a_pause(approval: object, told: str) -> None:
    """Also where nobody decided, or nothing is known any more; a reason is content, and stands in the approval."""
    trace = replace(refund_trace(), approvals=[approval] if approval else [])
    line = next(line for line in to_text(trace).splitlines() if line.startswith("  ?"))
    assert line.split("?", 1)[1].strip().startswith(told)


def test_a_question_that_stays_open_over_a_resume_stands_once() -> None:
    """Behind the part that asked it; one that goes on to wait for it says how many."""
    about = [asked(), asked(id="a2")]
    parts = [
        Part(BEGAN, 0.1, "paused", asked=("a1", "a2")),
        Part(BEGAN, 0.1, "paused", asked=("a2",), answered=("a1",)),
        Part(BEGAN, 0.1, "completed", answered=("a2",)),
    ]
    told = to_text(Trace("t", "x", parts, about)).splitlines()[2:]
    assert [line.strip()[0] for line in told] == list("▸??▸▸")
    assert ["still open" in line for line in told] == [False, False, False, True, False]
    assert "paused · 1 still open" in told[3]


def test_a_layer_that_blocked() -> None:
    """It is told in the colour of what went wrong; one that answered itself in that of what was changed."""
    for action, tone in (("deny_by_rule", "bad"), ("short_circuit", "changed")):
        guard = Span("layer", "guard", 0.0, 0.1, hook="around_tool", actions=[action], calls=0)
        trace = Trace(None, "x", [Part(BEGAN, 0.1, "completed", [guard])])
        html = to_html(trace)
        read(html)
        assert f"sca-row sca-of-layer sca-{tone}" in html
        assert f"○ guard  {action}" in to_text(trace)


def test_a_trace_of_nothing() -> None:
    """As it may be read of a turn that was not traced; spans that took no time and parts that took none."""
    empty = Trace("t", "x")
    assert to_text(empty) == "Turn x of thread t\nnothing recorded"
    read(to_html(empty))
    assert empty.status is None
    assert empty.began_at is None
    assert empty.to_json() == {"thread": "t", "turn": "x", "status": None, "parts": [], "approvals": []}
    instant = Trace("t", "x", [Part(BEGAN, 0.0, "failed", [Span("tool", "a", 0.0, 0.0)], error="OSError")])
    read(to_html(instant))
    assert "failed · OSError" in to_text(instant)


def test_many_spans_are_cut() -> None:
    """And counted; so are those that the recorder left out."""
    many = [Span("tool", f"tool-{n}", n / 1000, 0.001) for n in range(1000)]
    trace = Trace("t", "x", [Part(BEGAN, 1.0, "completed", many, omitted=7)])
    page = read(to_html(trace))
    assert "700 spans not shown" in page.text
    assert "7 spans not recorded" in page.text
    assert len(to_text(trace).splitlines()) < 70


def test_a_deep_onion_stays_in_its_column() -> None:
    """A hundred layers are the most that an agent has."""
    span = Span("model", "m", 0.0, 1.0)
    for number in range(100):
        span = Span("layer", f"layer-{number}", 0.0, 1.0, actions=["changed"], inside=[span])
    page = read(to_html(Trace("t", "x", [Part(BEGAN, 1.0, "completed", [span])])))
    assert "layer-0" in page.text
    assert not any(attributes.get("style") == "--sca-depth:25" for _, attributes in page.elements)
