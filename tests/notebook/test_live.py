"""A turn that is seen while it streams: what stands on the screen in between, and at the end."""

from collections.abc import Iterator
from contextlib import aclosing, closing
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import IPython.display
import pytest
from langchain_core.messages import AIMessage

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    FilterActed,
    GuardActed,
    ModelStarted,
    Paused,
    Reasoning,
    Retracted,
    ThreadPaused,
    Token,
    ToolFinished,
    ToolStarted,
    filters,
    pause,
)
from scallion.notebook import arun, awatch, live, run, watch
from scallion.notebook.progress import Progress, Throttled
from scallion.testing import ScriptedModel, asks, call

ANSWER = "It costs <b>5</b>."


class Text(HTMLParser):
    """The text of HTML, and its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.tags: set[str] = set()

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is published, in a notebook, where nothing is waited for."""
    told: list[dict[str, Any]] = []

    def publish(data: dict[str, str], **options: Any) -> None:
        told.append({**options, **data})

    class Shell:
        kernel = object()

    monkeypatch.setattr(IPython.display, "publish_display_data", publish)
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    monkeypatch.setattr("scallion.notebook.progress.SECONDS", 0.0)
    return told


def look(order: int) -> str:
    """Look an order up."""
    return f"order {order}: 5"


def agent(**options: Any) -> Agent:
    """An agent that looks something up and answers."""
    script = [AIMessage("I look.", tool_calls=asks(call("look", order=1)).tool_calls), ANSWER]
    return Agent(ScriptedModel(script, chunk_size="word"), tools=[look], **options)


def test_the_text_grows_and_ends_as_the_answer(screen: list[dict[str, Any]]) -> None:
    """One output, drawn again and again; all of it text, whatever it looks like."""
    result = run(agent(), "what does it cost?")
    assert isinstance(result, Completed)
    assert result.answer == ANSWER
    texts = [one["text/plain"] for one in screen]
    assert texts[0] == "[running]"
    assert any("It costs" in one and ANSWER not in one for one in texts)
    assert texts[-1].splitlines()[0] == "I look."
    assert texts[-1].splitlines()[1].startswith("✓ look (")
    assert texts[-1].splitlines()[2:] == [ANSWER, "[done]"]
    assert [one["update"] for one in screen] == [False] + [True] * (len(screen) - 1)
    assert len({one["transient"]["display_id"] for one in screen}) == 1
    drawn = Text()
    drawn.feed(screen[-1]["text/html"])
    assert ANSWER in drawn.text
    assert drawn.tags == {"div", "small"}


async def test_the_same_with_await(screen: list[dict[str, Any]]) -> None:
    """On the loop of the notebook."""
    result = await arun(agent(), "what does it cost?")
    assert isinstance(result, Completed)
    assert screen[-1]["text/plain"].endswith(f"{ANSWER}\n[done]")
    assert await awatch(agent().astream("again"))


def test_a_pause(screen: list[dict[str, Any]], tmp_path: Path) -> None:
    """It is the result, and is said; a resume is watched as any stream."""

    def ask() -> str:
        """Ask."""
        return str(pause("well?").message)

    made = Agent(
        ScriptedModel([asks(call("ask")), "thanks"]),
        tools=[ask],
        filters=[filters.approval()],
        checkpointer=f"sqlite:///{tmp_path / 'a.db'}",
    )
    assert isinstance(run(made, "x", thread="t"), Paused)
    assert screen[-1]["text/plain"].endswith("[paused]")
    with pytest.raises(ThreadPaused):
        run(made, "y", thread="t")
    assert screen[-1]["text/plain"] == "[not begun]"
    result = watch(made.stream_resume("t", {"type": "respond", "message": "yes"}))
    assert isinstance(result, Completed)
    made.checkpointer.close()


def test_an_error_and_an_interrupt(screen: list[dict[str, Any]]) -> None:
    """They are raised; the screen says that the turn was stopped, and the stream is closed."""
    closed: list[int] = []

    def broken(error: BaseException) -> Iterator[Any]:
        try:
            yield Token("half an ", call="c")
            raise error
        finally:
            closed.append(1)

    for error in (ValueError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            watch(broken(error))
        assert screen[-1]["text/plain"] == "half an \n[stopped]"
    assert closed == [1, 1]


@pytest.mark.parametrize("stream", [5, iter([]), [1], None])
async def test_what_is_no_stream_is_refused(screen: list[dict[str, Any]], stream: Any) -> None:
    """Nothing is drawn."""
    with pytest.raises(ConfigurationError, match="awatch what"):
        watch(stream)
    with pytest.raises(ConfigurationError, match="watch shows what"):
        await awatch(stream)
    assert screen == []


async def test_each_of_the_two_names_the_other(screen: list[dict[str, Any]]) -> None:
    """Where a stream is for the other one."""
    with closing(agent().stream("x")) as stream, pytest.raises(ConfigurationError, match="not generator"):
        await awatch(stream)
    async with aclosing(agent().astream("x")) as other:
        with pytest.raises(ConfigurationError, match="not async_generator"):
            watch(other)
    assert screen == []


def test_in_a_terminal_only_the_end_is_shown(screen: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot draw over what it has written."""
    monkeypatch.setattr(IPython, "get_ipython", object)
    run(agent(), "x")
    assert len(screen) == 1


def test_in_a_script_it_is_printed(
    screen: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No shell is made for it."""
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    run(agent(), "x")
    assert screen == []
    assert capsys.readouterr().out.endswith(f"{ANSWER}\n[done]\n")


def test_drawings_are_not_more_than_needed(screen: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A token waits for the next drawing, a tool does not, and the end is whole."""
    monkeypatch.setattr("scallion.notebook.progress.SECONDS", 1e9)
    run(agent(), "x")
    assert not any("It costs" in one["text/plain"] for one in screen[:-2])
    assert ANSWER in screen[-1]["text/plain"]


@pytest.mark.parametrize(("characters", "drawings"), [(1000, 100), (10_000, 100), (100_000, 10)])
def test_a_long_text_is_drawn_less_often(monkeypatch: pytest.MonkeyPatch, characters: int, drawings: int) -> None:
    """Each drawing sends all of it: in ten seconds a million characters at most."""
    now = [0.0]
    monkeypatch.setattr("scallion.notebook.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    seen, drawn = Progress(), []
    seen.take(Token("x" * characters, call="a"))
    throttled = Throttled(lambda: drawn.append(1), seen)
    for tick in range(1, 1001):
        now[0] = tick / 64
        throttled(at_once=False)
    assert abs(len(drawn) - drawings * 1000 / 640) < drawings / 4


def test_what_is_seen_of_each_event() -> None:
    """Retractions take their text away, also of a call that broke off."""
    seen = Progress()
    for event in [
        ModelStarted("a"),
        Reasoning("hmm", call="a"),
        Token("wro", call="a"),
        Token("ng", call="a"),
        Retracted("a"),
        Token("right \x1b[2J", call="b"),
        ToolStarted("c", "look"),
        ToolStarted("d", "look"),
        ToolFinished("c", "error", 1.25),
        FilterActed("retry", "around_chat", "ignored_error"),
        FilterActed("approval", "around_tool", "deny_by_rule", tool="mail", call_id="e"),
        GuardActed("pii", "tool_args", "mask", {"email": 2}),
    ]:
        seen.take(event)
    assert list(seen.lines()) == [
        "· taken back: a text that does not stand",
        "right \\x1b[2J",
        "✗ look (1.2 s)",
        "→ look",
        "· retry: ignored error",
        "· approval: deny by rule, mail",
        "· pii: mask 2 email in tool args",
    ]
    assert [one["state"] for one in seen.to_json() if one["kind"] == "tool"] == ["error", "running"]


def test_the_answer_that_stands_is_shown() -> None:
    """Whatever was streamed before a filter changed it."""
    seen = Progress()
    seen.take(Token("the secret is 5", call="a"))
    seen.take(Completed(AIMessage("the secret is ***"), []))
    assert list(seen.lines()) == ["the secret is ***"]
    assert live.STYLE.keys() == {"text", "thought", "tool", "note"}
