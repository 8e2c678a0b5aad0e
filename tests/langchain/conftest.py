"""The fixture that runs a middleware on both sides, in each of the four modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from modes import Drive, Mode
from tests.langchain.sides import Sides


@pytest.fixture
def sides(drive: Drive, mode: Mode) -> Callable[..., Sides]:
    """`sides(make, script, tools).same(input)`."""

    def build(*args: Any, **options: Any) -> Sides:
        return Sides(drive, mode, *args, **options)

    return build
