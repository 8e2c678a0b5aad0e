"""JupyterLab in a headless Chromium: a server of its own, a page, and what a person does there."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
PATIENCE, GRACE = 180, 30
"""Seconds until the server answers, and until it has ended."""
SLOW = 120_000
"""Milliseconds for what takes long on a busy machine."""
READY = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
    const kernel = context?.session?.kernel;
    return context?.isReady && kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
"""Whether the notebook's kernel hears: a cell that is run before is lost."""
COUNT = re.compile(r"\[\d+\]")
"""The prompt of a cell that has run."""


@dataclass
class Lab:
    """A server, and one page of it. `strangers`: requests to elsewhere, `errors`: what the console said."""

    url: str
    place: Path
    page: Any
    strangers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, notebook: str) -> None:
        """Open a notebook that lies in the folder of the server, and wait for its kernel."""
        self.page.goto(f"{self.url}/lab/tree/{notebook}?reset")
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=SLOW)
        self.page.wait_for_function(READY, timeout=SLOW)

    def cell(self, source: str) -> Any:
        """The code cell whose source has this text in it."""
        return self.page.locator(".jp-CodeCell", has=self.page.locator(".jp-InputArea", has_text=source)).first

    def output(self, source: str) -> Any:
        """The output of that cell."""
        return self.cell(source).locator(".jp-OutputArea").first

    def run_all(self) -> None:
        """Run all cells, by the menu, and wait until they have run."""
        from playwright.sync_api import expect

        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        expect(self.page.locator(".jp-CodeCell .jp-InputPrompt", has_not_text=COUNT)).to_have_count(0, timeout=SLOW)

    def save(self) -> None:
        """Save the notebook."""
        self.page.keyboard.press("Control+s")
        self.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=SLOW)

    def restart_and_reload(self) -> None:
        """Restart the kernel, and open the page anew."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        self.page.wait_for_function(READY, timeout=SLOW)
        self.page.reload()
        self.page.wait_for_function(READY, timeout=SLOW)

    def run(self, source: str) -> Any:
        """Run that cell; gives its output once it has run."""
        from playwright.sync_api import expect

        cell = self.cell(source)
        prompt = cell.locator(".jp-InputPrompt")
        before = prompt.inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        expect(prompt).not_to_have_text(before, timeout=SLOW)
        expect(prompt).to_have_text(COUNT, timeout=SLOW)
        return self.output(source)


@contextmanager
def lab(place: Path, theme: str = "light", **variables: str) -> Iterator[Lab]:
    """A server over this folder, and a page in that theme."""
    from playwright.sync_api import expect, sync_playwright

    with server(place, theme, variables) as url, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme=theme)
        page.set_default_timeout(SLOW)
        expect.set_options(timeout=SLOW)
        found = Lab(url, place, page)
        page.on("request", lambda request: _watch(found, request))
        page.on("console", lambda said: found.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        try:
            yield found
        finally:
            browser.close()


def _watch(lab: Lab, request: Any) -> None:
    if not request.url.startswith((lab.url, lab.url.replace("http", "ws"), "data:", "blob:")):
        lab.strangers.append(request.url)


@contextmanager
def server(place: Path, theme: str, variables: dict[str, str]) -> Iterator[str]:
    """The address of a server whose settings and kernels are its own."""
    port = _free_port()
    folders = {name: str(place / ".jupyter" / name.lower()) for name in FOLDERS}
    _settings(Path(folders["JUPYTERLAB_SETTINGS_DIR"]), theme)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={place}"]
    command += [
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with open(place / "server.log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=place, env={**os.environ, **folders, "PYTHONPATH": path, **variables}, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process)
            yield url
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the server end. One that is told so while a kernel starts again may wait for that for ever."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()  # its kernels notice that it is gone
        process.wait()


FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "IPYTHONDIR")


def _settings(folder: Path, theme: str) -> None:
    """The theme, and no news: they would be fetched."""
    chosen = {"themes": {"theme": THEMES[theme]}, "notification": {"fetchNews": "false", "checkForUpdates": False}}
    for name, values in chosen.items():
        file = folder / "@jupyterlab" / "apputils-extension" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(PATIENCE * 5):
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with status {process.returncode}: see server.log")
        try:
            with urllib.request.urlopen(f"{url}/api/status", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("JupyterLab did not answer")
