"""The pictures in JupyterLab itself, in both of its themes: a real kernel shows them, a real browser draws them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from tests.inspect.test_browser import CONTRAST
from tests.notebooks.lab import CHROMIUM, lab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: nothing was looked at in JupyterLab"),
]
CELLS = [
    """\
from tests.inspect.scenery import refund_trace
from tests.inspect.test_pictures import agent_on
from scallion import SQLCheckpointer, edit
agent = agent_on(SQLCheckpointer("sqlite:///agent.db"))
session = agent.session("t-1", user="ana")
session.send("hello")
paused = session.send("refund 1042")
paused""",
    "done = session.resume(edit({'order': 1042, 'amount': 20.0}), by='bob'); done.replace(trace=refund_trace())",
    "session",
    "agent",
    "agent.checkpointer.sessions",
    "session.compare(session.history[0], session.history[1])",
]

FOREIGN = """() => [...document.querySelectorAll(".scallion :is(code, ul, td, th, tr)")].filter((one) => {
  const style = getComputedStyle(one);
  const plain = style.backgroundColor === "rgba(0, 0, 0, 0)" && style.textAlign === "left";
  return !plain || parseFloat(style.paddingLeft) > 0;
}).map((one) => [getComputedStyle(one).backgroundColor, getComputedStyle(one).textAlign, one.outerHTML.slice(0, 80)])"""
"""What still looks as the style sheets of JupyterLab would have it: grounds, columns on the right, bullets."""


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """One with a cell for each kind of picture."""
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(f"# picture {n}\n{cell}") for n, cell in enumerate(CELLS)]
    )
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, tmp_path / "pictures.ipynb")
    return tmp_path


@pytest.mark.timeout(900)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_in_jupyterlab(notebook: Path, theme: str) -> None:
    """Every word can be read, whatever the style sheets of JupyterLab make of it; nothing is fetched, nothing fails."""
    with lab(notebook, theme) as found:
        found.open("pictures.ipynb")
        for number in range(len(CELLS)):
            output = found.run(f"# picture {number}")
            picture = output.locator(".scallion")
            assert picture.count() == 1
            picture.evaluate("(one) => one.querySelectorAll('details').forEach((fold) => fold.open = true)")
            assert found.page.evaluate(FOREIGN) == []
            contrasts = [one for one in found.page.evaluate(CONTRAST) if one[0] < 4.5]
            assert contrasts == []
            picture.screenshot(path=str(notebook / f"{theme}-{number}.png"))
        back = found.page.evaluate("getComputedStyle(document.querySelector('.scallion')).backgroundColor")
        light = [int(one) for one in back[4:-1].split(",")]
        assert (min(light) > 200) is (theme == "light")
        assert (found.strangers, found.errors) == ([], [])
