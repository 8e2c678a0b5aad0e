"""The notebooks as a person has them: JupyterLab in a real browser, clicks, and what stands on the page then."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.notebooks.lab import CHROMIUM, ROOT, Lab, lab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: nobody has clicked on anything (set CHROMIUM=/path)"),
]

ANSWER = "Done. Order 1042: 189.00 EUR are on their way back."


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Lab]:
    """A browser on a server over the notebooks, with a database of its own."""
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(file, tmp_path)
    with lab(tmp_path, SCALLION_DB=f"sqlite:///{tmp_path / 'lab.db'}") as found:
        yield found
        assert found.strangers == []
        assert found.errors == []


def test_approve_edit_and_reject_in_01(page: Lab) -> None:
    """The whole notebook runs from its menu; each of the three buttons is clicked on a pause of its own."""
    from playwright.sync_api import expect

    page.open("01_pause_and_resume.ipynb")
    page.run_all()
    shown = page.output("agent.session(")
    panel, cell = shown.locator(".scallion-panel"), "panel.result and"
    expect(panel).to_contain_text("1 to decide")
    expect(panel).to_contain_text('"amount": 189.0')
    expect(panel.get_by_role("button")).to_have_text(["Approve", "Edit", "Reject", "Answer", "Look again"])
    expect(shown.get_by_text("run the cell again to decide")).to_be_hidden()
    assert page.output(cell).inner_text() == ""

    panel.get_by_role("button", name="Approve").click()
    expect(panel).to_contain_text(ANSWER)
    expect(panel).to_contain_text("approve by ana")
    expect(panel.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.run(cell)).to_contain_text(ANSWER)

    panel = page.run("agent.session(").locator(".scallion-panel")
    panel.get_by_role("button", name="Edit").click()
    expect(panel.get_by_label("order_id")).to_have_value("1042")
    panel.get_by_label("amount").fill("a lot")
    panel.get_by_role("button", name="Approve as edited").click()
    expect(panel.get_by_role("alert").filter(has_text="a number is needed")).to_be_visible()
    expect(panel.get_by_label("amount")).to_have_value("a lot")
    expect(panel).to_contain_text("1 to decide")
    panel.get_by_label("amount").fill("20")
    panel.get_by_role("button", name="Approve as edited").click()
    expect(panel).to_contain_text("Order 1042: 20.00 EUR are on their way back.")
    expect(page.run(cell)).to_contain_text("20.00 EUR")

    panel = page.run("agent.session(").locator(".scallion-panel")
    panel.get_by_role("button", name="Reject").click()
    panel.get_by_label("Reason").fill("not <b>this</b> week")
    panel.get_by_role("button", name="Reject").click()
    expect(panel).to_contain_text("reject by ana: not <b>this</b> week")
    expect(panel.locator("b")).to_have_count(0)
    expect(page.run(cell)).to_contain_text("not <b>this</b> week")


def test_approve_in_03(page: Lab) -> None:
    """The turn goes on below the cards; what is looked at again shows more, the graph its way."""
    from playwright.sync_api import expect

    page.open("03_inspecting_a_run.ipynb")
    page.run_all()
    panel = page.output("desk = panel(").locator(".scallion-panel")
    expect(page.output("paused = run(")).to_contain_text("retry_tool: retry")
    expect(page.output("session.trace()")).not_to_contain_text("validate_answer")
    expect(page.output("%scallion pending")).to_contain_text("refund_order")
    panel.get_by_role("button", name="Approve").click()
    expect(panel).to_contain_text("✓ refund_order")
    expect(panel).to_contain_text("Order 1042 is refunded.")
    expect(page.run("session.trace()")).to_contain_text("validate_answer")
    expect(page.run("HTML(graph_svg").get_by_role("img")).to_be_visible()
    expect(page.run("%scallion pending")).not_to_contain_text("refund_order")


def test_what_is_left_of_a_panel_when_its_kernel_is_gone(page: Lab) -> None:
    """The saved notebook shows the cards, without buttons, and says how to come by them again."""
    from playwright.sync_api import expect

    page.open("01_pause_and_resume.ipynb")
    page.run_all()
    expect(page.output("agent.session(").locator(".scallion-panel")).to_contain_text("1 to decide")
    page.save()
    page.restart_and_reload()
    left = page.output("agent.session(")
    expect(left).to_contain_text("The agent wants to call refund_order.")
    expect(left).to_contain_text("run the cell again to decide")
    expect(left.get_by_role("button")).to_have_count(0)
    # It is JupyterLab that complains of a widget without a kernel.
    page.errors[:] = [one for one in page.errors if "model not found" not in one]
