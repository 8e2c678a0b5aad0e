"""`%load_ext scallion` in a real kernel: what is listed, a chat that pauses, and what is said of wrong usage."""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.timeout(600)  # the machine may be busy
SETUP = '''
from langchain_core.messages import AIMessage, ToolMessage
from scallion import Agent, filters
from scallion.testing import ScriptedModel

%load_ext scallion

def refund(order: int) -> str:
    """Give money back."""
    return f"refunded {order}"

def clerk(messages):
    if isinstance(messages[-1], ToolMessage):
        return AIMessage(messages[-1].text)
    if "refund" in messages[-1].text:
        return AIMessage("I ask.", tool_calls=[{"name": "refund", "args": {"order": 7}, "id": f"c{len(messages)}"}])
    return AIMessage(f"message {len(messages)}")

class desk:
    agent = Agent(
        ScriptedModel(clerk, chunk_size="word"),
        tools=[refund],
        filters=[filters.approval({"refund": True})],
        checkpointer="sqlite:///magics.db",
    )

agent = desk.agent
'''
Outputs = list[str]


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Outputs]]:
    """Run cells behind the setup; the texts that each of them shows, errors too."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("SCALLION_DB", "sqlite:///magics.db")

    def run(*sources: str) -> list[Outputs]:
        made = [nbformat.v4.new_code_cell(source) for source in (SETUP, *sources)]
        notebook = nbformat.v4.new_notebook(cells=made)
        resources = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=300, allow_errors=True, resources=resources).execute()
        assert made[0].outputs == []
        return [[text(output) for output in cell.outputs] for cell in made[1:]]

    return run


def text(output: nbformat.NotebookNode) -> str:
    """What an output shows as plain text."""
    match output.output_type:
        case "stream":
            return str(output.text)
        case "error":
            return f"TRACEBACK {output.ename}"
    return str(output["data"]["text/plain"])


def test_a_chat_and_what_is_kept_of_it(cells: Callable[..., list[Outputs]]) -> None:
    """One thread from cell to cell; a pause has a panel below it, and a message meanwhile is not sent."""
    first, second, other, paused, meanwhile, pending, sessions, shown, graph = cells(
        "%%chat agent\nhello",
        "%%chat agent\nand again",
        "%%chat desk.agent --thread t-1\nhello",
        "%%chat agent --thread t-2 --by ana\nplease refund",
        "%%chat agent --thread t-2\nhello?",
        "%scallion pending",
        "%scallion sessions --status paused",
        "%scallion show t-1",
        "%scallion graph agent",
    )
    assert first[0].startswith("thread ")
    assert first[1:] == ["message 1\n[done]"]
    assert second == ["message 3\n[done]"]
    assert other == ["message 1\n[done]"]
    assert paused[0] == "I ask.\n[paused]"
    assert "refund" in paused[1]
    assert paused[2] == "Panel('t-2', open, 1 to decide)"
    assert "the message was not sent" in "".join(meanwhile)
    assert meanwhile[-1] == "Panel('t-2', open, 1 to decide)"
    assert "t-2" in pending[0]
    assert "t-2" in sessions[0]
    assert "t-1" not in sessions[0]
    assert "message 1" in shown[0]
    assert "1 model call" in shown[0]  # of the timeline
    assert "chat: approval" not in graph[0]
    assert "tool: approval > tool" in graph[0]


def test_the_cell_of_an_agent_is_run_again(cells: Callable[..., list[Outputs]]) -> None:
    """The conversation goes on; another agent, or the same one on another database, has one of its own."""
    built = """
        agent = Agent(ScriptedModel(clerk), name="NAME", checkpointer="DATABASE")
    """
    desk = built.replace("NAME", "desk")
    first, again, other, elsewhere, back = cells(
        *(part for source in (
            desk.replace("DATABASE", "sqlite:///magics.db"),
            desk.replace("DATABASE", "sqlite:///magics.db"),
            built.replace("NAME", "till").replace("DATABASE", "sqlite:///magics.db"),
            desk.replace("DATABASE", "sqlite://"),
            desk.replace("DATABASE", "sqlite:///magics.db"),
        ) for part in (source.strip(), "%%chat agent\nhello"))
    )[1::2]  # fmt: skip
    assert [said[-1] for said in (first, again, other, elsewhere, back)] == [
        f"message {number}\n[done]" for number in (1, 3, 1, 1, 5)
    ]
    assert [said[0].startswith("thread ") for said in (first, again, other, elsewhere, back)] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_agents_that_come_and_go_have_conversations_of_their_own(cells: Callable[..., list[Outputs]]) -> None:
    """An agent may be built where another one was freed: nobody reads what that one was told."""
    loop = """
import gc
for number in range(20):
    agent = None
    gc.collect()
    agent = Agent(ScriptedModel(clerk), name=f"agent {number}", checkpointer="sqlite:///magics.db")
    get_ipython().run_cell_magic("chat", "agent", "hello")
"""
    (said,) = cells(loop)
    assert "message 3" not in "".join(said)
    assert "".join(said).count("message 1") == 20


def test_wrong_usage_is_a_line(cells: Callable[..., list[Outputs]]) -> None:
    """No traceback, and what would have been right."""
    wrong = {
        "%scallion": "required: verb",
        "%scallion pendin": "invalid choice: 'pendin'",
        "%scallion show": "required: THREAD",
        "%scallion show 'x": "No closing quotation",
        "%scallion pending --db sqlite:///nowhere.db": "there is no database at nowhere.db",
        "%scallion sessions --status asleep": "invalid choice: 'asleep'",
        "%scallion graph nobody": "there is no variable 'nobody'",
        "%scallion graph refund": "refund is a function, not a scallion Agent",
        "%%chat\nhello": "required: AGENT",
        "%%chat agent --thread\nhello": "expected one argument",
        "%%chat agent\n  ": "the cell has no text to send",
    }
    told = cells(*wrong)
    for (line, expected), said in zip(wrong.items(), told, strict=True):
        assert expected in "".join(said), line
        assert "TRACEBACK" not in "".join(said), line
