"""What the tests of the command line share: a run of it, and what it left behind."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLERK = str(Path(__file__).parent / "clerk.py")


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its output as one JSON document."""
        return json.loads(self.out)


Command = Callable[..., Done]
