"""The form of a card in a real browser: what is on the screen is what is sent, and read back."""

import base64
import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest
from tests.notebooks.lab import CHROMIUM, FLAGS, SLOW

from scallion import Approval, Decision
from scallion.notebook.cards import card, decision

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: nobody has filled in a form"),
]
MOUNT = """
async ([url, part]) => {
  window.sent = [];
  const held = { parts: [part], trail: [], state: { phase: "open", told: "", goes_on: false }, token: "t" };
  const model = { get: (name) => held[name], send: (one) => sent.push(one), on() {}, off() {} };
  document.body.replaceChildren();
  (await import(url)).default.render({ model, el: document.body });
}
"""
Edit = Callable[..., tuple[Decision | None, dict[str, str]]]


@pytest.fixture
def page() -> Iterator[Any]:
    """An empty page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=SLOW)
        opened = browser.new_page()
        opened.set_default_timeout(SLOW)
        yield opened
        browser.close()


@pytest.fixture
def edit(page: Any) -> Edit:
    """Open the form of a call, do something in it, send it; what was decided, or is wrong."""
    script = base64.b64encode(files("scallion.notebook").joinpath("panel.js").read_bytes()).decode()

    def run(schema: Any, args: dict[str, Any], do: Callable[[Any], object] = bool) -> Any:
        asks = Approval("1", "t", "tool_call", tool="x", args=args, args_schema=schema, allowed=("edit",))
        part = {"key": "k", "seen": 0, "card": card(asks), "told": "", "problems": {}, "heard": None}
        page.evaluate(MOUNT, [f"data:text/javascript;base64,{script}", part])
        page.get_by_role("button", name="Edit").click()
        do(page)
        page.get_by_role("button", name="Approve as edited").click()
        sent = json.loads(page.evaluate("JSON.stringify(sent.at(-1))"))
        return decision(asks, sent["kind"], sent["filled"], None)

    return run


@pytest.mark.parametrize(
    ("kind", "begins", "left"),
    [
        ({"type": "boolean"}, False, {"a": False}),
        ({"type": "string"}, "", {"a": ""}),
        ({"type": "integer", "default": 5}, "", "a whole number is needed"),
        ({"type": "number"}, "", "a number is needed"),
        ({"enum": ["x", "y"]}, "", "choose one"),
    ],
)
def test_null_that_is_made_a_value(page: Any, edit: Edit, kind: dict[str, Any], begins: Any, left: Any) -> None:
    """What the field shows then is what is decided; untouched it stays null."""
    schema = {"type": "object", "properties": {"a": {"anyOf": [kind, {"type": "null"}]}}, "required": ["a"]}
    made, _ = edit(schema, {"a": None})
    assert made.args == {"a": None}

    def give(page: Any) -> None:
        page.get_by_label("a: given or not").select_option("a value")
        field = page.get_by_label("a", exact=True)
        assert (field.is_checked() if isinstance(begins, bool) else field.input_value()) == begins

    made, wrong = edit(schema, {"a": None}, give)
    assert (wrong if made is None else made.args) == ({"/a": left} if isinstance(left, str) else left)


def test_every_control_has_a_name(page: Any, edit: Edit) -> None:
    """Those of items, which no label stands in front of, too; items are numbered as they stand, and groups are told."""
    parts = {"type": "object", "properties": {"to": {"type": "string", "description": "Whom."}}}
    lists = {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
        | {"mails": {"type": "array", "items": parts}, "rows": lists, "is it": {}},
    }
    seen: list[str] = []

    def look(page: Any) -> None:
        page.get_by_role("button", name="Remove tags 1", exact=True).click()
        page.get_by_label("tags 1", exact=True).fill("z")
        page.get_by_role("button", name="Add to rows 1", exact=True).click()
        page.get_by_label("rows 1 2", exact=True).fill("q")
        seen.append(page.locator(".scallion-panel form").aria_snapshot())
        seen.append(page.get_by_label("to", exact=True).evaluate("(one) => one.ariaDescribedByElements[0].textContent"))

    made, _ = edit(schema, {"tags": ["a", "b"], "mails": [{"to": "x"}], "rows": [["p"]], "is it": 1}, look)
    assert made is not None
    assert made.args == {"tags": ["z"], "mails": [{"to": "x"}], "rows": [["p", "q"]], "is it": 1}
    tree, told = seen
    assert told == "Whom."
    assert not [
        line for line in tree.splitlines() if line.strip() in ("- textbox", "- combobox", "- group", "- button")
    ]
    for one in (
        'group "mails 1"',
        'combobox "tags 1: given or not"',
        'button "Remove rows 1 2"',
        'button "Add to tags"',
    ):
        assert one in tree


def test_a_control_that_is_gone_leaves_the_cursor_near(page: Any, edit: Edit) -> None:
    """On the button that adds to the list, and on the first button of the card: never nowhere."""
    schema = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}

    def leave(page: Any) -> None:
        page.get_by_role("button", name="Remove tags 1", exact=True).click()
        assert page.evaluate("document.activeElement.textContent") == "Add"
        page.get_by_role("button", name="Back").click()
        assert page.evaluate("document.activeElement.textContent") == "Edit"
        page.get_by_role("button", name="Edit").click()

    assert edit(schema, {"tags": ["a"]}, leave)[0] is not None
