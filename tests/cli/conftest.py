"""The command in this process, and in processes of its own; both in an empty folder with a database of the test's."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import ended
from tests.cli.command import CLERK, Command, Done

from scallion.cli import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; the environment names the database in it."""
    for name in ("EDITOR", "VISUAL", "COLUMNS", "SCALLION_TRACEBACK", "SCALLION_MODEL", "SCALLION_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALLION_DB", f"sqlite:///{tmp_path / 'threads.db'}")
    for name in ("SCALLION_SCHEMA", "SCALLION_PREFIX"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("CLERK_LOG", str(tmp_path / "log"))
    return tmp_path


@pytest.fixture
def here(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in this process, with `typed` on its standard input."""

    def run(*words: str, typed: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        status = main(words)
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def there(place: Path) -> Command:
    """Run a command in a process of its own, which has imported it already."""

    def run(*words: str, typed: str = "") -> Done:
        done = ended(main, words, typed=typed, seconds=60)
        return Done(done.status, done.out, done.err)

    return run


@pytest.fixture
def paused(here: Command) -> Callable[..., list[str]]:
    """Let the clerk ask: the ids of what is pending on the thread then."""

    def ask(word: str, thread: str = "t") -> list[str]:
        done = here("run", CLERK, word, "--thread", thread, "--json")
        assert done.status == 3
        return [one["id"] for one in done.data["approvals"]]

    return ask


@pytest.fixture
def editor(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """An $EDITOR that saves these texts, one each time it is opened; what it was given is in `given.json`."""

    def make(*texts: str) -> None:
        for number, text in enumerate(texts):
            (place / f"text{number}").write_text(text)
        script = place / "editor.py"
        script.write_text(
            "import pathlib, shutil, sys\n"
            f"place = pathlib.Path({str(place)!r})\n"
            "shutil.copy(sys.argv[1], place / 'given.json')\n"
            "first = min(place.glob('text*'))\n"
            "pathlib.Path(sys.argv[1]).write_text(first.read_text())\n"
            "first.unlink()\n"
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")

    return make


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    """Forget the graph files that a test loaded: the next test loads them for its own database."""
    before, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - before:
        if name.endswith("clerk") or name.startswith("broken"):
            del sys.modules[name]
    sys.path[:] = path
