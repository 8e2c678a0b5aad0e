"""A wheel built from the checkout, installed into an empty environment outside of it, runs by itself."""

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    """What the command prints; an error with all that it said if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SCALLION", "COV"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def needs(name: str, seen: dict[str, Distribution]) -> dict[str, Distribution]:
    """The installed distributions that `name` requires without extras, and what those require."""
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        key = re.sub(r"[-_.]+", "-", requirement.name).lower()
        extras = ["", *requirement.extras]
        if key in seen or (requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in extras)):
            continue
        seen[key] = distribution(key)
        needs(key, seen)
    return seen


def links(dists: dict[str, Distribution]) -> Iterator[Path]:
    """Everything that these distributions put into their site-packages, by the top folder or file."""
    for dist in dists.values():
        tops = {file.parts[0] for file in dist.files or [] if file.parts[0] not in ("..", "__pycache__")}
        yield from (Path(str(dist.locate_file(top))) for top in tops)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The `bin` of an environment with the wheel and exactly its declared dependencies, and an empty folder.

    The dependencies are links to those that run this test: nothing is downloaded, and what is not declared is missing.
    """
    place = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, ROOT, cwd=place)
    venv.create(place / "env", symlinks=True)
    (wheel,) = place.glob("*.whl")
    python = place / "env" / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=place,
    )
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    for target in links(needs("scallion", {})):
        if not (packages / target.name).exists():
            (packages / target.name).symlink_to(target)
    (place / "elsewhere").mkdir()
    return python.parent, place / "elsewhere"


@pytest.fixture
def scallion(installed: tuple[Path, Path]) -> Callable[..., str]:
    """Runs the installed command in the empty folder."""
    scripts, elsewhere = installed
    return lambda *words: run(scripts / "scallion", *words, cwd=elsewhere)


def test_it_comes_from_the_wheel(installed: tuple[Path, Path]) -> None:
    """Neither the checkout nor the environment of the tests is seen; the typing marker is shipped."""
    scripts, elsewhere = installed
    code = "import scallion, pathlib; print(pathlib.Path(scallion.__file__).parent)"
    package = Path(run(scripts / "python", "-c", code, cwd=elsewhere).strip())
    assert package.is_relative_to(scripts.parent)
    assert (package / "py.typed").exists()
    assert (package / "_migrations").is_dir()


def test_every_public_name_is_there(installed: tuple[Path, Path]) -> None:
    """No name needs a library that the wheel does not declare."""
    scripts, elsewhere = installed
    run(scripts / "python", "-c", "import scallion; [getattr(scallion, n) for n in scallion.__all__]", cwd=elsewhere)


def test_the_command_line_runs(scallion: Callable[..., str]) -> None:
    """`--help` lists the verbs."""
    assert "pending" in scallion("--help")


def test_migrations_run(scallion: Callable[..., str], installed: tuple[Path, Path]) -> None:
    """A new database is brought up to date, and has nothing pending."""
    scallion("db", "upgrade")
    assert (installed[1] / "scallion.db").exists()
    pending = json.loads(scallion("pending", "--json"))
    assert not (pending["items"] if isinstance(pending, dict) else pending)
