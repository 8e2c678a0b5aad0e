"""The refund desk as it is loaded by path: asks, pauses, and goes on with what a person decided."""

import importlib.util
import json
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

from scallion import Completed, Paused, approve, edit, reject

ROOT = Path(__file__).parents[2]
ASK = "Refund order 1042 and email the customer"


def load(path: Path) -> ModuleType:
    """The module in a file, as a stranger loads it: nothing is added to the path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def desk_db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The desk's tables; both databases are files in a folder of the test's own."""
    monkeypatch.delenv("SCALLION_MODEL", raising=False)
    monkeypatch.setenv("SCALLION_DB", f"sqlite:///{tmp_path / 'scallion.db'}")
    monkeypatch.setenv("SCALLION_DESK_DB", str(tmp_path / "desk.db"))
    return tmp_path / "desk.db"


@pytest.fixture
def desk(desk_db: Path) -> ModuleType:
    """The module of the refund desk."""
    return load(ROOT / "graphs" / "refund_desk.py")


def rows(path: Path, table: str) -> list[tuple]:
    """What a table of the desk holds, without the times."""
    with sqlite3.connect(path) as connection:
        found = connection.execute(f"select * from {table}").fetchall()
    connection.close()
    return [row[:-1] for row in found]


def paused(result: Completed | Paused) -> dict[str, str]:
    """The open approvals: id by tool."""
    assert isinstance(result, Paused)
    return {approval.tool: approval.id for approval in result.approvals}


def test_a_refund_and_an_email_wait_together(desk: ModuleType, desk_db: Path) -> None:
    """Nothing is done before somebody says so; then both are, and the answer tells it."""
    result = desk.agent.invoke(ASK, thread="t")
    assert set(paused(result)) == {"refund_order", "send_email"}
    assert rows(desk_db, "refunds") == rows(desk_db, "outbox") == []
    done = desk.agent.resume("t", approve())
    assert rows(desk_db, "refunds") == [(1, 1042, 18900, "The customer asked for it")]
    assert [row[1] for row in rows(desk_db, "outbox")] == ["mira@example.com"]
    assert "189.00 EUR" in done.answer
    assert "offline scripted model" in done.answer


def test_another_process_decides_one_by_one(desk: ModuleType, desk_db: Path) -> None:
    """A second load of the file, as in another process, goes on; the calls are decided one after the other."""
    ids = paused(desk.agent.invoke(ASK, thread="t"))
    second = load(ROOT / "graphs" / "refund_desk.py")
    left = second.agent.resume("t", {ids["refund_order"]: approve()})
    assert set(paused(left)) == {"send_email"}
    assert len(rows(desk_db, "refunds")) == 1
    done = load(ROOT / "graphs" / "refund_desk.py").agent.resume("t", {ids["send_email"]: reject("I will call her")})
    assert isinstance(done, Completed)
    assert "I will call her" in done.answer
    assert len(rows(desk_db, "refunds")) == 1
    assert rows(desk_db, "outbox") == []


def test_a_person_lowers_the_amount(desk: ModuleType, desk_db: Path) -> None:
    """The edited arguments are what runs, and what the answer tells."""
    ids = paused(desk.agent.invoke("Refund order 1043", thread="t"))
    lower = edit({"order_id": 1043, "reason": "scratched", "amount": 5.0})
    done = desk.agent.resume("t", {ids["refund_order"]: lower})
    assert rows(desk_db, "refunds") == [(1, 1043, 500, "scratched")]
    assert "as a colleague changed it. Refund 1: 5.00 EUR of order 1043" in done.answer


def test_what_a_person_reads(desk: ModuleType) -> None:
    """The approvals are described in sentences."""
    result = desk.agent.invoke(ASK, thread="t")
    texts = " ".join(approval.description for approval in result.approvals)
    assert "Refund all that is left of order 1042" in texts
    assert "To mira@example.com: Your order 1042" in texts


def test_a_question_needs_nobody(desk: ModuleType) -> None:
    """Looking up is free."""
    assert "Teun de Wit" in desk.agent.invoke("What about order 1043?", thread="t").answer


def test_langgraphs_own_file_finds_it(desk_db: Path) -> None:
    """`langgraph.json` names files and attributes that exist."""
    for target in json.loads((ROOT / "langgraph.json").read_text())["graphs"].values():
        path, name = target.split(":")
        graph = getattr(load(ROOT / path), name)
        assert "chat" in graph.get_graph().nodes
