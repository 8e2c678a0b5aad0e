"""`make demo` without a terminal: the story of the README, each step a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_story() -> None:
    """It asks, pauses, is decided by others and goes on; the script checks every exit status itself."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = str(ROOT / "graphs" / "desk" / "demo.sh")
    told = subprocess.run(
        [script],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    steps = [line.split()[2] for line in told.stdout.splitlines() if line.startswith("$ scallion")]
    assert steps == ["run", "pending", "approve", "reject", "resume", "show"]
    resumed = " ".join(told.stdout.rsplit("$ scallion resume", 1)[1].split())
    assert "Done. Refund 1: 189.00 EUR of order 1042" in resumed
    assert "I will call her" in resumed
    assert "Traceback" not in told.stderr


@pytest.mark.slow
def test_on_a_terminal(tmp_path: Path) -> None:
    """A chat that is left with something open is no failure, and its printed lines go on with it in any shell."""
    pytest.importorskip("termios", reason="needs a POSIX terminal")
    from tests.cli.terminal import Terminal

    env = {name: value for name, value in os.environ.items() if not name.startswith("SCALLION")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    with Terminal(
        [str(ROOT / "graphs/desk/demo.sh")], {**env, "PATH": path, "TMPDIR": str(tmp_path)}, tmp_path
    ) as shown:
        told = shown.see("you> ")
        shown.type("refund order 1042\n")
        shown.see("(l)ater > ")
        assert shown.leave() == 0
    lines = [line.strip() for line in told.splitlines() if line.startswith("  ")]
    resume = "scallion resume graphs/refund_desk.py:agent demo"
    assert resume in shown.shown
    script = "\n".join(
        ["set -e", *lines, 'scallion approve "$(scallion pending --json | grep -oE "[0-9a-f]{32}")"', resume]
    )
    done = subprocess.run(
        ["bash", "-c", script], env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "Done. Refund 1: 189.00 EUR" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
