"""The notebook on inspecting, executed in a real kernel, with a decision between its cells."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.timeout(600)  # the machine may be busy
FILE = Path(__file__).parents[2] / "notebooks" / "03_inspecting_a_run.ipynb"
DECIDED = """
from scallion import edit
agent.resume("inspected", edit({"order_id": 1042, "amount": 20.0}), by="ana").answer
"""


def shown(cell: Any, mime: str = "text/plain") -> str:
    """What the outputs of a cell show."""
    return "\n".join(one["text"] if one.output_type == "stream" else one["data"].get(mime, "") for one in cell.outputs)


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The cells by their ids, run; those behind the panel once more after somebody has decided, with a `+`."""
    monkeypatch.delenv("SCALLION_DB", raising=False)  # the magics and the agent have one database without it too
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(FILE, as_version=4)
    ids = [cell.id for cell in notebook.cells]
    decided = nbformat.v4.new_code_cell(DECIDED, id="decided")
    again = [nbformat.from_dict({**one, "id": f"{one.id}-again"}) for one in notebook.cells[ids.index("panel") + 1 :]]
    notebook.cells += [decided, *again]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


def test_what_is_seen_before_and_after_the_decision(cells: dict[str, Any]) -> None:
    """The retry, the pause, the edit and the second attempt at the answer are all in the timeline."""
    assert "retry_tool: retry" in shown(cells["run"])
    assert shown(cells["run"]).endswith("[paused]")
    assert "refund_order" in shown(cells["paused"])
    assert "Panel('inspected', open, 1 to decide)" in shown(cells["panel"])
    assert "retry_tool" in shown(cells["trace"])
    assert "validate_answer" not in shown(cells["trace"])
    assert "refund_order" in shown(cells["pending"])
    assert "Order 1042 is refunded." in shown(cells["decided"])
    after = shown(cells["trace-again"])
    assert "validate_answer" in after
    assert "edit by ana" in after
    assert "('retry_tool', 'around_tool', ['retry'])" in shown(cells["spans-again"])
    assert "<svg" in shown(cells["graph-again"], "text/html")
    assert "Order 1042 is refunded." in shown(cells["session-again"])
    assert "refund_order" not in shown(cells["pending-again"])
