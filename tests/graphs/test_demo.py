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
