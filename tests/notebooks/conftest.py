"""Notebooks, run as a person runs them: cell by cell, in real kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from checkpoints.databases import bare_database, server
from nbclient import NotebookClient

__all__ = ["bare_database", "server"]

FOLDER = Path(__file__).parents[2] / "notebooks"
SECONDS = 120
"""How long a cell may take on a busy machine."""
Outputs = dict[str, str]
Kernel = Callable[..., Outputs]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Runs a notebook of that name in a kernel of its own, the cells with a tag alone if it is given one.

    It gives the text of each code cell by the id of the cell. The kernel works in a folder of the test, and is gone
    afterwards; the folder stays for the next one. SCALLION_DB is a file in there.
    """
    monkeypatch.setenv("SCALLION_DB", f"sqlite:///{tmp_path / 'notebook.db'}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run(name: str, tag: str | None = None) -> Outputs:
        part = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        if tag is not None:
            part.cells = [cell for cell in part.cells if tag in cell.metadata.get("tags", [])]
        NotebookClient(part, timeout=SECONDS, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return {cell.id: "".join(map(_text, cell.outputs)) for cell in part.cells if cell.cell_type == "code"}

    return run


def _text(output: nbformat.NotebookNode) -> str:
    """What an output shows as plain text."""
    return output["text"] if output.output_type == "stream" else output["data"]["text/plain"]
