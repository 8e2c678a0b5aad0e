"""The documentation as a site: it builds without a warning, leads nowhere wrong, and nobody else serves any of it."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from docs.pages import ROOT
from docs.site import faults

griffe = pytest.importorskip("griffe")
sync_api = pytest.importorskip("playwright.sync_api")

DIRECTIVE = re.compile(r"^(?:#+ )?::: (\S+)$", re.MULTILINE)
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
PUBLIC = [
    "scallion",
    *(f"scallion.{name}" for name in "filters testing pii tools notify session inspect notebook".split()),
]
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The site, built once for all processes that run the tests."""
    base = tmp_path_factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / "documentation"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "built").exists():
            shutil.copytree(ROOT / "docs", place / "docs", dirs_exist_ok=True)
            shutil.copy(ROOT / "zensical.toml", place)
            (place / "src").unlink(missing_ok=True)
            (place / "src").symlink_to(ROOT / "src")
            build(place)
            (place / "built").touch()
    return place / "site"


def build(place: Path) -> None:
    """As `make docs` does."""
    command = [Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=400)
    assert (done.returncode, done.stderr.strip()) == (0, "No issues found"), done.stdout + done.stderr


def navigation(entries: Any) -> Iterator[str]:
    """The files of the navigation, section by section."""
    for entry in entries:
        inner = entry if isinstance(entry, str) else next(iter(entry.values()))
        yield from [inner] if isinstance(inner, str) else navigation(inner)


def test_every_page_is_in_the_navigation() -> None:
    """Once, and every page of the navigation is there."""
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(navigation(CONFIG["nav"])) == sorted(pages)


def test_make_docs_takes_warnings_for_errors() -> None:
    """As the test of the site does."""
    assert "zensical build --clean --strict" in (ROOT / "Makefile").read_text(encoding="utf-8")


def named(path: str) -> Any:
    """What a dotted name of the reference stands for."""
    module, rest = path, []
    while True:
        try:
            found = import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            rest.insert(0, name)
    return functools.reduce(getattr, rest, found)


@pytest.fixture(scope="module")
def source() -> Any:
    """The source, read as the reference reads it."""
    extensions = griffe.load_extensions(str(ROOT / "docs/reference/made.py:Made"))
    return griffe.load("scallion", search_paths=[ROOT / "src"], extensions=extensions)


def test_every_public_name_is_in_the_reference(source: Any) -> None:
    """With what it is for."""
    paths = [path for page in REFERENCE for path in DIRECTIVE.findall(page.read_text(encoding="utf-8"))]
    assert len(paths) == len(set(paths))
    described = {id(named(path)) for path in paths}
    described |= {id(value) for whole in ("events", "errors") for value in vars(named(f"scallion.{whole}")).values()}
    for module in PUBLIC:
        found = import_module(module)
        missing = [name for name in found.__all__ if id(getattr(found, name)) not in described]
        assert not missing, f"{module}: on no page of docs/reference"
    silent = [path for path in paths if not source[path.removeprefix("scallion.")].docstring]
    assert not silent


def test_nothing_private_is_in_the_reference(site: Path) -> None:
    """No name with an underscore in front."""
    for page in (site / "reference").glob("*.html"):
        ids = re.findall(r'id="(scallion[\w.]*)"', page.read_text(encoding="utf-8"))
        assert ids
        assert not [one for one in ids if any(part.startswith("_") for part in one.split("."))]


def test_nothing_leads_nowhere(site: Path) -> None:
    """Each link, each anchor, and all that a page loads."""
    assert not faults(site)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_are_those_of_the_theme(theme: str, served: str, browser: Any) -> None:
    """On the pages that have some, each is loaded, drawn, and told in words."""
    page = browser.new_page(color_scheme=theme)
    for name in ("tutorial", "notebooks"):
        page.goto(f"{served}/{name}.html", wait_until="networkidle")
        pictures = page.locator("article img").evaluate_all(
            "all => all.map(i => [i.currentSrc, i.naturalWidth, i.alt])"
        )
        assert pictures
        for source, width, words in pictures:
            assert source.endswith(f"-{theme}.png")
            assert width > 0
            assert words


def test_pictures_are_light() -> None:
    """A clone and a page carry all of them; each has its pair for the other theme."""
    pictures = {one.name: one.stat().st_size for one in (ROOT / "docs" / "images").iterdir()}
    assert pictures
    assert {name: size for name, size in pictures.items() if size >= 150_000} == {}
    assert {name.replace("-light.", "-dark.") for name in pictures if "-light." in name} == {
        name for name in pictures if "-dark." in name
    }


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="gone.html">x</a>', "links to gone.html, which is not there"),
        ('<a href="#gone">x</a>', "links to #gone, which has no such place"),
        ('<a href="index.html#gone">x</a>', "links to index.html#gone, which has no such place"),
        ('<script src="https://example.com/x.js"></script>', "loads https://example.com/x.js"),
        ('<link rel="stylesheet" href="//example.com/x.css">', "loads //example.com/x.css"),
        ('<img src="gone.png">', "loads gone.png"),
        ('<a href="https://example.com">x</a><a href="#here" id="here">y</a>', None),
    ],
)
def test_what_leads_nowhere_is_found(page: str, fault: str | None, tmp_path: Path) -> None:
    """A link to somebody else's page is none: it loads nothing."""
    (tmp_path / "index.html").write_text(page)
    assert faults(tmp_path) == ([f"index.html {fault}"] if fault else [])


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Said nowhere."""


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """The site on a server of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def browser() -> Iterator[Any]:
    """Chromium; without it the test is skipped, but not where all is to be run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("NO BROWSER: chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])


def test_it_is_read_offline(site: Path, served: str, browser: Any) -> None:
    """In a browser no page asks another server for anything, misses a file or says an error; and the search finds."""
    page = browser.new_page()
    wrong: list[str] = []
    page.on("request", lambda one: None if one.url.startswith((served, "data:", "blob:")) else wrong.append(one.url))
    page.on("response", lambda one: wrong.append(f"{one.status} {one.url}") if one.status >= 400 else None)
    page.on("console", lambda one: wrong.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda one: wrong.append(str(one)))
    for name in navigation(CONFIG["nav"]):
        page.goto(f"{served}/{name.removesuffix('.md')}.html", wait_until="networkidle")
        assert page.locator("h1").count() == 1, name
    page.keyboard.press("Control+k")
    page.locator("input[aria-label=Search]").fill("quorum")
    page.locator("a", has_text="Who may decide").first.click()
    page.wait_for_url("**/approvals.html*who-may-decide")
    assert not wrong
