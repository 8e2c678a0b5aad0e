"""The first notebook, executed in two real kernels: what one paused, the other resumes from the same database."""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FILE = Path(__file__).parents[2] / "notebooks" / "01_pause_and_resume.ipynb"
Outputs = dict[str, str]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Outputs]:
    """Start a kernel, run the cells with a tag in it, shut it down; the text of each cell by its id."""
    monkeypatch.setenv("SCALLION_DB", f"sqlite:///{tmp_path / 'notebook.db'}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run(tag: str) -> Outputs:
        part = nbformat.read(FILE, as_version=4)
        part.cells = [cell for cell in part.cells if tag in cell.metadata.get("tags", [])]
        NotebookClient(part, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return {cell.id: "".join(map(text, cell.outputs)) for cell in part.cells}

    return run


def text(output: nbformat.NotebookNode) -> str:
    """What an output shows as plain text."""
    return output["text"] if output.output_type == "stream" else output["data"]["text/plain"]


def test_two_kernels(kernel: Callable[[str], Outputs]) -> None:
    """Sync and async calls in both; nothing but the database goes from one to the other."""
    first = kernel("first")
    assert "{'order_id': 1042, 'amount': 189.0}" in first["pause"]
    assert "refund_order" in first["apause"]
    second = kernel("second")
    assert second["pending"] == "['evening', 'morning']"
    assert second["resume"] == "'Done. Order 1042: 189.00 EUR are on their way back.'"
    assert "Order 1042: 20.00 EUR are on their way back." in second["aresume"]
    assert second["sessions"].count("'idle'") == 2


def test_it_is_clean_in_git() -> None:
    """No outputs and no counts; the kernel is named, so that JupyterLab does not ask for one."""
    notebook = nbformat.read(FILE, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert all(set(cell.metadata.tags) <= {"first", "second"} and cell.metadata.tags for cell in code)
