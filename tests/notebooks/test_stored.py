"""How notebooks lie in the repository."""

from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.ipynb")), ids=lambda file: file.stem)
def test_it_is_clean_in_git(file: Path) -> None:
    """No outputs and no counts; the kernel is named, so that JupyterLab does not ask for one."""
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    tagged = [set(cell.metadata.get("tags", [])) for cell in code]
    assert not any(tagged) or all(tagged), "every cell has its kernels, or none has"
    assert set().union(*tagged) <= {"first", "second"}
