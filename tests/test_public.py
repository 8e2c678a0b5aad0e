"""The public surface: the names, what an import costs, and the example of the README."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scallion

ROOT = Path(__file__).parents[1]

NAMES = """
    Agent Limits Session SQLCheckpointer Inbox Policy filters errors events
    Filter TokenTransform around_turn around_chat around_tool token_transform compose pause transient
    Completed Paused Approval Decision
    approve edit reject respond happened rerun stop
    TurnRequest ChatRequest ChatReply ToolRequest ToolReply ToolFailure
    TurnStarted ModelStarted Token Reasoning ToolCallDelta Retracted ModelFinished ToolStarted ToolFinished FilterActed
    GuardActed
    ScallionError ConfigurationError FilterError ModelError LimitExceeded ValidationFailed Blocked
    ThreadError ThreadBusy ThreadPaused NotPaused LeaseLost
    DecisionError UnknownApproval InvalidDecision AlreadyDecided ApprovalExpired PauseChanged
    StorageError SchemaError NotSerializable TypeBlocked WrongKey Closed
""".split()

TESTING = """
    ScriptedModel ScriptExhausted ScriptMismatch BreaksOff Chunks asks call malformed
    ReplayModel CassetteMiss
    MODES Mode Drive Driver delivered approve_with Recording Recorded
    Crash crash_at Executions executions assert_called_once Clock check_chunking
    FilterConformance check_filter
""".split()

HEAVY = ("langgraph", "langchain_core", "sqlalchemy", "alembic", "pydantic", "rich")


def loaded(code: str) -> set[str]:
    """The packages that a new process has imported after running the code."""
    code += "; import sys; print(*{name.split('.')[0] for name in sys.modules})"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_the_public_names_are_these() -> None:
    """`__all__` holds them and no others, each once."""
    assert sorted(scallion.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_resolves(name: str) -> None:
    """And is listed by `dir`."""
    assert getattr(scallion, name) is not None
    assert name in dir(scallion)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Lazy names do not hide a typing mistake."""
    with pytest.raises(AttributeError, match="Agnet"):
        _ = scallion.Agnet


def test_importing_is_cheap() -> None:
    """`import scallion` alone loads neither langgraph, langchain nor SQLAlchemy."""
    assert not loaded("import scallion") & set(HEAVY)


def test_the_inbox_needs_no_graph() -> None:
    """Whoever only decides loads neither langgraph nor langchain."""
    assert not loaded("from scallion import Inbox, approve") & {"langgraph", "langchain_core"}


def test_the_test_kit_is_these_names_and_needs_no_test_framework() -> None:
    """pytest and hypothesis are no dependencies."""
    assert sorted(importlib.import_module("scallion.testing").__all__) == sorted(TESTING)
    assert not loaded("import scallion.testing") & {"pytest", "_pytest", "hypothesis"}


@pytest.mark.parametrize(
    "module", ["filters", "testing", "tools", "errors", "notify", "pii", "session", "inspect", "notebook"]
)
def test_public_modules_are_lists_too(module: str) -> None:
    """Every name in `__all__` of a public module resolves."""
    found = importlib.import_module(f"scallion.{module}")
    assert all(hasattr(found, name) for name in getattr(found, "__all__", ()))


def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """As it stands there, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out == "ran refund_order\nOrder 1042 is refunded.\n"
