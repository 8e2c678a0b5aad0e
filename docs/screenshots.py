"""The pictures of the documentation, taken of the notebooks in JupyterLab: `python docs/screenshots.py`.

Needs what the tests need, Chromium too. Writes docs/images/NAME-light.png and NAME-dark.png.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.notebooks.lab import THEMES, Lab, lab  # noqa: E402

IMAGES = ROOT / "docs" / "images"


def main() -> None:
    """Take all of them, in both themes."""
    IMAGES.mkdir(exist_ok=True)
    for theme in THEMES:
        with TemporaryDirectory() as folder:
            place = Path(folder)
            for file in (ROOT / "notebooks").glob("0[13]_*.ipynb"):
                shutil.copy(file, place)
            with lab(place, theme, SCALLION_DB=f"sqlite:///{place / 'pictures.db'}") as page:
                _panel(page, theme)
                _run(page, theme)


def _panel(page: Lab, theme: str) -> None:
    """A card with its form open and a field that is wrong."""
    page.open("01_pause_and_resume.ipynb")
    page.run_all()
    panel = page.output("agent.session(").locator(".scallion-panel")
    panel.get_by_role("button", name="Edit").click()
    panel.get_by_label("amount").fill("a lot")
    panel.get_by_role("button", name="Approve as edited").click()
    panel.get_by_text("a number is needed").wait_for()
    _save(panel, "panel", theme)


def _run(page: Lab, theme: str) -> None:
    """A turn that went on below its card, its timeline, its graph."""
    page.open("03_inspecting_a_run.ipynb")
    page.run_all()
    panel = page.output("desk = panel(").locator(".scallion-panel")
    panel.get_by_role("button", name="Approve").click()
    panel.get_by_text("Order 1042 is refunded.").wait_for()
    _save(panel, "went-on", theme)
    _save(page.run("session.trace()").locator(".scallion"), "timeline", theme)
    _save(page.run("HTML(graph_svg").get_by_role("img"), "graph", theme)


def _save(what: Any, name: str, theme: str) -> None:
    what.scroll_into_view_if_needed()
    what.screenshot(path=IMAGES / f"{name}-{theme}.png", animations="disabled", caret="hide")
    print(f"{name}-{theme}.png")


if __name__ == "__main__":
    main()
