"""The pictures in a real browser: both themes, what can be read, what opens, what is asked of a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from tests.inspect.scenery import BEGAN, asked, decided, refund_trace
from tests.inspect.test_graph import agent
from tests.inspect.wellformed import read
from tests.notebooks.lab import CHROMIUM, FLAGS, SLOW

from scallion import Completed, Paused, edit
from scallion.inspect import graph_svg, to_html
from scallion.inspect.html.document import document
from scallion.session import Difference
from scallion.tracing import Part, Span, Trace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: nothing was looked at in a browser"),
]
CONTRAST = """
() => {
  const number = (colour) => {
    const [r, g, b, a] = colour.match(/[\\d.]+/g).map(Number);
    return { rgb: [r, g, b], a: a === undefined ? 1 : a };
  };
  const over = (top, below) => top.rgb.map((one, place) => one * top.a + below[place] * (1 - top.a));
  const light = (rgb) => {
    const linear = (one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = rgb.map((one) => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const all = [];
    for (let one = element; one; one = one.parentElement) all.unshift(number(getComputedStyle(one).backgroundColor));
    return all.reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [];
  for (const element of document.querySelectorAll(".scallion *")) {
    const words = [...element.childNodes].filter((one) => one.nodeType === 3 && one.textContent.trim());
    if (!words.length || element.closest("style") || !element.getClientRects().length) continue;
    const below = behind(element);
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [one, other] = [light(over(number(ink), below)), light(below)];
    found.push([(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), words[0].textContent.trim(), ink]);
  }
  return found;
}
"""
"""The contrast of every word that is seen with what it stands on, from the styles as the browser computed them."""


def pictures() -> str:
    """One page of most kinds of pictures, all of them open."""
    call = {"name": "refund", "args": {"order": 1042, "amount": 189.0}, "id": "c1"}
    messages = [
        HumanMessage("Please refund <b>1042</b>"),
        AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "image", "base64": "A"}], tool_calls=[call]),
        ToolMessage("no such order", tool_call_id="c1", status="error"),
    ]
    done = Completed(AIMessage("Done."), messages, usage={"model_calls": 2}, thread="t", trace=refund_trace())
    edited = decided(decision=edit({"order": 1042, "amount": 20.0}))
    sides = [
        (
            "both",
            {"role": "user", "content": "Go", "name": None, "tool_calls": [], "tool_call_id": None, "status": None},
        )
    ]
    sides += [(side, {**sides[0][1], "content": f"{side} is here"}) for side in ("a", "b")]
    drawn = [done, Paused([asked(), edited], messages), Difference(sides, (None, None)), agent()]
    graph = document(graph_svg(agent(), refund_trace()))
    body = "".join([*map(to_html, drawn), graph]).replace("<details", "<details open")
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>pictures</title><body>{body}".replace(
        "open open", "open"
    )


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Any]:
    """Chromium without a window."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=SLOW)
        yield started
        await started.close()


async def opened(browser: Any, html: str, scheme: str, **body: str) -> Any:
    """A page with the pictures; what it asks of a network, or says of errors, is in `page.noted`."""
    page = await browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 800})
    page.set_default_timeout(SLOW)
    page.noted = []
    page.on("request", lambda request: page.noted.append(request.url))
    page.on("console", lambda message: page.noted.append(message.text))
    page.on("pageerror", lambda error: page.noted.append(str(error)))
    page.on("dialog", lambda dialog: page.noted.append("dialog"))
    await page.set_content(html)
    for name, value in body.items():
        await page.evaluate(f"document.body.setAttribute({name!r}, {value!r})")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_word_can_be_read(browser: Any, scheme: str, tmp_path: Path) -> None:
    """4.5 to 1 at least, on cards, badges and marks of differences too; nothing is fetched, nothing fails."""
    page = await opened(browser, pictures(), scheme)
    found = await page.evaluate(CONTRAST)
    assert len(found) > 100
    assert [one for one in found if one[0] < 4.5] == []
    assert page.noted == []
    picture = await page.screenshot(path=str(tmp_path / f"{scheme}.png"), full_page=True)
    assert len(picture) > 20_000


@pytest.mark.parametrize(
    ("scheme", "body", "dark"),
    [
        ("light", {}, False),
        ("dark", {}, True),
        ("dark", {"data-jp-theme-light": "true"}, False),
        ("light", {"data-jp-theme-light": "false"}, True),
        ("dark", {"class": "vscode-light"}, False),
        ("light", {"class": "vscode-dark"}, True),
        ("light", {"class": "vscode-high-contrast"}, True),
        ("dark", {"data-theme": "light"}, False),
    ],
)
async def test_the_theme_is_that_of_the_notebook(browser: Any, scheme: str, body: dict[str, str], dark: bool) -> None:
    """What JupyterLab and VS Code say goes before what the system says."""
    page = await opened(browser, pictures(), scheme, **body)
    back = await page.evaluate("getComputedStyle(document.querySelector('.scallion')).backgroundColor")
    assert back == ("rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)")
    assert [one for one in await page.evaluate(CONTRAST) if one[0] < 4.5] == []


async def test_it_takes_the_colours_of_jupyterlab(browser: Any) -> None:
    """Where the notebook has colours for text and ground, they are these."""
    page = await opened(
        browser, pictures(), "light", style="--jp-layout-color1: #fafafa; --jp-content-font-color1: #222222"
    )
    style = "getComputedStyle(document.querySelector('.scallion'))"
    assert await page.evaluate(f"[{style}.backgroundColor, {style}.color]") == ["rgb(250, 250, 250)", "rgb(34, 34, 34)"]


async def test_it_folds(browser: Any) -> None:
    """By a click, and by the keyboard, without any script."""
    page = await opened(browser, to_html(refund_trace()), "light")
    assert await page.locator("text=retry_model").is_visible()
    await page.locator("summary.sca-of-part").first.click()
    assert not await page.locator("text=retry_model").is_visible()
    await page.keyboard.press("Enter")
    assert await page.locator("text=retry_model").is_visible()


async def test_bars_are_where_their_time_was(browser: Any) -> None:
    """All begin at the same column, however deep they are."""
    page = await opened(browser, to_html(refund_trace()), "light")
    bars = await page.evaluate("[...document.querySelectorAll('.sca-bar')].map((one) => one.getBoundingClientRect().x)")
    assert len({round(one) for one in bars}) == 1
    spans = "[...document.querySelectorAll('.sca-of-model .sca-span')].map((one) => one.getBoundingClientRect())"
    first, second, third, _ = await page.evaluate(f"{spans}.map((one) => [one.left, one.right])")
    assert first[1] < second[0] < second[1] < third[0]


async def test_a_name_stands_beside_its_mark(browser: Any) -> None:
    """However much is told of it; what is told and does not fit goes on below the name."""
    did = ["changed_request", "messages 1 → 7", "text 24 → 198 characters", "the whole sequence"]
    span = Span("layer", "validate_answer", 0.0, 1.0, hook="around_turn", actions=["retry"], calls=2, change=did)
    trace = Trace("t-1", "turn-1", [Part(BEGAN, 1.0, "completed", [span])])
    page = await opened(browser, to_html(trace), "light")
    for width in (1000, 640, 400):
        await page.set_viewport_size({"width": width, "height": 800})
        row = page.locator(".sca-of-layer")
        boxes = [await row.locator(f".sca-{one}").first.bounding_box() for one in ("mark", "what", "took")]
        assert max(one["y"] for one in boxes) - min(one["y"] for one in boxes) < 3
        told = [await one.bounding_box() for one in await row.locator(".sca-did").all()]
        assert len(told) == 5
        assert min(one["x"] for one in told) >= boxes[1]["x"]


async def test_nothing_is_wider_than_the_page(browser: Any) -> None:
    """Also a narrow one, and words without a space."""
    done = Completed(AIMessage("x" * 3000), [HumanMessage("y" * 3000)], thread="z" * 300, trace=refund_trace())
    page = await opened(browser, to_html(done).replace("<details", "<details open"), "light")
    for width in (1000, 400):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_hostile_text_does_nothing(browser: Any) -> None:
    """No dialog, no request, no error; what could be a script is there as text."""
    from tests.inspect.test_escaping import HOSTILE, everywhere

    html = "".join(to_html(value) for text in HOSTILE for value in everywhere(text))
    read(to_html(everywhere(HOSTILE[0])[0]))
    page = await opened(browser, f"<!doctype html><title>x</title>{html}", "light")
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert page.noted == []
    assert await page.locator("script, img, iframe, a, object, h1").count() == 0
    assert "<script>alert(1)</script>" in await page.inner_text("body")
